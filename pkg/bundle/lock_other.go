//go:build !unix && !windows

package bundle

import "errors"

var errNoTarget = errors.New("this system has no file locks, installing is not safe here")

func (d *dir) id() (string, error) { return "", errNoTarget }

func lockTarget(*dir, string) (func(), error) { return nil, errNoTarget }
