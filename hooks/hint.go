package hooks

import (
	"errors"
	"strings"

	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/sshsign"
)

// Hint returns the command or line that repairs the cause of err at a gate of
// r, which may be nil; "" if none is known. On a server it says, besides, what
// a broken file of the repository is replaced by until it is repaired: nothing
// can be pushed before.
func Hint(env *Env, r *gitrepo.Repo, server bool, err error) string {
	hint := policy.HintOf(err)
	if errors.Is(err, gitrepo.ErrUnsafe) && env.Getenv("HOME") == "" && env.Getenv("XDG_CONFIG_HOME") == "" {
		// git has no file for --global then.
		return strings.Replace(hint, "git config --global ", "git config --system ", 1)
	}
	if !server || r == nil {
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
	return hint + "until it is repaired, on the server: git config " + key + " FILE"
}
