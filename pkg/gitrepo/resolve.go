package gitrepo

import (
	"context"
	"errors"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

// Resolve returns the commit that a revision names in the words that a person
// types (gitrevisions(7)). Errors: ErrMissing if it names no commit here,
// ErrInvalid if it could be taken for an option.
func (r *Repo) Resolve(ctx context.Context, rev string) (ID, error) {
	if rev == "" || strings.HasPrefix(rev, "-") || strings.ContainsAny(rev, "\x00\n") {
		return "", invalid("a revision", rev)
	}
	stdout, stderr, code, err := r.env.output(ctx, r.git, "rev-parse", "--verify", "--quiet", "--end-of-options", rev+"^{commit}")
	if err != nil {
		return "", err
	}
	if err := failure(ctx, "git rev-parse", stderr, nil); errors.Is(err, ErrUnsafe) || errors.Is(err, ErrNotRepository) {
		return "", err
	}
	id := strings.TrimSuffix(string(stdout), "\n")
	if code != 0 || !r.ValidID(id) {
		message := "no commit is named " + finding.QuoteMax(rev, 80)
		if text := string(stderr); strings.Contains(text, "fatal: ") { // its configuration may be unreadable
			message += ": " + lastLine(text)
		}
		return "", &Error{Kind: ErrMissing, Message: message, Hint: r.whereCommits()}
	}
	return id, nil
}

// whereCommits is the hint for a name that no commit has.
func (r *Repo) whereCommits() string {
	if cut, err := r.Shallow(); err == nil && len(cut) > 0 {
		return "git fetch --unshallow, since the history is cut here"
	}
	return "git log --all --oneline and git branch --all list what is here"
}
