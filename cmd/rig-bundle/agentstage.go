package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/finding"
)

// agentStage prepares an image build context from a reference, or from a
// local build that is kept under the key of its input.
func agentStage(ctx context.Context, c *call) int {
	o, err := c.agentOptions()
	if err == nil {
		err = c.words(0, 1)
	}
	if err == nil {
		err = c.checkStageFlags(o)
	}
	so := agent.StageOptions{Base: c.get("--base"), Dir: c.path(c.get("--out"))}
	if err == nil {
		so.ModTime, err = c.epoch()
	}
	var notes []bundle.Note
	if err == nil && !c.has("--print-key") {
		if notes, err = agent.CheckBase(so.Base); err != nil {
			err = usagef("%v", err)
		}
	}
	if err != nil {
		return c.fail(err)
	}
	var r *agent.Result
	done := func() error { return nil }
	name := c.get("--source")
	if name == "" {
		name = c.args[0]
		r, done, err = c.judgeAgent(ctx, name, o)
	} else {
		var key string
		if key, err = c.cacheKey(o); err == nil && c.has("--print-key") {
			c.print("%s", key)
			return exitOK
		}
		if f := bundle.AsFinding(err); f != nil {
			return c.tellAgent(c.agentReport(name, faulty(f)))
		}
		if err == nil {
			r, done, err = c.localBuild(ctx, key, o)
		}
	}
	if err != nil {
		return c.fail(err)
	}
	defer done()
	r.Notes = append(r.Notes, notes...)
	rep := c.agentReport(name, r)
	if rep.Code != "ok" {
		return c.tellAgent(rep)
	}
	if err := agent.Stage(ctx, r, so); err != nil {
		return c.fail(err)
	}
	rep.agentStaged = &agentStaged{Target: r.Manifest.Target(), Base: so.Base, Out: so.Dir}
	return c.tellAgent(rep)
}

func (c *call) checkStageFlags(o agent.Options) error {
	local := c.has("--source")
	switch {
	case local == (len(c.args) == 1):
		return usagef("stage takes either REF or --source DIR")
	case o.Target == nil:
		return usagef("stage needs --target")
	case !local && (c.has("--lock") || c.has("--cache") || c.has("--build-cmd") || c.has("--print-key")):
		return usagef("--lock, --cache, --build-cmd and --print-key go with --source")
	case c.has("--print-key"):
		return nil
	case local && (!c.has("--cache") || !c.has("--build-cmd")):
		return usagef("--source needs --cache DIR and --build-cmd CMD")
	case !c.has("--base") || !c.has("--out"):
		return usagef("stage needs --base and --out")
	}
	return nil
}

// cacheKey is the key of the build of --source. A relative lockfile belongs
// to the caller's directory, or if it is not there to the source.
func (c *call) cacheKey(o agent.Options) (string, error) {
	src, err := bundle.OpenDirSource(c.path(c.get("--source")))
	if err != nil {
		return "", err
	}
	defer src.Close()
	var lock io.Reader
	if name := c.get("--lock"); name != "" {
		f, _, err := bundle.OpenFile(c.path(name))
		if errors.Is(err, fs.ErrNotExist) && !filepath.IsAbs(name) {
			f, _, err = bundle.OpenFile(filepath.Join(c.path(c.get("--source")), name))
		}
		if err != nil {
			return "", err
		}
		defer f.Close()
		lock = f
	}
	return agent.CacheKey(src, lock, *o.Target, o.Runtime)
}

// localBuild takes the bundle of a key from the cache, or runs the command
// that the user gave and keeps what it made.
func (c *call) localBuild(ctx context.Context, key string, o agent.Options) (*agent.Result, func() error, error) {
	cache := &agent.Cache{Dir: c.path(c.get("--cache")), Limits: o.Limits}
	none := func() error { return nil }
	r, f, err := cache.Get(ctx, key, o.Target, o.Runtime)
	if err != nil {
		return nil, none, err
	}
	if r != nil {
		c.say("taken from the cache: %s", key)
		return r, f.Close, nil
	}
	out, err := os.MkdirTemp("", "rig-bundle-")
	if err != nil {
		return nil, none, err
	}
	defer os.RemoveAll(out)
	shell, flag := "/bin/sh", "-c"
	if runtime.GOOS == "windows" {
		shell, flag = "cmd", "/c"
	}
	cmd := exec.CommandContext(ctx, shell, flag, c.get("--build-cmd"))
	cmd.Dir = c.path(c.get("--source"))
	cmd.Env = append(append([]string{}, c.Environ...), "RIG_BUNDLE_OUT="+out, "RIG_BUNDLE_TARGET="+o.Target.String())
	cmd.Stdout, cmd.Stderr = c.Stderr, c.Stderr
	if err := cmd.Run(); err != nil {
		return nil, none, &codedError{codeBuild, errors.New("the build command failed: " + finding.QuoteMax(err.Error(), 200))}
	}
	r, f, err = cache.Put(ctx, key, out, o.Target, o.Runtime)
	if f != nil {
		return r, f.Close, err
	}
	return r, none, err
}

// codeBuild is exit 2: there is no bundle to judge.
const codeBuild = "build-failed"
