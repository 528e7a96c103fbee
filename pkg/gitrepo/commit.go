package gitrepo

import (
	"bytes"
	"strconv"
	"strings"
	"sync"

	"github.com/rigward/rigward/pkg/finding"
)

// A Commit is a commit object, parsed as strictly as git fsck does.
type Commit struct {
	ID        ID
	Raw       []byte // the object's bytes; not to be changed
	Tree      ID
	Parents   []ID
	Author    Ident
	Committer Ident
	Message   []byte // what follows the first empty line; part of Raw
}

// Signed reports whether a commit has, or could be taken to have, a signature.
func (c *Commit) Signed() bool {
	headers, _, _ := bytes.Cut(c.Raw, []byte("\n\n"))
	return bytes.Contains(headers, []byte("\ngpgsig"))
}

// An Ident is who did something, and when.
type Ident struct {
	Name, Email string // raw bytes, without the blanks around the name
	When        int64  // Unix time in seconds
	Zone        string // "+hhmm" or "-hhmm"
}

// A MalformedCommitError says that a commit breaks the form of commits.
type MalformedCommitError struct {
	ID     ID
	Reason string // one phrase
}

// Error names the commit and the reason.
func (e *MalformedCommitError) Error() string {
	return "commit " + e.ID + " is malformed: " + e.Reason
}

// Commit reads and parses one commit of at most MaxCommit bytes. Errors are
// those of Object, ErrType and *MalformedCommitError.
func (r *Repo) Commit(id ID) (*Commit, error) {
	commits, err := r.Commits([]ID{id})
	if err != nil {
		return nil, err
	}
	return commits[0], nil
}

// Commits reads and parses commits, in the order of ids. The first one that
// can't be read or parsed ends it.
func (r *Repo) Commits(ids []ID) ([]*Commit, error) {
	commits := make([]*Commit, 0, len(ids))
	err := r.EachCommit(ids, func(c *Commit) error {
		commits = append(commits, c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return commits, nil
}

// EachCommit is Commits for who does not keep them all. An error of fn ends it.
func (r *Repo) EachCommit(ids []ID, fn func(*Commit) error) error {
	if len(ids) != 1 {
		return r.eachCommit(ids, fn)
	}
	if c := r.lately.get(ids[0]); c != nil {
		return fn(c)
	}
	return r.eachCommit(ids, func(c *Commit) error {
		r.lately.put(c)
		return fn(c)
	})
}

// commits are those that were read one by one, which are asked for again and
// again while a short range is judged. An object never changes.
type commits struct {
	mu   sync.Mutex
	byID map[ID]*Commit
}

const (
	maxLately      = 64
	maxLatelyBytes = 32 << 10 // of one commit
)

func (s *commits) get(id ID) *Commit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

func (s *commits) put(c *Commit) {
	if len(c.Raw) > maxLatelyBytes {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil || len(s.byID) == maxLately {
		s.byID = make(map[ID]*Commit)
	}
	s.byID[c.ID] = c
}

func (s *commits) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID = nil
}

func (r *Repo) eachCommit(ids []ID, fn func(*Commit) error) error {
	return r.Objects(ids, MaxCommit, func(o Object) error {
		if o.Err != nil {
			return o.Err
		}
		if o.Type != "commit" {
			return wrongType(o.ID, o.Type, "commit")
		}
		c, err := ParseCommit(o.ID, o.Data)
		if err != nil {
			return err
		}
		return fn(c)
	})
}

// ParseCommit parses the bytes of the commit id. Ids in it must have as many
// digits as id. What git fsck calls an error in a commit is a
// *MalformedCommitError: headers missing, repeated or in another order, bad
// ids, identities without "<", ">" or a date, NUL in a header.
func ParseCommit(id ID, raw []byte) (*Commit, error) {
	c := &Commit{ID: id, Raw: raw}
	bad := func(reason string) (*Commit, error) {
		return nil, &MalformedCommitError{ID: id, Reason: reason}
	}
	end := bytes.Index(raw, []byte("\n\n"))
	if end >= 0 {
		c.Message = raw[end+2:]
	} else if end = len(raw) - 1; end < 0 || raw[end] != '\n' {
		return bad("its headers do not end with a line feed")
	}
	head := raw[:end+1]
	if bytes.IndexByte(head, 0) >= 0 {
		return bad("a NUL byte in its headers")
	}
	// next takes the line of a key that comes in its fixed place.
	next := func(key string) (value string, ok bool) {
		rest, ok := bytes.CutPrefix(head, []byte(key+" "))
		if !ok {
			return "", false
		}
		line, rest, _ := bytes.Cut(rest, []byte("\n"))
		head = rest
		return string(line), true
	}
	tree, ok := next("tree")
	if !ok || len(tree) != len(id) || !isHex(tree) {
		return bad("it does not begin with the id of a tree")
	}
	c.Tree = tree
	for {
		parent, ok := next("parent")
		if !ok {
			break
		}
		if len(parent) != len(id) || !isHex(parent) {
			return bad("a parent is not an object id")
		}
		c.Parents = append(c.Parents, parent)
	}
	for _, who := range []struct {
		key   string
		ident *Ident
	}{{"author", &c.Author}, {"committer", &c.Committer}} {
		line, ok := next(who.key)
		if !ok {
			return bad("no " + who.key + " in its place")
		}
		ident, reason := parseIdent(line)
		if reason != "" {
			return bad(who.key + " " + finding.QuoteMax(line, 100) + " " + reason)
		}
		*who.ident = ident
	}
	for first := true; len(head) > 0; first = false {
		var line []byte
		line, head, _ = bytes.Cut(head, []byte("\n"))
		if bytes.HasPrefix(line, []byte(" ")) {
			if first {
				return bad("a continuation line without a header")
			}
			continue
		}
		key, _, _ := bytes.Cut(line, []byte(" "))
		switch string(key) {
		case "":
			return bad("an empty header line")
		case "tree", "parent", "author", "committer":
			return bad("header " + string(key) + " is repeated or out of order")
		}
	}
	return c, nil
}

// parseIdent parses `name <email> seconds zone`; reason is "" if it is well
// formed.
func parseIdent(line string) (id Ident, reason string) {
	name, rest, ok := strings.Cut(line, "<")
	if !ok {
		return id, `has no "<"`
	}
	if strings.Contains(name, ">") {
		return id, `has ">" in the name`
	}
	if name != "" && !strings.HasSuffix(name, " ") {
		return id, `has no blank before "<"`
	}
	email, rest, ok := strings.Cut(rest, ">")
	if !ok {
		return id, `has no ">"`
	}
	if strings.Contains(email, "<") {
		return id, `has "<" in the address`
	}
	rest, ok = strings.CutPrefix(rest, " ")
	if !ok {
		return id, `has no blank after ">"`
	}
	seconds, zone, ok := strings.Cut(rest, " ")
	if !ok || !isDigits(seconds) || len(seconds) > 1 && seconds[0] == '0' {
		return id, "has no date in seconds"
	}
	when, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return id, "has a date out of range"
	}
	if len(zone) != 5 || zone[0] != '+' && zone[0] != '-' || !isDigits(zone[1:]) {
		return id, "has no time zone of the form +hhmm"
	}
	return Ident{Name: strings.Trim(name, " "), Email: email, When: when, Zone: zone}, ""
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
