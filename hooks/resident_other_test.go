//go:build !linux

package hooks_test

import "errors"

func throughResident() (end func(), err error) {
	return nil, errors.New("a resident judge runs on Linux only")
}
