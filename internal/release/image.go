package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/rigward/rigward/pkg/bundle"
)

// writeImage writes an OCI image layout, as one tar archive, of the programs in the archives for linux in dir: an index with
// an image for each architecture, of nothing but /usr/bin. rig-hook and rig-bridge need git, so they are copied from it into
// an image that has it; rig-control and rig-bundle run in it as they are.
func writeImage(version string, seconds int64, dir, file string) error {
	created := v1.Time{Time: time.Unix(seconds, 0).UTC()}
	labels := map[string]string{"org.opencontainers.image.title": "rigward", "org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "MIT",
		"org.opencontainers.image.source": "https://github.com/rigward/rigward", "org.opencontainers.image.created": created.Format(time.RFC3339)}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	n := 0
	for _, arch := range []string{"amd64", "arm64"} {
		name := filepath.Join(dir, fmt.Sprintf("rigward_%s_linux_%s.tar.gz", version, arch))
		if _, err := os.Stat(name); os.IsNotExist(err) {
			continue
		}
		list, err := programs(name)
		if err != nil {
			return err
		}
		img, err := imageOf(list, arch, created, labels)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
		n++
	}
	if n == 0 {
		return fmt.Errorf("%s holds no archive for linux of the version %s", dir, version)
	}
	index = mutate.Annotations(index, labels).(v1.ImageIndex)
	scratch, err := os.MkdirTemp("", "release-image-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	l, err := layout.Write(scratch, empty.Index)
	if err != nil {
		return err
	}
	if err := l.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": version})); err != nil {
		return err
	}
	var out bytes.Buffer
	if err := packTree(&out, scratch, created.Time); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

func imageOf(list []program, arch string, created v1.Time, labels map[string]string) (v1.Image, error) {
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	for _, dir := range []string{"usr/", "usr/bin/"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755, ModTime: created.Time}); err != nil {
			return nil, err
		}
	}
	for _, p := range list {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "usr/bin/" + p.name, Mode: 0o755, Size: int64(len(p.data)), ModTime: created.Time}); err != nil {
			return nil, err
		}
		if _, err := w.Write(p.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	var packed bytes.Buffer // by the encoder whose output no version of Go changes
	z := bundle.NewFastGzipWriter(&packed)
	if _, err := z.Write(files.Bytes()); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		mutate.Addendum{Layer: layer, History: v1.History{Created: created, CreatedBy: "internal/release"}})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.OS, config.Architecture, config.Created = "linux", arch, created
	config.Config = v1.Config{Env: []string{"PATH=/usr/bin"}, Cmd: []string{"/usr/bin/rig-hook", "--help"}, User: "65532:65532", Labels: labels}
	return mutate.ConfigFile(img, config)
}

// packTree writes a directory as a tar archive: names in order, and one time for all.
func packTree(w io.Writer, dir string, at time.Time) error {
	t := tar.NewWriter(w)
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(rel), Mode: 0o644, Size: int64(len(data)), ModTime: at}); err != nil {
			return err
		}
		_, err = t.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	return t.Close()
}
