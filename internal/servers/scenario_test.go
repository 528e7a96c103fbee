//go:build linux

package servers

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/envelope"
)

// A site is a guarded repository and the address under which clients reach it.
type site struct {
	*testing.T
	repo *gittest.Repo // the bare one
	url  string
	env  []string // what clients need besides: how ssh is to be called
}

// turn is an envelope; with a kind that does not exist it is a bad one.
func turn(thread, kind, body string) string {
	text, err := envelope.Render(envelope.Fields{
		From: "rig-a", To: []string{"rig-z"}, Date: "2026-01-05", Status: "▶ Going on", Type: "STATE", Thread: thread,
		Body: []byte(body), BodyHash: envelope.BodyHash(envelope.NormalizeBody([]byte(body))),
	})
	if err != nil {
		panic(err)
	}
	return strings.Replace(string(text), "type: STATE", "type: "+kind, 1)
}

// client is a repository of someone who pushes to the site.
func (s *site) client() *gittest.Repo {
	s.Helper()
	r := gittest.New(s, gittest.Options{})
	r.Env = append(r.Env, s.env...)
	r.Run("remote", "add", "origin", s.url)
	return r
}

// tip returns what a branch of the server points to, "" if it is not there.
func (s *site) tip(branch string) string {
	s.Helper()
	return strings.TrimSpace(s.repo.Try(nil, "rev-parse", "-q", "--verify", "refs/heads/"+branch).Stdout)
}

func (s *site) accepted(res gittest.Result, branch, commit string) {
	s.Helper()
	if res.Code != 0 || s.tip(branch) != commit {
		s.Fatalf("exit %d, %s is %q, expected %s\n%s", res.Code, branch, s.tip(branch), commit, res.Stderr)
	}
}

// refused checks that the client got one readable refusal, and that the branch
// is where it was.
func (s *site) refused(res gittest.Result, branch, before string, says ...string) {
	s.Helper()
	if res.Code == 0 || s.tip(branch) != before {
		s.Fatalf("exit %d, %s is %q, expected %q\n%s", res.Code, branch, s.tip(branch), before, res.Stderr)
	}
	text := said(res)
	for _, want := range append(says, "push refused") {
		if !strings.Contains(text, want) {
			s.Fatalf("nothing says %q:\n%s", want, res.Stderr)
		}
	}
}

var remotePrefix = regexp.MustCompile(`(?m)^remote: ?(GL-HOOK-ERR: )?`)

// said is what the server said, as one line.
func said(res gittest.Result) string {
	return strings.Join(strings.Fields(remotePrefix.ReplaceAllString(res.Stderr, " ")), " ")
}

// scenario is what every server must do. The site's repository is empty and
// takes a first push.
func (s *site) scenario() {
	s.Helper()
	c := s.client()
	first := c.Commit("Ask", map[string]string{
		"release-check/REQUEST.md": turn("release-check", "STATE", "Is it ready?\n"),
		".bridge/policy.yaml":      "version: 1\nprotect: ['**']\n",
		"README.md":                "# Nobody's business\n",
	})
	s.accepted(c.Push("origin", "main"), "main", first)
	s.repo.Run("config", "--unset-all", "rigward.bootstrap")
	s.pushes(c, first)
}

// pushes is the scenario after the first push, which brought main and the
// policy that protects every branch.
func (s *site) pushes(c *gittest.Repo, main string) {
	s.Helper()
	bad := map[string]string{"release-check/B.md": turn("release-check", "ORDER", "b\n")}

	// A good push, a bad one, and a good one after it.
	good := c.Commit("Good", map[string]string{"release-check/S1.md": turn("release-check", "STATE", "1\n")})
	s.accepted(c.Push("origin", "main"), "main", good)
	c.Commit("Bad", bad)
	s.refused(c.Push("origin", "main"), "main", good, "release-check/B.md:6:7: error [envelope-schema] type is \"ORDER\", expected one of")
	c.Run("reset", "-q", "--hard", good)
	next := c.Commit("Good", map[string]string{"release-check/S2.md": turn("release-check", "STATE", "2\n")})
	s.accepted(c.Push("origin", "main"), "main", next)

	// Two at once, of which one is bad; then two good ones for one branch, of
	// which git takes one.
	one, two := s.client(), s.client()
	for _, r := range []*gittest.Repo{one, two} {
		r.Run("fetch", "-q", "origin", "main")
		r.Run("reset", "-q", "--hard", "FETCH_HEAD")
	}
	a := one.Commit("A", map[string]string{"release-check/A.md": turn("release-check", "STATE", "a\n")})
	two.Commit("B", bad)
	resA, resB := together(func() gittest.Result { return one.Push("origin", "main:a") }, func() gittest.Result { return two.Push("origin", "main:b") })
	s.accepted(resA, "a", a)
	s.refused(resB, "b", "", "[envelope-schema]")
	two.Run("reset", "-q", "--hard", next)
	b := two.Commit("B", map[string]string{"release-check/B.md": turn("release-check", "STATE", "b\n")})
	resA, resB = together(func() gittest.Result { return one.Push("origin", "main") }, func() gittest.Result { return two.Push("origin", "main") })
	switch now := s.tip("main"); {
	case now == a && resA.Code == 0 && resB.Code != 0, now == b && resB.Code == 0 && resA.Code != 0:
	default:
		s.Fatalf("main is %s, exits %d and %d\n%s%s", now, resA.Code, resB.Code, resA.Stderr, resB.Stderr)
	}

	// Many commits at once: judged within the time, or refused with the way out.
	many := thousands(s.T, c, next)
	before := time.Now()
	res := many.Push(s.url, "bulk")
	took := time.Since(before)
	if res.Code == 0 {
		s.accepted(res, "bulk", many.Run("rev-parse", "bulk"))
		s.Logf("%d commits accepted in %s", bulk, took.Round(10*time.Millisecond))
		return
	}
	s.refused(res, "bulk", "", "cannot decide", fmt.Sprintf("of %d commits checked in", bulk), "hint: push in smaller parts")
	s.Logf("%d commits: %s", bulk, said(res))
	part := many.Run("rev-parse", "bulk~4900")
	s.accepted(many.Push(s.url, part+":refs/heads/part"), "part", part)
}

func together(a, b func() gittest.Result) (resA, resB gittest.Result) {
	var wg sync.WaitGroup
	wg.Go(func() { resA = a() })
	wg.Go(func() { resB = b() })
	wg.Wait()
	return resA, resB
}

// bulk is how many commits a big push brings.
const bulk = 5000

// thousands returns a repository with two branches on top of what pushes has
// put on main: bulk, with bulk good commits; and worse, which leaves it near its
// end and has one bad commit in between. Sites of the same main share it.
func thousands(t *testing.T, c *gittest.Repo, base string) *gittest.Repo {
	t.Helper()
	making.Lock()
	defer making.Unlock()
	dir := filepath.Join(bin, "big-"+base[:12])
	r := &gittest.Repo{T: t, Dir: dir, Home: c.Home, Env: c.Env}
	if _, err := os.Stat(dir); err == nil {
		return r
	}
	c.Run("init", "-q", "--bare", dir)
	r.Run("fetch", "-q", c.Run("remote", "get-url", "origin"), "main")
	var in bytes.Buffer
	commit := func(branch string, i int, kind, from string) {
		thread := fmt.Sprintf("bulk-%d", i%50)
		text := turn(thread, kind, fmt.Sprintln(i))
		fmt.Fprintf(&in, "commit refs/heads/%s\nmark :%d\ncommitter %s <%s> %d +0000\ndata 1\nx\n", branch, i+1, gittest.Name, gittest.Email, gittest.Epoch+3600+i)
		if from != "" {
			fmt.Fprintf(&in, "from %s\n", from)
		}
		fmt.Fprintf(&in, "M 100644 inline %s/S%d.md\ndata %d\n%s\n", thread, i, len(text), text)
	}
	commit("bulk", 0, "STATE", base)
	for i := 1; i < bulk; i++ {
		commit("bulk", i, "STATE", "")
	}
	commit("worse", bulk+17, "ORDER", fmt.Sprint(":", bulk-100))
	for i := bulk + 18; i < bulk+50; i++ {
		commit("worse", i, "STATE", "")
	}
	// No deltas: looking for them takes longer than the rest.
	r.RunIn(in.Bytes(), "fast-import", "--quiet", "--depth=0")
	return r
}

var making sync.Mutex

// snapshot lists the files below a directory with their contents.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %s", info.Mode(), path)
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %q", data)
		}
		b.WriteString("\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
