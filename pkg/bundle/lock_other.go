//go:build !unix && !windows

package bundle

import "errors"

func lockDir(string, string) (func(), error) {
	return nil, errors.New("this system has no file locks, installing is not safe here")
}
