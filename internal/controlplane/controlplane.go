// Package controlplane keeps an index of envelopes in a database, so that what
// was said can be asked for: whose turn it is, which threads are open, who
// relayed what for whom.
//
// Git is the archive and the truth. Everything here is derived from it
// (docs/spec/controlplane.md): a row of bridge_messages is one envelope of a commit
// and one of its recipients, a row of bridge_message_events is what the history
// then did to it. Both are functions of the commits that can be reached from
// the refs of a repository, in whatever order and portions they came; so a
// database can be deleted and made again, and two writers agree.
//
//   - ParseTarget and Open reach a database: SQLite in a file, or PostgreSQL.
//   - Indexer brings it up to the refs of a repository, or reads all anew, or
//     compares.
//   - Queries are the questions, as statements with parameters.
//
// Events that one envelope causes for another depend only on the history of
// the two commits: see derive.go. Progress is recorded in the same transaction
// as the rows, so a run that is cut off at any moment loses nothing and the
// next one goes on from there.
//
// Nothing here reads the clock or the environment, except that the PostgreSQL
// driver takes what libpq would from PGPASSWORD, PGPASSFILE and the other
// variables of its documentation.
package controlplane

import (
	"net"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

// A Target is where a database is.
type Target struct {
	path string // of an SQLite file, absolute
	dsn  string // of a PostgreSQL database, with whatever credentials it holds
	name string // of it for people: without user, password and parameters
}

// ParseTarget reads the value of control_plane or rigward.controlPlane: a file
// path, sqlite:PATH, or postgres://HOST/DATABASE. A relative path is relative
// to dir.
func ParseTarget(text, dir string) (Target, error) {
	switch path, sqlite := strings.CutPrefix(text, "sqlite:"); {
	case strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://"):
		u, err := url.Parse(text)
		if err != nil {
			// The text may hold a password, and so may the parser's error.
			return Target{}, &policy.Undecided{Message: "the address of the PostgreSQL database is malformed", Hint: "postgres://HOST/DATABASE"}
		}
		if strings.Contains(u.Path, "@") { // of a password with a slash in it
			return Target{}, &policy.Undecided{Message: "the address of the PostgreSQL database is malformed", Hint: "write / in a password as %2F, or use a pgpass file"}
		}
		host := u.Host
		if h := u.Query().Get("host"); host == "" && h != "" {
			host = h
		}
		return Target{dsn: text, name: "postgres://" + finding.Clean(host+u.Path)}, nil
	case sqlite || !strings.Contains(text, ":") || filepath.IsAbs(text):
		if path == "" || strings.ContainsRune(path, 0) {
			return Target{}, &policy.Undecided{Message: "the control plane's file has no name", Hint: "sqlite:PATH"}
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		return Target{path: path, name: finding.Path(filepath.ToSlash(path))}, nil
	}
	scheme, _, _ := strings.Cut(text, ":")
	return Target{}, &policy.Undecided{
		Message: "no control plane is reached by " + finding.QuoteMax(scheme+":", 20) + ", expected a file path, sqlite:PATH or postgres://HOST/DATABASE",
		Hint:    "sqlite:PATH",
	}
}

// String names the database for people, without credentials.
func (t Target) String() string { return t.name }

// Postgres reports whether the database is on a PostgreSQL server.
func (t Target) Postgres() bool { return t.dsn != "" }

// RepositoryName makes the name of a repository in the database, by which
// several share one: what rigward.repository says, else the address of its
// origin without credentials, else the name of its directory.
func RepositoryName(configured, origin, dir string) string {
	return name(repositoryName(configured, origin, dir))
}

func repositoryName(configured, origin, dir string) string {
	if configured != "" {
		return configured
	}
	if origin == "" {
		return filepath.Base(dir)
	}
	if u, err := url.Parse(origin); err == nil && u.Host != "" {
		u.User, u.RawQuery, u.Fragment = nil, "", ""
		return u.String()
	}
	// host:path, as scp writes it.
	if head, path, ok := strings.Cut(origin, ":"); ok && !strings.Contains(head, "/") {
		if _, host, user := strings.Cut(head, "@"); user && net.ParseIP(host) == nil {
			return host + ":" + path
		}
	}
	if _, rest, ok := strings.Cut(origin, "://"); ok {
		if i := strings.LastIndexByte(rest, '@'); i >= 0 {
			return rest[i+1:] // of no form that is known: rather too little
		}
	}
	return origin
}
