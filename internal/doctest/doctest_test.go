package doctest

import (
	"os"
	"strings"
	"testing"
)

func TestPlay(t *testing.T) {
	s := &Session{Dir: t.TempDir(), Env: os.Environ(), Real: func(c string) string { return strings.ReplaceAll(c, "SECRET", "word") },
		Show: func(o string) string { return strings.ReplaceAll(o, "word", "SECRET") }}
	text := "# Title\n\n`a/b.txt`\n\n```yaml\none\n$HOME\n```\n\n```console\n$ cat a/b.txt\nold output\n$ echo SECRET >&2; echo padded '  '\n$ cd a && \\\n> false\n```\n\n```sh\n# only words\ntest -f b.txt\n```\n\n```\nnot run\n```\n"
	want := strings.Replace(text, "old output\n", "one\n$HOME\n", 1)
	want = strings.Replace(want, "'  '\n", "'  '\nSECRET\npadded\n", 1)
	want = strings.Replace(want, "> false\n", "> false\n[exit 1]\n", 1)
	got, steps, err := s.Play(text)
	if err != nil || got != want {
		t.Fatalf("%v\n%s", err, got)
	}
	if len(steps) != 4 || steps[2].Code != 1 || steps[2].Output != "" {
		t.Errorf("%+v", steps)
	}
	if again, _, err := (&Session{Dir: s.Dir, Env: s.Env, Real: s.Real, Show: s.Show}).Play(got); err != nil || again != got {
		t.Errorf("a second time: %v\n%s", err, again)
	}
	for _, bad := range []string{"```sh\nfalse\n```\n", "```console\nno command\n```\n", "```sh\nexit 3\n```\n", "```sh\nnever ends\n"} {
		if _, _, err := s.Play(bad); err == nil {
			t.Errorf("%q is played", bad)
		}
	}
}
