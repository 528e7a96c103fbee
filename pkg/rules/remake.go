package rules

import (
	"errors"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// What the hints say that makes commits again.

// onto names what a commit is rebased onto: its first parent, or git's word for
// none.
func onto(c *commit) string {
	if len(c.parents) == 0 {
		return "--root"
	}
	return finding.Short(c.parents[0])
}

// remake is the subcommand of git that makes a commit and all after it again, with
// the flags that are given: merges stay merges, and a commit that changes nothing
// stays, too.
func remake(c *commit, flags string) string {
	return "rebase --no-ff --rebase-merges" + flags + " " + onto(c)
}

// amend is the command that makes the commit at the tip again, with the flags
// that are given. git refuses to amend a commit that changes nothing unless it is
// told that this is meant.
func amend(c *commit, flags string) string {
	command := "git commit --amend --no-edit"
	if len(c.parents) == 1 && len(c.brought) == 0 {
		command += " --allow-empty"
	}
	return command + flags
}

// Resign is what a rebase of the commits up to a tip is told, " --gpg-sign" where they are signed, else "": without it
// git makes them again unsigned.
func (j *Judge) Resign(tip string) (flag string, err error) {
	flag, known := j.resigns[tip]
	if known {
		return flag, nil
	}
	c, err := j.Repo.Commit(tip)
	var bad *gitrepo.MalformedCommitError // of which is told that it is malformed
	if err != nil && !errors.As(err, &bad) {
		return "", err
	}
	if err == nil && c.Signed() {
		flag = " --gpg-sign"
	}
	j.resigns = map[string]string{tip: flag}
	return flag, nil
}

// out is the command that takes a commit out of the branch, "" if it has not one parent. What came after it is made again.
func (ps *pass) out(id string, parents int) (command string, err error) {
	if parents != 1 {
		return "", nil
	}
	sign := ""
	if id != ps.rng.New {
		sign, err = ps.Resign(ps.rng.New)
	}
	return "git rebase" + sign + " --onto " + finding.Short(id) + "~1 " + finding.Short(id), err
}
