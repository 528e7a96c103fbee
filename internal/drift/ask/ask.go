// Package ask carries the judgement of bundles from the program that needs it to the
// one that judges, and back. What reads archives takes long to set up, and a hook of
// envelopes has no use for it.
package ask

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
)

// Worker is the name by which a program is called that answers one question: from
// standard input, to standard output, and with exit code 0 if there is an answer. Its
// number says what the two tell each other and mean by it; who changes that raises it.
const Worker = "rig-hook bundles 2"

// MaxAnswer is how many bytes an answer may have. What is told of one bundle is bounded; this
// is room for twenty of those of which the most is told.
const MaxAnswer = 64 << 20

// A Question is whether the bundles of a range may be as they are.
type Question struct {
	Range   rules.Range // of its policy and trust: bundles, levels, allowed findings, signers
	Now     time.Time   // at which signatures must be valid
	All     bool        // judge also the bundles that the range does not touch
	Trusted string      // the commit whose Rye trust store counts for a range without a base, "" for none
}

// An Answer is what was found, in the order in which it was.
type Answer struct {
	Bundles  []report.Bundle // those that were judged
	Findings []finding.Finding
}

// A Judge answers. The error says why nothing could be decided; the answer has what
// was found before.
type Judge func(ctx context.Context, repo *gitrepo.Repo, q Question) (Answer, error)

// Run runs the Worker in the directory and with the variables of a repository, to its
// end. A negative code says that it did not come to an end, err that it was not found
// or could not be started.
type Run func(ctx context.Context, env gitrepo.Env, stdin io.Reader) (stdout, stderr []byte, code int, err error)

// Of returns a Judge that lets the Worker answer. hint is the command that installs it.
func Of(run Run, hint string) Judge {
	return func(ctx context.Context, repo *gitrepo.Repo, q Question) (Answer, error) {
		data, unusable, err := q.marshal()
		if err != nil {
			return Answer{}, err
		}
		out, said, code, err := run(ctx, repo.Env(), bytes.NewReader(data))
		if ended := ctx.Err(); ended != nil {
			return Answer{}, &policy.Undecided{Message: "the time was up while bundles were rebuilt",
				Hint: "raise --timeout or the policy's timeout", Cause: ended}
		}
		if err != nil {
			return Answer{}, &policy.Undecided{Hint: hint, Cause: err,
				Message: "the policy names bundles, and the program that judges them cannot be started: " +
					finding.Clean(err.Error())}
		}
		w, err := parse(out)
		if err != nil || code != 0 {
			first, _, _ := strings.Cut(strings.TrimSpace(string(said)), "\n")
			if code == 0 && first == "" {
				first = err.Error()
			}
			return Answer{}, &policy.Undecided{Hint: "install rig-hook and rig-bundle of one version: " + hint, Cause: err,
				Message: fmt.Sprintf("the program that judges bundles gave no answer (exit code %d, it said %s)",
					code, finding.QuoteMax(first, 200))}
		}
		return w.read(unusable)
	}
}

// Serve answers one question about the repository of env, and returns the exit code.
func Serve(ctx context.Context, env gitrepo.Env, stdin io.Reader, stdout, stderr io.Writer, judge Judge) int {
	err := func() error {
		data, err := io.ReadAll(stdin)
		if err != nil {
			return err
		}
		var w question
		if err := decode(data, &w); err != nil {
			return err
		}
		var found Answer
		repo, problem := gitrepo.Open(ctx, env)
		if problem == nil {
			defer repo.Close()
			found, problem = judge(ctx, repo, w.read())
		}
		data, err = found.marshal(problem)
		if err == nil && len(data) > MaxAnswer {
			err = fmt.Errorf("there is more to tell of the bundles than %d bytes", MaxAnswer)
		}
		if err != nil {
			return err
		}
		_, err = stdout.Write(data)
		return err
	}()
	if err != nil {
		fmt.Fprintln(stderr, finding.Clean(err.Error()))
		return report.ExitUndecided
	}
	return report.ExitClean
}

// question is a Question as it is written.
type question struct {
	Ref      []byte
	Old, New string
	Exclude  []string
	Now      time.Time
	All      bool
	Trusted  string

	Bundles []policy.Bundle
	Levels  map[string]finding.Severity
	Allow   []string
	Signers []byte   // the file; nil where no bundle needs one, or it cannot be used
	Revoked [][]byte // the revocation files, which can be used
}

// marshal returns the question as bytes. unusable is why there are no signers, where a
// bundle may need them.
func (q Question) marshal() (data []byte, unusable, err error) {
	r, p := q.Range, q.Range.Policy
	w := question{
		Ref: []byte(r.Ref), Old: r.Old, New: r.New, Exclude: r.Exclude, Now: q.Now, All: q.All, Trusted: q.Trusted,
		Bundles: p.Bundles, Levels: p.Levels, Allow: p.Allow,
	}
	for _, b := range p.Bundles {
		if b.Signer != "" && b.Format != "rye" {
			if _, _, unusable = r.Trust.Signers(); unusable == nil {
				var revoked []policy.RevocationFile
				w.Signers, revoked, unusable = r.Trust.Files()
				for _, f := range revoked {
					w.Revoked = append(w.Revoked, f.Data)
				}
			}
			break
		}
	}
	data, err = json.Marshal(w)
	return data, unusable, err
}

// errSigners says that signers are needed, of which only who asks can say why there are
// none.
var errSigners = errors.New("the signers cannot be used")

func (w question) read() Question {
	p := policy.Default()
	p.Bundles, p.Levels, p.Allow = w.Bundles, w.Levels, w.Allow
	return Question{
		Range: rules.Range{
			Ref: string(w.Ref), Old: w.Old, New: w.New, Exclude: w.Exclude, Policy: p,
			Trust: policy.NewTrust("", func() (signers []byte, revoked []policy.RevocationFile, err error) {
				if w.Signers == nil {
					return nil, nil, errSigners
				}
				for _, data := range w.Revoked {
					revoked = append(revoked, policy.RevocationFile{Data: data})
				}
				return w.Signers, revoked, nil
			}),
		},
		Now: w.Now, All: w.All, Trusted: w.Trusted,
	}
}

// answer is an Answer as it is written: in each string of what was found, every byte is
// a code point, since paths may have any bytes and JSON takes UTF-8 only.
type answer struct {
	Found   Answer
	Signers bool   // the signers were needed, and could not be used
	Problem string // why no decision was possible, "" if one was
	Hint    string
}

func (a Answer) marshal(problem error) ([]byte, error) {
	w := answer{Found: a, Signers: errors.Is(problem, errSigners)}
	if problem != nil {
		w.Problem, w.Hint = finding.Clean(problem.Error()), policy.HintOf(problem)
	}
	each(reflect.ValueOf(&w.Found), func(s string) string {
		points := make([]rune, len(s))
		for i := range len(s) {
			points[i] = rune(s[i])
		}
		return string(points)
	})
	return json.Marshal(w)
}

// parse reads an answer: exactly the bytes that marshal writes, with findings of rules, at
// levels that count. Anything else was not written by who was asked, or not to its end, and
// must not be taken for one in which nothing was found.
func parse(data []byte) (w answer, err error) {
	if len(data) > MaxAnswer {
		return w, fmt.Errorf("an answer of more than %d bytes", MaxAnswer)
	}
	if err := decode(data, &w); err != nil {
		return w, err
	}
	if same, err := json.Marshal(w); err != nil || !bytes.Equal(same, data) {
		return w, errors.New("an answer in another form than is written")
	}
	bytewise := true
	each(reflect.ValueOf(&w.Found), func(s string) string {
		bytewise = bytewise && !strings.ContainsFunc(s, func(r rune) bool { return r > 0xFF })
		return s
	})
	if !bytewise {
		return w, errors.New("an answer with a character that is no byte")
	}
	for _, f := range w.Found.Findings {
		if f.Rule == "" || f.Severity != finding.Warning && f.Severity != finding.Error {
			return w, errors.New("an answer with a finding without a rule or a level")
		}
	}
	return w, nil
}

func (w answer) read(unusable error) (Answer, error) {
	each(reflect.ValueOf(&w.Found), func(s string) string {
		var b strings.Builder
		for _, r := range s {
			b.WriteByte(byte(r))
		}
		return b.String()
	})
	switch {
	case w.Signers && unusable != nil:
		return w.Found, unusable
	case w.Problem != "" || w.Signers:
		return w.Found, &policy.Undecided{Message: w.Problem, Hint: w.Hint}
	}
	return w.Found, nil
}

// each puts fn's result in the place of every string that v leads to.
func each(v reflect.Value, fn func(string) string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(fn(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			each(v.Elem(), fn)
		}
	case reflect.Slice:
		for i := range v.Len() {
			each(v.Index(i), fn)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			each(v.Field(i), fn)
		}
	}
}

// decode reads what one program has written for the other: nothing that it does not know,
// and nothing behind it.
func decode(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is more than one value")
	}
	return nil
}
