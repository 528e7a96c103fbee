package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/pkg/bundle/rig"
)

const codeRuntime = "runtime-missing"

func upVerbs() []*verb {
	return []*verb{{name: "up", format: "rig", args: "FILE", short: "install a bundle and start its rig with the user's own rig program", run: up,
		flags: join(installFlags(), []cli.Flag{{Name: "--cwd", Value: "DIR", Help: "working directory of the members for this run"}})}}
}

func up(ctx context.Context, c *call) (int, error) {
	target := filepath.Clean(c.Dir)
	if c.Has("--target") {
		target = filepath.Clean(c.path(c.Get("--target")))
	}
	program, err := c.findRig(target)
	if err != nil {
		return 0, err
	}
	r, err := c.install(ctx, rig.Format{Start: true}, target)
	if err != nil {
		return 0, err
	}
	args := []string{program, "up", filepath.Join(target, filepath.FromSlash(r.RigSpec))}
	if c.Has("--cwd") {
		args = append(args, "--cwd", filepath.Clean(c.path(c.Get("--cwd"))))
	}
	if !r.OK() || c.Has("--plan") {
		return c.tellInstall(ctx, r, args)
	}
	c.release()
	c.sayNotes(&r.Result.Result)
	return c.Exec(program, args, c.Environ)
}

// findRig looks for the rig program on PATH: absolute entries only, none
// inside the target.
func (c *call) findRig(target string) (string, error) {
	for _, dir := range filepath.SplitList(c.Getenv("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if _, inside := below(target, filepath.Clean(dir)); inside {
			continue
		}
		for _, name := range rigPrograms {
			p := filepath.Join(dir, name)
			if _, inside := below(target, p); inside { // by a link
				continue
			}
			if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() && runnable(info) {
				return p, nil
			}
		}
	}
	return "", &codedError{codeRuntime, fmt.Errorf("there is no rig program on PATH")}
}
