package bundle

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// lockDir takes the lock of a directory: a file that is open without sharing
// and goes away with its handle, so also when the process ends.
func lockDir(dir, area string) (unlock func(), err error) {
	name, err := windows.UTF16PtrFromString(filepath.Join(dir, area+".lock"))
	if err != nil {
		return nil, err
	}
	h, err := windows.CreateFile(name, windows.GENERIC_WRITE, 0, nil, windows.OPEN_ALWAYS,
		windows.FILE_ATTRIBUTE_TEMPORARY|windows.FILE_FLAG_DELETE_ON_CLOSE, 0)
	if errors.Is(err, windows.ERROR_SHARING_VIOLATION) {
		return nil, ErrBusy
	}
	if err != nil {
		return nil, err
	}
	return func() { windows.CloseHandle(h) }, nil
}
