package hooks

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rigward/rigward/internal/change"
	"github.com/rigward/rigward/internal/outbox"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// A pushLog tells the outbox of a server what became of a push
// (docs/spec/controlplane.md#pushes). Nothing here changes how the push ends, and
// nothing waits for longer than rigward.pushLogWait says (5 ms).
type pushLog struct {
	mu       sync.Mutex // a gate whose time is up may still be at work
	began    time.Time
	env      *Env
	dir      string        // "": no control plane is configured
	wait     time.Duration // for the disk
	bad      error         // of its configuration
	base     outbox.Record
	writing  chan error // of the record of receipt, while it is written
	received bool
}

// Bounds of what a record tells; the length of a record is another one.
const (
	maxLoggedRefs   = 100
	maxLoggedPlaces = 20
	maxLoggedText   = 300
)

// Outbox returns where the hooks of a repository tell of pushes, "" where no
// control plane is configured.
func Outbox(repo *gitrepo.Repo) (string, error) {
	database, _, err := repo.ConfigLast("rigward.controlPlane")
	if err != nil || database == "" {
		return "", err
	}
	return outbox.Dir(repo.CommonDir()), nil
}

// open finds the outbox of a repository. Without a configuration that can be
// read nothing is told: the gate itself says so.
func (l *pushLog) open(repo *gitrepo.Repo, hook string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	dir, err := Outbox(repo)
	if err != nil || dir == "" {
		return
	}
	l.wait = outbox.Wait
	if text, set, err := repo.ConfigLast("rigward.pushLogWait"); err == nil && set {
		if own, err := time.ParseDuration(text); err == nil && own > 0 {
			l.wait = own
		} else {
			l.bad = fmt.Errorf("rigward.pushLogWait is %s, expected a duration such as 5ms", finding.QuoteMax(text, 40))
		}
	}
	l.dir, l.base = dir, outbox.Record{Hook: hook, Push: outbox.NewID()}
	if personal, set, err := repo.ConfigBool("rigward.pushLogPersonal"); err == nil && (personal || !set) {
		l.base.Who = map[string]string{}
		for _, key := range outbox.WhoKeys {
			if v := l.env.Getenv(key); v != "" {
				l.base.Who[key] = clip(v)
			}
		}
	}
}

// place is the outbox, "" where there is none.
func (l *pushLog) place() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dir
}

// clip makes a text one that a record holds.
func clip(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) > maxLoggedText {
		s = strings.ToValidUTF8(s[:maxLoggedText], "") + "\u2026"
	}
	return s
}

// record begins a record of a stage.
func (l *pushLog) record(stage string) outbox.Record {
	r := l.base
	r.ID, r.Stage, r.At = outbox.NewID(), stage, l.env.Now().UTC().Format(outbox.Time)
	return r
}

// refs puts ref updates into a record.
func refs(r *outbox.Record, updates []change.RefUpdate) {
	for i, u := range updates {
		if i == maxLoggedRefs {
			r.MoreRefs = len(updates) - i
			break
		}
		r.Refs = append(r.Refs, outbox.Ref{Name: clip(u.Ref), Old: u.Old, New: u.New})
	}
}

// moves reports whether a record tells of all these ref updates, or of as many
// as it could.
func moves(r *outbox.Record, updates []outbox.Ref) bool {
	all := map[outbox.Ref]bool{}
	for _, ref := range r.Refs {
		all[ref] = true
	}
	for _, u := range updates {
		if !all[u] && r.MoreRefs == 0 {
			return false
		}
	}
	return len(updates) > 0 && len(all) > 0
}

// accepted finds the push, among those told of lately, that pre-receive let
// through with these ref updates.
func (l *pushLog) accepted(updates []outbox.Ref) (push string, ok bool) {
	latest := outbox.Latest(l.dir)
	var passed outbox.Record
	landed := map[string]bool{}
	for i := range latest {
		switch r := &latest[i]; {
		case r.Stage == outbox.Landed:
			landed[r.Push] = true
		case r.Stage == outbox.Received && r.Hook == "pre-receive" && moves(r, updates):
			passed = *r
		}
	}
	if passed.Push == "" || landed[passed.Push] {
		return "", false
	}
	for _, r := range latest {
		if r.Push == passed.Push && r.Stage == outbox.Judged {
			return r.Push, r.Exit == report.ExitClean
		}
	}
	return "", false
}

// receive tells what a gate is to judge. It does not wait for the disk.
func (l *pushLog) receive(updates []change.RefUpdate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dir == "" || l.received {
		return
	}
	l.received = true
	r := l.record(outbox.Received)
	refs(&r, updates)
	l.base.Refs, l.base.MoreRefs = r.Refs, r.MoreRefs
	if r.Hook == "update" {
		// pre-receive has told of this push already: only a refusal is news.
		if push, ok := l.accepted(r.Refs); ok {
			l.base.Push = push
			return
		}
	}
	l.writing = make(chan error, 1)
	go func() { l.writing <- outbox.Append(l.dir, r, l.wait) }()
}

// judged tells to what end a gate came.
func (l *pushLog) judged(code int, rep *report.Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dir == "" || l.base.Hook == "update" && l.writing == nil && l.received && code == report.ExitClean {
		return
	}
	r := l.record(outbox.Judged)
	r.Exit, r.Commits = code, rep.Commits
	if l.writing != nil {
		r.Refs, r.MoreRefs, r.Who = nil, 0, nil // told with the receipt
		<-l.writing                             // which had the time of the judgement
	}
	if rep.Problem != nil {
		r.Problem = clip(finding.Clean(rep.Problem.Error()))
	}
	fails := rep.Fail
	if fails == finding.Off {
		fails = finding.Error
	}
	for _, f := range rep.Findings {
		switch {
		case f.Severity < fails:
		case len(r.Places) == maxLoggedPlaces:
			r.More++
		default:
			r.Places = append(r.Places, outbox.Place{Rule: f.Rule, Commit: f.Commit, Path: clip(f.Path), Line: f.Line, Col: f.Col, Message: clip(finding.Clean(f.Message))})
		}
	}
	for _, s := range []finding.Severity{finding.Warning, finding.Error} {
		if s >= fails {
			r.More += rep.More.Of(s)
		}
	}
	r.Millis = float64(l.env.Now().Sub(l.began).Microseconds()) / 1000
	_ = outbox.Append(l.dir, r, l.wait) // a push is not refused for it
}

// landed tells which refs have moved.
func (l *pushLog) landed(updates []change.RefUpdate) error {
	r := l.record(outbox.Landed)
	refs(&r, updates)
	if push, ok := l.accepted(r.Refs); ok {
		r.Push, r.Who = push, nil
	}
	return outbox.Append(l.dir, r, l.wait)
}

// openLog is open for a hook that has no repository yet.
func openLog(ctx context.Context, env *Env, hook string) (*pushLog, error) {
	repo, err := gitrepo.OpenIdle(ctx, gitrepo.Env{Environ: env.Environ, Dir: env.Dir})
	if err != nil {
		return nil, err
	}
	defer repo.Close()
	if dir, err := Outbox(repo); err != nil || dir == "" {
		return nil, err
	}
	l := &pushLog{env: env, began: env.Now()}
	l.open(repo, hook)
	return l, nil
}

// Configure runs git config with these words in the repository's own
// configuration.
func Configure(ctx context.Context, r *gitrepo.Repo, words ...string) error {
	run := gitrepo.Runner{Env: r.Env().Foreign(r.GitDir())}
	res, err := run.Run(ctx, gitrepo.Command{Args: append([]string{"config"}, words...)})
	if err == nil && res.Code != 0 {
		err = &policy.Undecided{Message: "git config " + strings.Join(words, " ") + " failed: " + finding.QuoteMax(strings.TrimSpace(string(res.Stderr)), 200)}
	}
	return err
}
