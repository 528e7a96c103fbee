//go:build unix

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// hintsInSource collects the hints that the client can print: the formats of
// withHint, what is assigned to a hint, and notes that name a command.
func hintsInSource(t *testing.T) (hints []string) {
	t.Helper()
	files, err := filepath.Glob("../../internal/bridge/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		texts := func(e ast.Expr, part string) {
			ast.Inspect(e, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					s, err := strconv.Unquote(lit.Value)
					if err == nil && strings.Contains(s, part) && strings.Trim(s, "%sd") != "" && s != "  hint: " {
						hints = append(hints, s)
					}
				}
				return true
			})
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				sel, ok := n.Fun.(*ast.SelectorExpr)
				switch {
				case ok && sel.Sel.Name == "withHint":
					texts(n.Args[0], "")
				case ok && sel.Sel.Name == "note":
					texts(n.Args[0], "`")
				}
			case *ast.AssignStmt:
				for i, left := range n.Lhs {
					field, isField := left.(*ast.SelectorExpr)
					id, isName := left.(*ast.Ident)
					if isField && field.Sel.Name == "hint" || isName && id.Name == "hint" {
						texts(n.Rhs[min(i, len(n.Rhs)-1)], "")
					}
				}
			}
			return true
		})
	}
	slices.Sort(hints)
	return slices.Compact(hints)
}

// form is the regular expression of the texts that a format makes.
func form(format string) *regexp.Regexp {
	text := regexp.QuoteMeta(format)
	for _, verb := range []string{"%s", "%d"} {
		text = strings.ReplaceAll(text, verb, ".+?")
	}
	return regexp.MustCompile(text)
}

// hintElsewhere are the hints that a test of their own plays, which must speak
// of them in these words.
var hintElsewhere = map[string]struct{ test, words string }{
	"ask who looks after the server, and do not pull; rig-hook attest verify tells more": {"TestLyingServer", "hint: ask who looks after the server, and do not pull"},
	"git config rigward.attestTrust FILE":                                                {"TestLyingServer", "hint: git config rigward.attestTrust FILE"},
	"on the server: rig-hook attest sign; or git config rigward.attestFollow false":      {"TestLyingServer", "hint: on the server: rig-hook attest sign; or git config"},
	"another key for another message":                                                    {"TestHintsOfAnswers", "another key for another message"},
	"git log --all -- %s; another --key sends it anew":                                   {"TestHintsOfAnswers", "another --key sends it anew"},
	"go install github.com/rigward/rigward/cmd/rig-mcp@latest":                           {"TestHintsOfAnswers", "cmd/rig-mcp@latest"},
	"name it THREAD/FILE, as rig-bridge thread THREAD shows it":                          {"TestHintsOfAnswers", "name it THREAD/FILE"},
	"rig-bridge %s %s": {"TestHintsOfAnswers", "rig-bridge ack t-"},
	"rig-bridge inbox": {"TestHintsOfAnswers", "hint: rig-bridge inbox"},
	"rig-bridge inbox, which shows all that waits":                                       {"TestHintsOfAnswers", "which shows all that waits"},
	"rig-bridge read %s %s":                                                              {"TestHintsOfAnswers", "hint: rig-bridge read t-one"},
	"rig-bridge thread %s shows it apart; rig-bridge read %s %s":                         {"TestHintsOfAnswers", "shows it apart; rig-bridge "},
	"rig-bridge thread THREAD shows what was sent; rm %s lets the key be used anew":      {"TestHintsOfAnswers", "lets the key be used anew"},
	"%s is each clone's own, and somebody has committed theirs; `%s` there takes it out": {"TestHintCommittedConfiguration", "committed theirs; `"},
	"who looks after the server removes that file, if no git runs there; then %s":        {"TestLockedBranch", "removes that file, if no git runs there; then git push"},
	"%s, then the relay":                                                                      {"TestRelayIsRefusedBeforeItIsWritten", "hint: git push origin main:main, then the relay"},
	"do what it says, then %s":                                                                {"TestHookWithAHint", "do what it says, then git push origin main:main"},
	"rig-bridge wait with a longer --timeout":                                                 {"TestHintsOfAnswers", "with a longer --timeout"},
	"%s, which takes the commit out; then relay it again":                                     {"TestHintOldRelay", "is a relay attested more than"},
	"%s; or --in-reply-to %s, if that is meant":                                               {"TestRepliesToWhatIsAccepted", "is not known: "},
	"--body-file - waits for it; </dev/null says that there is none":                          {"TestWhatCannotBeTakenBack", "--body-file - waits for it"},
	"%s must be set before a message can be sent: `%s`":                                       {"TestUnsignedInWords", "must be set before a message can be sent: `"},
	"%s lists a key of %s, and messages are not signed yet: `%s`":                             {"TestUnsignedInWords", "and messages are not signed yet: `"},
	"messages will be unsigned, so that nobody can verify who wrote them; to sign them: `%s`": {"TestUnsignedInWords", "to sign them: `"},
	"%s, and other repositories may share it, so no hooks were installed; to install them there run `rig-hook install --into-hooks-path`": {"TestHintHooksPath", "rig-hook install --into-hooks-path"},
	"git config user.email <address>":               {"TestHintRelay", "git config user.email <address>"},
	"git config user.name <name>":                   {"TestHintRelay", "git config user.name <name>"},
	"git merge --ff-only --no-verify-signatures %s": {"TestSettings", "git merge --ff-only --no-verify-signatures"},
	"git reset -q -- %s":                            {"TestStagedScaffold", "git reset -q -- "},
	"git sparse-checkout add ":                      {"TestSparseCheckout", "git sparse-checkout add"},
	"git sparse-checkout add %s":                    {"TestSparseCheckout", "git sparse-checkout add"},
	"look at it with `git log --patch ..%s`; if it is to stand, a person takes it with `git merge --ff-only %s`": {"TestHintRefused", "no commands in"},
	"rm %s, then rig-bridge read THREAD marks anew what was read":                                                {"TestBrokenMarks", "hint: rm "},
	"whom to trust changes; `rig-bridge sync --auto` takes it":                                                   {"TestFirstSignersArrive", "`rig-bridge sync --auto` takes it"},
}

// hintCase is a state, the hints that a command prints in it, and what the hint
// says, done; the command then succeeds.
type hintCase struct {
	formats []string
	play    func(p *player)
}

// A player plays one case in a world of its own.
type player struct {
	*world
	t     *testing.T
	c     hintCase
	left  []string // formats that were not seen yet
	hints string   // of the last refusal
}

// refused runs a command that must fail and print the hints that are left.
func (p *player) refused(dir string, args ...string) string {
	p.t.Helper()
	o := p.run(dir, args...)
	if o.code == 0 {
		p.t.Fatalf("%v succeeded: %s", args, o.stderr)
	}
	return p.saw(o)
}

func (p *player) saw(o outcome) string {
	p.t.Helper()
	is := func(f string) bool { return form(f).MatchString(o.stderr) }
	if !slices.ContainsFunc(p.c.formats, is) {
		p.t.Fatalf("no hint of %q in\n%s", p.c.formats, o.stderr)
	}
	p.left = slices.DeleteFunc(p.left, is)
	_, p.hints, _ = strings.Cut(o.stderr, "hint: ")
	p.hints, _, _ = strings.Cut(p.hints, "\n")
	return p.hints
}

// does runs the command of a hint as it stands, up to a word that ends it.
func (p *player) does(dir, hint, until string) string {
	p.t.Helper()
	if until != "" {
		hint, _, _ = strings.Cut(hint, until)
	}
	if args, ok := strings.CutPrefix(hint, "rig-bridge "); ok {
		return p.ok(dir, strings.Fields(args)...).stdout
	}
	return p.shell(dir, hint)
}

// toThread are a message of a rig and one of an operator's relay.
var state = []string{"send", "STATE", "--thread", "t-one", "--to", "peer"}

var hintCases = map[string]hintCase{
	"a lock that a killed git has left": {[]string{"rm %s, if no git is at work there any more"}, func(p *player) {
		p.write("a/.git/index.lock", "")
		p.does("a", p.refused("a", state...), ", if")
		p.ok("a", state...)
	}},
	"a server that has moved": {[]string{"try again when it answers; git remote set-url %s URL, if it has moved"}, func(p *player) {
		if err := os.Rename(p.path("origin.git"), p.path("moved.git")); err != nil {
			p.t.Fatal(err)
		}
		_, hint, _ := strings.Cut(p.refused("a", "sync"), "; ")
		p.does("a", strings.Replace(hint, "URL", p.path("moved.git"), 1), ", if")
		p.ok("a", "sync")
	}},
	"no configuration": {[]string{"rig-bridge init --rig-id <id>"}, func(p *player) {
		os.RemoveAll(p.path("a/.bridge"))
		p.does("a", strings.Replace(p.refused("a", state...), "<id>", "rig-a", 1), "")
		p.ok("a", state...)
	}},
	"a configuration without an id": {[]string{"rig-bridge init --rig-id <id> --force"}, func(p *player) {
		p.write("a/.bridge/config.yaml", "display_name: x\n")
		p.does("a", strings.Replace(p.refused("a", state...), "<id>", "rig-a", 1), "")
		p.ok("a", state...)
	}},
	"an id with capitals": {[]string{"rig_id: %s"}, func(p *player) {
		p.write("a/.bridge/config.yaml", "rig_id: Rig-A\n")
		p.write("a/.bridge/config.yaml", p.refused("a", state...)+"\n")
		p.ok("a", state...)
	}},
	"another configuration": {[]string{"rig-bridge init --rig-id ", " --force", "add --force to replace it"}, func(p *player) {
		p.does("a", p.refused("a", "init", "--rig-id", "rig-b"), "")
		named := []string{"init", "--rig-id", "rig-b", "--display-name", "B"}
		p.refused("a", named...)
		p.ok("a", append(named, "--force")...)
	}},
	"a relay that sends": {[]string{"rig-bridge relay --help"}, func(p *player) {
		p.ok("a", "init", "--rig-id", "a-relay", "--force", "--no-hooks")
		p.does("a", p.refused("a", state...), "")
	}},
	"an unknown flag": {[]string{"rig-bridge %s --help"}, func(p *player) {
		if out := p.does("a", p.refused("a", "send", "--frob"), ""); !strings.Contains(out, "--thread") {
			p.t.Error(out)
		}
	}},
	"a directory that is gone": {[]string{"cd to a directory that exists"}, func(p *player) {
		os.Mkdir(p.path("gone"), 0o755)
		cmd := p.command("gone", "-c", `rmdir "$PWD" && exec "$0" status`, program(p.t))
		cmd.Path, cmd.Args[0] = "/bin/sh", "sh"
		p.saw(finish(p.t, cmd))
		p.ok("a", "status")
	}},
	"no repository": {[]string{"cd <clone>; where there is none yet, git clone <url> <clone>, and rig-bridge init --rig-id <id> in it"}, func(p *player) {
		p.vars = append(p.vars, "GIT_CEILING_DIRECTORIES="+p.dir)
		os.Mkdir(p.path("empty"), 0o755)
		for _, args := range [][]string{{"status"}, {"new", "t-new"}, state, {"reply"}, {"ack"}, {"close", "t-one", "--status", "completed"},
			{"relay", "ACK", "--thread", "t-one", "--in-reply-to", "last"}, {"inbox"}, {"wait"}, {"thread", "t-one"}, {"read", "t-one"}, {"sync"}} {
			p.refused("empty", args...)
		}
		p.git("empty", "clone", "-q", p.path("origin.git"), "c")
		p.ok("empty/c", "init", "--rig-id", "rig-c", "--no-hooks")
		p.ok("empty/c", "status")
	}},
	"no repository to be a rig": {[]string{"cd <clone>; git clone <url> <clone> makes one"}, func(p *player) {
		p.vars = append(p.vars, "GIT_CEILING_DIRECTORIES="+p.dir)
		os.Mkdir(p.path("empty"), 0o755)
		p.refused("empty", "init", "--rig-id", "rig-c")
	}},
	"no work tree": {[]string{"cd <clone>; git clone %s <clone> makes one"}, func(p *player) {
		for _, args := range [][]string{{"init", "--rig-id", "rig-c"}, state, {"sync"}} {
			p.refused("origin.git", args...)
		}
		_, command, _ := strings.Cut(p.refused("origin.git", "status"), "; ")
		command, _, _ = strings.Cut(command, " makes one")
		p.shell("a", strings.ReplaceAll(command, "<clone>", "c"))
		p.ok("a/c", "status")
	}},
	"a detached HEAD": {[]string{"git switch <branch>"}, func(p *player) {
		p.git("a", "checkout", "-q", "--detach")
		p.does("a", strings.Replace(p.refused("a", state...), "<branch>", "-q main", 1), "")
		p.ok("a", state...)
	}},
	"something that is not ended": {[]string{"git %s --abort, or git %s --continue", "git bisect reset"}, func(p *player) {
		p.ok("a", state...) // so that the thread is in both branches
		p.git("a", "checkout", "-q", "-b", "side")
		p.write("a/f", "side\n")
		p.git("a", "add", "f")
		p.git("a", "commit", "-q", "-m", "side")
		p.git("a", "checkout", "-q", "main")
		p.write("a/f", "main\n")
		p.git("a", "add", "f")
		p.git("a", "commit", "-q", "-m", "main")
		p.git("a", "push", "-q", "origin", "main")
		for _, begin := range [][]string{{"merge", "side"}, {"merge", "--no-commit", "-s", "ours", "side"}, {"cherry-pick", "side"}, {"rebase", "side"}} {
			p.tryGit("a", begin...)
			p.does("a", p.refused("a", state...), ", or")
			p.ok("a", state...)
		}
		p.git("a", "bisect", "start")
		p.git("a", "checkout", "-q", "--detach")
		p.does("a", p.refused("a", state...), "")
		p.ok("a", state...)
	}},
	"no remote to push to": {[]string{"git remote add origin <url> && git push origin %s"}, func(p *player) {
		p.git("a", "remote", "remove", "origin")
		p.does("a", strings.Replace(p.refused("a", state...), "<url>", p.path("origin.git"), 1), "")
		if text := p.git("origin.git", "ls-tree", "-r", "--name-only", "main"); !strings.Contains(text, "t-one/STATE.md") {
			p.t.Error(text)
		}
	}},
	"no remote to sync with": {[]string{"git remote add origin <url> && git push --set-upstream origin %s"}, func(p *player) {
		p.git("a", "remote", "remove", "origin")
		p.does("a", strings.Replace(p.refused("a", "sync"), "<url>", p.path("origin.git"), 1), "")
		p.ok("a", "sync")
	}},
	"an upstream that is not set": {[]string{"git branch --set-upstream-to=%s"}, func(p *player) {
		p.git("a", "branch", "--unset-upstream")
		p.does("a", p.refused("a", "sync"), "")
		p.ok("a", "sync")
	}},
	"a branch that is not pushed": {[]string{"git push --set-upstream %s %s"}, func(p *player) {
		p.git("a", "switch", "-q", "-c", "side")
		p.does("a", p.refused("a", "sync"), "")
		p.ok("a", "sync")
	}},
	"what came": {[]string{"`rig-bridge sync --auto` takes what came"}, func(p *player) {
		p.ok("b", state...)
		o := p.ok("a", "sync")
		p.saw(o)
		if text := p.does("a", between(p.t, o.stderr, "takes what came"), ""); !strings.Contains(text, "pulled=true") {
			p.t.Error(text)
		}
		if o := p.ok("a", "sync"); strings.Contains(o.stderr, "takes what came") {
			p.t.Error(o.stderr)
		}
	}},
	"nothing fetched": {[]string{"rig-bridge sync"}, func(p *player) {
		p.git("a", "update-ref", "-d", "refs/remotes/origin/main")
		p.does("a", p.refused("a", "sync", "--check"), "")
		p.ok("a", "sync", "--check")
	}},
	"a scaffold that is there": {[]string{"rig-bridge new %s --force", "edit %s, then run `rig-bridge send REQUEST --thread %s --to <ids>`"}, func(p *player) {
		o := p.ok("a", "new", "t-two")
		p.saw(o)
		p.does("a", p.refused("a", "new", "t-two"), "")
		p.write("a/t-two/REQUEST.md", p.read("a/t-two/REQUEST.md")+"And now?\n")
		p.does("a", strings.Replace(between(p.t, o.stderr, "edit "), "<ids>", "peer", 1), "")
	}},
	"a thread that is open": {[]string{"rig-bridge send <type> --thread %s --to <ids>"}, func(p *player) {
		p.ok("a", "send", "REQUEST", "--thread", "t-one", "--to", "peer")
		p.does("a", strings.NewReplacer("<type>", "STATE", "<ids>", "peer").Replace(p.refused("a", "new", "t-one")), "")
	}},
	"a name that is not portable": {[]string{"rig-bridge new %s"}, func(p *player) {
		p.does("a", p.refused("a", "new", "con"), "")
	}},
	"a thread that is a link": {[]string{"rm %s && mkdir %s"}, func(p *player) {
		os.Symlink("t-one", p.path("a/t-two"))
		send := []string{"send", "ACK", "--thread", "t-two", "--to", "peer"}
		p.does("a", p.refused("a", send...), "")
		p.ok("a", send...)
	}},
	"an attribute that changes bytes": {[]string{"echo '%s/*.md -text -filter -ident -working-tree-encoding' >> .gitattributes"}, func(p *player) {
		p.write("a/.gitattributes", "*.md ident\n")
		p.write("body.md", "$Id: 1 $\n")
		send := append(slices.Clone(state), "--body-file", "../body.md")
		p.does("a", p.refused("a", send...), "")
		p.ok("a", send...)
	}},
	"an ignored path": {[]string{"git check-ignore -v ", " says which line does"}, func(p *player) {
		p.write("a/.gitignore", "t-one/\n")
		if out := p.does("a", p.refused("a", state...), " says"); !strings.Contains(out, ".gitignore:1:t-one/") {
			p.t.Error(out)
		}
		os.Remove(p.path("a/.gitignore"))
		p.ok("a", state...)
	}},
	"a hook that adds": {[]string{"let the hook leave the index alone: a message is committed by itself, as it is"}, func(p *player) {
		p.write("a/other.txt", "x")
		p.write("a/.git/hooks/pre-commit", "#!/bin/sh\ngit add other.txt\n")
		os.Chmod(p.path("a/.git/hooks/pre-commit"), 0o755)
		p.refused("a", state...)
		os.Remove(p.path("a/.git/hooks/pre-commit"))
		p.ok("a", state...)
	}},
	"nobody's name": {[]string{"git config user.%s <%s>", ", or --author-from-env, which takes what GIT_AUTHOR_* and GIT_COMMITTER_* say"}, func(p *player) {
		p.unset("a", "user.name")
		p.vars = append(p.vars, "GIT_AUTHOR_NAME=A", "GIT_COMMITTER_NAME=A")
		hint := p.refused("a", state...)
		p.ok("a", append(slices.Clone(state), "--author-from-env")...)
		p.does("a", strings.Replace(hint, "<name>", "A", 1), ",")
		p.ok("a", state...)
		p.unset("a", "user.name")
		p.unset("a", "user.email")
		p.run("a", state...).says(p.t, 1, "user.name and user.email are not set")
		hint = p.refused("a", state...)
		p.does("a", strings.Replace(strings.Replace(hint, "<name>", "A", 1), "<address>", "a@example.com", 1), ", or")
		p.ok("a", state...)
	}},
	"a relay of a rig": {[]string{"in the operator's own clone, never in an agent's: rig-bridge init --rig-id %s-relay --force"}, func(p *player) {
		relay := p.relaying()
		p.ok("op", "init", "--rig-id", "op", "--force", "--no-hooks")
		_, command, _ := strings.Cut(p.refused("op", relay...), "an agent's: ")
		p.does("op", command, "")
		p.ok("op", relay...)
	}},
	"an operator without a name": {[]string{"git config %s <value>"}, func(p *player) {
		relay := p.relaying()
		p.unset("op", "user.name")
		p.does("op", strings.Replace(p.refused("op", relay...), "<value>", "Op", 1), "")
		p.ok("op", relay...)
	}},
	"another author": {[]string{"git config %s %s"}, func(p *player) {
		relay := p.relaying()
		p.config("op", "author.email", "x@example.com")
		p.does("op", p.refused("op", relay...), "")
		p.ok("op", relay...)
	}},
	"another format of signatures": {[]string{"git config gpg.format ssh"}, func(p *player) {
		relay := p.relaying()
		p.config("op", "gpg.format", "x509")
		p.does("op", p.refused("op", relay...), "")
		p.ok("op", relay...)
	}},
	"a key that is not there": {[]string{"git config user.signingkey <path of a public key>"}, func(p *player) {
		relay := p.relaying()
		p.config("op", "user.signingkey", "../home/none.pub")
		p.does("op", strings.Replace(p.refused("op", relay...), "<path of a public key>", "../home/op.pub", 1), "")
		p.ok("op", relay...)
	}},
	"two bodies": {[]string{"leave --body-file out, or remove the file"}, func(p *player) {
		p.ok("a", "new", "t-two")
		p.write("a/t-two/REQUEST.md", p.read("a/t-two/REQUEST.md")+"And now?\n")
		p.write("body.md", "x\n")
		send := []string{"send", "REQUEST", "--thread", "t-two", "--to", "peer"}
		p.refused("a", append(send, "--body-file", "../body.md")...)
		p.ok("a", send...)
	}},
	"a scaffold that nobody edited": {[]string{"write the request into %s/%s, or say it with --body-file FILE"}, func(p *player) {
		p.ok("a", "new", "t-two")
		send := []string{"send", "REQUEST", "--thread", "t-two", "--to", "peer"}
		p.refused("a", send...)
		p.write("body.md", "x\n")
		p.ok("a", append(send, "--body-file", "../body.md")...)
	}},
	"a scaffold that is broken": {[]string{"rig-bridge validate %s/%s"}, func(p *player) {
		p.ok("a", "new", "t-two")
		p.write("a/t-two/REQUEST.md", strings.Replace(p.read("a/t-two/REQUEST.md"), "type: ", "type: [", 1))
		send := []string{"send", "REQUEST", "--thread", "t-two", "--to", "peer"}
		hint := p.refused("a", send...)
		o := p.run("a", strings.Fields(hint)[1:]...)
		o.says(p.t, 1, "t-two/REQUEST.md:")
		p.write("a/t-two/REQUEST.md", strings.Replace(p.read("a/t-two/REQUEST.md"), "type: [", "type: ", 1)+"And now?\n")
		p.ok("a", send...)
	}},
	"an empty status": {[]string{`--status "▶ Working"`}, func(p *player) {
		hint := p.refused("a", append(slices.Clone(state), "--status", "")...)
		_, value, _ := strings.Cut(hint, " ")
		p.ok("a", append(slices.Clone(state), "--status", strings.Trim(value, `"`))...)
	}},
	"an empty summary": {[]string{"leave --tldr out"}, func(p *player) {
		p.refused("a", append(slices.Clone(state), "--tldr", "")...)
		p.ok("a", state...)
	}},
	"an empty body": {[]string{"leave the body out and say it in --tldr, or give one"}, func(p *player) {
		p.write("body.md", " \n")
		p.refused("a", append(slices.Clone(state), "--body-file", "../body.md")...)
		p.ok("a", append(slices.Clone(state), "--tldr", "said here")...)
	}},
	"an answer to what is not there": {[]string{"the latest turns are %s"}, func(p *player) {
		p.ok("a", state...)
		ack := []string{"send", "ACK", "--thread", "t-one", "--to", "peer", "--in-reply-to"}
		hint := strings.Fields(p.refused("a", append(ack, "NONE.md")...))
		p.ok("a", append(ack, hint[4])...)
	}},
	"an answer to what is not committed": {[]string{"git add %s && git commit"}, func(p *player) {
		p.write("a/t-one/OWN.md", "---\nfrom: rig-a\nto: peer\ndate: 2026-05-15\nstatus: ▶ Go\ntype: STATE\nthread: t-one\n---\nx\n")
		ack := []string{"send", "ACK", "--thread", "t-one", "--to", "peer", "--in-reply-to", "OWN.md"}
		p.does("a", p.refused("a", ack...)+" -q -m own", "")
		p.ok("a", ack...)
	}},
	"an answer to what is not here": {[]string{"rig-bridge sync --auto"}, func(p *player) {
		p.ok("b", state...)
		p.git("a", "fetch", "-q")
		ack := []string{"send", "ACK", "--thread", "t-one", "--to", "peer", "--in-reply-to", "STATE.md"}
		p.does("a", p.refused("a", ack...), "")
		p.ok("a", ack...)
	}},
	"a history that nobody judged": {[]string{"rig-bridge validate .", "rig-bridge sync, or rig-bridge validate ., which judge them"}, func(p *player) {
		p.ok("b", state...)
		var in strings.Builder
		for i := range 1001 {
			fmt.Fprintf(&in, "commit refs/heads/main\ncommitter A <a@example.com> %d +0000\ndata 1\nx\n", 1700000000+i)
			if i == 0 {
				in.WriteString("from refs/heads/main^0\n")
			}
		}
		p.write("stream", in.String())
		p.git("b", "-c", "alias.in=!git fast-import --quiet <../stream", "in")
		p.push("b")
		p.pull("a")
		p.saw(p.run("a", "thread", "t-one"))
		ack := []string{"send", "ACK", "--thread", "t-one", "--to", "peer", "--no-push", "--in-reply-to", "last"}
		p.does("a", p.refused("a", ack...), ";")
		p.ok("a", ack...)
	}},
	"a mark that is none": {[]string{"rig-bridge thread %s --json names the mark of what it shows", "rig-bridge thread %s --json names files and hashes"}, func(p *player) {
		p.ok("a", state...)
		mark := regexp.MustCompile(`"mark":"([0-9a-f]+)"`).FindStringSubmatch(p.does("a", p.refused("a", "read", "t-one", "--at", strings.Repeat("1", 40)), " names"))
		p.ok("a", "read", "t-one", "--at", mark[1])
		hash := regexp.MustCompile(`"body_hash":"([0-9a-f]+)"`).FindStringSubmatch(p.does("a", p.refused("a", "read", "t-one", "NONE.md"), " names"))
		p.ok("a", "read", "t-one", hash[1])
	}},
	"a directory of ours that is a link": {[]string{"rm %s"}, func(p *player) {
		p.ok("a", state...)
		os.RemoveAll(p.path("a/.git/rigward"))
		os.Symlink(p.dir, p.path("a/.git/rigward"))
		p.does("a", p.refused("a", "read", "t-one"), "")
		p.ok("a", "read", "t-one")
	}},
	"a journal that is none": {[]string{"look at it, then remove it"}, func(p *player) {
		p.write("a/.git/rig-bridge.journal", "{}")
		p.refused("a", state...)
		os.Remove(p.path("a/.git/rig-bridge.journal"))
		p.ok("a", state...)
	}},
	"another run that writes": {[]string{"run the command again when the other one has ended"}, func(p *player) {
		f, err := os.OpenFile(p.path("a/.git/rig-bridge.lock"), os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil || syscall.Flock(int(f.Fd()), syscall.LOCK_EX) != nil {
			p.t.Fatal(err)
		}
		p.refused("a", state...)
		f.Close()
		p.ok("a", state...)
	}},
	"threads elsewhere": {[]string{"write and commit the message with git; the hooks judge it there"}, func(p *player) {
		p.commitFiles("a", map[string]string{".bridge/policy.yaml": "version: 1\nenvelopes: {root: talk}\n"})
		p.refused("a", state...)
		p.commitFiles("a", map[string]string{"talk/t-one/STATE.md": "---\nfrom: rig-a\nto: peer\ndate: 2026-05-15\nstatus: ▶ Go\ntype: STATE\nthread: t-one\n---\nx\n"})
	}},
	"no rig-hook": {[]string{"rig-hook was not found, no hooks were installed; when it is there run `rig-hook install`"}, func(p *player) {
		git, _ := filepath.Abs(strings.TrimSpace(p.shell("a", "command -v git")))
		os.Mkdir(p.path("bin"), 0o755)
		os.Symlink(git, p.path("bin/git"))
		p.vars = append(p.vars, "PATH="+p.path("bin"))
		p.saw(p.run("a", "init", "--rig-id", "rig-a"))
	}},
	"a directory that git ignores": {[]string{"git ignores %s/: policy and signers need `git add -f %s %s`"}, func(p *player) {
		p.commitFiles("a", map[string]string{".gitignore": ".bridge/\n"})
		o := p.run("a", "init", "--rig-id", "rig-a", "--no-hooks")
		p.saw(o)
		p.write("a/.bridge/policy.yaml", "version: 1\n")
		p.write("a/.bridge/allowed_signers", "")
		p.shell("a", between(p.t, o.stderr, "git ignores"))
		if text := p.git("a", "diff", "--cached", "--name-only"); !strings.Contains(text, ".bridge/policy.yaml") {
			p.t.Error(text)
		}
	}},
	"a commit beside that moved": {[]string{"git pull --rebase, look at the result, then git push"}, func(p *player) {
		p.ok("b", state...)
		p.write("a/notes.txt", "x\n")
		p.git("a", "add", "notes.txt")
		p.git("a", "commit", "-q", "-m", "notes")
		p.does("a", p.refused("a", "send", "ACK", "--thread", "t-one", "--to", "peer"), ",")
		p.git("a", "push", "-q")
		p.ok("a", "sync")
	}},
	"a signed commit beside that moved": {[]string{"git pull --rebase --gpg-sign, look at the result, then git push"}, func(p *player) {
		relay := p.relaying()
		p.ok("b", state...)
		p.write("op/notes.txt", "x\n")
		p.git("op", "add", "notes.txt")
		p.git("op", "commit", "-q", "-S", "-m", "notes")
		p.does("op", p.refused("op", relay...), ",")
		p.git("op", "push", "-q")
		p.ok("op", "sync")
	}},
	"a setting that a remote does not know": {[]string{"%s; then %s"}, func(p *player) {
		p.config("a", "push.gpgSign", "true")
		_, hint, _ := strings.Cut(p.refused("a", state...), ": ")
		command, push, _ := strings.Cut(hint, "; then ")
		p.does("a", command, "")
		p.does("a", push, "")
		p.ok("a", "sync")
	}},
	"no signers file": {[]string{"the one who looks after the repository commits and pushes %s with the line: %s"}, func(p *player) {
		p.operator("op")
		p.ok("a", "send", "REQUEST", "--thread", "t-one", "--to", "op-relay")
		p.pull("op")
		relay := []string{"relay", "DECISIONS", "--thread", "t-one", "--in-reply-to", "REQUEST.md"}
		_, line, _ := strings.Cut(p.refused("op", relay...), "with the line: ")
		p.commitFiles("a", map[string]string{".bridge/allowed_signers": line + "\n"})
		p.pull("op")
		p.ok("op", relay...)
	}},
	"a key that is not listed": {[]string{"a listed signer adds to ", " and pushes: "}, func(p *player) {
		relay := p.relaying()
		other := p.operator("other")
		p.commitFiles("a", map[string]string{".bridge/allowed_signers": other})
		p.pull("op")
		_, line, _ := strings.Cut(p.refused("op", relay...), " and pushes: ")
		p.commitFiles("a", map[string]string{".bridge/allowed_signers": other + line + "\n"})
		p.pull("op")
		p.ok("op", relay...)
	}},
	"a key of an agent": {[]string{"git config user.signingkey <the operator's own key>; this one is that of %s"}, func(p *player) {
		relay := p.relaying()
		agent := strings.Replace(p.operator("agent"), "agent@example.com,agent-relay", "op@example.com,rig-b", 1)
		p.commitFiles("a", map[string]string{".bridge/allowed_signers": p.read("a/.bridge/allowed_signers") + agent})
		p.pull("op")
		p.config("op", "user.signingkey", "../home/agent.pub")
		hint := p.refused("op", relay...)
		if strings.Contains(hint, "ssh-ed25519") || strings.Contains(hint, "op-relay") {
			p.t.Errorf("the hint makes an agent the operator: %s", hint)
		}
		p.does("op", strings.Replace(hint, "<the operator's own key>", "../home/op.pub", 1), ";")
		p.ok("op", relay...)
	}},
	"a key that is revoked": {[]string{"git config user.signingkey <a key that is listed and not revoked>"}, func(p *player) {
		relay := p.relaying()
		_, key, _ := strings.Cut(p.read("a/.bridge/allowed_signers"), " ")
		next := strings.Replace(p.operator("next"), "next@example.com,next-relay", "op@example.com,op-relay", 1)
		p.commitFiles("a", map[string]string{".bridge/allowed_signers": p.read("a/.bridge/allowed_signers") + next,
			".bridge/policy.yaml": "version: 1\nrevoked: .bridge/revoked_keys\n", ".bridge/revoked_keys": key})
		p.pull("op")
		p.does("op", strings.Replace(p.refused("op", relay...), "<a key that is listed and not revoked>", "../home/next.pub", 1), "")
		p.ok("op", relay...)
	}},
	"a relay of nobody known": {[]string{"ask who looks after the server for its signers file, then: git config rigward.allowedSigners FILE; ",
		"or a person looks at it with git log --patch ..%s and takes it with git merge --ff-only %s"}, func(p *player) {
		line := p.operator("op")
		p.write("signers", line)
		p.ok("a", "send", "REQUEST", "--thread", "t-one", "--to", "op-relay")
		p.pull("op")
		p.pull("b")
		p.config("op", "rigward.allowedSigners", p.path("signers"))
		p.ok("op", "relay", "DECISIONS", "--thread", "t-one", "--in-reply-to", "REQUEST.md")
		hint := p.refused("b", "sync", "--auto")
		_, looks, _ := strings.Cut(hint, "looks at it with ")
		looks, takes, _ := strings.Cut(looks, " and takes it with ")
		if text := p.does("b", looks, ""); !strings.Contains(text, "attested_by") {
			p.t.Error(text)
		}
		p.does("b", takes, "")
		p.ok("b", "sync")
	}},
	"a file in the way": {[]string{"move away what is in the way; the next send takes this message along"}, func(p *player) {
		p.ok("b", "send", "ACK", "--thread", "t-one", "--to", "peer")
		p.write("a/t-one/ACK.md", "mine\n")
		p.refused("a", state...)
		os.Rename(p.path("a/t-one/ACK.md"), p.path("mine"))
		p.ok("a", "send", "RESULT", "--thread", "t-one", "--to", "peer")
		if text := p.git("origin.git", "ls-tree", "-r", "--name-only", "main"); !strings.Contains(text, "STATE.md") || !strings.Contains(text, "RESULT.md") {
			p.t.Error(text)
		}
	}},
	"a branch that cannot follow": {[]string{"run the command again: it is completed, not repeated"}, func(p *player) {
		p.ok("b", state...)
		p.write("origin.git/hooks/post-receive", "#!/bin/sh\necho >"+p.path("a/t-one/STATE-2.md")+"\n")
		os.Chmod(p.path("origin.git/hooks/post-receive"), 0o755)
		p.refused("a", state...)
		os.Remove(p.path("origin.git/hooks/post-receive"))
		os.Remove(p.path("a/t-one/STATE-2.md"))
		p.ok("a", state...)
		if added, _ := p.history(); len(added) != 2 {
			p.t.Errorf("%d messages are in the history", len(added))
		}
	}},
	"one name on both sides": {[]string{"%s (theirs stands, %s is dropped)"}, func(p *player) {
		p.ok("a", state...)
		p.pull("b")
		p.ok("b", "close", "t-one", "--status", "completed")
		p.does("a", p.refused("a", "close", "t-one", "--status", "cancelled"), " (")
		p.ok("a", "sync", "--auto")
	}},
}

// relaying adds an operator whom the signers file lists, and returns a relay of
// theirs that goes out.
func (p *player) relaying() []string {
	p.t.Helper()
	p.world = listed.of(p.t, func(w *world) {
		clones(w)
		w.commitFiles("a", map[string]string{".bridge/allowed_signers": w.operator("op")})
		w.ok("a", "send", "REQUEST", "--thread", "t-one", "--to", "op-relay")
		w.pull("op")
		w.pull("b")
	})
	return []string{"relay", "DECISIONS", "--thread", "t-one", "--in-reply-to", p.bodyHash("a/t-one/REQUEST.md")}
}

var listed model

// clones gives a world a server and two clones.
func clones(w *world) {
	w.server()
	w.clone("a", "rig-a")
	w.clone("b", "rig-b")
	os.Mkdir(w.path("a/t-one"), 0o755)
	os.Mkdir(w.path("b/t-one"), 0o755)
}

// TestHints plays every hint that the client can print, from a state that
// prints it, and does what it says: that leads out.
func TestHints(t *testing.T) {
	played := map[string]bool{}
	for _, c := range hintCases {
		for _, f := range c.formats {
			played[f] = true
		}
	}
	tests := ""
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "../../internal/attest/lying_test.go", "../../internal/bridge/turn_test.go") {
		if file == "hinttable_test.go" {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tests += string(data)
	}
	for f, e := range hintElsewhere {
		played[f] = true
		_, body, found := strings.Cut(tests, "\nfunc "+e.test+"(t *testing.T) {")
		if body, _, _ = strings.Cut(body, "\n}\n"); !found || !strings.Contains(body, e.words) {
			t.Errorf("%q is played by %s, which says nothing of %q", f, e.test, e.words)
		}
	}
	source := hintsInSource(t)
	for _, f := range source {
		if !played[f] {
			t.Errorf("nobody plays the hint %q", f)
		}
		delete(played, f)
	}
	for f := range played {
		t.Errorf("the hint %q is not in the source", f)
	}
	for name, c := range hintCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			clones(w)
			p := &player{world: w, t: t, c: c, left: slices.Clone(c.formats)}
			c.play(p)
			if len(p.left) > 0 {
				t.Errorf("not seen: %q", p.left)
			}
		})
	}
}
