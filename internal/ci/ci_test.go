package ci

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/rigward/rigward/pkg/policy"
)

// kinds are the words of the recorded environments.
var kinds = [...]string{proposal: "proposal", moved: "moved", created: "created", deleted: "deleted", whole: "whole"}

// A recorded environment, and the span that it has to give.
type recorded struct {
	name, system, want string
	env                map[string]string
}

func environments(t testing.TB) (all []recorded) {
	t.Helper()
	for _, file := range []string{"gitlab", "others"} {
		archive, err := txtar.ParseFile("testdata/" + file + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			lines := strings.Split(strings.TrimSpace(string(f.Data)), "\n")
			r := recorded{name: f.Name, system: file, want: lines[0], env: map[string]string{}}
			if file == "others" {
				r.system, _, _ = strings.Cut(f.Name, " ")
			}
			for _, line := range lines[1:] {
				name, value, _ := strings.Cut(line, "=")
				r.env[name] = value
			}
			all = append(all, r)
		}
	}
	return all
}

// fill puts ids in the places that the recorded environments have for them.
var fill = strings.NewReplacer("@BASE@", strings.Repeat("a", 40), "@HEAD@", strings.Repeat("b", 40), "@TIP@", strings.Repeat("c", 40),
	"@MERGE@", strings.Repeat("d", 40), "@SHORT@", strings.Repeat("a", 12), "@ZERO@", strings.Repeat("0", 40))

// TestSpans: what each kind of event asks for is a function of its variables.
func TestSpans(t *testing.T) {
	known := map[string]int{}
	for _, r := range environments(t) {
		t.Run(r.name, func(t *testing.T) {
			system, err := Find(r.system)
			if err != nil {
				t.Fatal(err)
			}
			branch := ""
			if r.system != "gitlab" {
				branch = "main"
			}
			s, err := system.Span(func(name string) string { return fill.Replace(r.env[name]) }, branch)
			if says, bad := strings.CutPrefix(r.want, "error "); bad {
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("%+v, %v", s, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			known[r.system]++
			base := s.Base
			if base == "" {
				base = "-"
			}
			got := fmt.Sprintf("%s %s %s %s %s", kinds[s.Kind], base, s.Head, s.Ref, s.Branch)
			if s.Since != "" {
				got += " since " + s.Since
			}
			if s.Note != "" {
				got += " note"
			}
			if want := fill.Replace(r.want); got != want {
				t.Errorf("%s, expected %s", got, want)
			}
		})
	}
	if known["gitlab"] < 12 || known["bitbucket"] < 3 || known["jenkins"] < 3 {
		t.Errorf("kinds of events that were tried: %v", known)
	}
}

// The default branch comes from the system where it says which it is.
func TestBranch(t *testing.T) {
	for _, c := range []struct{ system, branch, primary, want, says string }{
		{"gitlab", "main", "", "main", ""},
		{"gitlab", "other", "", "", "leave --branch out"},
		{"github", "other", "", "", "leave --branch out"},
		{"bitbucket", "", "", "", "--branch main"},
		{"bitbucket", "a b", "", "", ""},
		{"bitbucket", "trunk", "", "trunk", ""},
		{"jenkins", "", "", "", "--branch main"},
		{"jenkins", "", "true", "topic", ""},
		{"jenkins", "main", "true", "main", ""},
	} {
		head := strings.Repeat("b", 40)
		env := map[string]string{
			"CI_PIPELINE_SOURCE": "web", "CI_DEFAULT_BRANCH": "main", "CI_COMMIT_SHA": head, "CI_COMMIT_BRANCH": "topic",
			"GITHUB_EVENT_NAME": "schedule", "GITHUB_SHA": head, "GITHUB_REF": "refs/heads/topic",
			"BITBUCKET_COMMIT": head, "BITBUCKET_BRANCH": "topic",
			"GIT_COMMIT": head, "BRANCH_NAME": "topic", "BRANCH_IS_PRIMARY": c.primary,
		}
		system, err := Find(c.system)
		if err != nil {
			t.Fatal(err)
		}
		s, err := system.Span(func(name string) string { return env[name] }, c.branch)
		if hint := policy.HintOf(err); (err == nil) != (c.want != "") || err == nil && s.Branch != c.want || !strings.Contains(hint, c.says) {
			t.Errorf("%+v: %+v, %v, %s", c, s, err, hint)
		}
	}
	if _, err := Find("gitea"); !strings.HasSuffix(policy.HintOf(err), "--ci github") {
		t.Errorf("%v", err)
	}
	if _, err := Find("travis"); err == nil || policy.HintOf(err) != "" || !strings.Contains(err.Error(), "expected one of github, gitlab, bitbucket, jenkins") {
		t.Error(err)
	}
}

// FuzzSpan: variables never make a span without commits of a known form, and
// never a name that git would take for something else.
func FuzzSpan(f *testing.F) {
	for _, r := range environments(f) {
		var text strings.Builder
		for name, value := range r.env {
			fmt.Fprintf(&text, "%s=%s\n", name, fill.Replace(value))
		}
		f.Add(r.system, text.String(), "main")
	}
	id := regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	base := regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64}|refs/remotes/origin/[^ ~^:?*\[\\]+)$`)
	f.Fuzz(func(t *testing.T, name, text, branch string) {
		system, err := Find(name)
		if err != nil || name == "github" { // FuzzEventSpan
			return
		}
		env := map[string]string{}
		for line := range strings.Lines(text) {
			k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			env[k] = v
		}
		s, err := system.Span(func(name string) string { return env[name] }, branch)
		if err != nil {
			return
		}
		needBase := s.Kind == proposal || s.Kind == moved
		if !id.MatchString(s.Head) || needBase != base.MatchString(s.Base) || s.Branch == "" || !needBase && s.Base != "" {
			t.Errorf("%+v", s)
		}
		for _, ref := range []string{s.Ref, s.Base} {
			if strings.Contains(ref, "..") || strings.ContainsAny(ref, "\x00\n ") {
				t.Errorf("%+v", s)
			}
		}
	})
}
