package doctest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/programs"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
)

// TestRulesPage plays docs/rules.md: each rule's page in a copy of the world
// that the page "The examples" makes. A page shows the finding and ends with a
// repair that is accepted.
func TestRulesPage(t *testing.T) {
	file := filepath.Join(programs.Root(t), "docs", "rules.md")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	intro, pages := cutPages(string(data))
	world := session(t)
	world.Env = append(world.Env, "GIT_AUTHOR_DATE=2026-01-05T09:00:00Z", "GIT_COMMITTER_DATE=2026-01-05T09:00:00Z")
	writeKey(t, world.Dir, "op")
	intro, _, err = world.Play(intro)
	if err != nil {
		t.Fatal(err)
	}
	played := make([]string, len(rules.All()))
	t.Run("rules", func(t *testing.T) {
		for i, rule := range rules.All() {
			page, ok := pages[rule.ID]
			delete(pages, rule.ID)
			played[i] = heading(rule) + page
			if !ok {
				t.Errorf("docs/rules.md has no page %q", rule.ID)
			}
			t.Run(rule.ID, func(t *testing.T) {
				t.Parallel()
				page, steps := playPage(t, world, page)
				played[i] = heading(rule) + page
				said, last := 0, len(steps)-1
				for _, s := range steps {
					if strings.Contains(s.Output, "["+rule.ID+"]") {
						said++
					}
				}
				switch {
				case said == 0:
					t.Errorf("the page does not show the rule:\n%s", page)
				case steps[last].Code != 0 || strings.Contains(steps[last].Output, "["+rule.ID+"]"):
					t.Errorf("the page does not end with a repair that is accepted:\n%s", page)
				}
			})
		}
	})
	for id := range pages {
		t.Errorf("docs/rules.md has a page %q, and no rule is called so", id)
	}
	hold(t, file, intro+strings.Join(played, ""))
}

// cutPages takes the document apart: what comes before the rules, and by its
// id what each rule's page has below the lines that the registry gives.
func cutPages(text string) (intro string, pages map[string]string) {
	parts := strings.Split(text, "\n## ")
	pages = map[string]string{}
	intro = parts[0]
	for _, p := range parts[1:] {
		id, rest, _ := strings.Cut(p, "\n")
		if _, known := rules.ByID(id); !known && len(pages) == 0 {
			intro += "\n## " + p
			continue
		}
		_, rest, _ = strings.Cut(rest, "\nDefault: ")
		_, rest, _ = strings.Cut(rest, "\n")
		pages[id] = rest
	}
	return intro, pages
}

// keys of the front matter with which what a rule says may begin.
var keys = []string{"attested_at", "attested_by", "body_hash", "in_reply_to", "references", "tldr"}

func heading(r rules.Rule) string {
	off := ""
	if r.Off == policy.FromServer {
		off = " Only a server's own policy file switches it off."
	}
	says := r.Says
	if first, _, _ := strings.Cut(says, " "); slices.Contains(keys, first) {
		says = "`" + first + "`" + says[len(first):]
	} else {
		says = strings.ToUpper(says[:1]) + says[1:]
	}
	return fmt.Sprintf("\n## %s\n\n%s.\n\nDefault: %s. Gates: %s.%s\n", r.ID, says, r.Default, r.Gates, off)
}

// playPage plays a page in a copy of the world.
func playPage(t *testing.T, world *Session, page string) (string, []Step) {
	t.Helper()
	dir := filepath.Join(gittest.TempDir(t), "you")
	if err := os.CopyFS(dir, os.DirFS(world.Dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, ".ssh", "op"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Session{Dir: filepath.Join(dir, "bridge")}
	for _, kv := range world.Env {
		s.Env = append(s.Env, strings.ReplaceAll(kv, "="+world.Dir, "="+dir))
	}
	s.Show = func(out string) string { return strings.ReplaceAll(out, dir, home) }
	if _, _, err := s.Play("```sh\ngit remote set-url origin ../server.git\n```\n"); err != nil { // git wrote the world's path down
		t.Fatal(err)
	}
	text, steps, err := s.Play(page)
	if err != nil {
		t.Fatalf("%v\n%s", err, page)
	}
	return text, steps
}
