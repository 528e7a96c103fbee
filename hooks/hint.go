package hooks

import (
	"errors"
	"strings"

	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/sshsign"
)

// Hint returns the command or line that repairs the cause of err at a gate of
// r, which may be nil; "" if none is known. Where a file of the repository is
// broken it says, besides, how the repair gets in, for the gate reads the file
// that was there before: on a server, what stands for it until it is repaired;
// in a clone, that hooks can be passed.
func Hint(env *Env, r *gitrepo.Repo, server bool, err error) string {
	hint := policy.HintOf(err)
	if errors.Is(err, gitrepo.ErrUnsafe) && env.Getenv("HOME") == "" && env.Getenv("XDG_CONFIG_HOME") == "" {
		// git has no file for --global then.
		return strings.Replace(hint, "git config --global ", "git config --system ", 1)
	}
	if r == nil {
		return hint
	}
	key := ""
	var u *policy.Undecided
	var signers *sshsign.ParseError
	if errors.As(err, &signers) {
		key = "rigward.allowedSigners"
	} else if errors.As(err, &u) {
		if _, broken := policy.DecodeError(u.Cause); broken {
			key = "rigward.policy"
		}
	}
	if key == "" {
		return hint
	}
	if own, _, err := r.ConfigLast(key); err != nil || own != "" {
		return hint // it is the server's own file that is broken
	}
	if hint != "" {
		hint += "; "
	}
	if !server {
		if _, err := OwnPolicy(r); err != nil {
			return policy.HintOf(err) // it is the clone's own file that is broken
		}
		return hint + "the file as it is committed counts: commit and push the repair with --no-verify"
	}
	return hint + "until it is repaired, on the server: git config " + key + " FILE"
}
