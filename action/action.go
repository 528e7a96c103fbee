// Package action is the workflow step of rigward on GitHub: it turns an event
// into a range of commits, lets the same rules judge it as every other gate,
// and tells the result as annotations, job summary, outputs and report files.
//
// It reads the checkout and writes nothing to it, calls no API and needs no
// permission but `contents: read`.
package action

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sethvargo/go-githubactions"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/ci"
	"github.com/rigward/rigward/internal/drift"
	"github.com/rigward/rigward/internal/image"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/internal/userschema"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// Run judges what the event around it asks for and returns the exit code: 0
// clean, 1 findings, 2 undecided. env.Args are not used: all inputs come from
// the environment, as INPUT_ROOT, INPUT_POLICY, INPUT_SIGNERS,
// INPUT_SCHEMA, INPUT_FAIL_LEVEL, INPUT_BUNDLES, INPUT_FETCH_BASES, INPUT_REPORTS,
// INPUT_BASE and INPUT_HEAD (action.yml says what each means). net is what
// registries see, which are asked for base images only if the inputs say so.
func Run(ctx context.Context, env *hooks.Env, net *image.Network) int {
	s := &step{env: env, net: net, gh: githubactions.New(githubactions.WithWriter(env.Stdout), githubactions.WithGetenv(env.Getenv))}
	s.report = report.Report{Gate: "action", Rules: hooks.Rules()}
	if err := s.judge(ctx); err != nil {
		s.report.Problem, s.report.Hint = err, policy.HintOf(err)
	}
	if s.check != nil {
		s.check.Tell()
	}
	if s.failLevel != finding.Off {
		s.report.Fail = s.failLevel
	}
	if err := s.tell(); err != nil {
		fmt.Fprintln(env.Stderr, "rig-action: "+finding.QuoteMax(err.Error(), 300))
		return report.ExitUndecided
	}
	return s.report.ExitCode()
}

type step struct {
	env       *hooks.Env
	net       *image.Network
	gh        *githubactions.Action
	report    report.Report
	check     *hooks.Checker
	workspace string
	failLevel finding.Severity // of the input; Off if not given
	targets   []report.Target
}

func (s *step) judge(ctx context.Context) error {
	var err error
	if s.workspace = s.env.Getenv("GITHUB_WORKSPACE"); s.workspace == "" {
		s.workspace = s.env.Dir
	}
	if word := s.gh.GetInput("fail_level"); word != "" {
		level, ok := finding.ParseSeverity(word)
		if !ok || level == finding.Off {
			return &policy.Undecided{Message: "the input fail-level is " + finding.QuoteMax(word, 40) + ", expected error or warning"}
		}
		s.failLevel = level
	}
	for _, word := range strings.Fields(s.gh.GetInput("reports")) {
		t, err := report.ParseTarget(word)
		if err != nil {
			return &policy.Undecided{Message: "the input formats: " + err.Error()}
		}
		s.targets = append(s.targets, t)
	}
	bundles, err := s.yes("bundles", true)
	if err != nil {
		return err
	}
	fetch, err := s.yes("fetch-bases", false)
	if err != nil {
		return err
	}
	github, err := ci.Find("github")
	if err != nil {
		return err
	}
	span, err := s.span(github)
	if err != nil {
		return err
	}
	root := s.workspace
	if word := s.gh.GetInput("root"); word != "" {
		if root = word; !filepath.IsAbs(root) {
			root = filepath.Join(s.workspace, root)
		}
	}
	idle, err := gitrepo.OpenIdle(ctx, gitrepo.Env{Environ: s.env.Environ, Dir: root})
	if err != nil {
		return err
	}
	tree := cmp.Or(idle.WorkTree(), root)
	if err := idle.Close(); err != nil {
		return err
	}
	if embedded(idle.GitDir()) {
		return &policy.Undecided{
			Message: "the input root leads to the repository " + finding.Quote(idle.GitDir()) + ", which another repository has checked out as files: who proposes a change would choose it",
			Hint:    "let root name the directory into which actions/checkout puts the repository (its input path), or leave it out",
		}
	}
	environ, err := s.environ(tree)
	if err != nil {
		return err
	}
	repo, err := gitrepo.Open(ctx, gitrepo.Env{Environ: environ, Dir: tree})
	if err != nil {
		return err
	}
	defer repo.Close()
	s.check = hooks.NewChecker(s.env, repo, &s.report)
	s.check.Draw, s.check.NoBundles, s.check.Bundles = true, !bundles, drift.Here(images{s.net, fetch})
	gate := ci.Gate{Check: s.check, Whole: github.Whole, Before: func(commit string) (err error) {
		s.check.Judge.Extra, err = s.schema(repo, commit)
		return err
	}}
	return gate.Judge(ctx, span)
}

// yes is an input that is true or false.
func (s *step) yes(name string, without bool) (bool, error) {
	word := s.gh.GetInput(strings.ReplaceAll(name, "-", "_"))
	if word == "" {
		return without, nil
	}
	is, err := strconv.ParseBool(word)
	if err != nil {
		return false, &policy.Undecided{Message: "the input " + name + " is " + finding.QuoteMax(word, 40) + ", expected true or false"}
	}
	return is, nil
}

// environ is the environment of git: policy and signers of the inputs are told
// as the configuration that a server would have.
func (s *step) environ(tree string) ([]string, error) {
	environ := slices.Clone(s.env.Environ)
	n, _ := strconv.Atoi(s.env.Getenv("GIT_CONFIG_COUNT"))
	for _, c := range []struct{ input, key string }{{"policy", "rigward.policy"}, {"signers", "rigward.allowedSigners"}} {
		file, err := outside(s.workspace, tree, c.input, s.gh.GetInput(c.input))
		if err != nil {
			return nil, err
		}
		if file != "" {
			environ = append(environ, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, c.key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, file))
			n++
			environ = append(environ, "GIT_CONFIG_COUNT="+strconv.Itoa(n))
		}
	}
	return environ, nil
}

// span is the event's, unless the inputs name base and head.
func (s *step) span(github ci.System) (ci.Span, error) {
	base, head := s.gh.GetInput("base"), s.gh.GetInput("head")
	if base != "" || head != "" {
		if base == "" || head == "" {
			return ci.Span{}, &policy.Undecided{Message: "only one of the inputs base and head is set, expected both or neither"}
		}
		return ci.Span{Base: base, Head: head}, nil
	}
	return github.Span(s.env.Getenv, "")
}

// schema reads the user's own schema from the tree of a commit that is trusted:
// nil if there is none.
func (s *step) schema(repo *gitrepo.Repo, commit string) (func(*envelope.Envelope) []finding.Finding, error) {
	name := s.gh.GetInput("schema")
	if name == "" {
		return nil, nil
	}
	undecided := func(why string, cause error) error {
		return &policy.Undecided{Message: "the input schema names " + finding.Quote(name) + ": " + why, Cause: cause,
			Hint: "name a JSON Schema 2020-12 by its path from the top of the repository; it counts from the commit before the change"}
	}
	c, err := repo.Commit(commit)
	if err != nil {
		return nil, err
	}
	e, ok, err := repo.EntryAt(c.Tree, name)
	if err != nil {
		return nil, err
	}
	if !ok || !e.Mode.IsFile() {
		return nil, undecided("no regular file of commit "+finding.Short(commit), nil)
	}
	data, err := repo.Blob(e.ID, userschema.MaxBytes)
	if err != nil {
		return nil, undecided("not readable", err)
	}
	schema, err := userschema.Compile(data)
	if err != nil {
		return nil, undecided(err.Error(), nil)
	}
	return schema.Check, nil
}

// tell writes log, annotations, summary, report files and outputs. What cannot
// be told is not a pass: the outputs come last, so that they say so.
func (s *step) tell() error {
	failed := func(err error) {
		if err != nil && s.report.Problem == nil {
			s.report.Problem, s.report.Hint = err, policy.HintOf(err)
		}
	}
	var written []string
	err := hooks.WriteReports(s.workspace, &s.report, s.targets)
	if err == nil {
		for _, t := range s.targets {
			written = append(written, finding.Clean(t.File))
		}
	}
	failed(err)
	var summary bytes.Buffer
	if err := report.Write(&summary, &s.report, "markdown"); err != nil {
		return err
	}
	failed(s.append("GITHUB_STEP_SUMMARY", summary.Bytes()))
	for _, format := range []string{"text", "github"} {
		if err = report.Write(s.env.Stdout, &s.report, format); err != nil {
			failed(err)
			break
		}
	}
	return errors.Join(err, s.append("GITHUB_OUTPUT", s.outputs(written)))
}

// outputs are lines NAME=VALUE of our own words, ids and names from the
// policy, never of names that the judged commits give.
func (s *step) outputs(written []string) []byte {
	result := map[int]string{report.ExitClean: "clean", report.ExitFindings: "findings"}[s.report.ExitCode()]
	if result == "" {
		result = "undecided"
	}
	var changed, digests, composed []string
	for _, b := range s.report.Bundles {
		name := word(b.Output)
		if b.Base != b.Rebuilt {
			changed = append(changed, name)
		}
		if b.Rebuilt != "" {
			digests = append(digests, name+"="+b.Rebuilt)
		}
		if b.Image != nil && b.Image.Digest != "" {
			composed = append(composed, name+"="+b.Image.Digest)
		}
	}
	var lines bytes.Buffer
	for _, o := range [][2]string{
		{"bundles-changed", strings.Join(changed, " ")},
		{"checked", strconv.Itoa(s.report.Envelopes)},
		{"commits", strconv.Itoa(s.report.Commits)},
		{"digests", strings.Join(digests, " ")},
		{"findings", strconv.Itoa(len(s.report.Findings) + s.report.More.Total())},
		{"images", strings.Join(composed, " ")},
		{"reports", strings.Join(written, " ")},
		{"result", result},
	} {
		fmt.Fprintf(&lines, "%s=%s\n", o[0], o[1])
	}
	return lines.Bytes()
}

// word is a path as one word of an output, percent-encoded (RFC 3986) but for
// unreserved characters and slashes.
func word(path string) string {
	var b strings.Builder
	for i := range len(path) {
		c := path[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~/", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// append adds text to the file that a variable names, if it names one.
func (s *step) append(variable string, text []byte) error {
	name := s.env.Getenv(variable)
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err == nil {
		_, err = f.Write(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return &policy.Undecided{Message: "the file " + finding.Quote(name) + " of " + variable + " cannot be written", Cause: err}
	}
	return nil
}
