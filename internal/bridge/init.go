package bridge

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/policy"
)

type initObject struct {
	head
	RigID       string   `json:"rig_id"`
	Root        string   `json:"root"`
	RootPath    string   `json:"root_path"`
	DisplayName string   `json:"display_name,omitempty"`
	ConfigPath  string   `json:"config_path"`
	Hooks       []string `json:"hooks"`
	Notes       []string `json:"notes"` // what is left to do, as text says it
}

// runInit is `rig-bridge init` (docs/spec/client.md#commands).
func runInit(r *run) error {
	typed := r.opts.Get("--rig-id")
	id, err := envelope.NormalizeRigID(typed)
	if err != nil {
		return usageError(r.cmd, "--rig-id %s: %s", quote(typed), err.Error())
	}
	c := config{rigID: id}
	c.displayName, _ = r.opts.Lookup("--display-name")
	if n := utf8.RuneCountInString(c.displayName); n > maxDisplayName {
		return usageError(r.cmd, "--display-name has %d characters, at most %d are allowed", n, maxDisplayName)
	}
	if !utf8.ValidString(c.displayName) {
		return usageError(r.cmd, "--display-name %s is not valid UTF-8", quote(c.displayName))
	}
	w, err := r.open()
	if err != nil {
		return err
	}
	defer w.close()
	path := filepath.Join(w.root, filepath.FromSlash(configFile))
	data, err := c.render()
	if err != nil {
		return err
	}
	if info, err := os.Lstat(filepath.Dir(path)); err == nil && !info.IsDir() {
		return fail(codeExists, "%s exists and is not a directory; links are not followed", quote(filepath.Dir(configFile)))
	}
	old, err := readOwn(path, maxConfig)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return cannotRead(path, err)
	case bytes.Equal(old, data):
	case !r.opts.Has("--force"):
		hint := "rig-bridge init --rig-id " + id + " --force"
		if c.displayName != "" {
			hint = "add --force to replace it"
		}
		return fail(codeExists, "%s says something else already", configFile).withHint("%s", hint)
	}
	if !bytes.Equal(old, data) {
		if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return cannotWrite(filepath.Dir(path), err)
		}
		if err := files.Replace(path, data, 0o644); err != nil {
			return cannotWrite(path, err)
		}
	}
	if err := w.excludeConfig(r); err != nil {
		return err
	}
	hooks, err := w.installHooks(r)
	if err != nil {
		return err
	}
	if err := r.ready(w, id); err != nil {
		return err
	}
	r.out.WriteString("rig-bridge: init OK rig-id=" + token(id) + " root=" + token(filepath.Base(w.root)) + "\n")
	if r.json {
		r.out.Reset()
		return r.object(initObject{r.head(), id, filepath.Base(w.root), w.root, c.displayName, path, hooks, append([]string{}, r.notes...)})
	}
	return nil
}

// excludeConfig keeps the configuration out of commits, by a line in
// info/exclude unless git ignores it already.
func (w *work) excludeConfig(r *run) error {
	ignored, err := w.ignored(r.ctx, configFile)
	if err != nil {
		return err
	}
	if !ignored {
		dir := filepath.Join(w.repo.CommonDir(), "info")
		path := filepath.Join(dir, "exclude")
		old, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return cannotRead(path, err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return cannotWrite(dir, err)
		}
		if len(old) > 0 && old[len(old)-1] != '\n' {
			old = append(old, '\n')
		}
		if err := files.Replace(path, append(old, "/"+configFile+"\n"...), 0o644); err != nil {
			return cannotWrite(path, err)
		}
	}
	all, err := w.ignored(r.ctx, policy.Path)
	if err == nil && all {
		r.note("git ignores %s/: policy and signers need `git add -f %s %s`", policy.Dir, policy.Path, policy.Signers)
	}
	return err
}

// ignored reports whether git ignores an untracked path.
func (w *work) ignored(ctx context.Context, path string) (bool, error) {
	res, err := w.git(ctx, "check-ignore", "-q", "--no-index", "--", path)
	if err != nil {
		return false, err
	}
	if res.Code > 1 {
		return false, gitFailed("git check-ignore", res)
	}
	return res.Code == 0, nil
}

func (w *work) installHooks(r *run) ([]string, error) {
	names := []string{}
	if r.opts.Has("--no-hooks") {
		return names, nil
	}
	if shared, err := w.repo.SharedHooks(); err == nil && shared != "" {
		r.note("%s, and other repositories may share it, so no hooks were installed; to install them there run `rig-hook install --into-hooks-path`", shared)
		return names, nil
	}
	program, found := "", false
	if r.env.HookProgram != nil {
		program, found = r.env.HookProgram()
	}
	if !found || r.env.InstallHooks == nil {
		r.note("rig-hook was not found, no hooks were installed; when it is there run `rig-hook install`")
		return names, nil
	}
	done, err := r.env.InstallHooks(filepath.Join(w.repo.CommonDir(), "hooks"), program)
	if err != nil {
		return names, fail(codeRuntime, "cannot install the hooks: %s", err.Error())
	}
	return done, nil
}
