package hooks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
)

// TestThreads: what a range adds to a thread, and whom it answers, names and
// diverges from, in one line for each turn.
func TestThreads(t *testing.T) {
	t.Parallel()
	everyFormat(t, "Threads", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		c := w.clone
		ask := c.Ref("HEAD")
		// The upstream goes on while a branch answers the same request.
		c.Run("checkout", "-q", "-b", "upstream")
		c.Commit("Meanwhile", map[string]string{"release-check/STATE-other.md": turnBy("rig-o", "release-check", "STATE", "Meanwhile.\n", "")})
		upstream := c.Ref("HEAD")
		c.Run("checkout", "-q", "-b", "left", ask)
		c.Commit("Acknowledge", map[string]string{"release-check/ACK.md": turnBy("rig-b", "release-check", "ACK", "Seen.\n", hashOf("Is the release ready?\n"))})
		ack := c.Ref("HEAD")
		c.Run("checkout", "-q", "-b", "right", ask)
		c.Commit("Answer", map[string]string{"release-check/RESPONSE.md": reference(turnBy("rig-c", "release-check", "RESPONSE", "Yes.\n", ""), ask), "other/STATE.md": turn("other", "STATE", "On.\n"), "other/notes.txt": "no envelope", "other/README.md": "no envelope\n"})
		c.Run("checkout", "-q", "-B", "pull", "left")
		c.Run("merge", "-q", "--no-edit", "right")
		c.Commit("Decide", map[string]string{"release-check/DECISIONS.md": reference(turnBy("rig-a-relay", "release-check", "DECISIONS", "Go.\n", hashOf("Yes.\n")), ack[:10])})
		tip := c.Ref("HEAD")

		repo, err := gitrepo.Open(context.Background(), gitrepo.Env{Environ: c.Env, Dir: c.Dir})
		if err != nil {
			t.Fatal(err)
		}
		defer repo.Close()
		threads, notes, err := hooks.Threads(context.Background(), repo, rules.Range{New: tip, Exclude: []string{upstream}, Policy: policy.Default()})
		if err != nil || len(notes) > 0 {
			t.Fatal(err, notes)
		}
		var got []string
		for _, th := range threads {
			for _, u := range th.Turns {
				got = append(got, fmt.Sprintf("%s: new=%v relay=%v answers=%v names=%v diverges=%v", u.Path, u.New, u.Relay, u.Answers, u.Names, u.Diverges))
			}
		}
		slices.Sort(got)
		want := []string{
			"other/STATE.md: new=true relay=false answers=[] names=[] diverges=[]",
			"release-check/ACK.md: new=true relay=false answers=[release-check/REQUEST.md] names=[] diverges=[release-check/STATE-other.md release-check/RESPONSE.md]",
			"release-check/DECISIONS.md: new=true relay=true answers=[release-check/RESPONSE.md] names=[release-check/ACK.md] diverges=[release-check/STATE-other.md]",
			"release-check/REQUEST.md: new=false relay=false answers=[] names=[] diverges=[]",
			"release-check/RESPONSE.md: new=true relay=false answers=[] names=[release-check/REQUEST.md] diverges=[release-check/ACK.md release-check/STATE-other.md]",
			"release-check/STATE-other.md: new=false relay=false answers=[] names=[] diverges=[release-check/ACK.md release-check/RESPONSE.md release-check/DECISIONS.md]",
		}
		for i := range got { // which of two sides git walks first is its own affair
			got[i], want[i] = sortedLists(got[i]), sortedLists(want[i])
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}

		// Through check: every format in a file, one exit code. The relay is
		// left out, since nobody's key is known here.
		args := []string{"check", upstream + ".." + tip + "~1", "--format", "json"}
		for _, f := range report.Formats() {
			args = append(args, "--report", f+"="+filepath.Join(c.Home, "report."+f))
		}
		res := rig(c, c.Dir, "", args...)
		var told struct {
			Exit    int
			Threads []report.Thread
		}
		if err := json.Unmarshal([]byte(res.Stdout), &told); err != nil || told.Exit != res.Code || len(told.Threads) != 2 {
			t.Fatal(err, res)
		}
		for f, says := range map[string]string{"markdown": "-->|answers|", "html": "diverges from", "sarif": `"version":"2.1.0"`, "junit": "<testsuite ", "codequality": `"check_name":"divergence"`, "text": "check: "} {
			data, err := os.ReadFile(filepath.Join(c.Home, "report."+f))
			if err != nil || !strings.Contains(string(data), says) {
				t.Errorf("%s: %v, %q", f, err, data)
			}
		}
	})
}

// TestThreadsAreBounded: a range that adds to more threads than are drawn.
func TestThreadsAreBounded(t *testing.T) {
	w := newWorld(t, gittest.Options{})
	files := map[string]string{}
	for i := range 60 {
		name := fmt.Sprintf("thread-%02d", i)
		files[name+"/STATE.md"] = turn(name, "STATE", "On.\n")
	}
	for i := range 210 {
		files[fmt.Sprintf("long/STATE-%03d.md", i)] = turn("long", "STATE", fmt.Sprintf("On %d.\n", i))
	}
	base := w.clone.Ref("HEAD")
	w.clone.Commit("Many", files)
	repo, err := gitrepo.Open(context.Background(), gitrepo.Env{Environ: w.clone.Env, Dir: w.clone.Dir})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	threads, notes, err := hooks.Threads(context.Background(), repo, rules.Range{New: w.clone.Ref("HEAD"), Exclude: []string{base}, Policy: policy.Default()})
	if err != nil || len(threads) != 50 || len(notes) != 1 || !strings.HasPrefix(notes[0], "11 further threads") {
		t.Fatal(len(threads), notes, err)
	}
	if long := threads[0]; long.ID != "long" || len(long.Turns) != 200 || long.Cut != 10 {
		t.Errorf("%s: %d turns, %d cut", long.ID, len(long.Turns), long.Cut)
	}
}

// TestDivergenceIsBounded: two sides of 40 turns that do not know each other
// are 1600 pairs, of which 1000 are told.
func TestDivergenceIsBounded(t *testing.T) {
	w := newWorld(t, gittest.Options{})
	base := w.clone.Ref("HEAD")
	side := func(name string) string {
		w.clone.Run("checkout", "-q", "-B", name, base)
		files := map[string]string{}
		for i := range 40 {
			files[fmt.Sprintf("long/STATE-%s-%d.md", name, i)] = turn("long", "STATE", fmt.Sprintf("On %s %d.\n", name, i))
		}
		return w.clone.Commit(name, files)
	}
	side("left")
	side("right")
	w.clone.Run("merge", "-q", "--no-edit", "left")
	repo, err := gitrepo.Open(context.Background(), gitrepo.Env{Environ: w.clone.Env, Dir: w.clone.Dir})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	threads, _, err := hooks.Threads(context.Background(), repo, rules.Range{New: w.clone.Ref("HEAD"), Exclude: []string{base}, Policy: policy.Default()})
	if err != nil || len(threads) != 1 {
		t.Fatal(len(threads), err)
	}
	told := 0
	for _, u := range threads[0].Turns {
		told += len(u.Diverges)
	}
	if told != 2*1000 || threads[0].Untold != 600 {
		t.Errorf("%d told of both sides, %d pairs untold", told, threads[0].Untold)
	}
}

// reference adds a commit to an envelope's references.
func reference(text, commit string) string {
	return strings.Replace(text, "\ntype: ", "\nreferences: [\""+commit+"\"]\ntype: ", 1)
}

func sortedLists(line string) string {
	parts := strings.Split(line, "=")
	for i, p := range parts {
		if list, ok := strings.CutPrefix(p, "["); ok {
			list, rest, _ := strings.Cut(list, "]")
			words := strings.Fields(list)
			slices.Sort(words)
			parts[i] = "[" + strings.Join(words, " ") + "]" + rest
		}
	}
	return strings.Join(parts, "=")
}
