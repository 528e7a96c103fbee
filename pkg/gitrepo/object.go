package gitrepo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Limits in bytes of what this package reads on its own account. Larger ones
// are ErrTooLarge.
const (
	MaxCommit = 4 << 20
	MaxTree   = 64 << 20
)

// batchBytes is how much content is held at a time by Objects.
const batchBytes = 16 << 20

// An Object is one object as stored.
type Object struct {
	ID   ID     // as asked for
	Type string // "commit", "tree", "blob" or "tag"; "" if it is missing
	Size int64  // in bytes
	Data []byte // nil if Err is set
	Err  error  // ErrMissing or ErrTooLarge
}

// Object reads one object of at most limit bytes. The size is known before
// anything is read. Errors: ErrMissing, ErrTooLarge, ErrInvalid for what is no
// full id, and whatever ends the child.
func (r *Repo) Object(id ID, limit int64) (typ string, data []byte, err error) {
	err = r.Objects([]ID{id}, limit, func(o Object) error {
		typ, data = o.Type, o.Data
		return o.Err
	})
	if err != nil {
		return "", nil, err
	}
	return typ, data, nil
}

// Blob reads one blob of at most limit bytes. Errors are those of Object, and
// ErrType.
func (r *Repo) Blob(id ID, limit int64) ([]byte, error) {
	typ, data, err := r.Object(id, limit)
	if err == nil && typ != "blob" {
		err = wrongType(id, typ, "blob")
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// Objects reads objects in the order of ids and calls fn for each. An object
// that is missing or larger than limit comes with its Err. Reading is batched;
// fn is called between batches and may use the Repo. An error of fn ends the
// reading and is returned.
func (r *Repo) Objects(ids []ID, limit int64, fn func(Object) error) error {
	return r.objects(ids, limit, limit, fn)
}

// ReadAhead gets ready, beside other work, for a call of Objects that follows soon:
// it reads and keeps the objects, or starts the process that will. It ends early
// when ctx ends, and has no error: what it could not do, Objects does.
func (r *Repo) ReadAhead(ctx context.Context, ids []ID) {
	if len(ids) > maxStoreBatch || !r.knownGit() {
		_ = r.cat.request(nil, 0, nil)
		return
	}
	for part := range slices.Chunk(ids, 4) { // others wait for so many only
		if ctx.Err() != nil {
			return
		}
		r.stored.info(part)
	}
}

// Heads is Objects of which only the first bytes are wanted, at most so many of
// each, whatever its size: Data holds these, Size is that of the whole. Memory
// is that of the heads; what follows them is passed over, or not sent at all.
func (r *Repo) Heads(ids []ID, most int64, fn func(Object) error) error {
	return r.objects(ids, math.MaxInt64, most, fn)
}

// maxPassedOver is how much of an object is read and thrown away for its first
// bytes. Of a larger one a process of its own sends them and is ended then.
const maxPassedOver = 16 << 20

// objects reads of each object of at most limit bytes the first ones, at most
// so many.
func (r *Repo) objects(ids []ID, limit, most int64, fn func(Object) error) error {
	for _, id := range ids {
		if err := r.checkID(id); err != nil {
			return err
		}
	}
	for len(ids) > 0 {
		part := ids[:min(len(ids), maxBatch)]
		heads, err := r.headers(part)
		if err != nil {
			return err
		}
		for len(part) > 0 {
			n, wanted, bytes := 0, []header(nil), int64(0)
			for n < len(part) {
				if h := heads[n]; h.id != "" && h.size <= limit && h.size-most <= maxPassedOver {
					if bytes += h.size; bytes > batchBytes && len(wanted) > 0 {
						break
					}
					wanted = append(wanted, h)
				}
				n++
			}
			data := make([][]byte, len(wanted))
			if err := r.contents(wanted, most, func(i int, d []byte) { data[i] = d }); err != nil {
				return err
			}
			for i, h := range heads[:n] {
				o := Object{ID: part[i], Size: h.size}
				switch {
				case h.id == "":
					o.Err = missing(part[i])
				case h.size > limit:
					o.Type, o.Err = h.typ, tooLarge(h, limit)
				case h.size-most > maxPassedOver:
					o.Type = h.typ
					if o.Data, err = r.begin(h, most); err != nil {
						return err
					}
				default:
					o.Type, o.Data, data = h.typ, data[0], data[1:]
				}
				if err := fn(o); err != nil {
					return err
				}
			}
			part, heads, ids = part[n:], heads[n:], ids[n:]
		}
	}
	return nil
}

// begin reads the first bytes of an object that is longer.
func (r *Repo) begin(h header, most int64) ([]byte, error) {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	cmd, stderr := r.env.process(ctx, r.git, append(slices.Clip(largeFileArgs), "cat-file", h.typ, h.id)...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, failure(r.ctx, "git cat-file", nil, err)
	}
	data := make([]byte, most)
	if _, err = io.ReadFull(out, data); err == nil {
		cancel() // nobody wants the rest
		_ = cmd.Wait()
		return data, nil
	}
	return nil, failure(r.ctx, "git cat-file", stderr.Bytes(), errors.Join(err, cmd.Wait()))
}

// PresentCommits returns those ids of which a commit is present, in their order.
// Errors are those of Has.
func (r *Repo) PresentCommits(ids []ID) (there []ID, err error) {
	types, err := r.Has(ids)
	for i, typ := range types {
		if typ == "commit" {
			there = append(there, ids[i])
		}
	}
	return there, err
}

// Has reports for each id whether an object of that id is present, and of which
// type ("" if it is not).
func (r *Repo) Has(ids []ID) (types []string, err error) {
	for _, id := range ids {
		if err := r.checkID(id); err != nil {
			return nil, err
		}
	}
	heads, err := r.headers(ids)
	if err != nil {
		return nil, err
	}
	types = make([]string, len(ids))
	for i, h := range heads {
		if h.id != "" {
			types[i] = h.typ
		}
	}
	return types, nil
}

// ResolvePrefix returns the ids of all objects whose id begins with prefix: at
// least four lower-case hexadecimal digits, at most a full id. No id means
// that there is none; more than one, that the prefix is ambiguous.
func (r *Repo) ResolvePrefix(prefix string) ([]ID, error) {
	if len(prefix) < 4 || len(prefix) > r.HashLen() || !isHex(prefix) {
		return nil, invalid("an abbreviated object id", prefix)
	}
	if len(prefix) < r.HashLen() {
		return r.disambiguate(prefix)
	}
	if r.IsZero(prefix) {
		return nil, nil // "no object", which is never stored
	}
	types, err := r.Has([]ID{prefix})
	if err != nil || types[0] == "" {
		return nil, err
	}
	return []ID{prefix}, nil
}

// disambiguate asks the running cat-file first, which knows the answer for a
// prefix without branches, tags or other objects of its name. Anything else
// takes a process of its own.
func (r *Repo) disambiguate(prefix string) ([]ID, error) {
	var h header
	err := r.cat.request(commands("info ", []string{prefix}), 1, func(_ int, out *bufio.Reader) (err error) {
		h, err = readHeader(out)
		return err
	})
	if err != nil {
		return nil, err
	}
	if h.typ == "missing" {
		return nil, nil
	}
	if strings.HasPrefix(h.id, prefix) && !r.hasRefNamed(prefix) {
		return []ID{h.id}, nil
	}
	stdout, stderr, code, err := r.env.output(r.ctx, r.git, "rev-parse", "--disambiguate="+prefix)
	if err != nil {
		return nil, err
	}
	if code != 0 {
		return nil, failure(r.ctx, "git rev-parse", stderr, nil)
	}
	ids := strings.Fields(string(stdout))
	for _, id := range ids {
		if !r.ValidID(id) || !strings.HasPrefix(id, prefix) {
			return nil, &Error{Kind: ErrDied, Message: "git rev-parse gave an answer of unknown form"}
		}
	}
	return ids, nil
}

func wrongType(id ID, typ, want string) error {
	return &Error{Kind: ErrType, Message: fmt.Sprintf("object %s is a %s, expected a %s", id, typ, want)}
}

func tooLarge(h header, limit int64) error {
	return &Error{Kind: ErrTooLarge, Message: fmt.Sprintf("%s %s has %d bytes, at most %d are read", h.typ, h.id, h.size, limit)}
}
