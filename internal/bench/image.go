package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// images measures rig-bundle image beside buildah: a bundle on a base, both in directories, to an image in a directory.
// The base is looked at and the bundle verified, which buildah does not do; it has no image in its store beforehand, as
// on a machine that builds one. A bar that is missed is an error.
func images(flags *flag.FlagSet, args []string) error {
	b := agents{out: os.Stdout}
	flags.IntVar(&b.files, "files", 5_000, "files in the bundle")
	flags.IntVar(&b.size, "size", 100, "size of the bundle's tree in MiB")
	flags.IntVar(&b.stick, "base", 200, "size of the base's tree in MiB")
	flags.IntVar(&b.runs, "runs", 5, "runs of each, of which the median counts")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, program := range []string{"umoci", "buildah"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is not installed", program)
		}
	}
	if err := b.images(); err != nil {
		return err
	}
	if b.missed > 0 {
		return errors.New("a bar was missed")
	}
	return nil
}

func (b *agents) images() (err error) {
	if b.tmp, err = os.MkdirTemp("", "image-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.tmp)
	built, err := build(b.tmp, "rig-bundle")
	if err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(b.tmp, name) }
	b.tool = built[0]
	if err := errors.Join(plant(in("root"), b.files, b.size<<20, 4), plant(in("below/usr/share"), 10_000, b.stick<<20, 4)); err != nil {
		return err
	}
	for name, text := range map[string]string{"lib64/ld-linux-x86-64.so.2": "loader", "usr/bin/env": "env", "usr/bin/node": "node", "etc/os-release": "PRETTY_NAME=Bench\n"} {
		if err := os.MkdirAll(filepath.Dir(in("below/"+name)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(in("below/"+name), []byte(text), 0o755); err != nil {
			return err
		}
	}
	base, out, there := in("base"), in("out"), in("there")
	for _, args := range [][]string{
		{b.tool, "create", in("root"), "-o", b.tmp},
		{"umoci", "init", "--layout", base}, {"umoci", "new", "--image", base + ":1"}, {"umoci", "insert", "--rootless", "--image", base + ":1", in("below"), "/"},
	} {
		if _, err := timed(exec.Command(args[0], args[1:]...)); err != nil {
			return err
		}
	}
	b.clean = func() { os.RemoveAll(out); os.RemoveAll(there); os.RemoveAll(in("store")); os.RemoveAll(in("run")) }
	buildah := "buildah --root " + in("store") + " --runroot " + in("run") + " --storage-driver vfs"
	theirs := "set -e; c=$(" + buildah + " from oci:" + base + ":1); " + buildah + " copy -q $c " + in("root") + " /holon/agent; " + buildah +
		" config --entrypoint '[\"/holon/agent/bin/agent\"]' --workingdir /holon/workspace $c; " + buildah + " commit -q --format oci $c oci:" + there + ":1"
	fmt.Fprintf(b.out, "a bundle of %d MiB on a base of %d MiB, median of %d runs\n\n", b.size, b.stick, b.runs)
	fmt.Fprintf(b.out, "%-34s %9s %9s %7s %6s %9s\n", "", "here s", "there s", "ratio", "bar", "memory")
	return b.row("image : buildah", []string{b.tool, "image", in("agent-bundle-bench-1.0.0-linux-amd64-glibc.tar.gz"), "--base", "oci:" + base + ":1", "-o", "oci:" + out + ":1"}, theirs, 0.5)
}
