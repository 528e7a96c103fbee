package policy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/relay"
	"github.com/rigward/rigward/pkg/sshsign"
	"github.com/rigward/rigward/pkg/yamlprofile"
)

// policyPath is where a repository keeps its policy.
const policyPath = ".bridge/policy.yaml"

// mustSign tells whether a commit needs a signature, and whether it is for
// changing who is trusted.
func (j *Judge) mustSign(c *commit) (sign, change bool) {
	if c.obj == nil {
		return false, false
	}
	change = len(c.trustPaths) > 0
	if change && !c.trust.Exists() {
		// Nobody is trusted yet who could sign for it: the first files come
		// in unsigned, at a server only with its consent (see Bootstrap).
		change = false
	}
	if change || c.policy.RequireSigned == RequireAll {
		return true, change
	}
	return c.attested > 0, change
}

// trustChanges returns the paths of policy, signers and revocation file that a
// commit changes. A merge changes them, too, if it takes them from another side
// than the one that the ref comes from: so a list could be rolled back. If no
// side comes from there, those count that have most of the accepted history.
func (j *Judge) trustChanges(ctx context.Context, c *commit) (paths []string, err error) {
	some := slices.ContainsFunc(c.parents, j.fromTrusted)
	for i, d := range c.diffs {
		skip := false
		switch {
		case len(c.diffs) == 1 || !slices.ContainsFunc(d.Changes, func(ch gitrepo.Change) bool { return c.policy.trustPath(ch.Path) }):
		case j.OfTheTime != nil:
			skip = i != c.main
		case some:
			skip = !j.fromTrusted(c.parents[i])
		default:
			if skip, err = j.outdated(ctx, c, i); err != nil {
				return nil, err
			}
		}
		if skip {
			continue
		}
		for _, ch := range d.Changes {
			if c.policy.trustPath(ch.Path) && !slices.Contains(paths, ch.Path) {
				paths = append(paths, ch.Path)
			}
		}
	}
	return paths, nil
}

// outdated tells whether another parent of a merge has all the accepted history
// that parent i has, and more.
func (j *Judge) outdated(ctx context.Context, c *commit, i int) (bool, error) {
	for k := range c.parents {
		within, err := j.acceptedWithin(ctx, c.parents[i], c.parents[k])
		if err != nil {
			return false, err
		}
		if !within {
			continue
		}
		if back, err := j.acceptedWithin(ctx, c.parents[k], c.parents[i]); err != nil || !back {
			return err == nil, err
		}
	}
	return false, nil
}

// maxBoundPairs is how many pairs of commits acceptedWithin compares at most.
const maxBoundPairs = 64

// acceptedWithin tells whether the accepted history of commit a is a part of
// that of commit b. If it would take long to find out, it is taken for none.
func (j *Judge) acceptedWithin(ctx context.Context, a, b string) (bool, error) {
	bounds := func(id string) []int32 {
		n, _ := j.walk.find(id)
		return j.walk.sets[j.walk.setOf(n)]
	}
	as, bs := bounds(a), bounds(b)
	if len(as)*len(bs) > maxBoundPairs {
		return false, nil
	}
	for _, x := range as {
		found := slices.Contains(bs, x)
		for _, y := range bs {
			if found {
				break
			}
			var err error
			if found, err = j.Repo.IsAncestor(ctx, j.walk.bounds[x].id, j.walk.bounds[y].id); err != nil {
				return false, err
			}
		}
		if !found {
			return false, nil
		}
	}
	return true, nil
}

// Guards reports whether a path is that of the policy, the signers or the
// revocations: whoever changes it changes who is trusted.
func (p *Policy) Guards(path string) bool { return p.trustPath(path) }

// TakesOutside reports whether a path that is no envelope may be changed.
func (p *Policy) TakesOutside(path string) bool { return !p.OutsideDeny || p.ignored(path) }

func (p *Policy) trustPath(path string) bool {
	return path == policyPath || path == p.Signers || p.Revoked != "" && path == p.Revoked
}

// fromTrusted tells whether a parent is the commit whose policy and signers
// count, or descends from it.
func (j *Judge) fromTrusted(parent string) bool {
	n, ok := j.walk.find(parent)
	return ok && slices.ContainsFunc(j.walk.sets[j.walk.setOf(n)], func(b int32) bool { return j.walk.bounds[b].trusted })
}

// trustedBounds finds the commits just outside the range that are or contain
// the one whose policy and signers count. Only merges ask.
func (j *Judge) trustedBounds(ctx context.Context, r Range) error {
	w := j.walk
	if r.Old != "" && (r.From == "" || r.From == r.Old) {
		for i := range w.bounds {
			w.bounds[i].trusted = w.bounds[i].id == r.Old // what does not contain it lies below it
		}
		return nil
	}
	if r.From == "" || !w.merges() {
		return nil
	}
	for i := range w.bounds {
		ok, err := j.Repo.IsAncestor(ctx, r.From, w.bounds[i].id)
		if err != nil {
			return err
		}
		w.bounds[i].trusted = ok
	}
	return nil
}

// trustFiles judges that policy, signers and revocation files can be read: the
// next push is judged by them.
func (j *Judge) trustFiles(_ context.Context, r Range, c *commit) error {
	for _, ch := range c.brought {
		if ch.Deleted() || !c.policy.trustPath(ch.Path) {
			continue
		}
		add := func(line, col int, message, hint string) {
			j.add(c.policy, finding.Finding{Rule: "signers-change", Severity: finding.Error, Path: ch.Path, Line: line, Col: col, Commit: c.id, Ref: r.Ref, Message: message, Hint: hint})
		}
		if !ch.NewMode.IsFile() {
			add(0, 0, fmt.Sprintf("an entry of mode %s, expected a regular file", ch.NewMode), "")
			continue
		}
		limit := int64(MaxTrustBytes)
		if ch.Path == policyPath {
			limit = MaxPolicyBytes
		}
		data, large, err := j.blob(ch.NewID, limit)
		if err != nil {
			return err
		}
		switch ch.Path {
		case policyPath:
			_, err = Decode(data, FromRepository)
		case c.policy.Signers:
			_, err = sshsign.ParseSigners(data)
		default:
			_, err = sshsign.ParseRevocations(data)
		}
		var y *yamlprofile.Error
		var p *sshsign.ParseError
		switch {
		case large:
			add(0, 0, fmt.Sprintf("more than %d bytes", limit), "")
		case errors.As(err, &y):
			add(y.Line, y.Col, y.Message, y.Hint)
		case errors.As(err, &p):
			add(p.Line, p.Col, p.Message, p.Hint)
		case err != nil:
			add(0, 0, finding.Clean(err.Error()), "")
		}
	}
	return nil
}

// blob reads a blob of at most limit bytes; large tells of more.
func (j *Judge) blob(id string, limit int64) (data []byte, large bool, err error) {
	err = j.Repo.Objects([]string{id}, limit, func(o gitrepo.Object) error {
		if large = errors.Is(o.Err, gitrepo.ErrTooLarge); large {
			return nil
		}
		data = o.Data
		return o.Err
	})
	return data, large, err
}

// revocations judges that the revocation file that a commit's own policy names
// is there and can be read, where the commit changes one of the two: without it
// nothing signed could be decided any more.
func (j *Judge) revocations(_ context.Context, r Range, c *commit) error {
	changes := c.diffs[0].Changes
	if c.obj == nil || len(changes) == c.envelopes {
		return nil // the index; envelopes alone
	}
	changed := func(path string) bool { return touches(changes, path) }
	p := c.policy
	if !p.Server {
		id, err := fileIn(j.Repo, c.obj.Tree, policyPath)
		if err != nil || id == "" {
			return unlessUndecided(err)
		}
		data, large, err := j.blob(id, MaxPolicyBytes)
		if err != nil {
			return err
		}
		// What is wrong with it trustFiles tells, of the commit that brings it.
		if p, err = Decode(data, FromRepository); large || err != nil {
			return nil
		}
	}
	if p.Revoked == "" || !changed(p.Revoked) && (p.Server || !changed(policyPath)) {
		return nil
	}
	why := ""
	id, err := fileIn(j.Repo, c.obj.Tree, p.Revoked)
	switch {
	case unlessUndecided(err) != nil:
		return err
	case err == nil && id == "":
		why = "is missing"
	case p.Revoked == c.policy.Revoked && touches(c.brought, p.Revoked):
		return nil // trustFiles has looked at it
	case err != nil:
		why = "is no regular file"
	default:
		data, large, err := j.blob(id, MaxTrustBytes)
		if err != nil {
			return err
		}
		if large {
			why = fmt.Sprintf("has more than %d bytes", MaxTrustBytes)
		} else if _, err := sshsign.ParseRevocations(data); err != nil {
			why = "cannot be read: " + finding.Clean(err.Error())
		}
	}
	if why != "" {
		j.add(c.policy, finding.Finding{Rule: "signers-change", Severity: finding.Error, Path: p.Revoked, Commit: c.id, Ref: r.Ref,
			Message: "the policy names this revocation file, which " + why + ": nothing signed could be decided any more",
			Hint:    "commit the policy together with the file: rig-hook keys revoke KEY writes it; or take the key revoked out of the policy"})
	}
	return nil
}

func touches(changes []gitrepo.Change, path string) bool {
	return slices.ContainsFunc(changes, func(ch gitrepo.Change) bool { return ch.Path == path })
}

// unlessUndecided is nil for what a push brings and trustFiles tells.
func unlessUndecided(err error) error {
	if u := (*Undecided)(nil); errors.As(err, &u) {
		return nil
	}
	return err
}

// verify judges the signatures of those commits of a batch that need one, or
// have one that is worth something where signers are listed, on all cores.
func (j *Judge) verify(batch []*commit) error {
	var todo []*commit
	for _, c := range batch {
		sign, _ := j.mustSign(c)
		if !sign && !c.maySpeak() {
			continue
		}
		if _, _, err := c.trust.Signers(); err != nil {
			if j.Told == nil || unlessUndecided(err) != nil {
				return err
			}
			c.undecided = err.Error()
			if c.isSigned() || !sign {
				continue
			}
		}
		todo = append(todo, c)
	}
	Parallel(len(todo), func(i int) {
		c := todo[i]
		s, r, _ := c.trust.Signers()
		o := sshsign.Options{MinRSABits: c.policy.MinRSABits}
		if j.Gate.server() {
			o.Now = j.Now
		}
		v := sshsign.VerifyCommit(c.obj.Raw, j.format(), s, r, o)
		c.verdict = &v
	})
	return nil
}

// maySpeak tells whether a commit could be signed by a key that is listed, so
// that it speaks for somebody though it need not be signed.
func (c *commit) maySpeak() bool { return c.obj != nil && c.trust.Exists() && c.isSigned() }

// isSigned tells whether a commit has, or could be taken to have, a signature.
func (c *commit) isSigned() bool {
	head, _, _ := bytes.Cut(c.obj.Raw, []byte("\n\n"))
	return bytes.Contains(head, []byte("\ngpgsig"))
}

// signed judges commit-signed, signer-identity, signers-change and commit-clock,
// and finds out for whom sender-key is to be judged.
func (j *Judge) signed(_ context.Context, r Range, c *commit) error {
	if c.obj == nil {
		return nil
	}
	add := func(rule, message, hint string) {
		j.add(c.policy, finding.Finding{Rule: rule, Severity: finding.Error, Commit: c.id, Ref: r.Ref, Message: message, Hint: hint})
	}
	if j.Gate.server() {
		j.commitClock(r, c, add)
	}
	if j.Gate.server() || j.Receives {
		j.bootstrap(c, add)
	}
	sign, change := j.mustSign(c)
	if c.verdict == nil {
		return nil // not signed and need not be, or undecided
	}
	v := *c.verdict
	if !sign && !v.Good() {
		return nil // worth as much as none
	}
	forge := j.forge(c, &v)
	if forge && c.attested == 0 && !change {
		return nil
	}
	if !v.Good() {
		why := string(v.Reason)
		if v.Detail != "" {
			why += ": " + v.Detail
		}
		again := "git -c gpg.format=ssh rebase --exec 'git commit --amend --no-edit -S' " + short(firstParent(c))
		hint := "sign it: " + again
		switch v.Reason {
		case sshsign.Unsigned:
			why += ": the commit has no signature, expected that of an allowed signer"
		case sshsign.UnknownKey, sshsign.NotYetValid, sshsign.Expired, sshsign.Revoked:
			hint = "sign it with a key that is listed and valid: git config user.signingkey KEY.pub && " + again
		}
		if len(c.parents) > 1 && len(c.brought) == 0 {
			hint = "merge in a clone with git merge -S instead of the forge's merge button, or set forge-commits in the policy"
		}
		add("commit-signed", why, hint)
		if change {
			add("signers-change", "policy or signers are changed by a commit that no trusted signer made", "let a signer of the old file make this commit")
		}
		return nil
	}
	committer, author := c.obj.Committer, c.obj.Author
	// Only the last commit can be amended as it is.
	asCommitter, asAuthor := "amend", "git commit --amend --no-edit --reset-author -S"
	if c.id != r.New {
		asCommitter = "git rebase --no-ff --gpg-sign " + short(firstParent(c))
		asAuthor = "git rebase --interactive --gpg-sign " + short(firstParent(c)) + ", with edit before this commit; then " + asAuthor + "; then git rebase --continue"
	}
	switch {
	case !v.Speaks(committer.Email):
		add("signer-identity", fmt.Sprintf("the committer %s is no principal of the key %s that signed", finding.QuoteMax(committer.Email, 80), v.Fingerprint),
			"git config user.email to the address that the signers file lists for this key, then "+asCommitter)
	case c.attested == 0 && author.Email != committer.Email && len(c.policy.Forge.Keys) == 0:
		add("signer-identity", fmt.Sprintf("the author %s is not the committer %s", finding.QuoteMax(author.Email, 80), finding.QuoteMax(committer.Email, 80)), asAuthor)
	}
	c.speaks = &v
	return nil
}

// senderKey judges that the key that signed a commit may speak for the senders
// of the envelopes that it brings.
func (j *Judge) senderKey(_ context.Context, r Range, c *commit) error {
	if c.speaks == nil {
		return nil
	}
	s, _, err := c.trust.Signers()
	if err != nil || !s.HasRigIDs() {
		return err
	}
	for _, e := range c.entries {
		if e.added && e.env != nil && e.env.Valid() && !c.speaks.Speaks(e.env.From) {
			line, col := e.env.Place("from")
			j.add(c.policy, finding.Finding{Rule: "sender-key", Severity: finding.Error, Path: e.path, Line: line, Col: col, Commit: c.id, Ref: r.Ref,
				Message: fmt.Sprintf("the key %s that signed may not speak for the rig %s", c.speaks.Fingerprint, finding.QuoteMax(e.env.From, 60)),
				Hint:    "add the rig id to the key's principals in the signers file, or send as a rig that is listed there"})
		}
	}
	return nil
}

func firstParent(c *commit) string {
	if len(c.parents) == 0 {
		return ""
	}
	return c.parents[0]
}

// forge tells whether a commit passes because a forge made it, by the policy.
func (j *Judge) forge(c *commit, v *sshsign.Verdict) bool {
	if len(c.parents) > 1 && len(c.brought) == 0 && c.policy.Forge.EmptyMerge {
		return true
	}
	if !slices.Contains(c.policy.Forge.Keys, v.Fingerprint) || v.Key == nil {
		return false
	}
	if !v.Good() && v.Reason != sshsign.UnknownKey {
		return false
	}
	line := append([]byte(`* namespaces="git" `), ssh.MarshalAuthorizedKey(v.Key)...)
	own, err := sshsign.ParseSigners(line)
	if err != nil {
		return false
	}
	_, revoked, err := c.trust.Signers()
	if err != nil {
		return false
	}
	return sshsign.VerifyCommit(c.obj.Raw, j.format(), own, revoked, sshsign.Options{MinRSABits: c.policy.MinRSABits}).Good()
}

func (j *Judge) commitClock(r Range, c *commit, add func(rule, message, hint string)) {
	var parents []time.Time
	for _, p := range j.walk.parents(c.n) {
		when := int64(0)
		if p >= 0 {
			when = j.dates[p]
		} else {
			when = j.walk.bounds[^p].when
		}
		parents = append(parents, time.Unix(when, 0))
	}
	j.dates[c.n] = c.obj.Committer.When
	hint, sign := "set the clock, then: git commit --amend --no-edit", " -S"
	if c.id != r.New { // which alone can be amended as it is
		hint, sign = "set the clock, then: git rebase --no-ff "+short(firstParent(c)), " --gpg-sign"
	}
	if c.verdict != nil {
		hint += sign
	}
	if c.obj.Committer.When > lastSecond {
		add("commit-clock", "the committer date lies after the year 9999", hint)
		return
	}
	if why := relay.CommitClock(time.Unix(c.obj.Committer.When, 0), j.Now, parents, c.policy.ClockSkew); why != "" {
		add("commit-clock", why, hint)
	}
}

// lastSecond of the year 9999. Later dates are no dates, and too large a number
// could wrap into the past.
const lastSecond = 253402300799

// bootstrap refuses, at a server, policy and signers files where nobody is
// trusted yet, unless the server says that it takes them.
func (j *Judge) bootstrap(c *commit, add func(rule, message, hint string)) {
	if c.trust.Exists() || j.Bootstrap {
		return
	}
	for _, path := range c.trustPaths {
		add("signers-change", "nobody is trusted yet who could sign for a change of "+finding.Quote(path),
			"on the server, for the push that brings it: git config rigward.bootstrap true")
		return
	}
}

// committed is the committer date of a commit.
func committed(c *gitrepo.Commit) time.Time { return time.Unix(c.Committer.When, 0).UTC() }

// WillNeedSignature tells what of the staged changes makes the commit need a
// signature ("a relay", "every commit"), "" if nothing does.
func (j *Judge) WillNeedSignature(ctx context.Context, s Staged) (string, error) {
	if s.Policy.RequireSigned == RequireAll {
		return "every commit", nil
	}
	c := &commit{diffs: []gitrepo.Diff{{Parent: s.Head, Changes: s.Changes}}, policy: s.Policy, trust: s.Trust}
	if err := j.prepare(ctx, []*commit{c}); err != nil {
		return "", err
	}
	if c.attested > 0 {
		return "a relay", nil
	}
	return "", nil
}
