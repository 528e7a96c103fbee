package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

// What is read without git is what git says, in repositories of odd shapes: the
// oracle is the same package that asks git for everything. GITREPO_ODD=10000 makes
// so many of them; GITREPO_ODD_SEED is the first one, and alone it repeats that one.
func TestOddShapes(t *testing.T) {
	count, first := 60, uint64(1)
	if n, err := strconv.ParseUint(os.Getenv("GITREPO_ODD_SEED"), 10, 64); err == nil {
		count, first = 1, n
	}
	if n, err := strconv.Atoi(os.Getenv("GITREPO_ODD")); err == nil {
		count = n
	}
	bases := oddBases(t)
	tally := map[string]int{}
	for seed := first; seed < first+uint64(count); seed++ {
		o := &odd{t: t, rand: rand.New(rand.NewPCG(seed, 7)), again: rand.New(rand.NewPCG(seed, 8)), dir: filepath.Join(t.TempDir(), "odd"), tally: tally}
		o.make(bases)
		o.compare()
		if err := os.RemoveAll(filepath.Dir(o.dir)); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			t.Fatalf("seed %d: %s", seed, strings.Join(o.did, "; "))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(tally)) {
		t.Logf("%s: %d", what, tally[what])
	}
	if runtime.GOOS == "linux" && count >= 60 {
		for _, what := range []string{"place without git", "configuration without git", "objects without git", "staged without git"} {
			if tally[what] < count/8 {
				t.Errorf("%s in %d of %d repositories only", what, tally[what], count)
			}
		}
	}
}

// An odd is a repository of an odd shape.
type odd struct {
	t     *testing.T
	rand  *rand.Rand
	dir   string // holds the repository repo and what lies around it
	cwd   string
	git   string // git directory
	env   []string
	did   []string
	tally map[string]int
	hash  int

	unknown bool // git is asked for all but refs
	oddRefs bool // refs were made odd
	head    ID   // as git says in compare, "" of an unborn branch
	headErr error
	again   *rand.Rand
}

// asks reports whether git is asked though its answer is known: where nothing is
// read without it, both are answers of git to the same question, which is put
// twice only for one in five; and so where it gave the answer with others.
func (o *odd) asks(known bool) bool { return !known || o.again.IntN(5) == 0 }

// oddBases makes the repositories from which odd ones are made.
func oddBases(t *testing.T) (bases []*gittest.Repo) {
	fill := func(r *gittest.Repo) *gittest.Repo {
		body := strings.Repeat("a line that is the same in all of them\n", 40)
		for i := range 6 {
			r.Commit(fmt.Sprint("commit ", i), map[string]string{
				"t/REQUEST.md": body + fmt.Sprint(i), fmt.Sprintf("t/RESPONSE-%d.md", i): "x" + fmt.Sprint(i), "u/v/w.txt": fmt.Sprint(i / 2), "top": "top\n"})
		}
		r.Run("branch", "side", "HEAD~2")
		r.Run("tag", "-a", "-m", "tag", "v1", "HEAD~1")
		r.Run("tag", "light")
		r.Run("symbolic-ref", "refs/heads/alias", "refs/heads/side")
		return r
	}
	loose := fill(gittest.New(t, gittest.Options{}))
	packed := loose.Copy(t)
	packed.Run("repack", "-adfq", "--depth=30", "--window=30")
	packed.Run("pack-refs", "--all")
	old := fill(gittest.New(t, gittest.Options{ObjectFormat: "sha256"}))
	old.Run("-c", "repack.useDeltaBaseOffset=false", "repack", "-adfq")
	many := fill(gittest.New(t, gittest.Options{Bare: false}))
	many.Run("repack", "-dq")
	many.Commit("more", map[string]string{"t/more.md": "more"})
	many.Run("repack", "-dq")
	many.Run("multi-pack-index", "write")
	many.Run("commit-graph", "write", "--reachable")
	many.Commit("after", map[string]string{"t/after.md": "after"})
	bare := packed.Clone("--bare")
	shallow := packed.Clone("--no-local", "--depth=2")
	packed.Run("config", "uploadpack.allowFilter", "true")
	partial := packed.Clone("--no-local", "--filter=blob:none", "--no-checkout")
	shared := packed.Clone("--shared")
	shared.Commit("own", map[string]string{"t/own.md": "own"})
	replaced := loose.Copy(t)
	replaced.Run("replace", "HEAD~1", "HEAD~3")
	sparse := loose.Copy(t)
	sparse.Run("sparse-checkout", "set", "--no-cone", "t")
	worktree := packed.Copy(t)
	worktree.Run("worktree", "add", "-q", "tree", "side")
	return []*gittest.Repo{loose, packed, old, many, bare, shallow, partial, shared, replaced, sparse, worktree}
}

func (o *odd) pick(list ...string) string { return list[o.rand.IntN(len(list))] }

// noted picks one and remembers it.
func (o *odd) noted(what string, list ...string) string {
	s := o.pick(list...)
	o.did = append(o.did, what+" "+strconv.Quote(s))
	return s
}

func (o *odd) write(path, text string) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return // something odd is in the way
	}
	_ = os.RemoveAll(path)
	_ = os.WriteFile(path, []byte(text), 0o644) // a name made of what is broken may be none
}

func (o *odd) add(path, text string) {
	old, _ := os.ReadFile(path)
	o.write(path, string(old)+text)
}

// make copies one of the bases and makes it odd.
func (o *odd) make(bases []*gittest.Repo) {
	i := o.rand.IntN(len(bases))
	o.did = append(o.did, fmt.Sprint("base ", i))
	o.cwd = filepath.Join(o.dir, "repo")
	if err := os.CopyFS(o.cwd, os.DirFS(bases[i].Dir)); err != nil {
		o.t.Fatal(err)
	}
	o.git = filepath.Join(o.cwd, ".git")
	if _, err := os.Stat(o.git); err != nil {
		o.git = o.cwd
	}
	o.hash = 40
	if i == 2 {
		o.hash = 64
	}
	o.env = append(o.env, gittest.Environ(filepath.Join(o.dir, "home"))...)
	o.write(filepath.Join(o.dir, "home", "empty"), "")
	if o.git == o.cwd || o.rand.IntN(3) == 0 {
		o.env = append(o.env, "GIT_DIR="+o.noted("GIT_DIR", ".git", o.git)[0:])
		if o.git == o.cwd {
			o.env[len(o.env)-1] = "GIT_DIR=."
		}
	}
	for range o.rand.IntN(5) {
		[]func(){o.configuration, o.configuration, o.garble, o.around, o.variables, o.refs, o.refs, o.noHead, o.objects, o.objects, o.borrowed, o.history, o.index, o.index}[o.rand.IntN(14)]()
	}
}

// settings are what configuration files may hold, odd and usual.
var settings = []string{
	"# a comment\n", "; another\n", "\n\n", "[a]\n\tb = c # d\n", "[a]b=c\n", "[A]\nB = C\n", "[a \"x\"]\nb = c\n", "[a\t\"x\"]\nb = c\n", "[a \"X.y \\\"z\\\\\"]\nb = c\n",
	"[a.b]\nc = d\n", "[a]\nb\n", "[a]\nb # c\n", "[a]\nb = \"c # d\" e\n", "[a]\nb = c\\\n d\n", "[a]\nb = c\td\n", "[a]\nb = \"c\td\"  \n", "[a]\nb = \\t\\n\\\"\\\\\n", "[a]\nb = \\b\n",
	"[a]\nb = \\x\n", "[a]\nb = \"c\n", "[a]\r\nb = c\r\n", "[a]\n1b = c\n", "[1a]\nb = c\n", "[a-b]\nc-d = e\n", "[a] ; x\nb = c\n", "[a][b]\nc = d\n", "[a]\nb == c\n", "[a]\nb = ü ☃\n", "[a]\nb = \xff\n",
	"[core]\nfilemode = false\n", "[core]\nbare = maybe\n", "[core]\nworktree = ..\n", "[core]\nrepositoryformatversion = 1\n", "[core]\nrepositoryformatversion = 7\n", "[extensions]\nnoop = true\n",
	"[extensions]\nobjectformat = sha256\n", "[extensions]\nworktreeConfig = true\n", "[extensions]\npartialClone = origin\n", "[extensions]\nrefStorage = reftable\n", "[push]\ndefault = nonsense\n",
	"[core]\nabbrev = x\n", "[core]\nfilemode = perhaps\n", "[core]\nautocrlf = input\n", "[core]\ncompression = 99\n", "[core]\nhooksPath = ~nobody-at-all/x\n", "[advice]\nstatusHints = maybe\n", "[advice]\nstatusHints = false\n",
	"[user]\nuseConfigOnly = perhaps\n", "[user]\nname\n", "[feature]\nmanyFiles = x\n", "[index]\nversion = x\n", "[pack]\npackSizeLimit = x\n", "[diff \"x\"]\ncachetextconv = x\n", "[branch]\nautoSetupRebase = x\n", "[gc]\nwriteCommitGraph = x\n",
	"[fetch]\nnegotiationAlgorithm = x\n", "[mailmap]\nfile = ~nobody-at-all/x\n", "[core]\nsharedRepository = 0x\n", "[core]\ncommentChar = auto\n", "[core]\nmultiPackIndex = x\n", "[i18n]\ncommitEncoding\n",
	"[include]\npath = empty\n", "[include]\npath = ~/more\n", "[include]\npath\n", "[include]\npath = /nowhere/at/all\n", "[includeIf \"gitdir:**\"]\npath = ~/more\n", "[include \"x\"]\npath = ~/more\n",
	"[user]\nname = A B\nemail = a@example.com\nsigningkey = \"key::ssh-ed25519 AAAA\"\n", "[rigward]\ntimeout = 4s\n", "[gc]\nauto = 0\n", "[remote \"origin\"]\nurl = x\nfetch = +refs/heads/*:refs/remotes/origin/*\n", "[branch \"main\"]\nremote = origin\nmerge = refs/heads/main\n",
	"[a]\nb = \"\" c\n", "[a]\nb = c \"\" \n", "[a]\nb = \" c\"\n", "[]\na = b\n", "[a \"\"]\nb = c\n", "[a\nb = c\n", "a = b\n", "[a]\nb=\x00\n", "[safe]\ndirectory = *\n",
}

func (o *odd) configuration() {
	o.add(filepath.Join(o.git, "config"), o.noted("config", settings...))
}

// garble changes a few bytes of a configuration, a ref or packed-refs.
func (o *odd) garble() {
	o.oddRefs = true
	file := filepath.Join(o.git, o.noted("garble", "config", "config", "packed-refs", "HEAD", "refs/heads/main"))
	text, err := os.ReadFile(file)
	if err != nil || len(text) == 0 {
		return
	}
	at := o.rand.IntN(len(text))
	switch o.rand.IntN(4) {
	case 0:
		text = text[:at]
	case 1:
		text[at] = "\n\t \"\\#;=[]^\x00\rZ0"[o.rand.IntN(15)]
	case 2:
		text = slices.Insert(text, at, "\n\t \"\\#;=[]^\x00\rZ0"[o.rand.IntN(15)])
	default:
		text = slices.Delete(text, at, at+1)
	}
	o.write(file, string(text))
}

// around changes the configuration of the user and the system.
func (o *odd) around() {
	home := filepath.Join(o.dir, "home")
	text := o.noted("around", settings...)
	o.write(filepath.Join(home, "more"), "[more]\nkey = 1\n[include]\npath = "+filepath.Join(home, "empty")+"\n")
	switch o.rand.IntN(4) {
	case 0:
		o.write(filepath.Join(home, ".gitconfig"), text)
		o.env = append(slices.DeleteFunc(o.env, func(kv string) bool { return strings.HasPrefix(kv, "GIT_CONFIG_GLOBAL=") }), "X=Y")
	case 1:
		o.write(filepath.Join(home, "xdg", "git", "config"), text)
		o.env = append(slices.DeleteFunc(o.env, func(kv string) bool { return strings.HasPrefix(kv, "GIT_CONFIG_GLOBAL=") }), "XDG_CONFIG_HOME="+filepath.Join(home, "xdg"))
	case 2:
		o.write(filepath.Join(home, "sys"), text)
		o.env = append(o.env, "GIT_CONFIG_SYSTEM="+filepath.Join(home, "sys"), "GIT_CONFIG_NOSYSTEM="+o.pick("0", "", "false", "1", "yes"))
	default:
		o.write(filepath.Join(home, "glob"), text)
		o.env = append(o.env, "GIT_CONFIG_GLOBAL="+o.pick(filepath.Join(home, "glob"), "", "glob", filepath.Join(home, "none")))
	}
}

func (o *odd) variables() {
	o.oddRefs = true
	o.env = append(o.env, strings.Split(o.noted("variable",
		"GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=A.b GIT_CONFIG_VALUE_0=c", "GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=a.b GIT_CONFIG_VALUE_0=c", "GIT_CONFIG_COUNT=", "GIT_CONFIG_COUNT=x",
		"GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=a.X.b GIT_CONFIG_VALUE_0=", "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=ab GIT_CONFIG_VALUE_0=", "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=include.path GIT_CONFIG_VALUE_0=/dev/null",
		"GIT_CONFIG_PARAMETERS='a.b'='c'", "GIT_CONFIG_PARAMETERS='A.X.b'='c'\x01'd.e'=''", "GIT_CONFIG_PARAMETERS='a.b=c'", "GIT_CONFIG_PARAMETERS='a.b'=", "GIT_CONFIG_PARAMETERS='a.b'='it'\\''s'", "GIT_CONFIG_PARAMETERS=a.b=c", "GIT_CONFIG_PARAMETERS=",
		"GIT_TEST_ASSUME_DIFFERENT_OWNER=1", "GIT_NAMESPACE=x", "GIT_COMMON_DIR="+o.git, "GIT_WORK_TREE=.", "GIT_REPLACE_REF_BASE=refs/x", "GIT_SHALLOW_FILE=x", "GIT_REF_STORAGE_FORMAT=files", "HOME=", "GIT_CEILING_DIRECTORIES="+o.dir,
	), " ")...)
	for i, kv := range o.env {
		o.env[i] = strings.ReplaceAll(kv, "\x01", " ")
	}
}

func (o *odd) tip() string {
	for _, name := range []string{"refs/heads/side", "refs/heads/main"} {
		if text, err := os.ReadFile(filepath.Join(o.git, name)); err == nil && len(text) > o.hash {
			return string(text[:o.hash])
		}
	}
	return strings.Repeat("1", o.hash)
}

func (o *odd) refs() {
	o.oddRefs = true
	id := o.tip()
	name := o.noted("ref", "refs/heads/main", "refs/heads/odd", "refs/tags/odd", "refs/heads/a/b", "refs/odd", "refs/heads/x.lock", "refs/heads/a..b", "refs/remotes/origin/HEAD", "refs/heads/side", "packed", "packed")
	if name == "packed" {
		o.add(filepath.Join(o.git, "packed-refs"), strings.ReplaceAll(o.noted("line", "ID refs/heads/p\n", "ID refs/heads/p", "ID  refs/heads/p\n", "ID refs/heads/p\r\n", "^ID\n", "# x\n", "\n",
			"ID refs/heads/a..b\n", "id\n", "ID refs/heads/main\n", "ID refs/heads/main\nID refs/heads/main\n", strings.Repeat("0", o.hash)+" refs/heads/z\n", "ID refs/heads/aaa\n", "ID refs/heads/p x\n"), "ID", id))
		return
	}
	text := strings.ReplaceAll(o.noted("text", "ID\n", "ID", "ID \n", "ID\r\n", "ID\nmore\n", " ID\n", "ref: refs/heads/side\n", "ref: refs/heads/none\n", "ref:refs/heads/side\n", "ref: refs/heads/side", "ref:  refs/heads/side\n",
		"ref: "+name+"\n", "", "\n", "ID x\n", strings.Repeat("0", o.hash)+"\n", strings.Repeat("1", o.hash)+"\n", "ref: side\n", "ref: refs/heads/a..b\n"), "ID", o.pick(id, id, strings.ToUpper(id), id[1:]))
	if o.rand.IntN(6) == 0 {
		file := filepath.Join(o.git, name)
		_ = os.RemoveAll(file)
		_ = os.MkdirAll(filepath.Dir(file), 0o755)
		if o.rand.IntN(2) == 0 {
			_ = os.Symlink(o.noted("link", "main", "refs/heads/main", "../../refs/heads/side", "none"), file)
		} else {
			_ = os.Mkdir(file, 0o755)
		}
		return
	}
	o.write(filepath.Join(o.git, name), text)
}

func (o *odd) noHead() {
	o.oddRefs = true
	o.write(filepath.Join(o.git, "HEAD"), strings.ReplaceAll(o.noted("HEAD", "ID\n", "ID", "ref: refs/heads/side\n", "ref: refs/heads/unborn\n", "ref: refs/heads/alias\n", "ref: refs/tags/v1\n", "ref: HEAD\n", "", "ref: refs/x/../y\n", "ref:\trefs/heads/main\n"), "ID", o.tip()))
}

// objects takes object files away or breaks them.
func (o *odd) objects() {
	var files []string
	_ = filepath.WalkDir(filepath.Join(o.git, "objects"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return nil
	})
	if len(files) == 0 {
		return
	}
	slices.Sort(files)
	file := files[o.rand.IntN(len(files))]
	what := o.noted("object", "gone", "short", "broken", "another", "empty", "link", "longer")
	o.did = append(o.did, strings.TrimPrefix(file, o.git))
	text, err := os.ReadFile(file)
	if err != nil {
		o.t.Fatal(err)
	}
	switch at := o.rand.IntN(max(1, len(text))); what {
	case "gone":
		_ = os.Remove(file)
		return
	case "short":
		text = text[:at]
	case "broken":
		if len(text) > 0 {
			text[at] ^= byte(1 << o.rand.IntN(8))
		}
	case "another":
		if text, err = os.ReadFile(files[o.rand.IntN(len(files))]); err != nil {
			o.t.Fatal(err)
		}
	case "empty":
		text = nil
	case "link":
		_ = os.Rename(file, file+".real")
		_ = os.Symlink(filepath.Base(file)+".real", file)
		return
	case "longer":
		text = append(text, "more"...)
	}
	o.write(file, string(text))
}

// borrowed moves objects to where they are borrowed from, as a push does.
func (o *odd) borrowed() {
	other := filepath.Join(o.dir, "other objects")
	own := filepath.Join(o.git, "objects")
	switch o.noted("borrow", "alternates", "relative", "quoted", "comment", "variable", "quarantine", "both", "nested", "missing") {
	case "alternates":
		_ = os.CopyFS(other, os.DirFS(own))
		o.objects()
		o.write(filepath.Join(own, "info", "alternates"), other+"\n")
	case "relative":
		_ = os.CopyFS(other, os.DirFS(own))
		o.write(filepath.Join(own, "info", "alternates"), o.pick("../../../other objects\n", "../../other objects"))
	case "quoted":
		_ = os.CopyFS(other, os.DirFS(own))
		o.write(filepath.Join(own, "info", "alternates"), `"`+other+`"`+"\n")
	case "comment":
		o.write(filepath.Join(own, "info", "alternates"), "# "+other+"\n\n")
	case "variable":
		_ = os.Rename(own, other)
		_ = os.MkdirAll(filepath.Join(own, "pack"), 0o755)
		o.env = append(o.env, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+o.pick(other, `"`+other+`"`, ":"+other, other+":/none", "../other objects"))
	case "quarantine":
		q := filepath.Join(own, "tmp_objdir-incoming-x")
		_ = os.MkdirAll(q, 0o755)
		o.env = append(o.env, "GIT_OBJECT_DIRECTORY="+q, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+own)
	case "both":
		_ = os.CopyFS(other, os.DirFS(own))
		o.env = append(o.env, "GIT_OBJECT_DIRECTORY="+o.pick(other, "../other objects"))
		o.objects()
	case "nested":
		third := filepath.Join(o.dir, "third")
		_ = os.Rename(own, third)
		_ = os.MkdirAll(filepath.Join(own, "pack"), 0o755)
		o.write(filepath.Join(other, "info", "alternates"), o.pick(third+"\n", "../third\n", "\n"+third))
		o.write(filepath.Join(own, "info", "alternates"), other+"\n")
	case "missing":
		o.write(filepath.Join(own, "info", "alternates"), "/none/at/all\n")
	}
}

func (o *odd) history() {
	id := o.tip()
	switch o.noted("history", "grafts", "shallow", "replace", "empty grafts") {
	case "grafts":
		o.write(filepath.Join(o.git, "info", "grafts"), id+"\n")
	case "empty grafts":
		o.write(filepath.Join(o.git, "info", "grafts"), "")
	case "shallow":
		o.write(filepath.Join(o.git, "shallow"), id+"\n")
	case "replace":
		o.write(filepath.Join(o.git, "refs", "replace", id), id+"\n")
	}
}

// index changes the index as people do, and as they don't.
func (o *odd) index() {
	if o.git == o.cwd {
		return
	}
	run := func(args ...string) {
		cmd, _ := Env{Environ: o.env, Dir: o.cwd}.bareProcess(context.Background(), "git", args...)
		_ = cmd.Run()
	}
	o.write(filepath.Join(o.cwd, "t", "new.md"), "new")
	o.write(filepath.Join(o.cwd, "u", "new"), "new")
	switch o.noted("index", "add", "intent", "remove", "mode", "replace", "version4", "split", "sparse", "conflict", "gone", "short", "broken", "reset", "directory") {
	case "add":
		run("add", "t/new.md")
	case "intent":
		run("add", "--intent-to-add", "t/new.md", "u/new")
	case "remove":
		run("rm", "-rq", "--cached", o.pick("t", "u/v", "top", "t/REQUEST.md"))
	case "mode":
		run("update-index", "--chmod=+x", "top")
	case "replace":
		_ = os.RemoveAll(filepath.Join(o.cwd, "u"))
		o.write(filepath.Join(o.cwd, "u"), "a file")
		run("add", "u")
	case "version4":
		run("update-index", "--index-version", "4")
	case "split":
		run("update-index", "--split-index")
	case "sparse":
		run("sparse-checkout", "init", "--cone", "--sparse-index")
	case "conflict":
		run("update-index", "--index-info") // of nothing
		run("-c", "merge.ff=false", "cherry-pick", "-n", "HEAD~3")
	case "gone":
		_ = os.Remove(filepath.Join(o.git, "index"))
	case "directory":
		run("add", ".")
		run("write-tree")
	case "reset":
		run("reset", "-q", "--soft", "HEAD~1")
	default:
		file := filepath.Join(o.git, "index")
		text, err := os.ReadFile(file)
		if err != nil || len(text) == 0 {
			return
		}
		at := o.rand.IntN(len(text))
		if text[at] ^= byte(1 << o.rand.IntN(8)); o.rand.IntN(2) == 0 {
			text = text[:at]
		}
		o.write(file, string(text))
	}
}

// askingGit opens the repository so that git is asked for everything.
func askingGit(ctx context.Context, env Env) (*Repo, error) {
	git, err := env.program()
	if err != nil {
		return nil, err
	}
	r := &Repo{ctx: ctx, env: env, git: git}
	r.knownOnce.Do(func() {})
	r.packedOnce.Do(func() {})
	if err := checkQuarantine(env); err != nil {
		return nil, err
	}
	if r.place, err = askPlace(ctx, env, git); err != nil {
		return nil, err
	}
	if err := r.refuseGrafts(); err != nil {
		return nil, err
	}
	r.cat = &session{ctx: ctx, env: env, git: git, known: r.EmptyTree()}
	return r, nil
}

// compare compares what is read with what git says.
func (o *odd) compare() {
	t, ctx := o.t, context.Background()
	env := Env{Environ: o.env, Dir: o.cwd}
	ours, err := Open(ctx, env)
	asked, askedErr := askingGit(ctx, env)
	if ours != nil {
		defer ours.Close()
	}
	if asked != nil {
		defer asked.Close()
	}
	if askedErr != nil {
		// A place is found without what git refuses of its configuration; then git
		// is asked for all the rest.
		if err == nil {
			o.tally["opened where git refuses"]++
			if ours.knownGit() {
				t.Errorf("read without git, which says: %v", askedErr)
			}
		}
		return
	}
	if err != nil {
		// Found where git is asked at once.
		if _, e := asked.Config("core.bare"); e == nil {
			t.Errorf("not opened: %v", err)
		}
		return
	}
	a, b := ours.place, asked.place
	if a.plain {
		o.tally["place without git"]++
	}
	a.plain, b.plain = false, false
	if a != b {
		text, _ := os.ReadFile(filepath.Join(o.git, "config"))
		t.Errorf("place %+v, git says %+v of %q", a, b, text)
	}
	if o.unknown = !ours.knownGit(); !o.unknown {
		o.tally["configuration without git"]++
	}
	_, err = ours.Config("a.b")
	_, askedErr = asked.Config("a.b")
	if o.agree("configuration", err, askedErr) && !maps.EqualFunc(ours.config, asked.config, slices.Equal) {
		t.Errorf("configuration\n%+v\ngit says\n%+v", ours.config, asked.config)
	}
	name, id, err := ours.HEAD()
	wantName, wantID, askedErr := asked.HEAD()
	o.head, o.headErr = wantID, askedErr
	if o.agree("HEAD", err, askedErr) && (name != wantName || id != wantID) {
		t.Errorf("HEAD %q %s, git says %q %s", name, id, wantName, wantID)
	}
	refs, err := listRefs(ours)
	wantRefs, refsErr := listRefs(asked)
	for _, name := range []string{"refs/heads/main", "refs/heads/side", "refs/heads/alias", "refs/heads/odd", "refs/heads/none", "refs/tags/v1", "refs/tags/light", "refs/heads/p", "refs/remotes/origin/HEAD", "refs/heads/a/b"} {
		_, state := ours.plainRef(name)
		if !o.asks(!ours.plain || state == refUnclear) {
			continue
		}
		ref, ok, err := ours.ref(name)
		i := slices.IndexFunc(wantRefs, func(r Ref) bool { return r.Name == name })
		want, wantOK, askedErr := Ref{}, i >= 0, error(nil)
		// Of a list that is not sorted git says another thing by name than as a whole.
		if o.asks(refsErr == nil && !o.oddRefs) {
			want, wantOK, askedErr = asked.ref(name)
		} else if wantOK {
			want = wantRefs[i]
		}
		if o.agree(name, err, askedErr) && (ok != wantOK || ref != want) {
			t.Errorf("%s %+v %t, git says %+v %t", name, ref, ok, want, wantOK)
		}
	}
	if o.agree("refs", err, refsErr) && !slices.Equal(refs, wantRefs) {
		t.Errorf("refs\n%v\ngit says\n%v", refs, wantRefs)
	}
	o.compareWalks(ours, asked, wantRefs)
	o.compareObjects(ours, asked)
	o.compareIndex(ours, asked)
}

// compareWalks compares what lies between two refs.
func (o *odd) compareWalks(ours, asked *Repo, refs []Ref) {
	ctx := context.Background()
	for range min(4, len(refs)) {
		a, b := refs[o.rand.IntN(len(refs))].ID, refs[o.rand.IntN(len(refs))].ID
		opt := RevListOptions{Reverse: o.rand.IntN(2) == 0, Max: o.rand.IntN(3)}
		_, down := ours.shortLine(ctx, []ID{a}, []ID{b}, opt)
		_, up := ours.shortLine(ctx, []ID{b}, []ID{a}, opt)
		_, known := ours.inShortLine(ctx, a, b)
		if down {
			o.tally["walks without git"]++
		}
		walk := func(r *Repo) (s string, err error) {
			for rev, err := range r.RevList(ctx, []ID{a}, []ID{b}, opt) {
				if err != nil {
					return "", err
				}
				s += fmt.Sprint(rev)
			}
			return s, nil
		}
		same := func(what string, plain bool, ask, askGit func(*Repo) (any, error)) {
			if !o.asks(!plain) {
				return
			}
			got, err := ask(ours)
			want, askedErr := askGit(asked)
			if err == nil && askedErr != nil {
				o.tally["walks of a broken store"]++ // beside what was read
			} else if o.agree(what, err, askedErr) && fmt.Sprint(got) != fmt.Sprint(want) {
				o.t.Errorf("%s of %s and %s: %v, git says %v", what, a, b, got, want)
			}
		}
		both := func(what string, plain bool, ask func(*Repo) (any, error)) { same(what, plain, ask, ask) }
		both(fmt.Sprintf("walk %+v", opt), down, func(r *Repo) (any, error) { return walk(r) })
		var bases []ID
		both("merge bases", down || up, func(r *Repo) (any, error) {
			ids, err := r.MergeBases(ctx, a, b)
			if r == asked {
				bases = ids
			}
			return ids, err
		})
		ancestor := func(r *Repo) (any, error) { return r.IsAncestor(ctx, a, b) }
		same("ancestor", known, ancestor, func(r *Repo) (any, error) {
			if o.asks(known && len(bases) > 0) { // both are commits, none a tag
				return ancestor(r)
			}
			return slices.Contains(bases, a), nil
		})
	}
}

func listRefs(r *Repo) (list []Ref, err error) {
	for ref, err := range r.Refs(context.Background()) {
		if err != nil {
			return nil, err
		}
		list = append(list, ref)
	}
	return list, nil
}

// headIsNot reports whether HEAD names another branch.
func (o *odd) headIsNot(branch string) bool {
	text, err := os.ReadFile(filepath.Join(o.git, "HEAD"))
	return err == nil && string(text) != "ref: refs/heads/"+branch+"\n"
}

// agree reports whether both have an answer. Where git has one, it is to be had;
// where git has none, there must be none, too.
func (o *odd) agree(what string, err, askedErr error) bool {
	if err == nil && askedErr != nil && o.unknown {
		o.tally["refs beside a configuration that git refuses"]++ // all else is asked of git
	} else if err == nil && askedErr != nil && strings.Contains(askedErr.Error(), "/packed-refs:") {
		o.tally["loose refs beside a broken packed-refs"]++ // which git reads to list refs, and not to read one
	} else if what == "HEAD" && err == nil && askedErr != nil && strings.Contains(askedErr.Error(), "ignoring broken ref refs/heads/main") && o.headIsNot("main") {
		o.tally["HEAD beside another ref that is broken"]++ // git is asked by a list of refs, which tells of that one
	} else if (err == nil) != (askedErr == nil) {
		o.t.Errorf("%s: error %v, git says %v", what, err, askedErr)
	}
	return err == nil && askedErr == nil
}

func (o *odd) compareObjects(ours, asked *Repo) {
	var ids []ID
	_ = asked.AllObjects(context.Background(), func(id ID, _ string, _ int64) error {
		ids = append(ids, id)
		return nil
	})
	slices.Sort(ids)
	ids = append(ids, ours.EmptyTree(), strings.Repeat("1", o.hash))
	plain := 0
	for i, id := range ids {
		if i%4 == 0 && ours.stored != nil {
			ours.stored.begin(id) // a missing or broken one, too
		}
		if _, ok := ours.stored.info([]ID{id}); ok && ours.stored != nil {
			plain++
		}
		typ, data, err := ours.Object(id, 1<<20)
		wantTyp, wantData, askedErr := asked.Object(id, 1<<20)
		if askedErr != nil && err == nil {
			// git gives up at what is broken beside it; the hash says that ours is
			// the object.
			o.tally["objects of a broken store"]++
			continue
		}
		if errors.Is(err, ErrDied) && errors.Is(askedErr, ErrDied) {
			return // git is gone, and is asked nothing more
		}
		if o.agree("object "+id, err, askedErr) && (typ != wantTyp || !bytes.Equal(data, wantData)) {
			o.t.Errorf("object %s: %s %q, git says %s %q", id, typ, data, wantTyp, wantData)
		}
		switch tree := ours.packReader().tree(id); {
		case tree == nil:
		case askedErr != nil:
			o.tally["trees of a broken pack"]++
		case wantTyp != "tree" || !bytes.Equal(tree.whole().raw, wantData):
			o.t.Errorf("tree %s: %q of a pack, git says %s %q", id, tree.whole().raw, wantTyp, wantData)
		default:
			o.tally["trees of packs"]++
		}
		heads := make([]header, 1)
		ours.packReader().info([]ID{id}, heads)
		ours.packReader().contents(heads, func(_ int, data []byte) {
			switch {
			case askedErr != nil:
				o.tally["objects of a broken pack"]++
			case heads[0].typ != wantTyp || !bytes.Equal(data, wantData):
				o.t.Errorf("object %s: %v %q of a pack, git says %s %q", id, heads[0], data, wantTyp, wantData)
			default:
				o.tally["objects of packs"]++
			}
		})
	}
	if plain > 0 {
		o.tally["objects without git"]++
	}
}

func (o *odd) compareIndex(ours, asked *Repo) {
	ctx := context.Background()
	head := o.head
	if o.headErr != nil {
		return
	}
	if head == "" {
		head = asked.EmptyTree()
	}
	changes, _, ok := ours.plainStaged(head)
	if ok {
		o.tally["staged without git"]++
		want, err := asked.askStaged(ctx, head)
		if err != nil && slices.ContainsFunc(o.did, func(s string) bool { return strings.HasPrefix(s, "object") || strings.HasPrefix(s, "borrow") }) {
			o.tally["staged in a broken store"]++ // which ours need not read
		} else if o.agree("staged", nil, err) && !slices.Equal(changes, want) {
			o.t.Errorf("staged\n%+v\ngit says\n%+v", changes, want)
		}
	}
	if ours.bare {
		return
	}
	index, err := ours.Index(ctx)
	want, askedErr := asked.askIndex(ctx)
	if !o.agree("index", err, askedErr) {
		return
	}
	if index.Len() != want.Len() {
		o.t.Errorf("%d entries, git says %d", index.Len(), want.Len())
		return
	}
	for i := range index.Len() {
		if index.Entry(i) != want.Entry(i) {
			o.t.Errorf("entry %+v, git says %+v", index.Entry(i), want.Entry(i))
		}
	}
}
