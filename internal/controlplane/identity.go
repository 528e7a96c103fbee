package controlplane

import (
	"context"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

// An Identity tells repositories of one name apart. A part that is "" is not
// known, and says nothing.
type Identity struct {
	Root  string // the first commit of the main ref's line
	UUID  string // in its own configuration; a clone has none
	Place string // where it is, for people
}

// identify refuses a repository of which the database has another one of the
// same name, and keeps who this is.
func (x *Indexer) identify(ctx context.Context, s *span) error {
	c := x.DB.conn
	var is Identity
	err := each(ctx, c, "SELECT coalesce(root, ''), coalesce(uuid, ''), coalesce(place, '') FROM rigward_repositories WHERE repo_id = $1", []any{x.id},
		func(r rows) error { return r.Scan(&is.Root, &is.UUID, &is.Place) })
	if err != nil {
		return err
	}
	own := x.Is
	if is.Root != "" {
		types, err := x.Repo.Has([]string{is.Root})
		if err != nil {
			return err
		}
		if types[0] == "commit" {
			own.Root = is.Root
		}
	}
	if own.Root == "" && s.full {
		own.Root = s.root(s.tips[x.Main])
	}
	if own.Root == "" {
		if own.Root, err = x.Repo.FirstCommit(ctx, s.tips[x.Main]); err != nil {
			return err
		}
	}
	other := func(mine, theirs string) bool { return mine != "" && theirs != "" && mine != theirs }
	if other(own.Root, is.Root) || other(own.UUID, is.UUID) {
		return &policy.Undecided{
			Message: "the control plane " + x.DB.target.String() + " has another repository called " + finding.QuoteMax(x.Name, 80) + ": " + is.String() + "; this one is " + own.String(),
			Hint:    "git config rigward.repository NAME, with a name of its own; where this one has taken that one's place: rig-control move",
		}
	}
	if is.Root == own.Root && (is.UUID != "" || own.UUID == "") {
		return nil
	}
	if is.UUID == "" {
		is.UUID, is.Place = own.UUID, own.Place
	}
	return c.exec(ctx, "UPDATE rigward_repositories SET root = $1, uuid = $2, place = $3 WHERE repo_id = $4",
		optional(own.Root), optional(is.UUID), optional(is.Place), x.id)
}

// String names a repository for people.
func (i Identity) String() string {
	text := "one whose first commit is " + finding.Short(i.Root)
	if i.Root == "" {
		text = "one without commits"
	}
	if i.UUID != "" {
		text += ", with the UUID " + finding.Clean(i.UUID)
	}
	if i.Place != "" {
		text += ", at " + finding.Path(i.Place)
	}
	return text
}

// Rename gives a repository another name.
func (d *DB) Rename(ctx context.Context, from, to string) error {
	return told(ctx, d.target, within(ctx, d.conn, func() error {
		for _, name := range []string{from, to} {
			n, err := number(ctx, d.conn, "SELECT count(*) FROM rigward_repositories WHERE repo = $1", name)
			switch {
			case err != nil:
				return err
			case n == 0 && name == from:
				return &policy.Undecided{Message: "the control plane " + d.target.String() + " has no repository called " + finding.QuoteMax(from, 80)}
			case n > 0 && name == to:
				return &policy.Undecided{Message: "the control plane " + d.target.String() + " has a repository called " + finding.QuoteMax(to, 80) + " already"}
			}
		}
		return d.conn.exec(ctx, "UPDATE rigward_repositories SET repo = $1 WHERE repo = $2", to, from)
	}))
}

// Move forgets who the repository of a name was, so that the next one that writes
// under it takes its place.
func (d *DB) Move(ctx context.Context, repo string) error {
	return told(ctx, d.target, d.conn.exec(ctx, "UPDATE rigward_repositories SET root = NULL, uuid = NULL, place = NULL WHERE repo = $1", repo))
}
