package main

import (
	"strings"

	"github.com/rigward/rigward/internal/ci"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/policy"
)

// program is the table of commands. Help, manual page, completions and the
// reading of a command line are made from it; actions runs them.
func program() *cli.Program {
	server := cli.Flag{Name: "--server", Value: "DIR", Help: "the bare repository"}
	return &cli.Program{
		Name: "rig-hook", About: "Judges what is committed and pushed to a repository of rig messages.",
		Notes: "rig-hook HOOK, as git calls it, is the hook of that name: pre-commit, commit-msg,\npre-push, pre-receive, update, post-receive.\n",
		Exit:  []cli.Exit{{Code: "0", Means: "clean"}, {Code: "1", Means: "findings"}, {Code: "2", Means: "cannot decide"}},
		Commands: []*cli.Command{
			{
				Name: "check", Short: "judge commits", Words: []cli.Word{{Name: "range"}},
				Usage: []string{"check [BASE..HEAD | BASE...HEAD]", "check --all | --stdin | --ci NAME", "check --against COMMIT"},
				Long:  "Judges commits that are in the repository: those of a range, by default those\nthat the upstream does not have.",
				Flags: []cli.Flag{
					{Name: "--all", Help: "the whole history of HEAD"},
					{Name: "--baseline", Value: "COMMIT", Help: "with --all: take what COMMIT has in its history as it is"},
					{Name: "--no-cache", Help: "with --all: read what was judged before, too"},
					{Name: "--against", Value: "COMMIT", Help: "prove that HEAD's history is that of COMMIT, rewritten but for bodies that were taken out"},
					{Name: "--stdin", Help: "ref updates on standard input, as pre-receive gets them"},
					{Name: "--ci", Value: "NAME", Values: ci.Names(), Help: "what the event asks for that this CI system runs for: " + strings.Join(ci.Names(), ", ")},
					{Name: "--branch", Value: "NAME", Help: "with --ci: the default branch, where the system does not say which it is"},
					{Name: "--policy", Value: "WHEN", Values: []string{"then", "now"}, Help: "then (default): by policy and signers of the time of each commit; now: by those of HEAD"},
					{Name: "--format", Value: "NAME", Values: report.Formats(), Help: "text (default), " + strings.Join(report.Formats()[1:], ", ")},
					{Name: "--report", Value: "NAME=FILE", Many: true, Help: "write the report to a file, too, in one of these formats"},
					{Name: "--timeout", Value: "TIME", Help: "give up after that long, such as 60s"},
				},
			},
			{
				Name: "install", Short: "put the hooks where git looks for them",
				Usage: []string{"install [--into-hooks-path] [--resident | --require-resident] [--socket PATH]", "install --server DIR [--into-hooks-path] [--bootstrap] [--resident | --require-resident] [--socket PATH]"},
				Long:  "Puts the hooks of a clone, or of the bare repository DIR, where git looks for\nthem. A hook that is there already stays, and runs first.",
				Flags: []cli.Flag{server,
					{Name: "--bootstrap", Help: "let the first push into it bring policy and signers"},
					{Name: "--resident", Help: "let the resident judge (rig-hook serve) judge where there is one"},
					{Name: "--require-resident", Help: "the same, and refuse where there is none"},
					{Name: "--socket", Value: "PATH", Help: "where the resident judge is, if not at its usual place"},
					{Name: "--into-hooks-path", Help: "write into a hooks directory that others may share"}},
			},
			{Name: "uninstall", Short: "take the hooks out", Long: "Takes the hooks out and puts back what was there before.",
				Flags: []cli.Flag{server, {Name: "--into-hooks-path", Help: "take them out of one that others may share"}}},
			{
				Name: "doctor", Short: "prove that git runs the hooks", Flags: []cli.Flag{server},
				Long: "Tells whether git runs the hooks, which refs they guard, and why, and tries a\nbad commit and a good one in a scratch repository.",
			},
			{
				Name: "self-check", Short: "tell which versions are installed where", Flags: []cli.Flag{server},
				Long: "Tells which versions of rigward's programs are beside this one, on PATH, in the\nhooks of a repository and in pre-commit's cache. It runs none of them.",
			},
			{
				Name: "accept", Short: "take as judged what a guarded ref has", Words: []cli.Word{{Name: "ref", Required: true}},
				Usage: []string{"accept --server DIR REF"},
				Long: "Takes as judged what a guarded ref of the bare repository DIR has now. So a ref\nthat became guarded, and has what breaks a rule or was signed by keys that are\n" +
					"out, goes on from there. REF is a full name, such as refs/heads/release/1.",
				Flags: []cli.Flag{{Name: "--server", Value: "DIR", Required: true, Help: "the bare repository"}},
			},
			{
				Name: "keys", Short: "show and edit who may sign", Words: []cli.Word{{Name: "verb", Values: []string{"list", "add", "remove", "revoke", "test"}}, {Name: "key", Many: true}},
				Usage: []string{"keys list", "keys add PRINCIPALS KEY-FILE", "keys remove KEY", "keys revoke [--server DIR] KEY", "keys test [COMMIT]"},
				Long: `Shows and edits who may sign, in the work tree; a change counts when a signer
has committed it, signed, and pushed it. PRINCIPALS are e-mail addresses and
rig ids, separated by commas; KEY is a fingerprint (SHA256:…) or a public key
file. revoke writes the file that the policy's key revoked names: it counts for
signatures of any date. With --server it writes the server's own list, which
counts at once, besides that of the repository. test judges the signature of a
commit, HEAD by default.`,
				Flags: []cli.Flag{
					{Name: "--server", Value: "DIR", Help: "the bare repository whose own list gets the key"},
					{Name: "--file", Value: "FILE", Help: "signers file, instead of the one that the policy names"},
					{Name: "--namespaces", Value: "LIST", Help: "what the key may sign, such as git"},
					{Name: "--valid-after", Value: "TIME", Help: "first moment at which it counts, YYYYMMDD or YYYYMMDDHHMM[SS], in UTC"},
					{Name: "--valid-before", Value: "TIME", Help: "last moment at which it counts"},
				},
			},
			{
				Name: "expunge", Short: "take the body of a message out", Words: []cli.Word{{Name: "path"}},
				Usage: []string{"expunge PATH --why TEXT", "expunge PATH --why TEXT --write FILE", "expunge PATH --text FILE --approval FILE..."},
				Long: `Puts a tombstone in the place of the body of the message at PATH, counted from
the top of the repository, by a signed commit on the current branch. The policy
names who may (expunge.signers) and how many of them it takes (expunge.quorum).
For more than one, --write writes the text that the others sign, on any machine:
ssh-keygen -Y sign -n rigward-approval -f KEY FILE. Relays stay as they are.

No reader shows the body from then on. But the history and every clone of before
still have it: replace a key or a token first.`,
				Flags: []cli.Flag{
					{Name: "--why", Value: "TEXT", Help: "the reason, which stands in the tombstone"},
					{Name: "--write", Value: "FILE", Help: "write the text that others are to sign; commit nothing"},
					{Name: "--text", Value: "FILE", Help: "commit the text that --write wrote"},
					{Name: "--approval", Value: "FILE", Many: true, Help: "a signature of the text by another signer"},
				},
			},
			{
				Name: "attest", Short: "verify what the server signed of each update, or sign it",
				Words: []cli.Word{{Name: "verb", Values: []string{"verify", "sign"}}},
				Usage: []string{"attest verify [--server DIR] [--ref REF] [--key FILE]", "attest sign [--server DIR] [--beat TIME]"},
				Long: `verify reads the chain of statements in refs/rigward/attestations, in a clone or a
server's repository, and reports whether every update of every ref has its
statement, and none is missing, altered, in another order or of another
repository. Keys that count are those of --key, else of git config
rigward.attestTrust, else those lines of the signers file that name the namespace
rigward-attestation. sign makes the statements that are due, with the key that
git config rigward.attestKey names; post-receive starts it.`,
				Flags: []cli.Flag{server,
					{Name: "--ref", Value: "REF", Help: "tell of this ref only, by its full name"},
					{Name: "--key", Value: "FILE", Many: true, Help: "public keys whose statements count"},
					{Name: "--uuid", Value: "UUID", Help: "the repository whose chain it must be"},
					{Name: "--since", Value: "DIGEST", Help: "take what is before the statement of that digest as it is"},
					{Name: "--beat", Value: "TIME", Help: "sign that nothing happened, where the last statement is older than that"}},
			},
			{
				Name: "approve", Short: "show what others have to sign, and add what they signed", Words: []cli.Word{{Name: "commit"}},
				Usage: []string{"approve [COMMIT]", "approve [COMMIT] --write FILE", "approve [COMMIT] --approval FILE..."},
				Long: `Where the policy wants that several people stand for a change of policy or
signers, or for a relay (quorum), shows what COMMIT (HEAD) changes. --write
writes the text that each of the others signs who stands for it:
ssh-keygen -Y sign -n rigward-approval -f KEY FILE. --approval puts their
signatures into the commit, which is made and signed anew.`,
				Flags: []cli.Flag{
					{Name: "--ref", Value: "REF", Help: "where it is to be pushed; default what the branch is pushed to"},
					{Name: "--on", Value: "COMMIT", Help: "what it was made on first, if its parent is another one now"},
					{Name: "--write", Value: "FILE", Help: "write the text that others are to sign"},
					{Name: "--approval", Value: "FILE", Many: true, Help: "a signature of the text by somebody else"},
				},
			},
			{
				Name: "witness", Short: "cosign the head of a server's attestations",
				Usage: []string{"witness --name NAME --sign KEY [--out FILE]"},
				Long: `Verifies the chain in refs/rigward/attestations, which must continue all that this
clone has seen of it, and cosigns its head with the private key KEY, as C2SP's
tlog-cosignature says. With --out the note goes to FILE, and what others put into
git config rigward.witness, before the FILE they read, to standard output.`,
				Flags: []cli.Flag{
					{Name: "--name", Value: "NAME", Required: true, Help: "of the witness, such as example.com/w1"},
					{Name: "--sign", Value: "KEY", Required: true, Help: "its private key, of type ed25519"},
					{Name: "--key", Value: "FILE", Many: true, Help: "public keys whose statements count"},
					{Name: "--out", Value: "FILE", Help: "where the note goes, standard output by default"}},
			},
			{
				Name: "explain", Short: "tell what a rule demands, or what is guarded", Words: []cli.Word{{Name: "rule"}},
				Usage: []string{"explain RULE | --list | --policy-schema", "explain --guarded [--server DIR]"},
				Long:  "Tells what a rule demands, why, and how to repair what breaks it.",
				Flags: []cli.Flag{
					{Name: "--list", Help: "all rules with their default severity"},
					{Name: "--guarded", Help: "every ref, whether history rules hold on it, and why"},
					{Name: "--server", Value: "DIR", Help: "of the bare repository DIR"},
					{Name: "--policy-schema", Help: "the JSON Schema of " + policy.Path},
				},
			},
			{
				Name: "serve", Short: "judge for the hooks of all repositories of this user", Usage: []string{"serve [--socket PATH] [--workers N] [--memory MIB]"},
				Long: "Runs until it is told to end, and judges what hooks hand over that\n`rig-hook install --resident` installed: so a hook need not load a program. Only\nhooks of the same user are served, each as if it judged by itself. On Linux.",
				Flags: []cli.Flag{
					{Name: "--socket", Value: "PATH", Help: "where hooks find it; default $RIGWARD_JUDGE, else /run/rigward/judge-UID.sock"},
					{Name: "--workers", Value: "N", Help: "how many calls are judged at once; default twice the processors, at most 8"},
					{Name: "--memory", Value: "MIB", Help: "what all of them have together; default 512. Beyond it the largest is ended"}},
			},
			{
				Name: "gerrit", Short: "a hook of Gerrit's hooks plugin", Usage: []string{"gerrit ref-update | commit-received FLAGS"},
				Long: "A hook of Gerrit's hooks plugin, with the flags that Gerrit gives it.",
			},
			{
				Name: "index", Short: "bring the control plane up, or compare it", Usage: []string{"index [--all | --check]"},
				Long: "Starts rig-control index.",
				Flags: []cli.Flag{
					{Name: "--all", Help: "read the whole history anew"},
					{Name: "--check", Help: "compare with the history; write nothing"},
				},
			},
			{
				Name: "demo", Short: "watch a server refuse bad pushes",
				Long:  "Makes a server and two clones in a scratch directory and pushes good and bad\ncommits.",
				Flags: []cli.Flag{{Name: "--keep", Help: "leave the directory and tell where it is"}},
			},
		},
	}
}
