package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/cmd/internal/version"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/bundle/rig"
	"github.com/rigward/rigward/pkg/bundle/rye"
	"github.com/rigward/rigward/pkg/finding"
	hide "github.com/rigward/rigward/pkg/screen"
)

// Env is all that the command gets from outside.
type Env struct {
	Args           []string // without the program's name
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Environ        []string // for child processes
	Now            func() time.Time
	Dir            string // directory that relative paths belong to
	Machine        string // folder of this machine's trust store for Rye bundles, "" for none
	Terminal       bool   // standard error is a terminal
	Windows        bool   // names of files mean what they mean to Windows

	// Exec runs another program in this one's place: path, argv, environment.
	// It returns an exit status only where a process can't be replaced.
	Exec func(path string, args, environ []string) (int, error)
}

// Exit statuses.
const (
	exitOK       = 0
	exitFindings = 1
	exitUnknown  = 2 // could not decide
)

// Codes of exit 2 that every format shares.
const (
	codeUsage = "usage"
	codeIO    = "io-error"
	codeGit   = "git-error"
)

// formats are the formats, in the order in which they are asked.
func formats() []bundle.Format {
	return []bundle.Format{rig.Format{}, agent.Format{}, &rye.Format{}}
}

// verbs is the table of verbs. Of verbs with one name, one a format, the first
// is taken where nothing tells which is meant.
func verbs() []*verb {
	return slices.Concat(createVerbs(), inspectVerbs(), verifyVerbs(), lsVerbs(), diffVerbs(), rebuildVerbs(), installVerbs(), uninstallVerbs(),
		upVerbs(), checkVerbs(), configurationsVerbs(), signVerbs(), stageVerbs(), imageVerbs(), registryVerbs(), listVerbs(), trustVerbs())
}

// A verb is one command of one format.
type verb struct {
	name   string
	format string
	args   string // for the usage line: A B are two words, [A] may be left out, A… may be many
	short  string // one line for help
	flags  []cli.Flag
	// run returns the exit status. An error that is a finding, as of a
	// reference, is told as a result; any other one is exit 2.
	run func(ctx context.Context, c *call) (int, error)
}

// call is one run of a verb.
type call struct {
	Env
	cli.Line
	ctx     context.Context // of the run
	verb    *verb
	json    bool
	subject string // the argument that is being worked on
	closers []func()
}

// after runs fn once the work is done, before the result is told.
func (c *call) after(fn func()) { c.closers = append(c.closers, fn) }

func (c *call) release() {
	for i := len(c.closers) - 1; i >= 0; i-- {
		c.closers[i]()
	}
	c.closers = nil
}

// path makes a path relative to the caller's directory usable.
func (c *call) path(p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(c.Dir, p)
}

// state is the directory in which this user's runs keep what later ones
// believe: XDG_STATE_HOME/rig-bundle, by default ~/.local/state/rig-bundle, on
// Windows rig-bundle in %LOCALAPPDATA%. "" if nothing names it.
func (c *call) state() string {
	for _, v := range stateVars {
		if dir := c.Getenv(v.name); filepath.IsAbs(dir) {
			return filepath.Join(dir, v.below, "rig-bundle")
		}
	}
	return ""
}

// stateVars are the variables that name the state directory's parent, and what
// lies between.
var stateVars = func() []struct{ name, below string } {
	vars := []struct{ name, below string }{{"XDG_STATE_HOME", ""}, {"HOME", ".local/state"}}
	if runtime.GOOS == "windows" {
		vars = []struct{ name, below string }{{"XDG_STATE_HOME", ""}, {"LOCALAPPDATA", ""}}
	}
	return vars
}()

// say writes a line of narrative to standard error.
func (c *call) say(format string, args ...any) { c.write(c.Stderr, fmt.Sprintf(format, args...)) }

// write writes a line of text: whatever goes out here is without what has the form of a
// secret.
func (c *call) write(w io.Writer, text string) { io.WriteString(w, hide.HideIn(text)+"\n") }

// print writes a line of result to standard output.
func (c *call) print(format string, args ...any) { c.write(c.Stdout, fmt.Sprintf(format, args...)) }

// object writes one JSON object and a line feed to standard output.
func (c *call) object(v any) {
	b, err := finding.JSON(v)
	if err == nil {
		_, err = io.WriteString(c.Stdout, hide.HideIn(string(b))+"\n")
	}
	if err != nil {
		if o, ok := c.Stdout.(*cli.Output); ok && o.Err == nil {
			o.Err = err // Main tells it
		}
	}
}

// A usageError is exit 2, code usage.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// A codedError is exit 2 with a code of its own.
type codedError struct {
	code string
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

// stop reports the error of a verb: a finding as its result, anything else as
// what kept it from deciding.
func (c *call) stop(err error) int {
	if f := bundle.AsFinding(err); f != nil {
		r := bundle.NewResult(c.verb.name)
		r.Fail(f)
		r.File = c.subject
		status, _ := c.tell(&r, nil)
		return status
	}
	return c.fail(err)
}

// fail reports what kept a verb from deciding: exit 2, in text or as JSON.
func (c *call) fail(err error) int {
	code := codeIO
	var usage *usageError
	var line *cli.Error
	var coded *codedError
	switch {
	case errors.As(err, &usage), errors.As(err, &line):
		code = codeUsage
	case errors.As(err, &coded):
		code = coded.code
	}
	msg := errorText(err)
	if c.json {
		c.object(struct {
			Schema  string `json:"schema_version"`
			Command string `json:"command"`
			Code    string `json:"code"`
			Message string `json:"message"`
		}{"1.0", c.verb.name, code, msg})
	}
	command := strings.TrimSuffix("rig-bundle "+c.verb.name, " ")
	c.say("%s: %s: %s", command, code, msg)
	var missing *bundle.MissingDirError
	var state *bundle.StateError
	switch {
	case code == codeUsage:
		c.say("hint: %s --help", command)
	case errors.As(err, &state):
		c.say("hint: %s", cmp.Or(state.Hint, "set XDG_STATE_HOME to a directory of your own"))
	case errors.As(err, &missing):
		c.say("hint: mkdir -p %s", finding.Path(missing.Dir))
	case code == codeIO:
		if hint := files.Hint(err); hint != "" {
			c.say("hint: %s", hint)
		}
	}
	return exitUnknown
}

// count is a number with what is counted, whose plural ends in s.
func count[N int | int64](n N, what string) string { return plural(n, what, what+"s") }

func plural[N int | int64](n N, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// errorText is the text of an error with what came from outside escaped.
func errorText(err error) string {
	var pe *fs.PathError
	var fault *bundle.Finding
	switch {
	case errors.As(err, &fault):
		return fault.Message
	case errors.As(err, &pe):
		return fmt.Sprintf("%s: %s", finding.Path(pe.Path), bundle.EscapeLine(pe.Err.Error()))
	}
	return bundle.EscapeLine(strings.ReplaceAll(err.Error(), "\n", " "))
}

// Main runs the command and returns its exit status.
func Main(ctx context.Context, env Env) int {
	out := &cli.Output{W: env.Stdout}
	env.Stdout = out
	code := run(ctx, env)
	if out.Err != nil {
		fmt.Fprintf(env.Stderr, "rig-bundle: io-error: the result could not be written: %v\n", out.Err)
		if code == exitOK {
			code = exitUnknown
		}
	}
	return code
}

func run(ctx context.Context, env Env) int {
	all := verbs()
	p := program(all)
	c := &call{Env: env, ctx: ctx, verb: &verb{}, json: slices.Contains(env.Args, "--json")}
	if len(env.Args) == 0 {
		fmt.Fprint(env.Stderr, p.Overview())
		return exitUnknown
	}
	if done, err := p.Own(env.Stdout, version.String(), env.Args); err != nil {
		return c.fail(err)
	} else if done {
		return exitOK
	}
	name, rest := env.Args[0], env.Args[1:]
	var candidates []*verb
	for _, v := range all {
		if v.name == name {
			candidates = append(candidates, v)
		}
	}
	if len(candidates) == 0 {
		return c.fail(p.Unknown(name))
	}
	v, rest, err := pick(ctx, env, candidates, rest)
	c.verb = v
	line, help, bad := p.Parse(v.command(), rest)
	if help || slices.Contains(env.Args, "--help") {
		fmt.Fprint(env.Stdout, p.HelpOf(name))
		return exitOK
	}
	c.Line = line
	err = cmp.Or(err, bad, v.unpicked(line))
	if err != nil {
		return c.fail(err)
	}
	status, err := v.run(ctx, c)
	c.release()
	if err != nil {
		return c.stop(err)
	}
	return status
}

// ofFormat is the verb of a format, nil if none is.
func ofFormat(vs []*verb, format string) *verb {
	for _, v := range vs {
		if v.format == format {
			return v
		}
	}
	return nil
}

// pick chooses among the formats that have a verb: by --format, by what the
// first path holds, by the flags that only one of them knows; else the first.
func pick(ctx context.Context, env Env, candidates []*verb, args []string) (*verb, []string, error) {
	names := formatNames()
	for i, a := range args {
		if a == "--" {
			break
		}
		value, n := "", 1
		if v, ok := strings.CutPrefix(a, "--format="); ok {
			value = v
		} else if a == "--format" && i+1 < len(args) {
			value, n = args[i+1], 2
		}
		if !slices.Contains(names, value) {
			continue
		}
		rest := slices.Delete(slices.Clone(args), i, i+n)
		if v := ofFormat(candidates, value); v != nil {
			return v, rest, nil
		}
		return candidates[0], rest, usagef("format %s has no command %s", value, candidates[0].name)
	}
	if len(candidates) == 1 {
		return candidates[0], args, nil
	}
	var fitting []*verb
	var words []string
	for _, v := range candidates {
		flags := &cli.Command{Name: v.name, Flags: v.flags, Words: []cli.Word{{Many: true}}}
		if line, _, err := program(nil).Parse(flags, args); err == nil {
			fitting, words = append(fitting, v), line.Words
		}
	}
	if len(fitting) == 1 {
		return fitting[0], args, nil
	}
	if len(fitting) == 0 {
		fitting = candidates
	}
	if len(words) > 0 {
		w := words[0]
		if v := ofFormat(fitting, "agent"); v != nil && (agent.HasScheme(w) || (&call{Env: env}).isReference(w)) { // only agent bundles have references
			return v, args, nil
		}
		probe, done, err := probePath(ctx, (&call{Env: env}).path(w))
		if err != nil { // the verb will say why; its format goes by the name
			probe, done = &bundle.Probe{Base: filepath.Base(w)}, func() error { return nil }
			if v := ofFormat(fitting, "agent"); v != nil && bundle.Choose(probe, formats()) == nil && agent.OnlyRef(w) {
				return v, args, nil
			}
		}
		defer done()
		mine := slices.DeleteFunc(formats(), func(f bundle.Format) bool { return ofFormat(fitting, f.Name()) == nil })
		if f := bundle.Choose(probe, mine); f != nil {
			return ofFormat(fitting, f.Name()), args, nil
		}
	}
	return fitting[0], args, nil
}

// probePath looks at a file or directory. The probe is good until done, which
// is set unless there is an error.
func probePath(ctx context.Context, name string) (p *bundle.Probe, done func() error, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, nil, err
	}
	if info.IsDir() {
		src, err := bundle.OpenDirs(name)
		if err != nil {
			return nil, nil, err
		}
		p = &bundle.Probe{Base: filepath.Base(name), Tree: src, Complete: true}
		items, err := src.ReadDir(".")
		if err != nil {
			src.Close()
			return nil, nil, err
		}
		for _, it := range items {
			p.Names = append(p.Names, it.Name)
		}
		return p, src.Close, nil
	}
	f, size, err := bundle.OpenFile(name)
	if err != nil {
		return nil, nil, err
	}
	p = &bundle.Probe{Base: filepath.Base(name)}
	if strings.HasSuffix(p.Base, rig.Ext) && (agent.Format{}).Recognize(p) == bundle.NoMatch {
		return p, f.Close, nil // whatever it holds, the name of the one format and of no other decides
	}
	p, err = bundle.ProbeFile(ctx, p.Base, f, size)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return p, f.Close, nil
}

// count checks how many words there are.
func (c *call) count(least, most int) error {
	if n := len(c.Words); n < least || n > most {
		return usagef("%s takes %s", c.verb.name, c.verb.args)
	}
	return nil
}
