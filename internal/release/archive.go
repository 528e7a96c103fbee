package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// module is that whose programs a release has.
const module = "github.com/rigward/rigward"

// A program is one of a release, with what the go command noted in it.
type program struct {
	name string
	data []byte
	info *buildinfo.BuildInfo
}

// programs reads those of an archive of a release, or the one that a file is.
func programs(name string) ([]program, error) {
	var found []program
	add := func(member string, r io.Reader) error {
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		info, err := buildinfo.Read(bytes.NewReader(data))
		if err == nil && info.Main.Path == module {
			found = append(found, program{strings.TrimSuffix(path.Base(member), ".exe"), data, info})
		}
		return nil
	}
	var err error
	switch {
	case strings.HasSuffix(name, ".tar.gz"):
		err = eachOfTar(name, add)
	case strings.HasSuffix(name, ".zip"):
		err = eachOfZip(name, add)
	default:
		var f *os.File
		if f, err = os.Open(name); err == nil {
			err = errors.Join(add(filepath.Base(name), f), f.Close())
		}
	}
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s holds no program of %s", name, module)
	}
	return found, err
}

func eachOfTar(name string, add func(string, io.Reader) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil && h.Typeflag == tar.TypeReg {
			err = add(h.Name, t)
		}
		if err != nil {
			return err
		}
	}
}

func eachOfZip(name string, add func(string, io.Reader) error) error {
	z, err := zip.OpenReader(name)
	if err != nil {
		return err
	}
	defer z.Close()
	for _, m := range z.File {
		r, err := m.Open()
		if err != nil {
			return err
		}
		if err := errors.Join(add(m.Name, r), r.Close()); err != nil {
			return err
		}
	}
	return nil
}
