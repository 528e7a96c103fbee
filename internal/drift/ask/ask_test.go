package ask

import (
	"bytes"
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
)

// open opens a new repository.
func open(t *testing.T) *gitrepo.Repo {
	t.Helper()
	r := gittest.New(t, gittest.Options{})
	repo, err := gitrepo.Open(t.Context(), gitrepo.Env{Environ: r.Env, Dir: r.Dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { repo.Close() })
	return repo
}

// through runs what answers in this process.
func through(answers Judge) Run {
	return func(ctx context.Context, env gitrepo.Env, stdin io.Reader) (stdout, stderr []byte, code int, err error) {
		var out, said bytes.Buffer
		code = Serve(ctx, env, stdin, &out, &said, answers)
		return out.Bytes(), said.Bytes(), code, nil
	}
}

func asked(signer string, trust *policy.Trust) Question {
	p := policy.Default()
	p.Bundles = []policy.Bundle{{Format: "agent", Source: "agent", Output: "dist", Signer: signer,
		Options: map[string]string{"compression": "zstd"}}}
	p.Levels, p.Allow = map[string]finding.Severity{"bundle-drift": finding.Warning}, []string{strings.Repeat("0a", 16)}
	return Question{
		Range: rules.Range{Ref: "refs/heads/\xff", Old: strings.Repeat("1", 40), New: strings.Repeat("2", 40),
			Exclude: []string{strings.Repeat("1", 40)}, Policy: p, Trust: trust},
		Now: time.Unix(1767603600, 0).UTC(), All: true, Trusted: strings.Repeat("3", 40),
	}
}

// TestQuestion: what is asked arrives, and so does what is answered, whatever bytes a
// path has.
func TestQuestion(t *testing.T) {
	repo := open(t)
	signers := []byte("op@example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n")
	revoked := []policy.RevocationFile{{Source: "one", Data: []byte("# nobody\n")}, {Source: "two", Data: []byte("# nobody else\n")}}
	trust := policy.NewTrust("here", func() ([]byte, []policy.RevocationFile, error) { return signers, revoked, nil })
	q := asked("op@example.com", trust)
	want := Answer{
		Bundles: []report.Bundle{{Name: "a\xc3", Format: "agent", Drift: true, Image: &report.Image{Why: "ü"},
			FromBase: []report.MemberChange{{Path: "\x00\xff", Kind: "added"}}}},
		Findings: []finding.Finding{{Rule: "bundle-drift", Severity: finding.Warning, Path: "dist/\xfe\xff",
			Line: 3, Message: "„so“", Hint: "rig-bundle"}},
	}
	got, err := Of(through(func(_ context.Context, there *gitrepo.Repo, arrived Question) (Answer, error) {
		if there.GitDir() != repo.GitDir() {
			t.Errorf("another repository: %s", there.GitDir())
		}
		a, b := arrived.Range, q.Range
		data, lists, err := a.Trust.Files()
		if err != nil || !bytes.Equal(data, signers) || len(lists) != 2 || !bytes.Equal(lists[1].Data, revoked[1].Data) {
			t.Errorf("signers %q, revoked %q, %v", data, lists, err)
		}
		fields := func(p *policy.Policy) []any { return []any{p.Bundles, p.Levels, p.Allow} }
		if !reflect.DeepEqual(fields(a.Policy), fields(b.Policy)) {
			t.Errorf("policy %+v", a.Policy)
		}
		a.Policy, a.Trust, b.Policy, b.Trust = nil, nil, nil, nil
		if arrived.Range, q.Range = a, b; !reflect.DeepEqual(arrived, q) {
			t.Errorf("asked %+v, expected %+v", arrived, q)
		}
		return Answer{Bundles: want.Bundles, Findings: append([]finding.Finding(nil), want.Findings...)}, nil
	}), "install it")(t.Context(), repo, q)
	if err != nil {
		t.Fatal(err)
	}
	want.Bundles[0].Name, want.Bundles[0].Image.Why, want.Bundles[0].FromBase[0].Path = "a\xc3", "ü", "\x00\xff"
	if !reflect.DeepEqual(got, want) {
		t.Errorf("answered %+v, expected %+v", got, want)
	}
}

// TestSigners: where there are no signers, the error is that of who asks.
func TestSigners(t *testing.T) {
	repo := open(t)
	_, _, want := policy.Untrusting("nowhere").Signers()
	asks := func(t *testing.T, signer string, needs bool) error {
		_, err := Of(through(func(_ context.Context, _ *gitrepo.Repo, q Question) (a Answer, err error) {
			if needs {
				_, _, err = q.Range.Trust.Signers()
			}
			return a, err
		}), "")(t.Context(), repo, asked(signer, policy.Untrusting("nowhere")))
		return err
	}
	if err := asks(t, "op@example.com", true); !errors.Is(err, policy.ErrNobody) || err.Error() != want.Error() {
		t.Errorf("needed: %v, expected %v", err, want)
	}
	if err := asks(t, "op@example.com", false); err != nil {
		t.Errorf("not needed: %v", err)
	}
	if err := asks(t, "", true); err == nil {
		t.Error("signers were needed that were not sent, and there is an answer")
	}
}

// TestNoAnswer: whatever comes in the place of an answer, nothing is decided.
func TestNoAnswer(t *testing.T) {
	repo := open(t)
	whole, err := Answer{}.marshal(nil)
	if err != nil {
		t.Fatal(err)
	}
	ends := func(out []byte, said string, code int, err error) Run {
		return func(context.Context, gitrepo.Env, io.Reader) (_, _ []byte, _ int, _ error) {
			return out, []byte(said), code, err
		}
	}
	found := func(f finding.Finding) Run {
		data, err := Answer{Findings: []finding.Finding{f}}.marshal(nil)
		if err != nil {
			t.Fatal(err)
		}
		return ends(data, "", 0, nil)
	}
	one, _, _, _ := found(finding.Finding{Rule: "R", Severity: finding.Error})(t.Context(), gitrepo.Env{}, nil)
	for name, run := range map[string]Run{
		"not there":    ends(nil, "", -1, errors.New("not installed")),
		"killed":       ends(whole, "", -1, nil),
		"refuses":      ends(whole, "usage\n", 2, nil),
		"says nothing": ends(nil, "", 0, nil),
		"cut off":      ends(whole[:len(whole)-1], "", 0, nil),
		"another":      ends([]byte(`{"clean":true}`), "", 0, nil),
		"twice":        ends(append(bytes.Clone(whole), whole...), "", 0, nil),
		"null":         ends([]byte("null"), "", 0, nil),
		"empty":        ends([]byte("{}"), "", 0, nil),
		"a part":       ends([]byte(`{"Found":{"Bundles":null}}`), "", 0, nil),
		"other case":   ends(bytes.Replace(whole, []byte("Problem"), []byte("problem"), 1), "", 0, nil),
		"a key twice":  ends(bytes.Replace(whole, []byte("{"), []byte(`{"Problem":"no",`), 1), "", 0, nil),
		"in UTF-16":    ends(bytes.Join(bytes.Split(whole, nil), []byte{0}), "", 0, nil),
		"no rule":      found(finding.Finding{Severity: finding.Error}),
		"no level":     found(finding.Finding{Rule: "bundle-drift"}),
		"a high level": found(finding.Finding{Rule: "bundle-drift", Severity: finding.Error + 1}),
		"no bytes":     ends(bytes.Replace(one, []byte("R"), []byte("\u20ac"), 1), "", 0, nil),
		"too long":     ends(append(bytes.Clone(whole), bytes.Repeat([]byte(" "), MaxAnswer)...), "", 0, nil),
	} {
		var u *policy.Undecided
		_, err := Of(run, "install it")(t.Context(), repo, asked("", nil))
		if !errors.As(err, &u) || !strings.Contains(u.Hint, "install it") {
			t.Errorf("%s: %v", name, err)
		}
	}
	run := ends(whole, "", 0, nil)
	for _, run := range []Run{run, ends(one, "", 0, nil)} {
		if _, err := Of(run, "")(t.Context(), repo, asked("", nil)); err != nil {
			t.Errorf("a whole answer: %v", err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := Of(run, "")(ended, repo, asked("", nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("when the time was up: %v", err)
	}
}

// FuzzServe: no question makes the program that judges fail in another way than by its
// exit code, and what it answers can be read.
func FuzzServe(f *testing.F) {
	data, _, err := asked("", nil).marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"Bundles":[{"Signer":"x"}],"Signers":""}`))
	env := gitrepo.Env{Environ: []string{"GIT_CEILING_DIRECTORIES=/", "PATH=/nowhere"}, Dir: f.TempDir()}
	f.Fuzz(func(t *testing.T, data []byte) {
		var w question
		if decode(data, &w) == nil {
			q := w.read()
			if _, _, err := q.marshal(); err != nil {
				t.Errorf("%q cannot be asked again: %v", data, err)
			}
		}
		var out, said bytes.Buffer
		if code := Serve(t.Context(), env, bytes.NewReader(data), &out, &said, nil); code != report.ExitClean {
			return
		}
		var a answer
		if err := decode(out.Bytes(), &a); err != nil || a.Problem == "" {
			t.Errorf("an answer without a repository: %q, %v", out.Bytes(), err)
		}
	})
}

// FuzzAnswer: what is taken for an answer is what a judge writes, to the byte, with findings
// that count; and it is read as it was meant.
func FuzzAnswer(f *testing.F) {
	for _, a := range []Answer{{}, {Bundles: []report.Bundle{{Name: "a\xc3", Image: &report.Image{Why: "ü"}}},
		Findings: []finding.Finding{{Rule: "bundle-drift", Severity: finding.Warning, Path: "\xff"}}}} {
		for _, problem := range []error{nil, errSigners, errors.New("no")} {
			data, err := a.marshal(problem)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	for _, other := range []string{"", "null", "{}", `{"Found":{"Bundles":null,"Findings":null}}`, "[]"} {
		f.Add([]byte(other))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := parse(data)
		if err != nil {
			return
		}
		signers, hint := w.Signers, w.Hint
		a, problem := w.read(nil)
		for _, x := range a.Findings {
			if x.Rule == "" || x.Severity != finding.Warning && x.Severity != finding.Error {
				t.Fatalf("%q: the finding %+v is taken", data, x)
			}
		}
		if problem != nil {
			problem = &policy.Undecided{Message: w.Problem, Hint: hint}
		}
		again, err := a.marshal(problem)
		if err != nil || !signers && w.Problem == finding.Clean(w.Problem) && !bytes.Equal(again, data) {
			t.Fatalf("%q is written again as %q, %v", data, again, err)
		}
	})
}
