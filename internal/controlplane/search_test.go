package controlplane

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/pgtest"
	"github.com/rigward/rigward/pkg/envelope"
)

// ask answers a question about the repository of the tests.
func ask(t testing.TB, db *DB, name string, p Parameters) Answer {
	t.Helper()
	q, ok := Question(name)
	if !ok {
		t.Fatalf("no question is called %s", name)
	}
	if p.Repos == nil {
		p.Repos = []string{"team"}
	}
	a, err := db.Ask(context.Background(), q, p)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return a
}

// finds are the files that a search finds, in its order.
func finds(t testing.TB, db *DB, words ...string) (files []string) {
	t.Helper()
	for _, row := range ask(t, db, "search", Parameters{Words: ParseWords(words)}).Rows {
		files = append(files, row[1].(string))
	}
	return files
}

// bodies are what the messages of the corpus say: languages, addresses, numbers and
// signs that parsers take for more than words.
var bodies = []string{
	"Please build the windows installer at v1.2.3-rc.1 by 2026-01-05T10:00Z.", "rig-alpha's host db.example.com:5432 says http://example.com/a/b?c=d#e",
	"Größe ÄNDERN, STRASSE und Straße; naïve café CAFÉ", "Привет МИР, мир-труд", "\u65e5\u672c\u8a9e\u306e\u30c6\u30b9\u30c8 and 한국어 텍스트",
	"हिन्दी में संदेश", "مرحبا بالعالم", "1e5 0x1F 12.50 -3 ½ Ⅳ x² 00123", "a'b \"c\" d\\e & | ! ( ) :* <-> NOT OR AND NEAR build*", "user@example.com /usr/local/bin ~/.ssh $HOME",
	"emoji 👩‍💻 and ▶ arrows → dash—dash", "the the THE installer", strings.Repeat("long", 40) + " " + strings.Repeat("é", 90), "İstanbul ıssız ẞ ﬁn ＦＵＬＬ",
}

// TestCommonWords turns the pages of a search for words that many messages have: whatever is
// looked at first, they hold what one that sorts all of them finds, in its order.
func TestCommonWords(t *testing.T) {
	both(t, func(t *testing.T, target func() Target) { commonWords(t, open(t, target())) })
}

func commonWords(t *testing.T, db *DB) {
	fill(t, db, "other", 300)
	fill(t, db, "team", 600)
	found := 0
	for _, words := range [][]string{{"turn"}, {"STATE", "tur*"}, {"ack"}, {"thread-00000*"}, {"thread-000059", "state"}, {"nothing"}} {
		p := Parameters{Words: ParseWords(words)}
		want := fmt.Sprint(ask(t, db, "search", p).Rows)
		found += len(want)
		for _, p.window = range []int{1, 50, 10_000} {
			p.common, p.Limit, p.Cursor = 1, 7, nil
			var all [][]any
			for {
				a := ask(t, db, "search", p)
				all = append(all, a.Rows...)
				if !a.More {
					break
				}
				p.Cursor, _ = ParseCursor(Query{Name: "search", keys: make([]string, 4)}, a.After)
			}
			if got := fmt.Sprint(all); got != want {
				t.Errorf("%s by pages, the latest %d first:\n%s\nexpected\n%s", words, p.window, got, want)
			}
		}
	}
	if found < 1000 {
		t.Error("hardly anything was found")
	}
}

// TestSearchIsTheSame finds the same messages with SQLite and with PostgreSQL, for every
// word of the corpus, its beginnings, pairs of words, and texts that would be syntax.
func TestSearchIsTheSame(t *testing.T) {
	pgtest.Need(t)
	r := gittest.New(t, gittest.Options{})
	for i, body := range bodies {
		r.Commit("x", map[string]string{fmt.Sprintf("corpus/STATE-%02d.md", i): say("STATE", "corpus", "rig-a", "rig-b,rig-c", body, nil)})
	}
	lite, pg := open(t, parse(t, t.TempDir()+"/control.db")), open(t, parse(t, pgtest.Database(t)))
	for _, db := range []*DB{lite, pg} {
		x := indexer(t, r, db)
		update(t, x)
		clean(t, x)
	}
	var searches [][]string
	words := strings.Fields(wordsOf(bodies...))
	for _, w := range words {
		letters := []rune(w)
		searches = append(searches, []string{w}, []string{strings.ToUpper(w)}, []string{string(letters[:(len(letters)+1)/2]) + "*"})
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		searches = append(searches, []string{words[rnd.IntN(len(words))], words[rnd.IntN(len(words))]})
	}
	for _, body := range bodies {
		searches = append(searches, strings.Fields(body))
	}
	hits := 0
	for _, s := range searches {
		if len(ParseWords(s)) == 0 {
			continue
		}
		one, two := finds(t, lite, s...), finds(t, pg, s...)
		if !slices.Equal(one, two) {
			t.Errorf("%q: SQLite finds %q, PostgreSQL %q", s, one, two)
		}
		hits += len(one)
	}
	for i, body := range bodies { // each body is found by its own words
		if got := finds(t, lite, body); !slices.Contains(got, fmt.Sprintf("STATE-%02d.md", i)) {
			t.Errorf("%q finds %q", body, got)
		}
	}
	t.Logf("%d searches, %d hits", len(searches), hits)
	for want, search := range map[string]string{"STATE-02.md": "strasse", "STATE-03.md": "мир", "STATE-04.md": "本", "STATE-13.md": "full", "STATE-00.md": "Installer WINDOWS", "STATE-01.md": "exam* rig-alpha"} {
		if got := finds(t, lite, search); !slices.Equal(got, []string{want}) {
			t.Errorf("%q finds %q, expected %s", search, got, want)
		}
	}
	if got := finds(t, lite, "nowhere"); got != nil {
		t.Errorf("nothing is found as %q", got)
	}
}

// TestSearchAsReaders: what the gates refuse is found only where it is asked for, what is
// no longer in the history and what is hidden as a secret is not in the database
// at all, and what comes back is found again. The text of a body cannot be read
// from its words.
func TestSearchAsReaders(t *testing.T) {
	const secret = "AKIA" + "Q7ZT3WN5RK2LH6VD"
	r := gittest.New(t, gittest.Options{})
	base := r.Commit("1", map[string]string{"build/REQUEST.md": say("REQUEST", "build", "rig-a", "rig-b", "Please fetch zebra before antelope", nil)})
	r.Commit("2", map[string]string{"build/REQUEST.md": say("REQUEST", "build", "rig-a", "rig-b", "Please fetch crocodile", nil)})
	r.Commit("3", map[string]string{"build/RESULT.md": say("RESULT", "build", "rig-b-relay", "rig-a", "A forged giraffe", func(f *envelope.Fields) { f.AttestedBy = "SHA256:x" })})
	r.Commit("4", map[string]string{"build/STATE.md": say("STATE", "build", "rig-b", "rig-a", "The token is "+secret+" and ocelot", nil)})
	gone := r.Commit("5", map[string]string{"build/STATE-2.md": say("STATE", "build", "rig-b", "rig-a", "Expunge this wombat", nil)})
	both(t, func(t *testing.T, target func() Target) {
		r.SetRef("refs/heads/main", gone)
		db := open(t, target())
		x := indexer(t, r, db)
		update(t, x)
		everything := func() string {
			t.Helper()
			all := ""
			if err := each(t.Context(), db.conn, "SELECT coalesce(words, ''), coalesce(tldr, ''), status_text FROM bridge_messages", nil, func(r rows) error {
				var words, tldr, status string
				err := r.Scan(&words, &tldr, &status)
				all += words + "\n" + tldr + "\n" + status + "\n"
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return all
		}
		refused := func(word string) int {
			t.Helper()
			return len(ask(t, db, "search", Parameters{Words: ParseWords([]string{word}), Refused: true}).Rows)
		}
		if got := finds(t, db, "zebra", "antelope"); !slices.Equal(got, []string{"REQUEST.md"}) {
			t.Errorf("control: %q", got)
		}
		for _, word := range []string{"crocodile", "giraffe"} {
			if got := finds(t, db, word); got != nil {
				t.Errorf("what the gates refuse is found as %q", got)
			}
		}
		if refused("giraffe") != 1 || refused("zebra") != 0 {
			t.Errorf("asked for what is refused: giraffe %d, zebra %d", refused("giraffe"), refused("zebra"))
		}
		if all := everything(); strings.Contains(all, secret) || strings.Contains(all, strings.ToLower(secret[4:])) || strings.Contains(all, "fetch zebra before") || !strings.Contains(all, "zebra") {
			t.Errorf("the database holds\n%s", all)
		}
		if got := finds(t, db, secret); got != nil {
			t.Errorf("a secret is found in %q", got)
		}
		if got := finds(t, db, "wombat"); len(got) != 1 {
			t.Errorf("control: %q", got)
		}
		r.SetRef("refs/heads/main", base)
		update(t, x)
		if got := finds(t, db, "wombat"); got != nil || strings.Contains(everything(), "wombat") || strings.Contains(everything(), "ocelot") {
			t.Errorf("what was expunged is still there: %q\n%s", got, everything())
		}
		if !db.conn.postgres() && count(t, db.conn, "SELECT count(*) FROM rigward_search WHERE rigward_search MATCH 'wombat'") != 0 {
			t.Error("the index of words holds what was expunged")
		}
		r.SetRef("refs/heads/main", gone)
		update(t, x)
		if got := finds(t, db, "wombat"); len(got) != 1 {
			t.Errorf("what came back is found as %q", got)
		}
		clean(t, x)
		if err := db.conn.exec(t.Context(), "UPDATE bridge_messages SET words = 'planted' WHERE filename = 'STATE-2.md'"); err != nil {
			t.Fatal(err)
		}
		if _, n, err := x.Check(t.Context(), 10); err != nil || n != 1 {
			t.Errorf("words that were changed by hand: %d differences, %v", n, err)
		}
	})
}

// FuzzWords: what comes of any text is words that mean nothing to a database, in
// a form that splitting again does not change.
func FuzzWords(f *testing.F) {
	for _, s := range bodies {
		f.Add(s)
	}
	f.Add("ABC def_9 x-Y.z@Q\x00\x7fK")
	f.Add("\x00\xff\u202e\U000e0041' OR 1=1 --")
	f.Fuzz(func(t *testing.T, s string) {
		for _, w := range strings.Fields(wordsOf(s)) {
			if strings.ContainsAny(w, "'\"\\&|!():*<>-^{}\x00\n\t") || len(w) > maxWord {
				t.Errorf("%q has the word %q", s, w)
			}
		}
		// What is read quickly where a text is ASCII alone gives the same words beside others.
		if alone := strings.Fields(wordsOf(s)); !slices.Equal(slices.DeleteFunc(strings.Fields(wordsOf(s+" \u03a9")), func(w string) bool { return w == "\u03c9" }), slices.DeleteFunc(alone, func(w string) bool { return w == "\u03c9" })) {
			t.Errorf("%q has the words %q, and others beside a word that is not ASCII", s, alone)
		}
		for _, w := range ParseWords([]string{s}) {
			if w.text == "" || !slices.Contains(strings.Fields(wordsOf(s)), w.text) {
				t.Errorf("%q is searched for as %q", s, w.text)
			}
		}
	})
}

// TestPages reads answers of one, two and all repositories in pages, with what comes
// and goes meanwhile, and wants what one page has.
func TestPages(t *testing.T) {
	both(t, func(t *testing.T, target func() Target) {
		db := open(t, target())
		var last *Indexer
		var repo *gittest.Repo
		for i, name := range []string{"alpha", "team", "zulu"} {
			r := gittest.New(t, gittest.Options{})
			tangled(t, r, 30, uint64(30+i))
			x := indexer(t, r, db)
			x.Name = name
			update(t, x)
			last, repo = x, r
		}
		known, err := db.Repositories(t.Context())
		if err != nil || !slices.Equal(known, []string{"alpha", "team", "zulu"}) {
			t.Fatalf("repositories %q, %v", known, err)
		}
		line := func(a Answer) (out []string) {
			for i, row := range a.Rows {
				out = append(out, a.Repos[i]+fmt.Sprint(row))
			}
			return out
		}
		total := 0
		for _, q := range Queries() {
			if !q.Paged() {
				continue
			}
			for _, repos := range [][]string{{"team"}, {"alpha", "zulu"}, known} {
				p := Parameters{Repos: repos, Now: time.Unix(gittest.Epoch, 0), Since: time.Unix(gittest.Epoch-1, 0), Hash: hash("Turn 1 0"), Words: ParseWords([]string{"turn"})}
				if q.Name == "idle" {
					p.Since = time.Unix(gittest.Epoch, 0).AddDate(1, 0, 0)
				}
				want := line(ask(t, db, q.Name, p))
				total += len(want)
				// Of all at once and one after another; searches look at the latest few first.
				for _, looked := range []int{0, 1, 10} {
					if looked > 0 && q.Takes != Words && (!db.conn.postgres() || looked > 1) {
						continue
					}
					p, got := p, []string(nil)
					p.common, p.window, db.alone = looked, looked, looked == 1
					for p.Limit = 3; ; {
						a := ask(t, db, q.Name, p)
						got = append(got, line(a)...)
						if !a.More {
							break
						}
						var ok bool
						if p.Cursor, ok = ParseCursor(q, a.After); !ok || len(a.Rows) != 3 {
							t.Fatalf("%s: cursor %q, %d rows", q.Name, a.After, len(a.Rows))
						}
					}
					if db.alone = false; !slices.Equal(got, want) {
						t.Errorf("%s of %q: pages have %d rows, one has %d:\n%s\n%s", q.Name, repos, len(got), len(want), strings.Join(got, "\n"), strings.Join(want, "\n"))
					}
				}
			}
		}
		t.Logf("%d rows", total)
		// What comes after the first page was read is before its cursor.
		q, _ := Question("messages")
		p := Parameters{Repos: known, Limit: 5}
		first := ask(t, db, "messages", p)
		rest := ask(t, db, "messages", Parameters{Repos: known})
		repo.Setenv("GIT_COMMITTER_DATE", "1999999999 +0000")
		repo.Commit("late", map[string]string{"late/STATE.md": say("STATE", "late", "rig-a", "rig-b", "Late", nil)})
		update(t, last)
		cursor, _ := ParseCursor(q, first.After)
		if got, want := line(ask(t, db, "messages", Parameters{Repos: known, Cursor: cursor})), line(rest)[5:]; !slices.Equal(got, want) {
			t.Errorf("the second page has %d rows, expected %d", len(got), len(want))
		}
		for _, bad := range []string{"", "x", "e30", Cursor{"open", "team", []string{"a", "b"}}.String(), Cursor{"messages", "team", []string{"a"}}.String(), Cursor{"messages", "team", []string{"a\x00", "b", "c", "d", "e"}}.String()} {
			if _, ok := ParseCursor(q, bad); ok {
				t.Errorf("%q is a cursor of messages", bad)
			}
		}
	})
}

// TestStats: how soon a rig answers, what waits for it and what of it was refused.
func TestStats(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	commit := func(at int64, name, text string) {
		r.Setenv("GIT_COMMITTER_DATE", fmt.Sprintf("%d +0000", gittest.Epoch+at))
		r.Commit("x", map[string]string{name: text})
	}
	commit(0, "aa/REQUEST.md", say("REQUEST", "aa", "rig-a", "rig-b,rig-c", "1", nil))
	commit(60, "aa/ACK.md", say("ACK", "aa", "rig-b", "rig-a", "2", nil))
	commit(600, "aa/RESULT.md", say("RESULT", "aa", "rig-b", "rig-a", "3", nil))
	commit(700, "bb/REQUEST.md", say("REQUEST", "bb", "rig-a", "rig-b", "4", nil))
	commit(1000, "bb/REQUEST.md", say("REQUEST", "bb", "rig-c", "rig-b", "an edit", nil))
	const day = 24 * 60 * 60
	commit(2*day, "cc/REQUEST.md", say("REQUEST", "cc", "rig-a", "rig-c", "5", nil))
	commit(2*day, "cc/RESULT.md", say("RESULT", "cc", "rig-c", "rig-a", "of the same second", nil))
	commit(2*day+10, "cc/STATE.md", say("STATE", "cc", "rig-a", "rig-c", "6", nil))
	commit(4*day+10, "cc/RESOLUTION.md", say("RESOLUTION", "cc", "rig-c", "rig-a", "7", nil))
	both(t, func(t *testing.T, target func() Target) {
		db := open(t, target())
		x := indexer(t, r, db)
		update(t, x)
		for _, c := range []struct {
			since, until int64
			want         string
		}{
			{0, day, "[[rig-a 1 0 <nil> <nil> 1 2 0 0] [rig-b 2 1 600 600 1 2 0 0] [rig-c 1 0 <nil> <nil> 0 0 0 <nil>]]"},
			// Whole days: from that of the beginning to the last one that has begun; an answer
			// counts with its question, whenever it came.
			{2*day + 3600, 2*day + 3600, "[[rig-a 1 1 0 0 1 2 0 0] [rig-b 0 0 <nil> <nil> 1 0 0 <nil>] [rig-c 2 2 0 172800 0 1 0 0]]"},
			{3 * day, 5 * day, "[[rig-a 0 0 <nil> <nil> 1 0 0 <nil>] [rig-b 0 0 <nil> <nil> 1 0 0 <nil>] [rig-c 0 0 <nil> <nil> 0 1 0 0]]"},
			{2 * day, 0, "[[rig-a 1 1 0 0 1 2 0 0] [rig-b 0 0 <nil> <nil> 1 0 0 <nil>] [rig-c 2 2 0 172800 0 2 0 0]]"},
		} {
			p := Parameters{Since: time.Unix(gittest.Epoch+c.since, 0), Now: time.Unix(gittest.Epoch, 0)}
			if c.until > 0 {
				p.Until = time.Unix(gittest.Epoch+c.until, 0)
			}
			if got := fmt.Sprint(ask(t, db, "stats", p).Rows); got != c.want {
				t.Errorf("from %d to %d:\ngot  %s\nwant %s", c.since, c.until, got, c.want)
			}
		}
		clean(t, x)
	})
}

// TestFeed reads all events in the order in which they were taken, goes on from a cursor,
// and begins again where the index was made anew.
func TestFeed(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	r.Commit("1", map[string]string{"build/REQUEST.md": say("REQUEST", "build", "rig-a", "rig-b", "1", nil)})
	r.Commit("2", map[string]string{"build/ACK.md": say("ACK", "build", "rig-b", "rig-a", "2", nil)})
	both(t, func(t *testing.T, target func() Target) {
		r.Run("reset", "-q", "--hard", r.Run("rev-list", "--max-parents=0", "HEAD"))
		r.Commit("2", map[string]string{"build/ACK.md": say("ACK", "build", "rig-b", "rig-a", "2", nil)})
		db := open(t, target())
		x := indexer(t, r, db)
		update(t, x)
		reader, err := Open(t.Context(), db.target, false)
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		var at Place
		resets := 0
		read := func() (out []string) {
			t.Helper()
			if err := reader.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			for more := true; more; {
				var err error
				more, err = reader.Feed(t.Context(), []string{"team"}, at, 2, func(e Event, p Place) error {
					var ok bool
					if at, ok = ParsePlace(p.String()); !ok {
						t.Errorf("%s is no place", p)
					}
					out = append(out, e.Event+" "+e.File+" by "+e.Rig)
					return nil
				}, func(_ string, p Place) error { resets++; at = p.Copy(); return nil })
				if err != nil {
					t.Fatal(err)
				}
			}
			return out
		}
		if got, want := read(), []string{"received REQUEST.md by rig-b", "received ACK.md by rig-a", "acked REQUEST.md by rig-b"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := read(); got != nil {
			t.Errorf("again: %q", got)
		}
		r.Commit("3", map[string]string{"build/STATE.md": say("STATE", "build", "rig-b", "rig-a", "3", nil)})
		update(t, x)
		if got := read(); !slices.Equal(got, []string{"received STATE.md by rig-a"}) || resets != 0 {
			t.Errorf("%q, %d resets", got, resets)
		}
		r.Commit("4", map[string]string{"build/STATE-2.md": say("STATE", "build", "rig-b", "rig-a", "4", nil)})
		if _, err := x.Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := read(); len(got) != 5 && !slices.Equal(got, []string{"received STATE-2.md by rig-a"}) || len(got) == 5 && resets != 1 {
			t.Errorf("after the index was made anew: %q, %d resets", got, resets)
		}
		for _, bad := range []string{"", "x", "bnVsbA"} {
			if _, ok := ParsePlace(bad); ok {
				t.Errorf("%q is a place", bad)
			}
		}
	})
}
