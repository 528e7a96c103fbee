package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/bridge"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/console"
	"github.com/rigward/rigward/internal/controlplane"
	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/outbox"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// A status says how far the control plane of a repository is.
type status struct {
	object
	Repo     string            `json:"repo"`
	Database string            `json:"database"`
	AsOf     controlplane.AsOf `json:"as_of"`
	Head     string            `json:"head"`          // the commit of the main ref now
	Behind   int               `json:"behind"`        // commits of its history that are not indexed
	Waiting  int64             `json:"outbox_bytes"`  // that nobody has taken further
	Shipped  int               `json:"records"`       // of pushes, taken further so far
	Torn     int               `json:"torn_records"`  // that a full disk has cut off
	Tried    string            `json:"tried_at"`      // when it was tried last, "" never
	Done     string            `json:"done_at"`       // when nothing was left to do
	Problem  string            `json:"problem"`       // of the last try, or why the database cannot be asked now; "" if there is none
	Checked  string            `json:"checked_at"`    // when the index was last compared with the history
	Wrong    int               `json:"check_differs"` // differences that were found then
}

// status tells how far the control plane is: 1 where it lags behind or a problem
// was met.
func (a *app) status(ctx context.Context, line cli.Line) int {
	ctx, cancel := context.WithTimeout(ctx, 5*hookTime)
	defer cancel()
	p, err := a.open(ctx, asEither)
	if err != nil {
		return a.fail(err)
	}
	defer p.close()
	s, err := a.statusOf(ctx, p)
	if err != nil {
		return a.fail(err)
	}
	out := s.text(a.program)
	switch file := line.Get("--metrics"); {
	case file != "":
		if !filepath.IsAbs(file) {
			file = filepath.Join(a.env.Dir, file)
		}
		if err := files.Swap(file, []byte(metrics([]*status{s}, a.env.Now())), 0o644); err != nil {
			return a.fail(&policy.Undecided{Message: "the file " + finding.Quote(file) + " cannot be written", Cause: err})
		}
		out = ""
	case line.Has("--json"):
		data, err := bridge.Line(s)
		if err != nil {
			return a.fail(err)
		}
		out = string(data) + "\n"
	}
	fmt.Fprint(a.env.Stdout, out)
	if s.Problem != "" || s.Behind > 0 || s.Wrong > 0 {
		return report.ExitFindings
	}
	return report.ExitClean
}

func (a *app) statusOf(ctx context.Context, p *place) (*status, error) {
	s := &status{object: object{"1.0", "status"}, Repo: p.name, Database: p.target.String()}
	box := outbox.Dir(p.repo.CommonDir())
	var state outbox.State
	state.Read(box)
	s.Shipped, s.Torn, s.Tried, s.Done, s.Problem, s.Checked, s.Wrong = state.Shipped, state.Torn, state.Tried, state.Done, state.Problem, state.Checked, state.Wrong
	var err error
	if s.Waiting, err = outbox.Waiting(box, outbox.Shipped(box)); err != nil {
		return nil, err
	}
	if _, s.Head, err = p.repo.HEAD(); err != nil {
		return nil, err
	}
	db, err := controlplane.Open(ctx, p.target, false)
	if err == nil {
		defer db.Close()
		var of map[string]controlplane.AsOf
		of, err = db.AsOf(ctx, []string{p.name})
		s.AsOf = of[p.name]
	}
	if err != nil {
		s.Problem = finding.Clean(err.Error())
		return s, nil
	}
	if s.Head == "" || s.Head == s.AsOf.Commit {
		return s, nil
	}
	var known []string
	if s.AsOf.Commit != "" {
		known = []string{s.AsOf.Commit}
	}
	for _, err := range p.repo.RevList(ctx, []string{s.Head}, known, gitrepo.RevListOptions{Unordered: true}) {
		if errors.Is(err, gitrepo.ErrMissing) {
			s.Problem = "the commit that was indexed last is not in this repository"
			break
		}
		if err != nil {
			return nil, err
		}
		s.Behind++
	}
	return s, nil
}

func (s *status) text(program string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: status repo=%s database=%s as_of=%s at=%s head=%s behind=%d\n", program, bridge.Token(s.Repo), bridge.Token(s.Database),
		bridge.Token(finding.Short(s.AsOf.Commit)), bridge.Token(s.AsOf.At), bridge.Token(finding.Short(s.Head)), s.Behind)
	fmt.Fprintf(&b, "outbox_bytes=%d records=%d torn_records=%d tried_at=%s done_at=%s problem=%s\n", s.Waiting, s.Shipped, s.Torn,
		bridge.Token(s.Tried), bridge.Token(s.Done), bridge.Token(s.Problem))
	fmt.Fprintf(&b, "checked_at=%s check_differs=%d\n", bridge.Token(s.Checked), s.Wrong)
	return b.String()
}

// metrics are those of Prometheus, in its text format: for the textfile collector
// of node_exporter, or over HTTP.
func metrics(all []*status, now time.Time) string {
	moment := func(text string) float64 {
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return 0
		}
		return float64(t.UnixMilli()) / 1000
	}
	var b strings.Builder
	for _, m := range []struct {
		name, help, kind string
		value            func(*status) float64
	}{
		{"commits_behind", "Commits of the main ref that are not indexed.", "gauge", func(s *status) float64 { return float64(s.Behind) }},
		{"outbox_bytes", "Bytes of the outbox that nobody has taken further.", "gauge", func(s *status) float64 { return float64(s.Waiting) }},
		{"records_total", "Records of pushes that were taken further.", "counter", func(s *status) float64 { return float64(s.Shipped) }},
		{"torn_records_total", "Lines of the outbox that held no record.", "counter", func(s *status) float64 { return float64(s.Torn) }},
		{"problem", "1 if the last try met a problem or the database cannot be asked.", "gauge", func(s *status) float64 {
			if s.Problem != "" {
				return 1
			}
			return 0
		}},
		{"done_timestamp_seconds", "When nothing was left to do; 0 never.", "gauge", func(s *status) float64 { return moment(s.Done) }},
		{"checked_timestamp_seconds", "When the index was last compared with the history; 0 never.", "gauge", func(s *status) float64 { return moment(s.Checked) }},
		{"check_differences", "Differences that were found then.", "gauge", func(s *status) float64 { return float64(s.Wrong) }},
		{"status_timestamp_seconds", "When this was written.", "gauge", func(*status) float64 { return float64(now.UnixMilli()) / 1000 }},
	} {
		fmt.Fprintf(&b, "# HELP rigward_%[1]s %[2]s\n# TYPE rigward_%[1]s %[3]s\n", m.name, m.help, m.kind)
		for _, s := range all {
			fmt.Fprintf(&b, "rigward_%s{repo=%s} %s\n", m.name, console.Label(s.Repo), strconv.FormatFloat(m.value(s), 'f', -1, 64))
		}
	}
	return b.String()
}
