package bridge

import (
	"fmt"
	"strings"
)

// A command is one verb of the client. The table in commands is the only place
// that knows words and flags: the parser, the help texts, the completions and
// the man pages are made from it.
type command struct {
	name  string
	words []word
	flags []flag
	short string
	long  string
	run   func(*run) error
	// writes says that git's configuration is needed in any case.
	writes bool
}

type word struct {
	name     string // as in the usage, without brackets
	required bool
	many     bool
	values   []string // for completions
}

type flag struct {
	name   string // with its two dashes
	value  string // name of its value; "" for a boolean flag
	many   bool
	maybe  bool     // the value may be left out
	values []string // for completions
	help   string
}

// shown is the flag with its value, as in the usage.
func (f flag) shown() string {
	switch {
	case f.value == "":
		return f.name
	case f.maybe:
		return f.name + " [" + f.value + "]"
	}
	return f.name + " " + f.value
}

var types = []string{"REQUEST", "HANDOFF", "RESPONSE", "ACK", "RESOLUTION", "STATE", "RESULT", "RECOVERY", "VERIFY", "DECISIONS"}

var relayTypes = []string{"DECISIONS", "RESPONSE", "ACK"}

// questions are the queries of the control plane.
var questions = []string{"turn", "open", "idle", "frozen", "diverged", "refused", "relays", "unverified", "message", "events"}

// common are the flags of every command.
var common = []flag{
	{name: "--json", help: "print one JSON object on one line"},
	{name: "--no-color", help: "never use colour"},
	{name: "--help", help: "print this help"},
}

func commands() []*command {
	threadFlag := flag{name: "--thread", value: "THREAD", help: "thread to write to (required)"}
	tldrFlag := flag{name: "--tldr", value: "TEXT", help: "summary, also the subject of the commit; 280 characters"}
	bodyFlag := flag{name: "--body-file", value: "FILE", help: "body of the message; - waits for standard input, a pipe is read anyway"}
	refFlag := flag{name: "--ref", value: "COMMIT", many: true, help: "commit that the message refers to; may be repeated"}
	fromEnv := flag{name: "--author-from-env", help: "let GIT_AUTHOR_* and GIT_COMMITTER_* say who commits, and when"}
	noPush := flag{name: "--no-push", help: "commit, but do not push"}
	interval := flag{name: "--interval", value: "SECONDS", help: "time between two looks of --watch"}
	statusFlag := func(def string) flag {
		return flag{name: "--status", value: "STATUS", help: "status line, a marker and a text (default: " + def + ")"}
	}
	thread := word{name: "thread-id", required: true}
	return []*command{
		{name: "init", short: "make this clone a rig", run: runInit, flags: []flag{
			{name: "--rig-id", value: "ID", help: "name of this rig (required)"},
			{name: "--display-name", value: "TEXT", help: "name for people, at most 80 characters"},
			{name: "--force", help: "replace a configuration that says something else"},
			{name: "--no-hooks", help: "do not install the client hooks"},
		}, long: "Writes .bridge/config.yaml, keeps it out of commits, and installs the client hooks.\nA second run with the same values changes nothing."},
		{name: "new", short: "open a thread with a scaffold of its REQUEST", run: runNew, words: []word{thread}, flags: []flag{
			{name: "--force", help: "replace a REQUEST.md that is not yet committed"},
		}, long: "Creates THREAD/REQUEST.md to be edited; `rig-bridge send REQUEST --thread THREAD` sends it.\nNothing is staged or committed."},
		{name: "send", short: "write, commit and push a message", run: runSend, writes: true, words: []word{{name: "type", required: true, values: types}}, flags: []flag{
			threadFlag,
			{name: "--to", value: "IDS", many: true, help: "recipients, separated by commas; may be repeated (required)"},
			{name: "--in-reply-to", value: "HASH|FILE|last", help: "message that is answered; the commit that brought it is referred to"},
			statusFlag("▶ TYPE sent"), tldrFlag, bodyFlag, refFlag, noPush, fromEnv,
		}, long: "Commits exactly one new file, whatever else is staged, and pushes it to the upstream of\nthe current branch. If somebody else was faster the message is put on top and pushed again."},
		{name: "close", short: "end a thread with a RESOLUTION", run: runClose, writes: true, words: []word{thread}, flags: []flag{
			{name: "--status", value: "completed|cancelled", values: []string{"completed", "cancelled"}, help: "how the thread ended (required)"},
			{name: "--note", value: "TEXT", help: "text after the status"},
			{name: "--to", value: "IDS", many: true, help: "recipients (default: the most frequent peer in the thread)"},
			noPush, fromEnv,
		}, long: "Writes RESOLUTION.md, commits and pushes it as send does."},
		{name: "relay", short: "carry an operator's signed decision into a thread", run: runRelay, writes: true, words: []word{{name: "type", required: true, values: relayTypes}}, flags: []flag{
			threadFlag,
			{name: "--in-reply-to", value: "HASH|FILE", help: "turn that is answered, by its body_hash or its file (required)"},
			{name: "--to", value: "IDS", many: true, help: "recipients (default: the most frequent peer in the thread)"},
			statusFlag("▶ Relayed TYPE"), tldrFlag, bodyFlag, refFlag, noPush,
		}, long: "The rig id of this clone ends in -relay. The commit is signed with git's own signing key\n(user.signingkey, gpg.format ssh), which the message names by its fingerprint."},
		{name: "status", short: "list the threads", run: runStatus, flags: []flag{
			{name: "--wide", help: "more columns"},
			{name: "--to", value: "RIG", maybe: true, help: "only threads with messages to this rig, and how many of them are unread (default: me, the rig of this clone)"},
			{name: "--watch", help: "print a JSON line now and whenever something changes"},
			interval,
		}, long: "Reads the work tree and changes nothing in it. With --wide or --to it says whose word the\nlatest message of a thread is and when it was committed. Unread is what `rig-bridge read` has not marked."},
		{name: "thread", short: "show the messages of a thread in order", run: runThread, words: []word{thread}, flags: []flag{
			{name: "--graph", help: "show who answers whom as a graph"},
			{name: "--format", value: "text|mermaid", values: []string{"text", "mermaid"}, help: "form of the output (default: text)"},
			{name: "--allow-refused", help: "show what the gates refuse among the others"},
			{name: "--watch", help: "print a JSON line now and for the messages that come; with --format text their text"},
			interval,
		}, long: "Reads the work tree, says of each message whose word it is by the rules of the gates, and\nshows apart what they refuse. Marks nothing as read."},
		{name: "read", short: "mark messages as read", run: runRead, words: []word{thread, {name: "message", many: true}}, flags: []flag{
			{name: "--at", value: "MARK", help: "what `rig-bridge thread --json` showed, by the mark that it names"},
		}, long: "Marks for the rig of this clone what HEAD has of a thread, or the messages that are named by file\nor body hash. Nothing else marks a message as read. The marks stay in this clone."},
		{name: "sync", short: "judge what the others sent, and take it", run: runSync, writes: true, flags: []flag{
			{name: "--auto", help: "fast-forward the branch if everything that came passes the rules"},
			{name: "--check", help: "fetch nothing, write nothing: judge what was fetched before"},
			{name: "--watch", help: "print a JSON line now and whenever something changes"},
			interval,
		}, long: "Fetches the upstream of the current branch. Only a fast-forward of new, valid messages is\naccepted; anything else is named and refused with exit code 1."},
		{name: "query", short: "ask the control plane", run: runQuery, words: []word{{name: "question", required: true, values: questions}, {name: "hash"}}, flags: []flag{
			{name: "--to", value: "RIG", help: "only what is to this rig; me is the rig of this clone"},
			{name: "--since", value: "TIME", help: "only what was committed since, a date, a time or an age such as 7d"},
			{name: "--limit", value: "N", help: "rows at the most; 0 for all (default: 100)"},
			{name: "--sql", help: "print the statement and its parameters instead"},
		}, long: "Reads the database that control_plane in .bridge/config.yaml names; writes nothing.\nThe questions message and events take the body_hash of a message."},
		{name: "validate", short: "judge message files", run: runValidate, words: []word{{name: "path", required: true, many: true}},
			long: "Files are judged as they are; directories for the messages in them. What the gates refuse\nin the history of this clone is not valid. Exit code 0 if all are valid, 1 if some are not, 2\nif something named could not be read."},
	}
}

func findCommand(name string) *command {
	for _, c := range commands() {
		if c.name == name {
			return c
		}
	}
	return nil
}

func (c *command) allFlags() []flag { return append(append([]flag(nil), c.flags...), common...) }

func (c *command) flag(name string) (flag, bool) {
	for _, f := range c.allFlags() {
		if f.name == name {
			return f, true
		}
	}
	return flag{}, false
}

func (c *command) watches() bool { _, ok := c.flag("--watch"); return ok }

// usage returns the synopsis in one line.
func (c *command) usage() string {
	var b strings.Builder
	b.WriteString("rig-bridge " + c.name)
	for _, w := range c.words {
		switch {
		case w.many && !w.required:
			b.WriteString(" [" + w.name + "]...")
		case w.many:
			b.WriteString(" <" + w.name + ">...")
		default:
			b.WriteString(" <" + w.name + ">")
		}
	}
	for _, f := range c.flags {
		s := f.shown()
		if strings.Contains(f.help, "(required)") {
			b.WriteString(" " + s)
		} else {
			b.WriteString(" [" + s + "]")
		}
	}
	return b.String()
}

func (c *command) help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "usage: %s\n\n%s\n\n", c.usage(), c.long)
	for _, f := range c.allFlags() {
		fmt.Fprintf(&b, "  %-28s  %s\n", f.shown(), f.help)
	}
	if len(c.words) > 0 && c.words[0].values != nil {
		fmt.Fprintf(&b, "\n<%s> is one of %s.\n", c.words[0].name, strings.Join(c.words[0].values, " "))
	}
	return b.String()
}

func overview() string {
	var b strings.Builder
	b.WriteString("usage: rig-bridge COMMAND [flags] [words]\n\nMessages between rigs, kept in a git repository.\n\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "  %-9s %s\n", c.name, c.short)
	}
	b.WriteString(`
  --version, -v   print the version
  --help, -h      print this help; after a command: the help of the command

Every command takes --json (one object on one line) and --no-color.
Exit codes: 0 done, 1 user error or refusal, 2 could not be decided, 130 and 143 interrupted.
`)
	return b.String()
}

// options are the words and flags of one command line.
type options struct {
	words  []string
	values map[string][]string // by flag; boolean flags have one empty value
}

func (o options) has(name string) bool { _, ok := o.values[name]; return ok }

// value returns the last value of a flag.
func (o options) value(name string) (string, bool) {
	v := o.values[name]
	if len(v) == 0 {
		return "", false
	}
	return v[len(v)-1], true
}

func (o options) word() string {
	if len(o.words) == 0 {
		return ""
	}
	return o.words[0]
}

// parseArgs reads what follows the command (docs/spec/client.md#command-line). The first
// error is returned after the whole line was read, so that --json and --help
// count wherever they stand.
func parseArgs(c *command, args []string) (o options, help bool, err error) {
	o.values = map[string][]string{}
	fail := func(format string, a ...any) {
		if err == nil {
			err = usageError(c, format, a...)
		}
	}
	most := 0
	for _, w := range c.words {
		if most++; w.many {
			most = len(args)
		}
	}
	takeWord := func(s string) {
		if len(o.words) == most {
			fail("surplus word %s", quote(s))
			return
		}
		o.words = append(o.words, s)
	}
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			for _, w := range args[i+1:] {
				takeWord(w)
			}
			return o, help, err
		case a == "-h" || a == "--help":
			help = true
			continue
		case !strings.HasPrefix(a, "--"):
			takeWord(a)
			continue
		}
		name, value, inline := strings.Cut(a, "=")
		f, known := c.flag(name)
		switch {
		case !known:
			fail("unknown flag %s", quote(name))
		case f.value == "" && inline:
			fail("%s takes no value", name)
		case f.value == "":
			o.values[name] = []string{""}
		case inline:
			o.values[name] = append(o.values[name], value)
		case (i+1 == len(args) || strings.HasPrefix(args[i+1], "--")) && f.maybe:
			o.values[name] = append(o.values[name], "")
		case i+1 == len(args) || strings.HasPrefix(args[i+1], "--"):
			fail("%s needs a value (%s)", name, f.value)
		default:
			i++
			o.values[name] = append(o.values[name], args[i])
		}
	}
	return o, help, err
}
