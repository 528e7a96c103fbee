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

	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/finding"
)

func stageVerbs() []*verb {
	return []*verb{{name: "stage", format: "agent", args: "[REF]", short: "prepare an image build context", run: stage, flags: join(common, digestFlags, signatureFlags, refFlags, []cli.Flag{runtimeFlag,
		baseFlag,
		{Name: "--unchecked-base", Help: "do not look at the base, as where there is no network"},
		{Name: "--out", Value: "DIR", Help: "new directory for the context"},
		{Name: "--source", Value: "DIR", Help: "build a bundle from this directory instead of taking REF"},
		{Name: "--lock", Value: "FILE", Help: "lockfile that belongs to the key of the build"},
		{Name: "--cache", Value: "DIR", Help: "where built bundles are kept under their keys"},
		{Name: "--build-cmd", Value: "CMD", Help: "command that leaves one bundle in $RIG_BUNDLE_OUT"},
		{Name: "--print-key", Help: "print the key of the build and stop"}})}}
}

// stage prepares an image build context from a reference, or from a local
// build that is kept under the key of its input.
func stage(ctx context.Context, c *call) (int, error) {
	f, err := c.builder()
	if err == nil {
		err = c.checkStageFlags(f)
	}
	if err != nil {
		return 0, err
	}
	base, notes := c.Get("--base"), []bundle.Note(nil)
	if !c.Has("--print-key") {
		if notes, err = agent.CheckBase(base); err != nil {
			return 0, usagef("%v", err)
		}
	}
	out, name := c.path(c.Get("--out")), c.Get("--source")
	var r *agent.Result
	if name == "" {
		name = c.Words[0]
		r, err = judged[*agent.Result](c, f, func(in bundle.Input, o bundle.Options) (*bundle.Result, error) { return f.Verify(ctx, in, o) })
		if err != nil {
			return 0, err
		}
	} else {
		c.subject = name
		key, err := c.cacheKey(f)
		if err != nil {
			return 0, err
		}
		if c.Has("--print-key") {
			c.print("%s", key)
			return exitOK, nil
		}
		o, err := c.options()
		if err != nil {
			return 0, err
		}
		if r, err = c.localBuild(ctx, key, f, o); err != nil {
			return 0, err
		}
		r.Whole = r
	}
	digest := ""
	if r.OK() && !c.Has("--unchecked-base") {
		var local bool
		if digest, local, err = c.look(ctx, r, f.Runtime, base); err != nil {
			return 0, err
		}
		if local { // what lies in a file was looked at, and its digest is in stage.json
			notes = nil
		}
	} else if r.OK() {
		notes = append(notes, bundle.Note{Code: noteBaseUnchecked, Detail: finding.Path(base) + " was not looked at"})
	}
	if r.OK() {
		if err := agent.Stage(ctx, r, agent.StageOptions{Base: base, Digest: digest, Dir: out, ModTime: f.ModTime, Windows: c.Windows}); err != nil {
			return 0, err
		}
	}
	r.Command, r.File = "stage", name
	r.Tell(notes...)
	return c.tell(&r.Result, nil)
}

func (c *call) checkStageFlags(f agent.Format) error {
	local := c.Has("--source")
	switch {
	case local == (len(c.Words) == 1):
		return usagef("stage takes either REF or --source DIR")
	case f.Target == nil:
		return usagef("stage needs --target")
	case !local && (c.Has("--lock") || c.Has("--cache") || c.Has("--build-cmd") || c.Has("--print-key")):
		return usagef("--lock, --cache, --build-cmd and --print-key go with --source")
	case c.Has("--print-key"):
		return nil
	case local && (!c.Has("--cache") || !c.Has("--build-cmd")):
		return usagef("--source needs --cache DIR and --build-cmd CMD")
	case !c.Has("--base") || !c.Has("--out"):
		return usagef("stage needs --base and --out")
	}
	return nil
}

// cacheKey is the key of the build of --source. A relative lockfile belongs
// to the caller's directory, or if it is not there to the source.
func (c *call) cacheKey(f agent.Format) (string, error) {
	src, err := c.openTree(c.Get("--source"))
	if err != nil {
		return "", err
	}
	var lock io.Reader
	if name := c.Get("--lock"); name != "" {
		file, _, err := bundle.OpenFile(c.path(name))
		if errors.Is(err, fs.ErrNotExist) && !filepath.IsAbs(name) {
			file, _, err = bundle.OpenFile(filepath.Join(c.path(c.Get("--source")), name))
		}
		if err != nil {
			return "", err
		}
		defer file.Close()
		lock = file
	}
	return agent.CacheKey(src.Tree, lock, *f.Target, f.Runtime)
}

// localBuild takes the bundle of a key from the cache, or runs the command
// that the user gave and keeps what it made.
func (c *call) localBuild(ctx context.Context, key string, f agent.Format, o bundle.Options) (*agent.Result, error) {
	cache := &agent.Cache{Dir: c.path(c.Get("--cache")), Limits: o.LimitsOr(agent.DefaultLimits()), Allow: o.Allow, State: c.state()}
	r, file, err := cache.Get(ctx, key, f.Target, f.Runtime)
	if err != nil {
		return nil, err
	}
	if r != nil {
		c.after(func() { file.Close() })
		c.say("taken from the cache: %s", key)
		return r, nil
	}
	out, err := os.MkdirTemp("", "rig-bundle-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(out)
	shell, flag := "/bin/sh", "-c"
	if runtime.GOOS == "windows" {
		shell, flag = "cmd", "/c"
	}
	cmd := exec.CommandContext(ctx, shell, flag, c.Get("--build-cmd"))
	cmd.Dir = c.path(c.Get("--source"))
	cmd.Env = append(append([]string{}, c.Environ...), "RIG_BUNDLE_OUT="+out, "RIG_BUNDLE_TARGET="+f.Target.String())
	cmd.Stdout, cmd.Stderr = c.Stderr, c.Stderr
	if err := cmd.Run(); err != nil {
		return nil, &codedError{codeBuild, errors.New("the build command failed: " + finding.QuoteMax(err.Error(), 200))}
	}
	r, file, err = cache.Put(ctx, key, out, f.Target, f.Runtime)
	if file != nil {
		c.after(func() { file.Close() })
	}
	return r, err
}

// codeBuild is exit 2: there is no bundle to judge.
const codeBuild = "build-failed"
