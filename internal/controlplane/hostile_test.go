package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// raw makes a history of commits with files of any name and committers' dates
// of any value, which no work tree could hold, on main.
func raw(t testing.TB, r *gittest.Repo, commits []rawCommit) (ids []string) {
	t.Helper()
	var parent string
	for _, c := range commits {
		var out strings.Builder
		fmt.Fprintf(&out, "commit refs/heads/main\ncommitter T <t@example.com> %d +0000\ndata 1\nx\n", gittest.Epoch+int64(len(ids)))
		if parent != "" {
			fmt.Fprintf(&out, "from %s\n", parent)
		}
		for _, f := range c.files {
			fmt.Fprintf(&out, "M 100644 inline %s\ndata %d\n%s\n", octal(f[0]), len(f[1]), f[1])
		}
		out.WriteString("done\n")
		r.RunIn([]byte(out.String()), "fast-import", "--quiet", "--force", "--done")
		parent = r.Ref("refs/heads/main")
		if c.date != "" {
			data := r.Run("cat-file", "commit", parent)
			head, rest, _ := strings.Cut(data, "\ncommitter ")
			_, rest, _ = strings.Cut(rest, "\n")
			data = head + "\ncommitter T <t@example.com> " + c.date + "\n" + rest
			parent = strings.TrimSpace(r.RunIn([]byte(data), "hash-object", "-t", "commit", "-w", "--literally", "--stdin"))
			r.SetRef("refs/heads/main", parent)
		}
		ids = append(ids, parent)
	}
	return ids
}

type rawCommit struct {
	date  string
	files [][2]string
}

// octal quotes a path for fast-import.
func octal(path string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(path) {
		fmt.Fprintf(&b, "\\%03o", path[i])
	}
	b.WriteByte('"')
	return b.String()
}

// scattered is a text that no compression makes shorter.
func scattered(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		b.WriteString(hash(fmt.Sprint(i)))
	}
	return b.String()[:n]
}

// TestHostileNames wants an index of what neither database takes as it is:
// bytes that are not text, and keys that are too long. Portions and the whole
// agree.
func TestHostileNames(t *testing.T) {
	long := "a" + scattered(6000)
	mail := func(typ, from, to, body string) string { return say(typ, "build", from, to, body, nil) }
	commits := []rawCommit{
		{files: [][2]string{{"bb/REQUEST.md", mail("REQUEST", "rig-a", "rig-b", "1")}}},
		{files: [][2]string{{"bb/ACK.md", mail("ACK", "rig-b", "rig-a", "2")}}},
		{files: [][2]string{{"bb/\xff.md", mail("STATE", "rig-b", "rig-a", "3")}, {"bb/\xfe.md", mail("RESOLUTION", "rig-b", "rig-a", "4")}}},
		{files: [][2]string{{"bb/ACK-2.md", mail("ACK", "rig-a", "rig-b", "5")}}},
		{files: [][2]string{{long + "/REQUEST.md", mail("REQUEST", long, long+"b,"+long+"c", "6")}}},
		{files: [][2]string{{long + "/" + long + ".md", mail("ACK", long+"b", long, "7")}}},
		{files: [][2]string{{"aa/b\x01\x1b[2J'\";--\\.md", mail("REQUEST", "rig-a", "rig-b", "8")}}},
		{files: [][2]string{{"size/REQUEST.md", say("REQUEST", "size", "rig-a", "rig-b", "9", func(f *envelope.Fields) {
			f.Status, f.TLDR = "▶ "+strings.Repeat("s", 60000), "no \\0 byte"
		})}}},
		{files: [][2]string{{"nul/REQUEST.md", strings.Replace(say("REQUEST", "nul", "rig-a", "rig-b", "10", nil), "status: ", "tldr: \"a\\0b\"\nstatus: ", 1)}}},
		{date: "9223372036854775807 +0000", files: [][2]string{{"late/REQUEST.md", mail("REQUEST", "rig-a", "rig-b", "11")}}},
		{date: "253402300800 +0000", files: [][2]string{{"y10k/REQUEST.md", mail("REQUEST", "rig-a", "rig-b", "13")}}},
		{date: "0 +0000", files: [][2]string{{"1970/REQUEST.md", mail("REQUEST", "rig-a", "rig-b", "14")}}},
	}
	r := gittest.New(t, gittest.Options{Bare: true})
	ids := raw(t, r, commits)
	both(t, func(t *testing.T, target func() Target) {
		db := open(t, target())
		x := indexer(t, r, db)
		for _, id := range ids {
			r.SetRef("refs/heads/main", id)
			update(t, x)
		}
		whole := open(t, target())
		update(t, indexer(t, r, whole))
		same(t, db, whole)
		clean(t, x)
		ctx := context.Background()
		for statement, want := range map[string]int{
			"SELECT count(*) FROM bridge_messages WHERE filename = '\ufffd.md' AND message_type = 'RESOLUTION'":                                   1,
			"SELECT count(*) FROM bridge_messages WHERE thread = 'bb'":                                                                            4,
			"SELECT count(*) FROM bridge_messages WHERE thread = 'bb' AND lifecycle_state = 'resolved'":                                           3,
			"SELECT count(*) FROM bridge_messages WHERE length(thread) > 100 AND lifecycle_state = 'acked' AND to_rig LIKE 'a%'":                  1,
			"SELECT count(*) FROM bridge_messages WHERE thread = 'aa' AND filename LIKE '%--%'":                                                   1,
			"SELECT count(*) FROM bridge_messages WHERE thread = 'size' AND length(status_text) > 60000":                                          1,
			"SELECT count(*) FROM bridge_messages WHERE thread = 'nul' AND tldr = 'a\ufffdb'":                                                     1,
			"SELECT count(*) FROM bridge_messages WHERE commit_time = '9999-12-31T23:59:59Z' AND thread = 'y10k'":                                 1,
			"SELECT count(*) FROM bridge_messages WHERE length(commit_time) <> 20 OR commit_time > '9999-12-31T23:59:59Z'":                        0,
			"SELECT count(*) FROM bridge_messages WHERE length(filename) > 400 OR length(thread) > 400 OR length(from_rig) > 400":                 0,
			"SELECT count(*) FROM bridge_messages m JOIN bridge_message_events e ON e.message_id = m.id WHERE m.commit_time <> '' AND e.rig = ''": 0,
		} {
			if n, err := number(ctx, db.conn, statement); err != nil || n != want {
				t.Errorf("%s: %d, %v, expected %d", statement, n, err, want)
			}
		}
		a, err := db.Ask(ctx, Queries()[0], Parameters{Repos: []string{"team"}, To: long + "c", Limit: 10})
		if err != nil || len(a.Rows) != 1 {
			t.Errorf("the turn of a rig with a long name: %d rows, %v", len(a.Rows), err)
		}
	})
}

// TestHostileRefs records protected refs whose names are not text.
func TestHostileRefs(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("file names of this system are text")
	}
	r := gittest.New(t, gittest.Options{Bare: true})
	ids := raw(t, r, []rawCommit{
		{files: [][2]string{{"aa/REQUEST.md", say("REQUEST", "aa", "rig-a", "rig-b", "1", nil)}}},
		{files: [][2]string{{"aa/ACK.md", say("ACK", "aa", "rig-b", "rig-a", "2", nil)}}},
	})
	r.SetRef("refs/heads/x\xff", ids[0])
	r.SetRef("refs/heads/x\xfe", ids[1])
	r.Run("update-ref", "refs/heads/"+strings.Repeat(strings.Repeat("y", 200)+"/", 12)+"z", ids[0])
	both(t, func(t *testing.T, target func() Target) {
		x := indexer(t, r, open(t, target()))
		x.Name = RepositoryName("", "", "/srv/te\xffam\x00")
		if got := update(t, x); got.Messages != 2 {
			t.Errorf("%+v", got)
		}
		if again := update(t, x); again != (Result{}) {
			t.Errorf("nothing changed, and %+v was done", again)
		}
		clean(t, x)
	})
}

// TestDeletedRef takes the only branch away, and gives it back.
func TestDeletedRef(t *testing.T) {
	r := gittest.New(t, gittest.Options{Bare: true})
	line := tangled(t, r, 40, 5)
	both(t, func(t *testing.T, target func() Target) {
		db := open(t, target())
		x := indexer(t, r, db)
		r.SetRef("refs/heads/main", line[len(line)-1])
		update(t, x)
		whole := open(t, target())
		update(t, indexer(t, r, whole))
		r.Run("update-ref", "-d", "refs/heads/main")
		if got := update(t, x); got.Superseded == 0 {
			t.Errorf("%+v", got)
		}
		ctx := context.Background()
		if n, err := number(ctx, db.conn, "SELECT count(*) FROM bridge_messages WHERE lifecycle_state <> 'superseded'"); err != nil || n != 0 {
			t.Errorf("%d rows are not superseded, %v", n, err)
		}
		if n, err := number(ctx, db.conn, "SELECT count(*) FROM rigward_threads"); err != nil || n != 0 {
			t.Errorf("%d threads are left, %v", n, err)
		}
		clean(t, x)
		r.SetRef("refs/heads/main", line[len(line)-1])
		update(t, x)
		clean(t, x)
		hasRows(t, db, whole)
	})
}

// TestOneNameForTwo gives two repositories the same name: the second one is
// refused, with both named, until one of them has another name, or takes the
// other's place. A clone of the first is none of them.
func TestOneNameForTwo(t *testing.T) {
	one, two := gittest.New(t, gittest.Options{Bare: true}), gittest.New(t, gittest.Options{Bare: true})
	raw(t, one, []rawCommit{{files: [][2]string{{"aa/REQUEST.md", say("REQUEST", "aa", "rig-a", "rig-b", "1", nil)}}}})
	raw(t, two, []rawCommit{{files: [][2]string{{"bb/REQUEST.md", say("REQUEST", "bb", "rig-a", "rig-b", "2", nil)}}}})
	ctx := context.Background()
	both(t, func(t *testing.T, target func() Target) {
		db := open(t, target())
		x, y := indexer(t, one, db), indexer(t, two, db)
		x.Is, y.Is = Identity{UUID: "u-one", Place: "/srv/one"}, Identity{UUID: "u-two", Place: "/srv/two"}
		update(t, x)
		refused := func(x *Indexer, words ...string) {
			t.Helper()
			_, err := x.Update(ctx)
			var u *policy.Undecided
			if !errors.As(err, &u) || !strings.Contains(u.Hint, "rigward.repository") {
				t.Fatalf("%v", err)
			}
			for _, word := range words {
				if !strings.Contains(u.Message, word) {
					t.Errorf("%q is not in %s", word, u.Message)
				}
			}
		}
		refused(y, one.Ref("refs/heads/main")[:12], two.Ref("refs/heads/main")[:12], "u-one", "u-two", "/srv/one", "/srv/two")
		// Another one with the same history, a fork, say.
		fork := indexer(t, one, db)
		fork.Is = Identity{UUID: "u-fork"}
		refused(fork, "u-one", "u-fork")
		clean(t, x)
		// Controls: a clone has no UUID; a name of its own; a move; a rename.
		update(t, indexer(t, one, db))
		if err := db.Rename(ctx, "team", "first"); err != nil {
			t.Fatal(err)
		}
		update(t, y)
		clean(t, y)
		x.Name = "first"
		clean(t, x)
		if err := db.Rename(ctx, "first", "team"); err == nil || !strings.Contains(err.Error(), "already") {
			t.Errorf("%v", err)
		}
		if err := db.Rename(ctx, "nobody", "somebody"); err == nil || !strings.Contains(err.Error(), "has no repository") {
			t.Errorf("%v", err)
		}
		if err := db.Move(ctx, "first"); err != nil {
			t.Fatal(err)
		}
		fork.Name = "first"
		update(t, fork)
		refused(x, "u-one", "u-fork")
	})
}

// TestReplaced: whether a commit takes the place of an accepted envelope is said
// as the gates say it, by the first line alone and whatever the limits (J01, J03).
func TestReplaced(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	large := strings.Repeat("x", 3000)
	r.Commit("1", map[string]string{
		"build/REQUEST.md":  say("REQUEST", "build", "rig-a", "rig-b", "Please build", nil),
		"build/STATE.md":    "no fence\n" + large,
		"build/RESPONSE.md": say("RESPONSE", "build", "rig-a", "rig-b", large, nil),
	})
	r.Commit("2", map[string]string{".bridge/policy.yaml": "version: 1\nlimits:\n  file: 1000\n"})
	r.Commit("3", map[string]string{"build/STATE.md": say("STATE", "build", "rig-a", "rig-b", "New", nil)})
	r.Commit("4", map[string]string{"build/RESPONSE.md": say("RESPONSE", "build", "rig-b", "rig-a", "Changed", nil)})
	db := open(t, parse(t, filepath.Join(t.TempDir(), "control.db")))
	x := indexer(t, r, db)
	update(t, x)
	wantEvents(t, db, "build/STATE.md", "rig-b: received by rig-b")
	for _, e := range events(t, db, "build/RESPONSE.md") {
		if strings.HasPrefix(e, "rig-a: ") {
			t.Errorf("what replaced an accepted envelope is one: %s", e)
		}
	}
	clean(t, x)
}

// TestHostileFiles names what is not a file of one's own.
func TestHostileFiles(t *testing.T) {
	ctx := context.Background()
	refused := func(t *testing.T, path, want string) {
		t.Helper()
		for _, write := range []bool{true, false} {
			done := make(chan error, 1)
			go func() {
				db, err := Open(ctx, parse(t, path), write)
				if err == nil {
					db.Close()
				}
				done <- err
			}()
			select {
			case err := <-done:
				var u *policy.Undecided
				if !errors.As(err, &u) || !strings.Contains(u.Message, want) {
					t.Errorf("write=%t: %v, expected %q", write, err, want)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("it waits for ever")
			}
		}
	}
	dir := t.TempDir()
	good := filepath.Join(dir, "good.db")
	open(t, parse(t, good)).Close()
	t.Run("a directory", func(t *testing.T) { refused(t, dir, "is not a regular file") })
	if runtime.GOOS == "windows" {
		return
	}
	t.Run("a FIFO", func(t *testing.T) {
		path := filepath.Join(dir, "fifo")
		mkfifo(t, path)
		refused(t, path, "is not a regular file")
	})
	t.Run("a device", func(t *testing.T) { refused(t, os.DevNull, "is not a regular file") })
	link := func(t *testing.T, to, from string) {
		t.Helper()
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("a link to nothing", func(t *testing.T) {
		path, to := filepath.Join(dir, "dangling"), filepath.Join(dir, "made-for-others")
		link(t, to, path)
		refused(t, path, "symbolic link to a file that does not exist")
		if _, err := os.Lstat(to); err == nil {
			t.Error("the file that the link names was made")
		}
	})
	t.Run("a directory of everyone", func(t *testing.T) {
		all := filepath.Join(dir, "all")
		if err := os.Mkdir(all, 0o700); err != nil {
			t.Fatal(err)
		}
		open(t, parse(t, filepath.Join(all, "control.db"))).Close() // control
		if err := os.Chmod(all, 0o1777); err != nil {
			t.Fatal(err)
		}
		refused(t, filepath.Join(all, "control.db"), "everyone can put a file")
		link(t, good, filepath.Join(all, "link.db"))
		refused(t, filepath.Join(all, "link.db"), "everyone can put a file")
		if _, err := Open(ctx, parse(t, filepath.Join(all, "new.db")), true); err == nil {
			t.Error("a new file is made there")
		}
	})
	t.Run("control: a link to a file", func(t *testing.T) {
		path := filepath.Join(dir, "link.db")
		link(t, good, path)
		open(t, parse(t, path)).Close()
	})
}

// TestLockedByOther holds the row that writers wait for: whoever waits gives up
// after two seconds, and so does the server's side of it.
func TestLockedByOther(t *testing.T) {
	r := gittest.New(t, gittest.Options{Bare: true})
	raw(t, r, []rawCommit{{files: [][2]string{{"aa/REQUEST.md", say("REQUEST", "aa", "rig-a", "rig-b", "1", nil)}}}})
	both(t, func(t *testing.T, target func() Target) {
		where := target()
		db, other := open(t, where), open(t, where)
		ctx := context.Background()
		err := indexer(t, r, other).locked(ctx, func(map[string][]string) error {
			start := time.Now()
			_, err := indexer(t, r, db).Update(ctx)
			if err == nil || !strings.Contains(err.Error(), "is locked by another program for longer than 2 seconds") {
				t.Errorf("%v", err)
			}
			if took := time.Since(start); took < time.Second || took > 30*time.Second {
				t.Errorf("it took %s", took)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		x := indexer(t, r, db)
		if got := update(t, x); got.Messages != 1 {
			t.Errorf("%+v", got)
		}
	})
}

// TestToldHoldsNoCredentials passes what drivers say of users and addresses.
func TestToldHoldsNoCredentials(t *testing.T) {
	target, err := ParseTarget("postgres://operator:hunter2@db.example/rigs?sslmode=disable", "/dir")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		&pgconn.PgError{Code: "28P01", Message: `password authentication failed for user "operator"`},
		&pgconn.PgError{Code: "28000", Message: `no pg_hba.conf entry for host "10.0.0.1", user "operator"`},
		fmt.Errorf("cannot parse `postgres://operator:hunter2@db.example/rigs`: failed"),
		errors.New("failed to connect to `user=operator database=rigs`: hunter2"),
	} {
		got := told(context.Background(), target, driver(err))
		if strings.Contains(got.Error()+policy.HintOf(got), "operator") || strings.Contains(got.Error(), "hunter2") || !strings.Contains(got.Error(), "postgres://db.example/rigs") {
			t.Errorf("%v is told as %v", err, got)
		}
	}
}

var _ Repo = (*gitrepo.Repo)(nil)
