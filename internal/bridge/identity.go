package bridge

import (
	"fmt"
	"strings"
)

// foreignIdentity returns the variables that our commits are made without. What
// a surrounding git command has set for its own commit is somebody else's, and
// another time's; it counts only where it is asked for, and never for a relay.
func (r *run) foreignIdentity(relay bool) []string {
	if !relay && r.opts.Has("--author-from-env") {
		return nil
	}
	return identityVariables
}

// ownIdentity refuses to commit as nobody: without a configured name or address
// git makes one up of the account's and the machine's names (git-commit, "COMMIT
// INFORMATION").
func (r *run) ownIdentity(w *work) error {
	if r.opts.Has("--author-from-env") {
		return nil
	}
	missing, err := w.unnamed()
	if err != nil || len(missing) == 0 {
		return err
	}
	set, commands := " is not set", []string{}
	if len(missing) > 1 {
		set = " are not set"
	}
	var keys []string
	fromEnv := true
	for _, what := range missing {
		keys = append(keys, "user."+what)
		commands = append(commands, nameCommand(what))
		_, given := r.env.Getenv("GIT_AUTHOR_" + strings.ToUpper(what))
		fromEnv = fromEnv && given
	}
	f := fail(codeRefused, "%s%s; a message is committed in somebody's name", strings.Join(keys, " and "), set).
		withHint("%s", strings.Join(commands, " && "))
	if fromEnv && !r.env.Tool {
		f.hint += ", or --author-from-env, which takes what GIT_AUTHOR_* and GIT_COMMITTER_* say"
	}
	return f
}

// nameCommand sets a part of the identity by which git commits.
func nameCommand(what string) string {
	value := map[string]string{"name": "name", "email": "address"}[what]
	hint := fmt.Sprintf("git config user.%s <%s>", what, value)
	return hint
}

// unnamed returns what of the identity is not configured: name, email.
func (w *work) unnamed() (missing []string, err error) {
	for _, what := range []string{"name", "email"} {
		for _, who := range []string{"author", "committer"} {
			v, err := w.config("user." + what)
			if err == nil && strings.TrimSpace(v) == "" {
				v, err = w.config(who + "." + what)
			}
			if err != nil {
				return nil, err
			}
			if strings.TrimSpace(v) == "" {
				missing = append(missing, what)
				break
			}
		}
	}
	return missing, nil
}
