package gitrepo_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// TestRemoteFiles: where git finds a remote in the file system, one of the files
// changes whenever a branch of it moves; of every other remote there are none.
func TestRemoteFiles(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	first := r.Commit("one", map[string]string{"a": "1"})
	second := r.Commit("two", map[string]string{"a": "2"})
	top := filepath.Dir(r.Dir)
	r.Run("init", "-q", "--bare", filepath.Join(top, "there.git"))
	r.Run("init", "-q", filepath.Join(top, "tree"))
	there := filepath.Join(top, "there.git")
	if err := os.WriteFile(filepath.Join(top, "linked"), []byte("gitdir: "+there+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ url, dir string }{
		{there, there}, {"file://" + there, there}, {filepath.Join(top, "there"), there}, {"../there.git", there}, {filepath.Join(top, "tree"), filepath.Join(top, "tree", ".git")},
		{"file://" + strings.ReplaceAll(there, "there", "%74here"), ""}, {"ssh://host" + there, ""}, {"host:" + there, ""}, {"https://host/there.git", ""}, {"file:there.git", ""},
		{"ext::cat", ""}, {filepath.Join(top, "linked"), ""}, {filepath.Join(top, "none"), ""}, {"", ""},
	} {
		r.Run("config", "remote.origin.url", c.url)
		files := open(t, r).RemoteFiles("origin", "refs/heads/main")
		if c.dir == "" && files != nil || c.dir != "" && (len(files) == 0 || files[0] != filepath.Join(c.dir, "refs", "heads", "main")) {
			t.Errorf("%s: %q", c.url, files)
		}
	}
	r.Run("config", "remote.origin.url", there)
	says := func() (text string) {
		for _, file := range open(t, r).RemoteFiles("origin", "refs/heads/main") {
			data, _ := os.ReadFile(file)
			text += string(data) + "|"
		}
		return text
	}
	before := says()
	for _, step := range [][]string{
		{"push", "-q", "origin", first + ":refs/heads/main"}, {"--git-dir=" + there, "pack-refs", "--all"}, {"push", "-q", "origin", second + ":refs/heads/main"},
		{"--git-dir=" + there, "update-ref", "-d", "refs/heads/main"},
	} {
		r.Run(step...)
		now := says()
		if now == before {
			t.Errorf("nothing changed by git %s", step)
		}
		before = now
	}
	for _, set := range [][]string{{"--add", "remote.origin.url", there}, {"url." + there + ".insteadOf", "x:"}} {
		r.Run(append([]string{"config"}, set...)...)
		if files := open(t, r).RemoteFiles("origin", "refs/heads/main"); files != nil {
			t.Errorf("with %s: %q", set, files)
		}
		r.Run("config", "--unset-all", "remote.origin.url")
		r.Run("config", "remote.origin.url", there)
	}
	if files := open(t, r).RemoteFiles("origin", "refs/heads/../../config"); files != nil {
		t.Errorf("a name that leads out: %q", files)
	}
}

// TestReadAhead: what was read ahead is there though its file is gone.
func TestReadAhead(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	ids := []gitrepo.ID{r.Blob("one"), r.Blob("two"), strings.Repeat("ab", 20)}
	repo, err := gitrepo.OpenIdle(t.Context(), envOf(r))
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	repo.ReadAhead(t.Context(), ids)
	for _, id := range ids[:2] {
		if err := os.Remove(filepath.Join(r.Dir, ".git", "objects", id[:2], id[2:])); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"one", "two"} {
		if data, err := repo.Blob(ids[i], 10); err != nil || string(data) != want {
			t.Errorf("%q %v", data, err)
		}
	}
	if _, err := repo.Blob(ids[0], 10); err == nil {
		t.Error("it was kept for a second time")
	}
	repo.ReadAhead(t.Context(), make([]gitrepo.ID, 100)) // git will read so many
}
