package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/outputschema"
	"github.com/rigward/rigward/pkg/envelope"
)

// conforms holds every line of an output against the published schema.
func conforms(t *testing.T, out string) {
	t.Helper()
	s, err := outputschema.Strict()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out) {
		var v any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// two are two servers that share an SQLite file.
func two(t *testing.T) (one, oneClone, other *gittest.Repo) {
	t.Helper()
	file := "sqlite:" + filepath.ToSlash(filepath.Join(t.TempDir(), "shared.db"))
	one, oneClone = server(t, "one", file)
	other, _ = server(t, "other", file)
	must(t, one, "index")
	must(t, other, "index")
	return one, oneClone, other
}

// TestQuerySeveral asks about one, some and all repositories of a database, page by
// page, as text, JSON and CSV.
func TestQuerySeveral(t *testing.T) {
	one, clone, _ := two(t)
	for i := range 4 {
		clone.Commit("x", map[string]string{fmt.Sprintf("build/STATE-%d.md", i): say("STATE", "build", "rig-b", "rig-a", fmt.Sprint("Zebra ", i))})
	}
	clone.Run("push", "-q", "origin", "main")
	must(t, one, "index")
	var seen []string
	for after := []string{}; ; {
		out := must(t, one, append([]string{"query", "messages", "--all", "--json", "--limit", "2"}, after...)...)
		conforms(t, out)
		var a struct {
			Rows         []struct{ Repo, Filename string }
			More         bool
			After        string
			Repositories []struct{ Repo, Commit string }
		}
		if err := json.Unmarshal([]byte(out), &a); err != nil {
			t.Fatal(err)
		}
		if len(a.Repositories) != 2 || a.Repositories[0].Repo != "one" || a.Repositories[0].Commit != one.Ref("refs/heads/main") {
			t.Errorf("repositories %v", a.Repositories)
		}
		for _, row := range a.Rows {
			seen = append(seen, row.Repo+"/"+row.Filename)
		}
		if !a.More {
			break
		}
		after = []string{"--after", a.After}
	}
	slices.Sort(seen)
	if got := strings.Join(seen, " "); got != "one/REQUEST.md one/STATE-0.md one/STATE-1.md one/STATE-2.md one/STATE-3.md other/REQUEST.md" {
		t.Error(got)
	}
	for want, args := range map[string][]string{
		"rows=4 more=false as_of=":          {"search", "zebra"},
		"rows=1 more=false as_of=":          {"search", "ZEB*", "3"},
		"rows=0 more=false as_of=":          {"search", "zebra", "--refused"},
		"rows=0 more=false repositories=2":  {"search", "zebra", "--all", "--from", "rig-a"},
		"rows=2 more=false repositories=2":  {"messages", "--all", "--type", "REQUEST"},
		"rows=1 more=false as_of=  ":        {"messages", "--repo", "other"},
		"rows=0 more=false repositories=2 ": {"messages", "--repo", "other", "--repo", "one", "--until", "2000-01-01"},
		"rows=2 more=false as_of=":          {"stats", "--since", "2000-01-01"},
	} {
		if got := must(t, one, append([]string{"query"}, args...)...); !strings.Contains(got, strings.TrimSpace(want)) {
			t.Errorf("%q: %s", args, got)
		}
	}
	table := must(t, one, "query", "turn", "--all", "--csv")
	cells, err := csv.NewReader(strings.NewReader(table)).ReadAll()
	if err != nil || len(cells) != 3 || strings.Join(cells[0], " ") != "repo thread turn from_rig message_type status_class filename commit_time" || cells[1][0] != "one" {
		t.Errorf("%v: %s", err, table)
	}
	conforms(t, must(t, one, "query", "search", "zebra", "--json"))
	conforms(t, must(t, one, "query", "search", "zebra", "--json", "--sql"))
}

// TestCSVIsInert writes what others wrote into cells that no spreadsheet computes.
func TestCSVIsInert(t *testing.T) {
	bare, clone := server(t, "team", "")
	texts := []string{"=HYPERLINK(1)", "+1+1", "-2", "@SUM(A1)", "\uff1dcmd", "plain, with \"quotes\" = 1", "'quoted", "\U000e0041\u202etag"}
	for i, text := range texts {
		f := envelope.Fields{From: "rig-b", To: []string{"rig-a"}, Date: "2026-01-05", Status: "▶ Working", Type: "STATE", Thread: "build", TLDR: text, Body: []byte(text)}
		f.BodyHash = envelope.BodyHash(envelope.NormalizeBody(f.Body))
		data, err := envelope.Render(f)
		if err != nil {
			t.Fatal(err)
		}
		clone.Commit("x", map[string]string{fmt.Sprintf("build/STATE-%d.md", i): string(data)})
	}
	clone.Run("push", "-q", "origin", "main")
	must(t, bare, "index")
	cells, err := csv.NewReader(strings.NewReader(must(t, bare, "query", "messages", "--csv", "--type", "STATE"))).ReadAll()
	if err != nil || len(cells) != len(texts)+1 {
		t.Fatalf("%d rows, %v", len(cells), err)
	}
	var got []string
	column := slices.Index(cells[0], "tldr")
	for _, row := range cells[1:] {
		got = append(got, row[column])
		for _, c := range row {
			if c != "" && strings.ContainsRune(formulas, []rune(c)[0]) || strings.ContainsAny(c, "\u202e\U000e0041") {
				t.Errorf("the cell %q", c)
			}
		}
	}
	slices.Reverse(got)
	if strings.Join(got[:7], "|") != "'=HYPERLINK(1)|'+1+1|'-2|'@SUM(A1)|'\uff1dcmd|plain, with \"quotes\" = 1|'quoted" {
		t.Errorf("%q", got)
	}
}

// TestFollow prints events as they come, goes on from a cursor, and ends with --once.
func TestFollow(t *testing.T) {
	databases(t, func(t *testing.T, database func() string) {
		bare, clone := server(t, "team", database())
		must(t, bare, "index")
		out := must(t, bare, "query", "events", "--follow", "--once")
		conforms(t, out)
		cursor := regexp.MustCompile(`"cursor":"([^"]+)"`).FindStringSubmatch(out)
		if strings.Count(out, "\n") != 1 || cursor == nil || !strings.Contains(out, `"event_type":"received"`) {
			t.Fatal(out)
		}
		cmd := command(bare, "query", "events", "--follow", "--after", cursor[1], "--type", "ACK")
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var errOut bytes.Buffer
		cmd.Stderr = &errOut
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // killed
		}()
		clone.Commit("x", map[string]string{"build/ACK.md": say("ACK", "build", "rig-b", "rig-a", "Seen")})
		clone.Run("push", "-q", "origin", "main")
		must(t, bare, "index")
		line := make(chan string, 1)
		go func() {
			buffer := make([]byte, 4096)
			n, _ := pipe.Read(buffer)
			line <- string(buffer[:n])
		}()
		select {
		case got := <-line:
			conforms(t, got)
			if !strings.Contains(got, `"filename":"ACK.md"`) || strings.Count(got, "\n") != 1 {
				t.Error(got)
			}
		case <-time.After(time.Minute):
			t.Fatal("no event came: " + errOut.String())
		}
		if out := must(t, bare, "query", "events", "--follow", "--once", "--after", cursor[1]); strings.Count(out, "\n") != 2 || !strings.Contains(out, `"event_type":"acked"`) {
			t.Error(out)
		}
	})
}
