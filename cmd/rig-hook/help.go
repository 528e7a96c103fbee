package main

import (
	"fmt"
	"io"
)

const usage = `usage: rig-hook HOOK [words as git gives them]
       rig-hook check [BASE..HEAD | --all | --stdin]   judge commits
       rig-hook install | uninstall                    client hooks of this repository
       rig-hook install | uninstall --server DIR       hooks of a bare repository
       rig-hook doctor [--server DIR]                  prove that git runs the hooks
       rig-hook accept --server DIR REF                take as judged what a guarded ref has
       rig-hook keys list | add | remove | revoke | test
       rig-hook explain RULE | --list | --guarded | --policy-schema
       rig-hook gerrit ref-update | commit-received    flags as Gerrit gives them
       rig-hook index [--all | --check]                bring the control plane up, or compare it
       rig-hook demo                                   watch a server refuse bad pushes
HOOK:  pre-commit, commit-msg, pre-push, pre-receive, update, post-receive
help:  rig-hook COMMAND --help
exit:  0 clean, 1 findings, 2 cannot decide
`

// helps tells of each command and of all its flags.
var helps = map[string]string{
	"check": `usage: rig-hook check [BASE..HEAD | BASE...HEAD]
       rig-hook check --all | --stdin

Judges commits that are in the repository: those of a range, by default those
that the upstream does not have.

  --all             the whole history of HEAD
  --baseline COMMIT with --all: take what COMMIT has in its history as it is
  --stdin           ref updates on standard input, as pre-receive gets them
  --policy WHEN     then (default): by policy and signers of the time of each commit; now: by those of HEAD
  --format NAME     text (default), json, jsonl, sarif, junit, github, markdown, html
  --report NAME=FILE
                    write the report to a file, too, in one of these formats; may be repeated
  --timeout TIME    give up after that long, such as 60s
`,
	"install": `usage: rig-hook install [--into-hooks-path]
       rig-hook install --server DIR [--bootstrap]

Puts the hooks of a clone, or of the bare repository DIR, where git looks for
them. A hook that is there already stays, and runs first.

  --server DIR        the bare repository
  --bootstrap         let the first push into it bring policy and signers
  --into-hooks-path   write into the directory that core.hooksPath names
`,
	"uninstall": `usage: rig-hook uninstall [--server DIR]

Takes the hooks out and puts back what was there before.

  --server DIR   the bare repository
`,
	"doctor": `usage: rig-hook doctor [--server DIR]

Tells whether git runs the hooks, which refs they guard, and why, and tries a
bad commit and a good one in a scratch repository.

  --server DIR   the bare repository
`,
	"accept": `usage: rig-hook accept --server DIR REF

Takes as judged what a guarded ref of the bare repository DIR has now. So a ref
that became guarded, and has what breaks a rule or was signed by keys that are
out, goes on from there. REF is a full name, such as refs/heads/release/1.

  --server DIR   the bare repository
`,
	"keys": `usage: rig-hook keys list
       rig-hook keys add PRINCIPALS KEY-FILE
       rig-hook keys remove KEY
       rig-hook keys revoke [--server DIR] KEY
       rig-hook keys test [COMMIT]

Shows and edits who may sign, in the work tree; a change counts when a signer
has committed it, signed, and pushed it. PRINCIPALS are e-mail addresses and
rig ids, separated by commas; KEY is a fingerprint (SHA256:…) or a public key
file. revoke writes the file that the policy's key revoked names: it counts for
signatures of any date. With --server it writes the server's own list, which
counts at once, besides that of the repository. test judges the signature of a
commit, HEAD by default.

  --server DIR         the bare repository whose own list gets the key
  --file FILE          signers file, instead of the one that the policy names
  --namespaces LIST    what the key may sign, such as git
  --valid-after TIME   first moment at which it counts, YYYYMMDD or YYYYMMDDHHMM[SS], in UTC
  --valid-before TIME  last moment at which it counts
`,
	"explain": `usage: rig-hook explain RULE | --list | --policy-schema
       rig-hook explain --guarded [--server DIR]

  --list            all rules with their default severity
  --guarded         every ref, whether history rules hold on it, and why
  --server DIR      of the bare repository DIR
  --policy-schema   the JSON Schema of .bridge/policy.yaml
`,
	"demo": `usage: rig-hook demo [--keep]

Makes a server and two clones in a scratch directory and pushes good and bad
commits.

  --keep   leave the directory and tell where it is
`,
	"gerrit": `usage: rig-hook gerrit ref-update | commit-received FLAGS

A hook of Gerrit's hooks plugin, with the flags that Gerrit gives it.
`,
	"version": "usage: rig-hook version\n",
}

func printHelp(w io.Writer, name string) {
	fmt.Fprintf(w, "%s\nexit: 0 clean, 1 findings, 2 cannot decide\n", helps[name])
}
