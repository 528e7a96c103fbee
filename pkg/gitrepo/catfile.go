package gitrepo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rigward/rigward/pkg/finding"
)

// A session is the one `git cat-file --batch-command --buffer` of a Repo.
//
// It cannot deadlock: in --buffer mode git answers nothing before it has read
// a flush, and a request is written whole, with its flush, before its answers
// are read. Requests are serialised by mu.
type session struct {
	ctx   context.Context
	env   Env
	git   string
	known ID // asked for as greeting: the empty tree, which git always knows

	mu      sync.Mutex
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	stderr  *tail
	greeted bool
	read    atomic.Int64 // bytes of contents read
	err     error        // why no request can be answered any more
}

// deltaBases is how much git keeps of the objects that others are stored as
// differences to (git-config, core.deltaBaseCacheLimit). Its default of 96 MiB
// costs more than it gives back: root trees of ten thousand threads, which a
// pack holds in chains of fifty, are read in two thirds of the time with this.
const deltaBases = "16m"

// largeFile is from which size on git sends a blob piece by piece instead of
// loading it first, where it is not stored as a difference (git-config,
// core.bigFileThreshold).
const largeFile = "8m"

// largeFileArgs come before a command that sends contents.
var largeFileArgs = []string{"-c", "core.bigFileThreshold=" + largeFile}

// maxBatch is how many requests are queued before a flush.
const maxBatch = 4096

// start starts the process without waiting for it.
func (s *session) start() error {
	s.cmd, s.stderr = s.env.process(s.ctx, s.git, append(slices.Clip(largeFileArgs), "-c", "core.deltaBaseCacheLimit="+deltaBases, "cat-file", "--batch-command", "--buffer")...)
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return &Error{Kind: ErrDied, Cause: err, Message: "no pipe for git cat-file"}
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return &Error{Kind: ErrDied, Cause: err, Message: "no pipe for git cat-file"}
	}
	if err := s.cmd.Start(); err != nil {
		return &Error{Kind: ErrNoGit, Cause: err, Message: "git could not be started: " + finding.QuoteMax(err.Error(), 200),
			Hint: "install git 2.36 or newer"}
	}
	growPipe(out)
	s.in, s.out, s.greeted = in, bufio.NewReaderSize(out, 16<<10), false
	return nil
}

// request writes commands and reads their n answers with read, which is called
// once for each. On failure the session ends for good, but for one reason: an
// object that a promisor remote has and git may not fetch makes git die; that
// is an answer, and the next request gets a new process.
func (s *session) request(commands []byte, n int, read func(i int, out *bufio.Reader) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if s.cmd == nil {
		if err := s.start(); err != nil {
			s.cmd, s.err = nil, err // there is nothing to end
			return err
		}
	}
	if !s.greeted {
		if err := s.greet(); err != nil {
			return s.fail(err)
		}
	}
	if _, err := s.in.Write(append(commands, "flush\n"...)); err != nil {
		return s.fail(err)
	}
	for i := range n {
		if err := read(i, s.out); err != nil {
			return s.fail(err)
		}
	}
	return nil
}

// greet proves that git is new enough and reads this repository.
func (s *session) greet() error {
	if _, err := io.WriteString(s.in, "info "+s.known+"\nflush\n"); err != nil {
		return err
	}
	h, err := readHeader(s.out)
	if err != nil {
		return err
	}
	if h.id != s.known || h.typ != "tree" || h.size != 0 {
		return errProtocol
	}
	s.greeted = true
	return nil
}

var errProtocol = errors.New("git cat-file gave an answer of unknown form")

// fail ends the process and turns its end into the error of this request.
func (s *session) fail(cause error) error {
	protocol := errors.Is(cause, errProtocol)
	if protocol {
		_ = s.cmd.Process.Kill()
	}
	waitErr := s.end()
	if protocol {
		s.err = &Error{Kind: ErrDied, Cause: cause, Message: cause.Error()}
		return s.err
	}
	stderr := s.stderr.Bytes()
	var exit *exec.ExitError
	if !s.greeted && errors.As(waitErr, &exit) && exit.ExitCode() == 129 && s.ctx.Err() == nil {
		s.err = s.tooOld()
		return s.err
	}
	err := failure(s.ctx, "git cat-file", stderr, waitErr)
	if errors.Is(err, ErrMissing) {
		s.cmd = nil
		return err
	}
	s.err = err
	if s.greeted && s.ctx.Err() == nil {
		var e *Error
		if errors.As(err, &e) {
			later := *e
			later.Message = "no object can be read any more: " + e.Message
			s.err = &later
		}
	}
	return err
}

// end closes the child's pipes and waits for it.
func (s *session) end() error {
	_ = s.in.Close()
	_, _ = io.Copy(io.Discard, s.out)
	return s.cmd.Wait()
}

func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil && s.cmd.ProcessState == nil {
		_ = s.end()
	}
	if s.err == nil {
		s.err = errClosed()
	}
}

func errClosed() error { return &Error{Kind: ErrDied, Message: "the repository is closed"} }

// tooOld names the version of a git that doesn't know --batch-command.
func (s *session) tooOld() error {
	stdout, _, _, err := s.env.output(s.ctx, s.git, "version")
	if err != nil {
		return err
	}
	version := strings.TrimPrefix(strings.TrimSpace(string(stdout)), "git version ")
	if version == "" || strings.ContainsFunc(version, func(r rune) bool { return r < ' ' || r > '~' }) {
		version = "of unknown version"
	}
	return &Error{Kind: ErrTooOld, Message: "git " + version + " is too old, 2.36 or newer is needed",
		Hint: "install git 2.36 or newer"}
}

// A header is the first line of an answer of cat-file: an object, or a name
// for which there is none.
type header struct {
	id   ID     // full id, "" unless the object is there
	typ  string // "commit", "tree", "blob" or "tag"; else "missing" or "ambiguous"
	size int64
}

// readHeader reads one header line.
func readHeader(out *bufio.Reader) (header, error) {
	line, err := out.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, bufio.ErrBufferFull) {
			err = errProtocol
		}
		return header{}, err
	}
	return parseHeader(line)
}

// parseHeader parses `<id> SP <type> SP <size> LF`, `<name> SP missing LF` or
// `<name> SP ambiguous LF` (git-cat-file, BATCH OUTPUT).
func parseHeader(line []byte) (header, error) {
	line, ok := bytes.CutSuffix(line, []byte("\n"))
	if !ok {
		return header{}, errProtocol
	}
	name, rest, ok := strings.Cut(string(line), " ")
	if !ok || !isHex(name) {
		return header{}, errProtocol
	}
	switch rest {
	case "missing", "ambiguous":
		return header{typ: rest}, nil
	}
	typ, digits, ok := strings.Cut(rest, " ")
	if !ok || len(name) != 40 && len(name) != 64 || digits == "" || len(digits) > 1 && digits[0] == '0' {
		return header{}, errProtocol
	}
	switch typ {
	case "commit", "tree", "blob", "tag":
	default:
		return header{}, errProtocol
	}
	size, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return header{}, errProtocol
	}
	return header{id: name, typ: typ, size: int64(size)}, nil
}

// info asks for type and size of each name: a full id, or a prefix of one.
func (s *session) info(names []string) ([]header, error) {
	heads := make([]header, 0, len(names))
	for len(names) > 0 {
		n := min(len(names), maxBatch)
		err := s.request(commands("info ", names[:n]), n, func(_ int, out *bufio.Reader) error {
			h, err := readHeader(out)
			heads = append(heads, h)
			return err
		})
		if err != nil {
			return nil, err
		}
		names = names[n:]
	}
	return heads, nil
}

// contents reads objects of which info has said that they are there: of each
// the first bytes, at most so many. fn gets them in order and keeps data. What
// git sends beyond is passed over.
func (s *session) contents(heads []header, most int64, fn func(i int, data []byte)) error {
	ids := make([]string, len(heads))
	for i, h := range heads {
		ids[i] = h.id
	}
	for start := 0; start < len(ids); start += maxBatch {
		part := ids[start:min(start+maxBatch, len(ids))]
		err := s.request(commands("contents ", part), len(part), func(i int, out *bufio.Reader) error {
			h, err := readHeader(out)
			if err != nil {
				return err
			}
			if h != heads[start+i] {
				return errProtocol
			}
			data := make([]byte, min(h.size, most))
			s.read.Add(h.size)
			if _, err := io.ReadFull(out, data); err != nil {
				return err
			}
			if _, err := io.CopyN(io.Discard, out, h.size-int64(len(data))); err != nil {
				return err
			}
			if c, err := out.ReadByte(); err != nil {
				return err
			} else if c != '\n' {
				return errProtocol
			}
			fn(start+i, data)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// bytesRead is how many bytes of contents were read so far.
func (s *session) bytesRead() int64 { return s.read.Load() }

func commands(verb string, names []string) []byte {
	var b bytes.Buffer
	for _, n := range names {
		b.WriteString(verb)
		b.WriteString(n)
		b.WriteByte('\n')
	}
	return b.Bytes()
}
