//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A setting is what a user's configuration of git may hold, as pairs of key and
// value. Words are in the message where git itself cannot do what is asked then,
// for the commands that are named.
type setting struct {
	pairs [][2]string
	fails map[string][]string // by command
}

func set(pairs ...string) setting {
	s := setting{fails: map[string][]string{}}
	for i := 0; i < len(pairs); i += 2 {
		s.pairs = append(s.pairs, [2]string{pairs[i], pairs[i+1]})
	}
	return s
}

func (s setting) but(command string, words ...string) setting {
	s.fails[command] = words
	return s
}

// TestSettings sends, closes, relays and syncs under settings of git that change
// what git stores, says or does: either our commits are as without them, or the
// message names the setting and the command that helps, and nothing is left over.
func TestSettings(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.clone("b", "rig-b")
	w.commitFiles("a", map[string]string{".bridge/allowed_signers": w.operator("op")})
	w.pull("op")
	w.write("home/empty", "")
	w.write("home/template", "# a template\n\nSigned-off-by: Nobody <nobody@example.net>\n")
	w.program("home/bad.sh", "#!/bin/sh\nexit 1\n")
	w.write("home/attributes", "*.md text eol=crlf\n")
	w.write("home/ident", "*.md ident\n")
	w.write("home/utf16", "*.md working-tree-encoding=UTF-16\n")
	w.write("home/filter", "*.md filter=upper\n")
	w.write("home/lf", "*.md text=auto\n")
	w.write("home/order", "*.txt\n")
	os.Mkdir(w.path("home/hooks"), 0o755)
	each := func(commands ...string) func(s setting, words ...string) setting {
		return func(s setting, words ...string) setting {
			for _, c := range commands {
				s.but(c, words...)
			}
			return s
		}
	}
	refused, unpushed, unsigned := each("send", "close"), each("send", "close", "relay"), each("send", "close")
	settings := []setting{
		set("core.safecrlf", "true"), set("core.safecrlf", "true", "core.autocrlf", "true"), set("core.safecrlf", "true", "core.autocrlf", "input"),
		set("core.safecrlf", "warn", "core.autocrlf", "true"), set("core.autocrlf", "true"), set("core.autocrlf", "input"),
		set("core.eol", "crlf"), set("core.eol", "crlf", "core.autocrlf", "true"),
		set("core.attributesFile", w.path("home/attributes")), set("core.attributesFile", w.path("home/attributes"), "core.safecrlf", "true"),
		set("core.attributesFile", w.path("home/ident")), refused(set("core.attributesFile", w.path("home/utf16")), "-working-tree-encoding"),
		set("core.attributesFile", w.path("home/lf"), "core.safecrlf", "true"),
		refused(set("core.attributesFile", w.path("home/filter"), "filter.upper.clean", "tr a-z A-Z"), "-filter"),
		refused(set("core.attributesFile", w.path("home/filter"), "filter.upper.clean", "false", "filter.upper.required", "true"), "'^filter"),
		set("commit.template", w.path("home/template")), set("commit.template", w.path("home/none")), set("commit.template", "~/none"),
		set("commit.verbose", "true"), set("commit.verbose", "2"), set("commit.status", "false"), set("commit.cleanup", "scissors"), set("commit.cleanup", "verbatim"),
		set("commit.cleanup", "whitespace"), set("commit.cleanup", "nonsense").but("sync", "setting commit.cleanup"),
		set("core.commentChar", "A"), set("core.commentChar", "R"), set("core.commentChar", "H"), set("core.commentChar", "D"), set("core.commentChar", "auto"), set("core.commentChar", ";"),
		set("core.editor", "false"), set("core.pager", "false"), set("core.pager", "cat >&2"), set("pager.log", "true"),
		set("core.quotePath", "false"), set("core.abbrev", "4"), set("core.abbrev", "40"), set("core.hooksPath", w.path("home/hooks")), set("core.hooksPath", "/dev/null"),
		set("core.fsmonitor", "true"), set("core.fsmonitor", w.path("home/bad.sh")), set("core.untrackedCache", "true"), set("core.splitIndex", "true"), set("index.version", "4"), set("feature.manyFiles", "true"),
		set("core.fileMode", "false"), set("core.ignoreCase", "true"), set("core.protectNTFS", "true", "core.protectHFS", "true"), set("core.precomposeUnicode", "true"),
		set("core.bigFileThreshold", "1"), set("core.checkStat", "minimal"), set("core.trustctime", "false"), set("core.logAllRefUpdates", "false"), set("core.whitespace", "trailing-space,cr-at-eol"),
		set("core.sharedRepository", "0640"), set("core.excludesFile", w.path("home/exclude")),
		set("log.showSignature", "true"), set("log.follow", "true"), set("log.decorate", "full"), set("log.date", "relative"), set("log.showRoot", "false"), set("log.abbrevCommit", "true"), set("log.diffMerges", "off"),
		set("color.ui", "always"), set("column.ui", "always"), set("format.pretty", "oneline"), set("format.useAutoBase", "true"),
		set("diff.external", w.path("home/bad.sh")), set("diff.noprefix", "true"), set("diff.renames", "copies"), set("diff.orderFile", w.path("home/order")), unpushed(set("diff.orderFile", w.path("home/none")), "setting diff.orderFile"),
		set("diff.ignoreSubmodules", "all"), set("diff.relative", "true"), set("diff.algorithm", "patience"), set("diff.mnemonicPrefix", "true"), set("diff.submodule", "log"),
		set("status.showUntrackedFiles", "no"), set("status.short", "true"), set("status.branch", "true"), set("status.renames", "copies"), set("status.relativePaths", "false"),
		set("push.default", "nothing"), set("push.default", "matching"), set("push.default", "current"), set("push.followTags", "true"), set("push.gpgSign", "if-asked"), unpushed(set("push.gpgSign", "true"), "setting push.gpgSign", "then git push origin"),
		set("push.autoSetupRemote", "true"), set("push.recurseSubmodules", "check"), set("push.recurseSubmodules", "only"), unpushed(set("push.pushOption", "x"), "setting push.pushOption", "then git push origin"), set("push.useForceIfIncludes", "true"),
		set("fetch.prune", "true"), set("fetch.fsckObjects", "true"), set("fetch.recurseSubmodules", "on-demand"), set("fetch.writeCommitGraph", "true"), set("fetch.output", "compact"), set("fetch.all", "true"), set("fetch.parallel", "0"),
		set("remote.origin.prune", "true"), set("remote.origin.tagOpt", "--tags"), set("remote.pushDefault", "nowhere"), unpushed(set("remote.origin.mirror", "true"), "remote.origin.mirror", "then git push origin"), set("branch.main.pushRemote", "nowhere"),
		set("url."+w.path("")+"/.insteadOf", "x:"), set("protocol.version", "0"), set("protocol.version", "1"), unpushed(set("protocol.file.allow", "never"), "setting protocol.allow").but("sync", "setting protocol.allow"), set("transfer.fsckObjects", "true"), set("transfer.advertiseSID", "true"),
		set("pull.rebase", "true"), set("pull.ff", "only"), set("merge.ff", "false"), set("rebase.autoStash", "true"), set("merge.verifySignatures", "true").but("sync", "hint: git merge --ff-only --no-verify-signatures"), set("merge.renames", "false"),
		set("user.useConfigOnly", "true"), set("author.name", "Another", "author.email", "another@example.net").but("relay", "hint: git config author."),
		set("committer.email", "c@example.net").but("relay", "hint: git config committer.email op@example.com"),
		unsigned(set("commit.gpgSign", "true", "gpg.format", "ssh", "user.signingkey", w.path("home/op.pub")), "[signer-identity]"), unsigned(set("commit.gpgSign", "true", "gpg.format", "openpgp", "user.signingkey", "nobody"), "setting commit.gpgSign"),
		unsigned(set("commit.gpgSign", "true", "gpg.format", "ssh", "user.signingkey", w.path("home/none.pub")), "setting user.signingkey"), set("gpg.minTrustLevel", "ultimate"), set("gpg.ssh.allowedSignersFile", w.path("home/none")),
		set("submodule.recurse", "true"), set("alias.commit", "!false", "alias.push", "!false"), set("i18n.commitEncoding", "ISO-8859-1"), set("i18n.logOutputEncoding", "UTF-16"),
		set("advice.statusHints", "false"), set("help.autocorrect", "prompt"), set("gc.auto", "1"), set("maintenance.auto", "true"), set("trace2.normalTarget", w.path("home/trace")),
		set("extensions.worktreeConfig", "true"), set("safe.bareRepository", "explicit"), set("init.defaultBranch", "other"), set("interactive.singleKey", "true"),
		set("notes.displayRef", "*"), set("trailer.ifexists", "add"), set("mailmap.file", w.path("home/none")), set("blame.ignoreRevsFile", w.path("home/none")), set("checkout.workers", "0"),
	}
	w.write("home/exclude", "*.tmp\n")
	base := w.read("home/.gitconfig")
	for i, s := range settings {
		if os.Getenv("RIGWARD_STRESS") != "full" && i%10 != 1 && len(s.fails) == 0 {
			continue
		}
		name := fmt.Sprint(s.pairs)
		w.write("home/settings", base)
		for _, kv := range s.pairs {
			w.add("home/settings", kv[0], kv[1])
		}
		thread, told := fmt.Sprintf("t-%d", i), false
		for _, dir := range []string{"a", "b"} {
			os.MkdirAll(w.path(filepath.Join(dir, thread)), 0o755)
		}
		w.write("body.md", "Hello.\r\n\n# A heading\n$Id$ "+name+"\n")
		try := func(dir, command string, args ...string) {
			state := func() string {
				return w.repo(dir).Ref("HEAD") + "\n" + w.git(dir, "status", "--porcelain=v1", "-uall")
			}
			words, before := s.fails[command], ""
			if words != nil {
				before = state()
			}
			cmd := w.command(dir, append([]string{command}, args...)...)
			cmd.Env = append(cmd.Env, "GIT_CONFIG_GLOBAL="+w.path("home/settings"))
			o := finish(t, cmd)
			if words == nil {
				if o.code != 0 {
					t.Errorf("%s: %s: exit %d\n%s", name, command, o.code, o.stderr)
				}
				return
			}
			if o.code == 0 {
				return // there was nothing to do
			}
			told = true
			for _, word := range append(words, "hint: ") {
				if !strings.Contains(o.stderr, word) {
					t.Errorf("%s: %s: exit %d, expected %q\n%s", name, command, o.code, word, o.stderr)
				}
			}
			if after := state(); after != before && !strings.Contains(o.stderr, " is kept") {
				t.Errorf("%s: %s: left over\n%s", name, command, after)
			}
		}
		try("a", "send", "HANDOFF", "--thread", thread, "--to", "rig-b", "--body-file", "../body.md", "--tldr", "Hé #"+name)
		try("b", "sync", "--auto")
		if w.repo("a").Ref("HEAD") != w.repo("origin.git").Ref("refs/heads/main") {
			w.tryGit("a", "push", "-q", "origin", "HEAD:main")
		}
		try("b", "close", thread, "--status", "completed")
		try("op", "sync", "--auto")
		if _, err := os.Stat(w.path("op/" + thread + "/HANDOFF.md")); err == nil {
			try("op", "relay", "DECISIONS", "--thread", thread, "--in-reply-to", "HANDOFF.md")
		}
		try("a", "sync", "--auto")
		if !told && len(s.fails) > 0 {
			t.Errorf("%s: nothing failed", name)
		}
		for _, dir := range []string{"a", "b", "op"} {
			w.fetch(dir)
			w.git(dir, "reset", "-q", "--hard", "origin/main")
			if told {
				w.git(dir, "clean", "-q", "-d", "-f")
			}
		}
	}
	var bad []string
	for _, line := range strings.Split(w.git("origin.git", "log", "--format=%H|%an|%cn|%s|%b|%e|%(trailers)", "main"), "\n") {
		if strings.Contains(line, "Nobody") || strings.Contains(line, "# a template") {
			bad = append(bad, line)
		}
	}
	if bad != nil {
		t.Error(bad)
	}
}
