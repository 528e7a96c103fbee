package policy

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// MaxTrustBytes is the most that a signers or revocation file may have.
const MaxTrustBytes = 16 << 20

// A Loader reads policy and signers from where they can be trusted: from
// files that the repository's configuration names (rigward.policy,
// rigward.allowedSigners), else from the tree of a commit that was accepted
// before. It never looks at what is pushed.
type Loader struct {
	Repo loaderRepo
	// ReadFile reads a file that the configuration names; relative names are
	// the caller's to resolve.
	ReadFile func(name string) ([]byte, error)
	// Own is the client's own policy, which only tightens; nil for none.
	Own *Policy

	server      *Policy
	serverKnown bool
	policies    map[string]*Policy
	trusts      map[string]*Trust
}

// A treeReader finds what a tree has at a path.
type treeReader interface {
	EntryAt(root, path string) (gitrepo.TreeEntry, bool, error)
}

// loaderRepo is what a Loader needs of a repository. *gitrepo.Repo is one.
type loaderRepo interface {
	treeReader
	Blob(id string, limit int64) ([]byte, error)
	Commit(id string) (*gitrepo.Commit, error)
	ConfigLast(key string) (value string, set bool, err error)
}

// ServerPaths reports whether the configuration names a policy or a signers
// file, so that even a first push has something to be judged by.
func (l *Loader) ServerPaths() (bool, error) {
	for _, key := range []string{"rigward.policy", "rigward.allowedSigners"} {
		v, _, err := l.Repo.ConfigLast(key)
		if v != "" || err != nil {
			return v != "", err
		}
	}
	return false, nil
}

// Outside returns what counts besides the history that is judged, as texts that are
// others as soon as it changes: the configuration, and the files that it and the
// server's own policy name with their content.
func (l *Loader) Outside() ([]string, error) {
	p, err := l.policy("")
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, key := range []string{"rigward.policy", "rigward.allowedSigners", "rigward.revoked"} {
		name, _, err := l.Repo.ConfigLast(key)
		if err != nil {
			return nil, err
		}
		if name != "" {
			texts, err = l.outside(texts, key, name)
			if err != nil {
				return nil, err
			}
		}
	}
	if p.RevokedFile != "" {
		return l.outside(texts, "revoked", p.RevokedFile)
	}
	return texts, nil
}

func (l *Loader) outside(texts []string, key, name string) ([]string, error) {
	data, err := l.ReadFile(name)
	if err != nil {
		return nil, undecided("the file "+finding.Quote(name)+" that "+key+" names cannot be read", err)
	}
	return append(texts, key, name, string(data)), nil
}

// AtCommit is At for the tree of a commit; "" stands for no commit.
func (l *Loader) AtCommit(id string) (*Policy, *Trust, error) {
	if id == "" {
		return l.At("")
	}
	c, err := l.Repo.Commit(id)
	if err != nil {
		return nil, nil, err
	}
	return l.At(c.Tree)
}

// At returns the policy and the trust that a tree's files give, or those of
// the server where it names them. Without a policy file the defaults hold.
func (l *Loader) At(tree string) (*Policy, *Trust, error) {
	p, err := l.policy(tree)
	if err != nil {
		return nil, nil, err
	}
	own, err := l.ownRevoked(p)
	if err != nil {
		return nil, nil, err
	}
	if p.Server && p.Revoked == "" && len(own) > 0 {
		// The server's lists come besides that of the repository, whose own
		// policy then says where it lies.
		listed, err := l.listed(tree)
		if err != nil {
			return nil, nil, err
		}
		p = l.revoking(p, listed)
	}
	t, err := l.trust(p, tree, own)
	return p, t, err
}

// revoking returns the server's policy with the path of a revocation file.
func (l *Loader) revoking(p *Policy, path string) *Policy {
	if path == "" {
		return p
	}
	key := "revoked:" + path
	if l.policies[key] == nil {
		q := *p
		q.Revoked = path
		if l.policies == nil {
			l.policies = map[string]*Policy{}
		}
		l.policies[key] = &q
	}
	return l.policies[key]
}

func (l *Loader) policy(tree string) (*Policy, error) {
	if !l.serverKnown {
		name, _, err := l.Repo.ConfigLast("rigward.policy")
		if err != nil {
			return nil, err
		}
		if name != "" {
			data, err := l.ReadFile(name)
			if err != nil {
				u := undecided("the policy file "+finding.Quote(name)+" cannot be read", err)
				u.Hint = "let the user of the hooks read it, or name another: git config rigward.policy FILE"
				return nil, u
			}
			if l.server, err = DecodeFile(data, FromServer, name); err != nil {
				return nil, err
			}
			l.server = l.tighten(l.server)
		}
		l.serverKnown = true
	}
	if l.server != nil {
		return l.server, nil
	}
	id, err := FileIn(l.Repo, tree, Path)
	if err != nil {
		return nil, err
	}
	if p := l.policies[id]; p != nil {
		return p, nil
	}
	p := Default()
	if id != "" {
		data, err := l.Repo.Blob(id, MaxPolicyBytes)
		if err != nil {
			return nil, undecided("the policy file "+Path+" cannot be read", err)
		}
		if p, err = DecodeFile(data, FromRepository, Path); err != nil {
			return nil, err
		}
	}
	p = l.tighten(p)
	if l.policies == nil {
		l.policies = map[string]*Policy{}
	}
	l.policies[id] = p
	return p, nil
}

func (l *Loader) tighten(p *Policy) *Policy {
	if l.Own == nil {
		return p
	}
	return p.tightened(l.Own)
}

// FileIn returns the id of the blob of a regular file in a tree, "" if there is
// none. Anything else at the path is an Undecided.
func FileIn(repo treeReader, tree, path string) (string, error) {
	if tree == "" {
		return "", nil
	}
	e, ok, err := repo.EntryAt(tree, path)
	if err != nil || !ok {
		return "", err
	}
	if !e.Mode.IsFile() {
		return "", &Undecided{Message: fmt.Sprintf("%s is not a regular file (mode %s)", finding.Path(path), e.Mode), Hint: "commit it as a regular file"}
	}
	return e.ID, nil
}

func (l *Loader) trust(p *Policy, tree string, own []string) (*Trust, error) {
	revoked := ""
	var err error
	if p.Revoked != "" {
		if revoked, err = FileIn(l.Repo, tree, p.Revoked); err != nil {
			return nil, err
		}
	}
	name, _, err := l.Repo.ConfigLast("rigward.allowedSigners")
	if err != nil {
		return nil, err
	}
	signers := "file:" + name
	var unusable error // told when a signature must be judged, not before
	if name == "" {
		if signers, unusable = FileIn(l.Repo, tree, p.Signers); unusable != nil {
			var u *Undecided
			if !errors.As(unusable, &u) {
				return nil, unusable
			}
			signers = u.Message
		}
	}
	key := p.Signers + ":" + signers + " " + p.Revoked + ":" + revoked
	if t := l.trusts[key]; t != nil {
		return t, nil
	}
	if l.trusts == nil {
		l.trusts = map[string]*Trust{}
	}
	source := finding.Path(p.Signers)
	if name != "" {
		source = finding.Quote(name)
	}
	t := Untrusting(source)
	if signers != "" {
		t = NewTrust(source, func() (s []byte, r []RevocationFile, err error) {
			if unusable != nil {
				return nil, nil, unusable
			}
			if s, err = l.readSigners(source, name, signers); err == nil {
				r, err = l.readRevoked(p, revoked, own)
			}
			return s, r, err
		})
	}
	l.trusts[key] = t
	return t, nil
}

// readSigners reads the signers file that the configuration names, else the
// blob. source is for people.
func (l *Loader) readSigners(source, name, blob string) (data []byte, err error) {
	if name != "" {
		data, err = l.ReadFile(name)
	} else {
		data, err = l.Repo.Blob(blob, MaxTrustBytes)
	}
	if err != nil {
		u := undecided("the signers file "+source+" cannot be read", err)
		if name != "" {
			u.Hint = "let the user of the hooks read it, or name another: git config rigward.allowedSigners FILE"
		}
		return nil, u
	}
	return data, nil
}

// readRevoked reads the revocation file that the policy names, which is a blob,
// "" if it is missing, and the server's own.
func (l *Loader) readRevoked(p *Policy, blob string, own []string) (files []RevocationFile, err error) {
	if p.Revoked != "" {
		if blob == "" {
			return nil, &Undecided{Message: "the revocation file " + finding.Path(p.Revoked) + " that the policy names is missing",
				Hint: "commit it, or take the key revoked out of the policy"}
		}
		data, err := l.Repo.Blob(blob, MaxTrustBytes)
		if err != nil {
			return nil, undecided("the revocation file "+finding.Path(p.Revoked)+" cannot be read", err)
		}
		files = append(files, RevocationFile{finding.Path(p.Revoked), data})
	}
	for _, name := range own {
		data, err := l.ReadFile(name)
		if err != nil {
			u := undecided("the server's revocation file "+finding.Quote(name)+" cannot be read", err)
			u.Hint = "let the user of the hooks read it; where there is none yet: rig-hook keys revoke --server DIR KEY"
			return nil, u
		}
		files = append(files, RevocationFile{finding.Quote(name), data})
	}
	return files, nil
}

// ownRevoked returns the names of the server's own revocation files: that of its
// configuration, and that of its own policy. They come besides what the
// repository revokes, never instead of it.
func (l *Loader) ownRevoked(p *Policy) (files []string, err error) {
	name, _, err := l.Repo.ConfigLast("rigward.revoked")
	if name != "" {
		files = append(files, name)
	}
	if p.RevokedFile != "" {
		files = append(files, p.RevokedFile)
	}
	return files, err
}

// listed returns where the policy of a tree says that the revocation file lies,
// whatever stands for that policy; "" if it names none or cannot be read.
func (l *Loader) listed(tree string) (string, error) {
	id, err := FileIn(l.Repo, tree, Path)
	if err != nil || id == "" {
		return "", UnlessUndecided(err)
	}
	data, err := l.Repo.Blob(id, MaxPolicyBytes)
	if errors.Is(err, gitrepo.ErrTooLarge) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	p, err := Decode(data, FromRepository)
	if err != nil {
		return "", nil
	}
	return p.Revoked, nil
}

// DecodeFile is Decode with an error that names the file and can be told to a
// person as it is.
func DecodeFile(data []byte, from Origin, name string) (*Policy, error) {
	p, err := Decode(data, from)
	if err == nil {
		p.Digest = digest(data)
	}
	if e, ok := DecodeError(err); ok {
		return nil, &Undecided{Message: fmt.Sprintf("policy %s:%d:%d: %s", finding.Path(name), e.Line, e.Col, e.Message), Hint: e.Hint, Cause: err}
	}
	return p, err
}

func undecided(message string, cause error) *Undecided {
	var e *gitrepo.Error
	switch {
	case errors.As(cause, &e):
		message += ": " + e.Message
	case errors.Is(cause, fs.ErrPermission):
		message += ": permission denied"
	case errors.Is(cause, fs.ErrNotExist):
		message += ": no such file"
	}
	return &Undecided{Message: message, Hint: gitrepo.Hint(cause), Cause: cause}
}

// Accepted names the files by which commits are judged: those of a tree, save
// the paths at which a refused commit has put something else.
type Accepted struct {
	Tree string                       // "" for none
	Kept map[string]gitrepo.TreeEntry // by path; without an ID: no file
}

// Accepted is At for what was accepted.
func (l *Loader) Accepted(a Accepted) (*Policy, *Trust, error) {
	if len(a.Kept) == 0 {
		return l.At(a.Tree)
	}
	if l.policies == nil {
		l.policies = map[string]*Policy{}
	}
	if l.trusts == nil {
		l.trusts = map[string]*Trust{}
	}
	own := *l
	own.Repo = keeper{l.Repo, a}
	return own.At(a.Tree)
}

// A keeper shows what was accepted as if it were the tree.
type keeper struct {
	loaderRepo
	Accepted
}

func (k keeper) EntryAt(root, path string) (gitrepo.TreeEntry, bool, error) {
	if e, ok := k.Kept[path]; ok && root == k.Tree {
		return e, e.ID != "", nil
	}
	return k.loaderRepo.EntryAt(root, path)
}

// Entry returns what was accepted at a path; without an ID: nothing.
func (a Accepted) Entry(repo treeReader, path string) (gitrepo.TreeEntry, error) {
	if e, ok := a.Kept[path]; ok || a.Tree == "" {
		return e, nil
	}
	e, _, err := repo.EntryAt(a.Tree, path)
	return e, err
}
