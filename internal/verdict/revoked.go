package verdict

import (
	"github.com/rigward/rigward/pkg/rules"
	"github.com/rigward/rigward/pkg/sshsign"
)

// A revoked tells which keys no longer count, by the lists at the end of the accepted
// history.
type revoked struct {
	list    *sshsign.Revocations // nil: none, or none that can be read
	keys    map[string]bool      // by fingerprint
	commits map[string]bool      // signed with certificates, which are revoked one by one, too
}

// revoked reports whether the key of a good signature is revoked now. What it signed
// before stays said (see rules.Era), but whoever stole a key used it before anybody
// knew.
func (b *Book) revoked(fingerprint string, r record) bool {
	if b.gone == nil {
		b.gone = &revoked{list: sshsign.JoinRevocations(b.revocations(b.store.Now)...), keys: map[string]bool{}, commits: map[string]bool{}}
	}
	if b.gone.list == nil {
		return false
	}
	known, name := b.gone.keys, fingerprint
	if r.flags&flagCertificate != 0 {
		known, name = b.gone.commits, r.commit
	}
	is, asked := known[name]
	if !asked {
		if c, err := b.o.Repo.Commit(r.commit); err == nil {
			format := sshsign.ObjectFormat(b.o.Repo.ObjectFormat())
			is = sshsign.VerifyCommit(c.Raw, format, nil, b.gone.list, sshsign.Options{MinRSABits: 1}).Reason == sshsign.Revoked
		}
		known[name] = is
	}
	return is
}

// revocations are the lists that count in an era. Where two sides trust different people
// they are those of both.
func (b *Book) revocations(era int) (lists []*sshsign.Revocations) {
	eras := b.store.Eras
	if era >= len(eras) {
		eras, era = []rules.Era{{}}, 0
	}
	for _, side := range eras[era].Torn {
		lists = append(lists, b.revocations(side)...)
	}
	if _, t, err := eras[era].Read(b.o.Loader.Accepted); err == nil {
		if _, list, err := t.Signers(); err == nil && list != nil {
			lists = append(lists, list)
		}
	}
	return lists
}
