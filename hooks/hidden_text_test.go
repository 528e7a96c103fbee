package hooks_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/texts"
)

// The smuggling corpus is refused by the real hooks and by check, text by text
// where all are told, and the lawful corpus passes them.
func TestHiddenTextCorpora(t *testing.T) {
	t.Parallel()
	w := developer(t, gittest.Options{})
	own(t, w.clone, "version: 1\n")
	files := func(list []texts.Text) map[string]string {
		out := map[string]string{}
		for i, x := range list {
			out[fmt.Sprintf("release-check/T-%d.md", i)] = x.Envelope("release-check")
		}
		return out
	}
	hidden := files(texts.Smuggled())
	w.clone.Add(hidden)
	said := map[string]string{"pre-commit": w.clone.Try(nil, "commit", "-q", "-m", "x").Stderr}
	must(t, w.clone.Try(nil, "commit", "-q", "--no-verify", "-m", "x"), 0)
	said["pre-push"] = w.clone.Push("origin", "main").Stderr
	said["check"] = rig(w.clone, w.clone.Dir, "", "check", w.base+"..HEAD").Stdout
	for gate, text := range said {
		for path := range hidden {
			if !strings.Contains(text, "\n"+path+":") && !strings.HasPrefix(text, path+":") {
				t.Errorf("%s does not name %s", gate, path)
			}
		}
		if n := strings.Count(text, "[hidden-text]"); n < len(hidden) {
			t.Errorf("%s: %d findings of %d texts", gate, n, len(hidden))
		}
	}
	w.refused(w.push("main"), "hidden-text")
	w.clone.Run("reset", "-q", "--hard", w.base)
	w.clone.Add(files(texts.Lawful()[:400]))
	must(t, w.clone.Try(nil, "commit", "-q", "-m", "می\u200cخواهم 👩\u200d🚀"), 0)
	must(t, w.clone.Push("origin", "main"), 0)
}

// A commit message is judged before the commit is there, if it brings an
// envelope; what git leaves out of it is not.
func TestCommitMessage(t *testing.T) {
	t.Parallel()
	const path, tag = "release-check/STATE.md", "\U000e0041"
	w := developer(t, gittest.Options{})
	good := turn("release-check", "STATE", "Good.\n")
	w.clone.Add(map[string]string{path: good})
	must(t, w.clone.Try(nil, "commit", "-q", "-m", "Say it\n\nYes"+tag), 1,
		"the commit message has in line 3, column 4 a character that readers do not see: U+E0041 TAG LATIN CAPITAL LETTER A", "[hidden-text]", "write another message")
	must(t, w.clone.Try([]byte("Say it\n# not kept"+tag+"\n"), "commit", "-q", "--cleanup=strip", "-F", "-"), 0)
	must(t, w.clone.Try(nil, "commit", "-q", "--amend", "--no-verify", "-m", "Say it"+tag), 0)
	must(t, w.clone.Push("origin", "main"), 1, "[hidden-text]", "git rebase --interactive")
	w.refused(w.push("main"), "hidden-text")
	w.clone.Run("commit", "-q", "--amend", "-m", "Say it")
	must(t, w.clone.Push("origin", "main"), 0)
	// One that brings none is not judged.
	w.clone.Add(map[string]string{"README.md": "more\n"})
	must(t, w.clone.Try(nil, "commit", "-q", "-m", "Say it"+tag), 0)
	must(t, w.clone.Push("origin", "main"), 0)
}

// What stands where only envelopes may is told of by its commit's message, too, whatever
// it is: commit-msg says what the server would.
func TestMessageOfNoEnvelope(t *testing.T) {
	t.Parallel()
	const tag = "\U000e0041"
	w := developer(t, gittest.Options{})
	lower := "version: 1\nrules:\n  envelope-parse: warning\n"
	w.policy(lower)
	file := filepath.Join(w.clone.Home, "policy.yaml")
	write(t, file, lower)
	w.clone.Config("rigward.policy", file)
	w.clone.Add(map[string]string{"release-check/notes.md": "no fence\n"})
	must(t, w.clone.Try(nil, "commit", "-q", "-m", "Say it"+tag), 1, "the commit message has", "[hidden-text]")
	w.clone.Run("commit", "-q", "--no-verify", "-m", "Say it"+tag)
	must(t, w.clone.Push("origin", "main"), 1, "the commit message has", "[hidden-text]")
	w.refused(w.push("main"), "hidden-text")
	w.again()
	w.clone.Add(map[string]string{"docs/notes.md": "no fence\n"}) // which is no thread
	must(t, w.clone.Try(nil, "commit", "-q", "-m", "Say it"+tag), 0)
	must(t, w.clone.Push("origin", "main"), 0)
}

// No hook and no format of a report tells a secret, wherever it stands.
func TestSecretIsNotTold(t *testing.T) {
	t.Parallel()
	token := "gh" + "p_Zq7Rb2Xw9Lk4Tn8Vd3Mp6Hc5Jf1Gs0AyZq7R"
	w := developer(t, gittest.Options{})
	quiet := func(gate string, res gittest.Result) {
		t.Helper()
		if res.Code == 0 || !strings.Contains(unwrapped(res.Stdout+res.Stderr), "secret") {
			t.Errorf("%s: exit %d\n%s%s", gate, res.Code, res.Stdout, res.Stderr)
		}
		for i := 0; i+8 <= len(token); i++ {
			if strings.Contains(res.Stdout+res.Stderr, token[i:i+8]) {
				t.Fatalf("%s tells it:\n%s%s", gate, res.Stdout, res.Stderr)
			}
		}
	}
	w.clone.Add(map[string]string{
		"release-check/A.md":               turn("release-check", "STATE", "Use "+token+".\n"),
		"release-check/B.md":               strings.Replace(turn("release-check", "STATE", "Good.\n"), "type: STATE", "type: "+token, 1),
		"release-check/" + token + ".md":   bad("release-check"),
		"release-check/C.md":               token + "\n",
		"docs/" + token + "/release\ta.md": "x\n",
	})
	quiet("pre-commit", w.clone.Try(nil, "commit", "-q", "-m", "x"))
	w.clone.Run("commit", "-q", "--no-verify", "-m", "x")
	w.clone.Add(map[string]string{"release-check/D.md": turn("release-check", "STATE", "Good.\n")})
	quiet("commit-msg", w.clone.Try(nil, "commit", "-q", "-m", "Use "+token))
	w.clone.Run("commit", "-q", "--no-verify", "-m", "Use "+token)
	quiet("pre-push", w.clone.Push("origin", "main"))
	quiet("pre-receive", w.push("main"))
	for _, format := range report.Formats() {
		quiet("check --format "+format, rig(w.clone, w.clone.Dir, "", "check", "--format", format, w.base+"..HEAD"))
	}
}

// The message of an amended commit is judged, though nothing is staged: it is that of
// the commit which brings the envelope.
func TestAmendedMessage(t *testing.T) {
	t.Parallel()
	token := "gh" + "p_Zq7Rb2Xw9Lk4Tn8Vd3Mp6Hc5Jf1Gs0AyZq7R"
	w := developer(t, gittest.Options{})
	w.clone.Add(map[string]string{"release-check/A.md": turn("release-check", "STATE", "Good.\n")})
	w.clone.Run("commit", "-q", "-m", "Say it")
	must(t, w.clone.Try(nil, "commit", "-q", "--amend", "-m", "Use "+token), 1, "[secret]", "the commit message has")
	must(t, w.clone.Try(nil, "commit", "-q", "--amend", "-m", "Say it well"), 0)
	w.clone.Add(map[string]string{"README.md": "x\n"})
	w.clone.Run("commit", "-q", "-m", "Not an envelope")
	must(t, w.clone.Try(nil, "commit", "-q", "--amend", "-m", "Use "+token), 0)
}
