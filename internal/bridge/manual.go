package bridge

import "github.com/rigward/rigward/pkg/policy"

// manual are the sections of the manual page that no table makes, in man(7)
// macros.
const manual = `.SH ENVIRONMENT
.TP
.B DEBUG_RIG_BRIDGE
set and neither empty, 0, false, no nor off: one line about program and platform on standard error
.TP
.B NO_COLOR
set, even empty: no colour
.TP
.B RIG_BRIDGE_NO_PAGER
1, true, yes or on: no pager
.TP
.BR PAGER ", " LESS
the pager of status and thread, by default less; run without a shell
.PP
git's own variables count as for git; relay ignores those that name an identity.
.SH FILES
.TP
.I ` + configFile + `
rig_id and display_name of this clone; kept out of commits
.TP
.I ` + policy.Path + `, ` + policy.Signers + `
the rules of the repository, and whose signatures count
.TP
.I rig\-bridge.lock, rig\-bridge.journal
in git's common directory: one writer at a time, and what a killed run left to finish
.SH SEE ALSO
.BR rig\-hook (1),
.BR git (1)
`
