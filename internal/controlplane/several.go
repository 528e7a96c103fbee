package controlplane

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
)

// An answered is a row of an answer.
type answered struct {
	repo   string
	values []any
	keys   []string
}

// ids returns the keys of those repositories that are known.
func (d *DB) ids(ctx context.Context, repos []string) (map[string]int64, error) {
	names, err := listed(repos)
	if err != nil {
		return nil, err
	}
	ids := map[string]int64{}
	err = each(ctx, d.conn, "SELECT repo, repo_id FROM rigward_repositories WHERE repo "+among(d.conn, 1, "text"), []any{names}, func(r rows) error {
		var repo string
		var id int64
		err := r.Scan(&repo, &id)
		ids[repo] = id
		return err
	})
	return ids, err
}

// over runs a statement about one repository, :repo, for each of several, and gives fn each row of n
// values: PostgreSQL runs it for all of them at once, for to plan it takes longer than to run it.
// SQLite cannot, and a Citus cluster has them on several servers.
func (d *DB) over(ctx context.Context, ids map[string]int64, repos []string, text string, values map[string]any, n int, fn func(repo string, row []any)) error {
	repos = slices.DeleteFunc(slices.Clone(repos), func(repo string) bool { return ids[repo] == 0 })
	if len(repos) > 1 && d.conn.postgres() && !d.alone {
		cluster, err := number(ctx, d.conn, "SELECT count(*) FROM pg_extension WHERE extname = 'citus'")
		if err != nil {
			return err
		}
		if cluster == 0 {
			byID, all := map[int64]string{}, make([]int64, len(repos))
			for i, repo := range repos {
				all[i], byID[ids[repo]] = ids[repo], repo
			}
			statement, names := numbered("SELECT x.repo_id, y.* FROM unnest(CAST(:repos AS BIGINT[])) AS x (repo_id) CROSS JOIN LATERAL (" + strings.ReplaceAll(text, ":repo", "x.repo_id") + ") AS y")
			values["repos"] = all
			return d.rows(ctx, statement, names, values, n+1, func(row []any) {
				id, _ := row[0].(int64)
				fn(byID[id], row[1:])
			})
		}
	}
	statement, names := numbered(text)
	if len(repos) > 1 {
		d.conn.keep(statement)
	}
	for _, repo := range repos {
		values["repo"] = ids[repo]
		if err := d.rows(ctx, statement, names, values, n, func(row []any) { fn(repo, row) }); err != nil {
			return err
		}
	}
	return nil
}

// A group is some of the repositories that are asked about, with what they are asked.
type group struct {
	q      Query
	beyond string
	repos  []string
}

// groups tells apart those before the repository of a cursor, it, and those behind it, and in
// SQLite those of which another index leads to fewer rows.
func (d *DB) groups(ctx context.Context, q Query, p Parameters, ids map[string]int64, values map[string]any) (all []*group, err error) {
	for _, repo := range p.Repos {
		s := &group{q: q, repos: []string{repo}}
		if p.Cursor != nil {
			s.beyond = p.Cursor.beyond(q, repo, values)
		}
		values["repo"] = ids[repo]
		other, err := d.unhinted(ctx, q, values)
		if err != nil {
			return nil, err
		}
		if other != nil {
			s.q = *other
		}
		if i := slices.IndexFunc(all, func(a *group) bool { return a.beyond == s.beyond && a.q.from == s.q.from }); i >= 0 {
			all[i].repos = append(all[i].repos, repo)
		} else {
			all = append(all, s)
		}
	}
	return all, nil
}

// first returns the first rows of repositories, in order: up to limit and one more, or all for the
// limit 0. Of several, it looks at the first few of each. With those it knows from where
// on none is wanted; so it reads on only in those that may have more before that.
func (d *DB) first(ctx context.Context, q Query, p Parameters, ids map[string]int64, values map[string]any, limit int) (all []answered, err error) {
	groups, err := d.groups(ctx, q, p, ids, values)
	if err != nil {
		return nil, err
	}
	read := func(s *group, bound string, limit int64) (rows []answered, err error) {
		if len(s.repos) == 0 {
			return nil, nil
		}
		values["limit"] = limit
		text := settled(s.q.text(d.conn.postgres(), s.beyond+bound), values)
		err = d.over(ctx, ids, s.repos, text, values, len(q.Columns)+len(q.keys), func(repo string, row []any) {
			rows = append(rows, q.answered(repo, row))
		})
		return rows, err
	}
	limited := int64(1) << 40
	few := limited
	if limit > 0 {
		limited = int64(limit) + 1
		few = int64(limit/len(p.Repos)) + 1 // so all have as many as are wanted, if each has
	}
	some := map[*group][]answered{}
	for _, s := range groups {
		if some[s], err = read(s, "", few); err != nil {
			return nil, err
		}
		all = append(all, some[s]...)
	}
	slices.SortStableFunc(all, q.before)
	if few == limited {
		return all, nil
	}
	bound, horizon := "", ""
	if int64(len(all)) >= limited {
		horizon = all[limit].keys[0]
		values["bound"] = horizon
		if bound = "\nAND " + q.keys[0] + " >= :bound"; q.ascending {
			bound = "\nAND " + q.keys[0] + " <= :bound"
		}
	}
	all = nil
	for _, s := range groups {
		n, last := map[string]int64{}, map[string]string{}
		for _, row := range some[s] {
			n[row.repo]++
			last[row.repo] = row.keys[0]
		}
		rest := &group{q: s.q, beyond: s.beyond}
		for _, repo := range s.repos {
			if order := strings.Compare(last[repo], horizon); n[repo] == few && (bound == "" || order == 0 || order > 0 != q.ascending) {
				rest.repos = append(rest.repos, repo)
			}
		}
		all = append(all, slices.DeleteFunc(some[s], func(row answered) bool { return slices.Contains(rest.repos, row.repo) })...)
		rows, err := read(rest, bound, limited)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	slices.SortStableFunc(all, q.before)
	return all[:min(int64(len(all)), limited)], nil
}

// before says which of two rows comes first; of one repository the database does.
func (q Query) before(x, y answered) int {
	c := cmp.Or(strings.Compare(x.keys[0], y.keys[0]), strings.Compare(x.repo, y.repo))
	if !q.ascending {
		c = -c
	}
	return c
}

// searched returns what first does, of messages that have words: of the latest messages of all
// repositories, where these fill a page, else of all that the index of words leads to.
func (d *DB) searched(ctx context.Context, q Query, p Parameters, ids map[string]int64, values map[string]any) ([]answered, error) {
	latest, err := d.latest(ctx, q, p, ids, values)
	if err != nil {
		return nil, err
	}
	if latest != nil {
		all, err := d.first(ctx, *latest, p, ids, values, p.Limit)
		if err != nil || len(all) > p.Limit || values["horizon"] == "" {
			return all, err
		}
	}
	if len(p.Repos) == 1 {
		return d.first(ctx, q, p, ids, values, p.Limit)
	}
	// One statement for all, since that index knows no repositories.
	name := "(SELECT r.repo FROM rigward_repositories r WHERE r.repo_id = m.repo_id)"
	if d.conn.postgres() {
		name += ` COLLATE "C"` // as here
	}
	known := slices.Collect(maps.Values(ids))
	in := "IN (SELECT value FROM json_each(:repos))"
	if values["repos"] = any(known); d.conn.postgres() {
		in = "= ANY (CAST(:repos AS BIGINT[]))"
	} else if values["repos"], err = listed(known); err != nil {
		return nil, err
	}
	q.from = strings.ReplaceAll(q.from, "= :repo", in)
	values["limit"] = p.values(false, 0)["limit"] // first has others
	q.keys = slices.Insert(slices.Clone(q.keys), 1, name)
	beyond := ""
	if p.Cursor != nil {
		after := Cursor{p.Cursor.query, p.Cursor.repo, slices.Insert(slices.Clone(p.Cursor.keys), 1, p.Cursor.repo)}
		beyond = after.beyond(q, p.Cursor.repo, values)
	}
	var all []answered
	statement, names := numbered(settled(q.text(d.conn.postgres(), beyond), values))
	err = d.rows(ctx, statement, names, values, len(q.Columns)+len(q.keys), func(row []any) {
		a := q.answered("", row)
		a.repo = a.keys[1]
		a.keys = slices.Delete(a.keys, 1, 2)
		all = append(all, a)
	})
	return all, err
}

// answered makes a row of what was selected.
func (q Query) answered(repo string, row []any) answered {
	a := answered{repo: repo, values: q.typed(row[:len(q.Columns)])}
	for _, v := range row[len(q.Columns):] {
		s, _ := v.(string)
		a.keys = append(a.keys, s)
	}
	return a
}
