package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

// ofGitolite reports whether a hook file is gitolite's own update hook, which
// gitolite puts into each of its repositories as a link (gitolite, "hooks").
func ofGitolite(file string, data []byte) bool {
	return strings.Contains(string(data), "Gitolite::Hooks::") || strings.HasSuffix(filepath.ToSlash(linkOf(file)), "/.gitolite/hooks/common/"+filepath.Base(file))
}

func linkOf(file string) string {
	to, err := os.Readlink(file)
	if err != nil {
		return ""
	}
	return to
}

// A gitolite is what lies around a repository of gitolite's.
type gitolite struct {
	home string // of its user
	code string // LOCAL_CODE, "" if it is not set
	asks bool   // the rules of the repository ask the VREF rigward
}

// gitoliteOf finds out whether gitolite looks after the repository whose hooks
// lie in dir.
func gitoliteOf(dir string) (g gitolite, ok bool) {
	file := filepath.Join(dir, "update")
	data, err := os.ReadFile(file)
	if err != nil || !ofGitolite(file, data) {
		return g, false
	}
	if to := linkOf(file); to != "" {
		if !filepath.IsAbs(to) {
			to = filepath.Join(dir, to)
		}
		g.home = filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(to)))) // HOME/.gitolite/hooks/common/update
	}
	if rc, err := os.ReadFile(filepath.Join(g.home, ".gitolite.rc")); err == nil {
		if m := localCode().FindStringSubmatch(string(rc)); m != nil {
			g.code = strings.NewReplacer("$ENV{HOME}", g.home, "$rc{GL_ADMIN_BASE}", filepath.Join(g.home, ".gitolite")).Replace(m[1])
		}
	}
	// What gitolite has compiled of its rules for this repository.
	rules, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "gl-conf"))
	g.asks = err == nil && strings.Contains(string(rules), "VREF/rigward")
	return g, true
}

func localCode() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^\s*LOCAL_CODE\s*=>\s*["']([^"']+)["']`)
}

// place is a file below LOCAL_CODE, as a command names it.
func (g gitolite) place(name string) string {
	code := g.code
	if code == "" {
		code = filepath.Join(g.home, "local")
	}
	return finding.Word(filepath.ToSlash(filepath.Join(code, name)))
}

// commonHook is what puts pre-receive into all repositories of a gitolite, for
// its user to run.
func (g gitolite) commonHook(program string) string {
	file := g.place("hooks/common/pre-receive")
	hint := fmt.Sprintf(`mkdir -p "$(dirname %s)" && printf '#!/bin/sh\nexec %s pre-receive\n' >%s && chmod +x %s && gitolite setup --hooks-only`, file, finding.Word(filepath.ToSlash(program)), file, file)
	if g.code == "" {
		hint += ", with LOCAL_CODE set in ~/.gitolite.rc"
	}
	return hint
}

// gitolite judges the update hook of a repository of gitolite's: the second look
// at each ref is a VREF there.
func (d *diagnosis) gitolite(dir, name string) {
	g, _ := gitoliteOf(dir)
	vref := filepath.Join(g.code, "VREF", "rigward")
	data, err := os.ReadFile(vref)
	switch {
	case name != "update":
		d.say(false, "%s: a hook of gitolite's, which does not name rig-hook", name)
		d.hint = g.commonHook(d.env.Executable)
	case g.code == "" || err != nil || !hooks.Executable(vref) || !strings.Contains(string(data), "rig-hook"):
		d.say(false, "update: gitolite's own, and there is no VREF rigward, which looks at each ref a second time")
		file := g.place("VREF/rigward")
		d.hint = fmt.Sprintf(`mkdir -p "$(dirname %s)" && printf '#!/bin/sh\nexec %s update "$1" "$2" "$3"\n' >%s && chmod +x %s, and in gitolite.conf: -   VREF/rigward = @all`, file, finding.Word(filepath.ToSlash(d.env.Executable)), file, file)
		if g.code == "" {
			d.hint += "; LOCAL_CODE in ~/.gitolite.rc names the directory"
		}
	case !g.asks:
		d.say(false, "update: gitolite's own, and the rules of this repository do not ask the VREF rigward")
		d.hint = "in gitolite.conf, below the repo line: -   VREF/rigward = @all"
	default:
		d.say(true, "update: gitolite's own, which asks the VREF rigward (%s)", finding.Quote(filepath.ToSlash(vref)))
	}
}

// withoutGitolite returns a directory with the hooks of dir but for gitolite's
// own, which work nowhere but behind gitolite; dir itself if there are none.
func withoutGitolite(dir, scratch string) (string, error) {
	if _, ok := gitoliteOf(dir); !ok {
		return dir, nil
	}
	if err := os.Mkdir(scratch, 0o755); err != nil {
		return "", err
	}
	for _, name := range hooks.ServerHooks {
		file := filepath.Join(dir, name)
		data, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || err == nil && ofGitolite(file, data) {
			continue
		}
		if err == nil {
			err = os.Symlink(file, filepath.Join(scratch, name))
		}
		if err != nil {
			return "", err
		}
	}
	return scratch, nil
}

// notGitolites refuses to install into a repository of gitolite's, whose hooks
// gitolite writes anew.
func notGitolites(dir, program string) error {
	g, ok := gitoliteOf(dir)
	if !ok {
		return nil
	}
	return &policy.Undecided{
		Message: "the repository belongs to gitolite, whose own update hook must stay as it is",
		Hint:    g.commonHook(program),
	}
}
