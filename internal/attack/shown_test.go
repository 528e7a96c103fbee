package attack

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/bridge"
	"github.com/rigward/rigward/internal/controlplane"
	"github.com/rigward/rigward/internal/test/gittest"
	kept "github.com/rigward/rigward/internal/verdict"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// shown brings a push to main into a clone and into a control plane though no gate was
// asked, and compares what readers say of it with what pre-receive does: they refuse what
// it refuses, by its rules, and nothing that it takes.
func (p *player) shown(dir string, u mupdate, a told, count gateTally) (wrong []string) {
	r := p.book.trust()
	before := p.book.history(u.old)
	news := map[string]bool{}
	for id := range p.book.history(u.new) {
		if before[id] {
			continue
		}
		c := p.book.commit(id)
		if c == nil {
			return nil // nothing is decided behind what git cannot parse
		}
		news[id] = true
		for i := range c.parents {
			if p.book.moves(r, c, i) {
				return nil // readers do not know pushes (docs/spec/policy.md#of-the-push)
			}
		}
	}
	count[fmt.Sprintf("readers: exit %d", a.code)]++
	var told []hit
	for _, h := range a.hits {
		if p.plain(h) {
			continue
		}
		if h.Severity == "error" && news[h.Commit] && !slices.Contains(onlyGates, h.Rule) && (h.Rule != "relay-nonce" || !r.p.nonceRefs) {
			told = append(told, h)
		}
	}
	for _, ref := range []string{"heads", "remotes/origin"} {
		write(p.t, filepath.Join(dir, ".git/refs", ref, "main"), u.new+"\n")
	}
	// Nothing is put into the work tree: it has names that no disk takes.
	git := &gittest.Repo{T: p.t, Dir: dir, Home: p.home, Env: p.env, Now: p.now}
	write(p.t, filepath.Join(dir, ".git/info/sparse-checkout"), "/none\n")
	config, err := os.OpenFile(filepath.Join(dir, ".git/config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	fmt.Fprint(config, "[core]\n\tsparseCheckout = true\n")
	config.Close()
	os.Remove(filepath.Join(dir, ".git/index"))
	inIndex := git.Try(nil, "read-tree", "-m", "-u", u.new).Code == 0

	ctx := context.Background()
	repo, err := gitrepo.Open(ctx, gitrepo.Env{Environ: p.env, Dir: dir})
	if err != nil {
		return []string{err.Error()}
	}
	defer repo.Close()
	now := time.Unix(p.now, 0)
	book, err := kept.Open(ctx, kept.Options{Repo: repo, Loader: hooks.NewLoader(repo), Now: now}, kept.View{Accepted: u.new, Head: u.new})
	if err != nil {
		return []string{"readers: " + err.Error()}
	}
	if why, _ := book.Behind(); why != "" {
		if a.code == 2 {
			return nil
		}
		return []string{"readers cannot decide: " + why}
	}
	for _, h := range told {
		e, there := p.book.files(h.Commit)[h.Path]
		if r.p.thread(h.Path) == "" || h.Rule == "outside-thread" { // no message
			continue
		}
		if there && e == p.book.files(u.old)[h.Path] { // the commit is refused, and what it has is the accepted message
			continue
		}
		thread, name := book.Thread(path.Dir(h.Path)), path.Base(h.Path)
		v, ok := thread.Latest(name)
		if there {
			v = thread.Of(name, e.id)
			ok = v.State == kept.Refused
		}
		if !ok || v.Commit == h.Commit && !slices.Contains(v.Rules, h.Rule) {
			wrong = append(wrong, fmt.Sprintf("readers do not refuse: %s; they say %s %q", h, v.State, v.Rules))
		}
	}
	byThread := map[string][]string{} // what the push brings and is there
	for _, q := range changes(p.book.files(u.old), p.book.files(u.new)) {
		if dir := r.p.thread(q); dir != "" {
			byThread[dir] = append(byThread[dir], q)
			if v := book.Thread(path.Dir(q)).Of(path.Base(q), p.trees[u.new][q].id); v.State == kept.Refused && !slices.ContainsFunc(told, func(h hit) bool { return h.Path == q || h.Commit == v.Commit }) {
				wrong = append(wrong, fmt.Sprintf("readers alone refuse %s: %q", q, v.Rules))
			}
		}
	}
	wrong = append(wrong, p.queried(ctx, repo, u, news, told)...)
	if r.p.root == "" && inIndex {
		for _, thread := range sorted(byThread) {
			wrong = append(wrong, p.listed(dir, thread, byThread[thread], told, book, u)...)
		}
	}
	return wrong
}

// plain reports whether a finding is about a file without a fence that was none of a thread
// when it came: of a push it is judged once the thread is there, of a history it is not.
func (p *player) plain(h hit) bool {
	files := p.book.files(h.Commit)
	e, ok := files[h.Path]
	if !ok || h.Rule != "envelope-parse" || p.book.whole(e.id).fenced {
		return false
	}
	return !slices.ContainsFunc(files.sortedIn(path.Dir(h.Path)), func(q string) bool { return p.book.whole(files[q].id).fenced })
}

// queried lets a control plane index what the push brings: `query refused` lists what is
// refused, and no more.
func (p *player) queried(ctx context.Context, repo *gitrepo.Repo, u mupdate, news map[string]bool, told []hit) (wrong []string) {
	file := filepath.Join(p.home, "control.db")
	for _, more := range []string{"", "-wal", "-shm"} {
		os.Remove(file + more)
	}
	target, err := controlplane.ParseTarget("sqlite:"+file, p.home)
	if err != nil {
		return []string{err.Error()}
	}
	db, err := controlplane.Open(ctx, target, true)
	if err != nil {
		return []string{err.Error()}
	}
	defer db.Close()
	l := hooks.NewLoader(repo)
	x := &controlplane.Indexer{DB: db, Repo: repo, Name: "it", At: l.At, Accepted: l.Accepted, Main: "refs/heads/main", Now: func() time.Time { return time.Unix(p.now, 0) },
		Refs: func(context.Context, []string) (map[string]string, error) {
			return map[string]string{"refs/heads/main": u.new}, nil
		}}
	if _, err := x.Update(ctx); err != nil {
		return []string{"the control plane: " + err.Error()}
	}
	q, _ := controlplane.Question("refused")
	found, err := db.Ask(ctx, q, controlplane.Parameters{Repos: []string{"it"}, Now: time.Unix(p.now, 0)})
	if err != nil {
		return []string{"query refused: " + err.Error()}
	}
	at := func(name string) int { return slices.Index(q.Columns, name) }
	type place struct{ commit, path string }
	rows := map[place]string{}
	for _, row := range found.Rows {
		rows[place{fmt.Sprint(row[at("commit_sha")]), fmt.Sprint(row[at("path")])}] = fmt.Sprint(row[at("rules")])
	}
	for _, h := range told {
		rules, ok := rows[place{h.Commit, h.Path}]
		if !ok && h.Path == "" { // of a commit that brings paths it is told of each
			for at, more := range rows {
				if at.commit == h.Commit {
					rules += " " + more
				}
			}
		}
		if !strings.Contains(rules, h.Rule) {
			wrong = append(wrong, fmt.Sprintf("query refused does not list: %s; it has %q", h, rows))
		}
	}
	for at, rules := range rows {
		if news[at.commit] && !slices.ContainsFunc(told, func(h hit) bool { return h.Commit == at.commit }) {
			wrong = append(wrong, fmt.Sprintf("query refused alone lists %q by %s", at, rules))
		}
	}
	return wrong
}

// listed lets rig-bridge and the tools of agents list a thread.
func (p *player) listed(dir, thread string, paths []string, told []hit, book *kept.Book, u mupdate) (wrong []string) {
	type message struct {
		File    string
		Verdict struct {
			State string
			Rules []string
		}
	}
	var answers []string
	for _, tool := range []bool{false, true} {
		var out, errs bytes.Buffer
		code := bridge.Main(context.Background(), bridge.Env{Args: []string{"thread", thread, "--json"}, Stdout: &out, Stderr: &errs, Environ: p.env, Dir: dir,
			Now: func() time.Time { return time.Unix(p.now, 0) }, Rand: rand.Reader, Tool: tool})
		answers = append(answers, out.String())
		var th struct{ Envelopes, Refused []message }
		if err := json.Unmarshal(out.Bytes(), &th); err != nil || code != 0 {
			if slices.ContainsFunc(p.book.files(u.new).sortedIn(thread), func(q string) bool { return regular(p.trees[u.new][q]) && p.book.whole(p.trees[u.new][q].id).fenced }) {
				wrong = append(wrong, fmt.Sprintf("thread %s: exit %d %s%s", thread, code, out.String(), errs.String()))
			}
			continue
		}
		for _, q := range paths {
			name, id := path.Base(q), p.trees[u.new][q].id
			v := book.Thread(thread).Of(name, id)
			said := func(m message) bool { return m.File == name }
			if among := slices.IndexFunc(th.Envelopes, said); among >= 0 && v.State == kept.Refused && kept.Apart(v.Rules, v.Relay) && v.Word == "" {
				wrong = append(wrong, fmt.Sprintf("thread %s shows %s among what was said: %q", thread, name, v.Rules))
			}
			if among := slices.IndexFunc(th.Refused, said); among >= 0 && v.State != kept.Refused && id != "" {
				wrong = append(wrong, fmt.Sprintf("thread %s shows %s apart, by %q; the book says %s", thread, name, th.Refused[among].Verdict.Rules, v.State))
			}
		}
	}
	if answers[0] != answers[1] && !strings.Contains(answers[0], `"error":`) {
		wrong = append(wrong, fmt.Sprintf("thread %s: %s\nas a tool: %s", thread, answers[0], answers[1]))
	}
	return wrong
}

// sortedIn lists the paths of a tree in a directory.
func (t mtree) sortedIn(dir string) []string {
	return slices.DeleteFunc(sorted(t), func(q string) bool { return path.Dir(q) != dir })
}
