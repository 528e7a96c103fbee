package bridge

import (
	"errors"

	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/pkg/envelope"
)

var relayTypes = []string{"DECISIONS", "RESPONSE", "ACK"}

// whichMessage says what names the message that is answered.
const whichMessage = "THREAD/FILE, THREAD/HASH, a body hash of the inbox, or a thread: its newest message to\nthis rig. Without one it is the only unread message, if there is only one."

// questions are the queries of the control plane.
var questions = []string{"turn", "backlog", "open", "idle", "frozen", "diverged", "refused", "pushes", "refused-pushes", "relays", "unverified", "messages", "acked", "search", "stats", "pushers", "push-days", "message", "events"}

func commands() []*cli.Command {
	threadFlag := cli.Flag{Name: "--thread", Value: "THREAD", Required: true, Help: "thread to write to"}
	tldrFlag := cli.Flag{Name: "--tldr", Value: "TEXT", Help: "summary, also the subject of the commit; 280 characters"}
	bodyFlag := cli.Flag{Name: "--body-file", Value: "FILE", Help: "body of the message; - waits for standard input, a pipe is read anyway"}
	refFlag := cli.Flag{Name: "--ref", Value: "COMMIT", Many: true, Help: "commit that the message refers to; may be repeated"}
	fromEnv := cli.Flag{Name: "--author-from-env", Help: "let GIT_AUTHOR_* and GIT_COMMITTER_* say who commits, and when"}
	noPush := cli.Flag{Name: "--no-push", Help: "commit, but do not push"}
	interval := cli.Flag{Name: "--interval", Value: "SECONDS", Help: "time between two looks of --watch"}
	statusFlag := func(def string) cli.Flag {
		return cli.Flag{Name: "--status", Value: "STATUS", Help: "status line, a marker and a text (default: " + def + ")"}
	}
	thread := cli.Word{Name: "thread-id", Required: true}
	keyFlag := cli.Flag{Name: "--key", Value: "KEY", Help: "a name that you choose: the same message with the same key is sent once from this clone"}
	only := cli.Flag{Name: "--thread", Value: "THREAD", Help: "only this thread"}
	after := cli.Flag{Name: "--after", Value: "CURSOR", Help: "what was not shown when that cursor was printed"}
	answered := cli.Word{Name: "message"}
	return []*cli.Command{
		{Name: "init", Short: "make this clone a rig", Flags: []cli.Flag{
			{Name: "--rig-id", Value: "ID", Help: "name of this rig", Required: true},
			{Name: "--display-name", Value: "TEXT", Help: "name for people, at most 80 characters"},
			{Name: "--force", Help: "replace a configuration that says something else"},
			{Name: "--no-hooks", Help: "do not install the client hooks"},
		}, Long: "Writes " + configFile + ", keeps it out of commits, and installs the client hooks.\nA second run with the same values changes nothing."},
		{Name: "new", Short: "open a thread with a scaffold of its REQUEST", Words: []cli.Word{thread}, Flags: []cli.Flag{
			{Name: "--force", Help: "replace a REQUEST.md that is not yet committed"},
		}, Long: "Creates THREAD/REQUEST.md to be edited; `rig-bridge send REQUEST --thread THREAD` sends it.\nNothing is staged or committed."},
		{Name: "send", Short: "write, commit and push a message", Words: []cli.Word{{Name: "type", Required: true, Values: envelope.Types()}}, Flags: []cli.Flag{
			threadFlag,
			{Name: "--to", Value: "IDS", Many: true, Help: "recipients, separated by commas; may be repeated (default: those that REQUEST.md names, if a REQUEST sends it)"},
			{Name: "--in-reply-to", Value: "HASH|FILE|last", Help: "message that is answered; the commit that brought it is referred to"},
			{Name: "--open", Help: "open the thread with this REQUEST if it is not there"},
			statusFlag("▶ TYPE sent"), tldrFlag, bodyFlag, refFlag, keyFlag, noPush, fromEnv,
		}, Long: "Commits exactly one new file, whatever else is staged, and pushes it to the upstream of\nthe current branch. If somebody else was faster the message is put on top and pushed again."},
		{Name: "reply", Short: "answer a message", Words: []cli.Word{answered}, Flags: []cli.Flag{
			{Name: "--type", Value: "TYPE", Values: envelope.Types(), Help: "type of the answer (default: RESPONSE)"},
			{Name: "--to", Value: "IDS", Many: true, Help: "recipients (default: who wrote the message)"},
			statusFlag("▶ TYPE sent"), tldrFlag, bodyFlag, refFlag, keyFlag, noPush, fromEnv,
		}, Long: "Sends as send does; thread, recipients and in_reply_to come from the message, which is read from\nthen on. MESSAGE is " + whichMessage},
		{Name: "ack", Short: "acknowledge a message", Words: []cli.Word{answered}, Flags: []cli.Flag{
			{Name: "--to", Value: "IDS", Many: true, Help: "recipients (default: who wrote the message)"},
			statusFlag("▶ ACK sent"), tldrFlag, bodyFlag, refFlag, keyFlag, noPush, fromEnv,
		}, Long: "Sends an ACK of a message, which is read from then on. What this rig has acknowledged is not\nacknowledged twice. MESSAGE is " + whichMessage},
		{Name: "close", Short: "end a thread with a RESOLUTION", Words: []cli.Word{thread}, Flags: []cli.Flag{
			{Name: "--status", Value: "completed|cancelled", Values: []string{"completed", "cancelled"}, Required: true, Help: "how the thread ended"},
			{Name: "--note", Value: "TEXT", Help: "text after the status"},
			{Name: "--to", Value: "IDS", Many: true, Help: "recipients (default: the most frequent peer in the thread)"},
			noPush, fromEnv,
		}, Long: "Writes RESOLUTION.md, commits and pushes it as send does."},
		{Name: "relay", Short: "carry an operator's signed decision into a thread", Words: []cli.Word{{Name: "type", Required: true, Values: relayTypes}}, Flags: []cli.Flag{
			threadFlag,
			{Name: "--in-reply-to", Value: "HASH|FILE", Late: true, Help: "turn that is answered, by its body_hash or its file"},
			{Name: "--to", Value: "IDS", Many: true, Help: "recipients (default: the most frequent peer in the thread)"},
			statusFlag("▶ Relayed TYPE"), tldrFlag, bodyFlag, refFlag, noPush,
		}, Long: "The rig id of this clone ends in -relay. The commit is signed with git's own signing key\n(user.signingkey, gpg.format ssh), which the message names by its fingerprint."},
		{Name: "inbox", Short: "show what waits for this rig", Flags: []cli.Flag{
			{Name: "--unread", Help: "only messages that are not marked as read"}, only,
			{Name: "--limit", Value: "N", Help: "messages at the most (default: 50)"}, after,
		}, Long: "Unread messages, turns that are its own, operators' decisions and frozen threads, the oldest\nfirst, of what HEAD has. Fetches nothing, and marks nothing as read."},
		{Name: "wait", Short: "wait until something comes for this rig", Flags: []cli.Flag{
			{Name: "--timeout", Value: "SECONDS", Help: "how long at the most, a number of seconds or 90s, 10m (default: for ever)"}, only, after,
			{Name: "--watch", Help: "print a JSON line for what comes, again and again"},
		}, Long: "Fetches, then returns if unread messages wait; with --after CURSOR only new ones count. Fetches\nagain at longer and longer intervals, and takes what `rig-bridge sync --auto` takes. Exit code 3 if nothing came."},
		{Name: "status", Short: "list the threads", Flags: []cli.Flag{
			{Name: "--wide", Help: "more columns"},
			{Name: "--watch", Help: "print a JSON line now and whenever something changes"},
			interval,
			{Name: "--to", Value: "RIG", Optional: true, Help: "only threads with messages to this rig, and how many of them are unread (default: me, the rig of this clone)"},
		}, Long: "Reads the work tree and changes nothing in it. With --wide or --to it says whose word the\nlatest message of a thread is and when it was committed. Unread is what `rig-bridge read` has not marked."},
		{Name: "thread", Short: "show the messages of a thread in order", Words: []cli.Word{thread}, Flags: []cli.Flag{
			{Name: "--graph", Help: "show who answers whom as a graph"},
			{Name: "--format", Value: "text|mermaid", Values: []string{"text", "mermaid"}, Help: "form of the output (default: text)"},
			{Name: "--allow-refused", Help: "show what the gates refuse among the others"},
			{Name: "--watch", Help: "print a JSON line now and for the messages that come; with --format text their text"},
			interval,
		}, Long: "Reads the work tree, says of each message whose word it is by the rules of the gates, and\nshows apart what they refuse. Marks nothing as read."},
		{Name: "read", Short: "mark messages as read", Words: []cli.Word{thread, {Name: "message", Many: true}}, Flags: []cli.Flag{
			{Name: "--at", Value: "MARK", Help: "what `rig-bridge thread --json` showed, by the mark that it names"},
		}, Long: "Marks for the rig of this clone what HEAD has of a thread, or the messages that are named by file\nor body hash. Nothing else marks a message as read. The marks stay in this clone."},
		{Name: "sync", Short: "judge what the others sent, and take it", Flags: []cli.Flag{
			{Name: "--auto", Help: "fast-forward the branch if everything that came passes the rules"},
			{Name: "--check", Help: "fetch nothing, write nothing: judge what was fetched before"},
			{Name: "--watch", Help: "print a JSON line now and whenever something changes"},
			interval,
		}, Long: "Fetches the upstream of the current branch. Only a fast-forward of new, valid messages is\naccepted; anything else is named and refused with exit code 1."},
		{Name: "query", Short: "ask the control plane", Words: []cli.Word{{Name: "question", Required: true, Values: questions}, {Name: "hash", Many: true}}, Flags: []cli.Flag{
			{Name: "--to", Value: "RIG", Help: "only what is to this rig; me is the rig of this clone"},
			{Name: "--from", Value: "RIG", Help: "only what this rig wrote; of pushes, what this user pushed"},
			{Name: "--type", Value: "TYPE", Help: "only messages of this type"},
			{Name: "--since", Value: "TIME", Help: "only what was committed since, a date, a time or an age such as 7d"},
			{Name: "--until", Value: "TIME", Help: "only what was committed before"},
			{Name: "--repo", Value: "NAME", Many: true, Help: "a repository of the database in place of this one; may be repeated"},
			{Name: "--all", Help: "all repositories of the database"},
			{Name: "--refused", Help: "search what the gates refuse, and nothing else"},
			{Name: "--limit", Value: "N", Help: "rows at the most; 0 for all (default: 100)"},
			{Name: "--after", Value: "CURSOR", Help: "the rows that follow, as after= of an answer says"},
			{Name: "--csv", Help: "print CSV; a cell that a spreadsheet would compute begins with '"},
			{Name: "--follow", Help: "print all events as they come, one JSON object a line"},
			{Name: "--once", Help: "with --follow: end when there are no more"},
			{Name: "--sql", Help: "print the statement and its parameters instead"},
		}, Long: "Reads the database that control_plane in " + configFile + " names; writes nothing. The questions\nmessage and events take the body_hash of a message, search takes words."},
		{Name: "ui", Short: "show this clone as a page in a browser", Flags: UIFlags(), Alone: true,
			Long: "Prints the address of a page that shows what waits, threads with whose word each message is, and what\nthe gates refuse. It can change nothing. Starts rig-control, which keeps an index in the git directory."},
		{Name: "mcp", Short: "serve this clone to an agent, by MCP", Flags: MCPFlags(), Alone: true,
			Long: "Speaks the Model Context Protocol on standard input and output until the input ends; docs/agents.md\nhas the settings of hosts. Starts rig-mcp. No tool of it makes a relay."},
		{Name: "validate", Short: "judge message files", Words: []cli.Word{{Name: "path", Required: true, Many: true}},
			Long: "Files are judged as they are; directories for the messages in them. What the gates refuse\nin the history of this clone is not valid. Exit code 0 if all are valid, 1 if some are not, 2\nif something named could not be read."},
	}
}

// An action is what a command does.
type action struct {
	run func(*run) error
	// writes says that git's configuration is needed in any case.
	writes bool
}

var actions = map[string]action{
	"init":     {runInit, false},
	"new":      {runNew, false},
	"send":     {runSend, true},
	"close":    {runClose, true},
	"relay":    {runRelay, true},
	"status":   {runStatus, false},
	"thread":   {runThread, false},
	"sync":     {runSync, true},
	"query":    {runControl, false},
	"ui":       {runControl, false},
	"mcp":      {runMCP, false},
	"read":     {runRead, false},
	"inbox":    {runInbox, false},
	"wait":     {runWait, true},
	"ack":      {runAck, true},
	"reply":    {runReply, true},
	"validate": {runValidate, false},
}

// program is the table of commands: the parser, the help texts, the completions
// and the manual page are made from it.
func program() *cli.Program {
	return &cli.Program{
		Name: "rig-bridge", About: "Messages between rigs, kept in a git repository.", Commands: commands(),
		Notes: "Every command but ui and mcp takes --json (one object on one line) and --no-color;\n--version prints the version.\n",
		Common: []cli.Flag{
			{Name: "--json", Help: "print one JSON object on one line"},
			{Name: "--no-color", Help: "never use colour"},
		},
		Exit: []cli.Exit{
			{Code: "0", Means: "done"}, {Code: "1", Means: "user error or refusal"}, {Code: "2", Means: "could not be decided"},
			{Code: "3", Means: "wait: nothing came in time"},
			{Code: "130", Means: "interrupted (SIGINT)"}, {Code: "143", Means: "interrupted (SIGTERM)"},
		},
		Man: manual,
	}
}

// MCPFlags are the flags of mcp.
func MCPFlags() []cli.Flag {
	return []cli.Flag{{Name: "--clone", Value: "DIR", Help: "clone of the rig (default: the current directory)"}}
}

// UIFlags are the flags of ui.
func UIFlags() []cli.Flag {
	return []cli.Flag{{Name: "--listen", Value: "ADDRESS", Help: "where to be reached (default: a free port of this machine)"}}
}

// Questions are the questions of query.
func Questions() []string { return questions }

// QueryFlags are the flags of query.
func QueryFlags() []cli.Flag { return append(program().Find("query").Flags, program().Common...) }

func watches(c *cli.Command) bool {
	for _, f := range c.Flags {
		if f.Name == "--watch" {
			return true
		}
	}
	return false
}

// parseArgs reads what follows a command (docs/spec/client.md#command-line).
func parseArgs(c *cli.Command, args []string) (line cli.Line, help bool, err error) {
	line, help, err = program().Parse(c, args)
	return line, help, usage(err)
}

// usage is an error of the command line as a failure.
func usage(err error) error {
	var e *cli.Error
	if errors.As(err, &e) {
		return fail(codeUsage, "%s", e.Message).withHint("%s", e.Hint)
	}
	return err
}
