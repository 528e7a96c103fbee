package doctest

import (
	"crypto/sha256"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/rigward/rigward/internal/test/programs"
)

// commitID is an abbreviated object id, which depends on the day.
var commitID = regexp.MustCompile(`\b[0-9a-f]{12}\b|\b[0-9a-f]{40}\b|\bcommit=[0-9a-f]{7}\b`)

const shownID = "3f9c2a7d10be4c58a6e1f07b92d4835ec16ab9d7"

// newcomer is a session in a new home directory without configuration, with a
// repository of a team that knows nothing of rigward yet.
func newcomer(t *testing.T) *Session {
	s := session(t)
	writeKey(t, s.Dir, "id_ed25519")
	if _, _, err := s.Play("```sh\n" + strings.Join([]string{
		"git config --global user.name You", "git config --global user.email you@example.com", "git config --global init.defaultBranch main",
		"git init -q --bare team.git", "git clone -q team.git team 2>/dev/null", "cd team", "echo hello >README.md",
		"git add .", "git commit -q -m Begin", "git push -q origin main", "git branch -q --set-upstream-to=origin/main",
	}, "\n") + "\n```\n"); err != nil {
		t.Fatal(err)
	}
	homeDir := s.Dir
	s.Show = func(out string) string {
		return commitID.ReplaceAllStringFunc(strings.ReplaceAll(out, homeDir, home), func(id string) string {
			name, hex, ok := strings.Cut(id, "=")
			if !ok {
				return shownID[:len(id)]
			}
			return name + "=" + shownID[:len(hex)]
		})
	}
	return s
}

// release serves what the release of this version has for this machine, made of
// the programs that the tests build, and returns its address.
func release(t *testing.T, version string) string {
	t.Helper()
	name := fmt.Sprintf("rigward_%s_linux_amd64.tar.gz", version)
	cmd := exec.Command("tar", "-czf", filepath.Join(t.TempDir(), name), "-C", programs.Dir(t), "rig-hook", "rig-bridge", "rig-bundle")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(cmd.Args[2])
	if err != nil {
		t.Fatal(err)
	}
	sums := fmt.Sprintf("%x  %s\n%s  other.tar.gz\n", sha256.Sum256(data), name, strings.Repeat("0", 64))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v" + version + "/" + name:
			_, _ = w.Write(data)
		case "/v" + version + "/SHA256SUMS":
			_, _ = io.WriteString(w, sums)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestReadme does what a newcomer does who has the README alone, and a release.
func TestReadme(t *testing.T) {
	file := filepath.Join(programs.Root(t), "README.md")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if n := strings.Count(text, "\n"); n > 200 {
		t.Errorf("the README has %d lines, expected at most 200", n)
	}
	version := regexp.MustCompile(`(?m)^version=(\S+)`).FindStringSubmatch(text)
	if version == nil {
		t.Fatal("the README installs no version")
	}
	s := newcomer(t)
	const releases = "https://github.com/rigward/rigward/releases/download"
	served := release(t, version[1])
	s.Real = func(command string) string { return strings.ReplaceAll(command, releases, served) }
	played, steps, err := s.Play(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) < 8 || !strings.Contains(text, releases) {
		t.Errorf("only %d commands were found", len(steps))
	}
	for _, step := range steps {
		if step.Code != 0 {
			t.Errorf("%s: exit code %d\n%s", step.Command, step.Code, step.Output)
		}
	}
	hold(t, file, played)
}

// TestStart plays the first steps, and draws the picture of the README from the
// refused push in them.
func TestStart(t *testing.T) {
	file := filepath.Join(programs.Root(t), "docs", "start.md")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := newcomer(t)
	s.Real = func(command string) string {
		if strings.HasPrefix(command, "git commit -m 'HANDOFF") {
			return "rig-hook install >/dev/null && sed 's/^type: .*/type: ORDER/' release-check/REQUEST.md >release-check/HANDOFF.md && git add release-check && " + command
		}
		return command
	}
	played, steps, err := s.Play(string(data))
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) < 15 {
		t.Errorf("only %d commands were found", len(steps))
	}
	hold(t, file, played)
	refused := strings.Index(played, "$ sed -i")
	end := strings.Index(played[max(refused, 0):], "[exit 1]")
	if refused < 0 || end < 0 {
		t.Fatal("no refused push to draw")
	}
	hold(t, filepath.Join(programs.Root(t), "docs", "refused.svg"), picture(played[refused:refused+end]))
}

// TestAttestations plays docs/attestations.md where TestStart ends.
func TestAttestations(t *testing.T) {
	file := filepath.Join(programs.Root(t), "docs", "attestations.md")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := newcomer(t)
	if _, _, err := s.Play("```sh\nrig-hook install --server ~/team.git --bootstrap && cd ~/team && git config gpg.format ssh && git config user.signingkey ~/.ssh/id_ed25519.pub && " +
		"git config commit.gpgsign true && rig-hook keys add you@example.com ~/.ssh/id_ed25519.pub && git add .bridge && git commit -q -m 'Who may sign' && git push -q\n```\n"); err != nil {
		t.Fatal(err)
	}
	show := s.Show
	s.Show = func(out string) string {
		for pattern, as := range map[string]string{
			`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`: "00000000-0000-4000-8000-000000000000",
			// A hook's own signer may come before the one that is called.
			`attest: 0 statements signed`:     "attest: 1 statement signed",
			`20[0-9T:.-]+Z`:                   "2026-01-05T09:00:00.000000Z",
			`(from|to|commit) [0-9a-f]{12}\b`: "$1 3f9c2a73f9c2", `digest [0-9a-f]{64}`: "digest 5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef",
			`\+[0-9a-f]{8}\+[0-9A-Za-z+/]{44}`: "+8abf8723+BIgA9gHJ9y027DDwERfKNsqwX59SZHEaj6qAC6Eqas0d",
			`SHA256:[0-9A-Za-z+/]{43}`:         "SHA256:m8B6ZOLI4z/QzmQNUg3AVrzX5UOng8hbMOqXvgOLj9Q",
		} {
			out = regexp.MustCompile(pattern).ReplaceAllString(out, as)
		}
		return show(out)
	}
	s.Real = func(command string) string {
		if strings.Contains(command, "crontab") {
			return "true"
		}
		// Statements are made by who post-receive starts: wait for them.
		command = strings.Replace(command, "rig-bridge sync", "rig-hook attest sign --server ~/team.git >/dev/null && rig-bridge sync", 1)
		return strings.Replace(command, "git fetch -q origin refs/rigward", "rig-hook attest sign --server ~/team.git >/dev/null && git fetch -q origin refs/rigward", 1)
	}
	played, steps, err := s.Play(string(data))
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) < 12 {
		t.Errorf("only %d commands were found", len(steps))
	}
	hold(t, file, played)
}

// picture draws what a terminal shows as SVG: lines of commands bright, what was
// refused red.
func picture(text string) string {
	const lineHeight, charWidth, margin = 18, 8, 16
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	width := 0
	for _, line := range lines {
		width = max(width, utf8.RuneCountInString(line))
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" role="img" aria-label="A push that is refused">`+"\n",
		2*margin+width*charWidth, 2*margin+len(lines)*lineHeight)
	b.WriteString(`<rect width="100%" height="100%" rx="8" fill="#161b22"/>` + "\n")
	b.WriteString(`<g font-family="ui-monospace,Menlo,Consolas,monospace" font-size="13" fill="#c9d1d9" xml:space="preserve">` + "\n")
	for i, line := range lines {
		style := ""
		switch {
		case strings.HasPrefix(line, "$ "):
			style = ` fill="#7ee787"`
		case strings.Contains(line, "refused") || strings.Contains(line, "rejected") || strings.Contains(line, ": error"):
			style = ` fill="#ff7b72"`
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d"%s>%s</text>`+"\n", margin, margin+i*lineHeight+13, style, html.EscapeString(line))
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}

// TestSamples: the blocks of the README that are copied into files can be read,
// name hooks that there are, and one version.
func TestSamples(t *testing.T) {
	root := programs.Root(t)
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	text := read("README.md")
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(text, -1)
	var hooks []struct{ ID string }
	if err := yaml.Unmarshal([]byte(read(".pre-commit-hooks.yaml")), &hooks); err != nil {
		t.Fatal(err)
	}
	for _, block := range blocks {
		var v struct {
			Repos []struct {
				Hooks []struct{ ID string }
			}
			Remotes []struct{ Configs []string }
			Jobs    map[string]struct{ Steps []struct{ Uses string } }
		}
		if err := yaml.Unmarshal([]byte(block[1]), &v); err != nil {
			t.Errorf("%v:\n%s", err, block[1])
		}
		for _, r := range v.Repos {
			for _, h := range r.Hooks {
				if !slices.Contains(hooks, h) {
					t.Errorf("no hook %s in .pre-commit-hooks.yaml", h.ID)
				}
			}
		}
		for _, r := range v.Remotes {
			for _, file := range r.Configs {
				read(file)
			}
		}
	}
	if len(blocks) < 5 {
		t.Errorf("%d blocks of YAML", len(blocks))
	}
	versions := map[string][]string{}
	for _, file := range []string{"README.md", "lefthook/rigward.yml", "templates/check.yml", "ci/gitea.yml", "ci/bitbucket-pipelines.yml", "ci/Jenkinsfile"} {
		found := regexp.MustCompile(`(?m)(?:rigward@v|ref: v|rev: v|^version=|check@|VERSION\W+|default: '|release )(\d+\.\d+\.\d+)`).FindAllStringSubmatch(read(file), -1)
		if len(found) == 0 {
			t.Errorf("%s names no version", file)
		}
		for _, m := range found {
			versions[m[1]] = append(versions[m[1]], file)
		}
	}
	if len(versions) != 1 {
		t.Errorf("the samples name several versions: %v", versions)
	}
	_, sample, _ := strings.Cut(text, "```markdown\n")
	sample, _, _ = strings.Cut(sample, "```")
	dir := filepath.Join(t.TempDir(), "release-check")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "RESPONSE.md")
	if err := os.WriteFile(file, []byte(sample), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(programs.Dir(t), "rig-bridge"), "validate", file)
	cmd.Dir = filepath.Dir(dir)
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "warning") {
		t.Errorf("the sample is not a valid envelope: %v\n%s", err, out)
	}
}
