// Package corpus makes large repositories of envelopes for measuring: one
// commit an envelope, a few envelopes a thread, signed in process if wanted.
// The same options give the same repository.
package corpus

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/test/testkeys"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/relay"
)

// Options of a repository.
type Options struct {
	Envelopes int
	PerThread int  // envelopes of a thread; 0: 10
	PerCommit int  // envelopes of a commit; 0: 1
	Relays    bool // the last envelope of a thread is a relay
	Signed    bool // every commit is signed by operatorKey
}

// operatorKey signs; Signers lists it as the operator.
func operatorKey() *testkeys.Key { return testkeys.Ed25519("bench operator") }

// Operator is who commits.
const (
	OperatorName  = "Operator"
	OperatorEmail = "op@example.com"
)

// Start is the committer date of the first commit.
var Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Per is how many envelopes a thread has.
func (o Options) Per() int {
	if o.PerThread == 0 {
		return 10
	}
	return o.PerThread
}

// commits returns the first envelope of each commit.
func (o Options) commits() (first []int) {
	for i := 0; i < o.Envelopes; i += max(1, o.PerCommit) {
		first = append(first, i)
	}
	return first
}

// Envelope returns path and bytes of the i-th envelope.
func Envelope(i int, o Options) (path string, data []byte) {
	per := o.Per()
	thread, turn := fmt.Sprintf("thread-%06d", i/per), i%per
	at := Start.Add(time.Duration(i) * time.Minute / 4)
	f := envelope.Fields{
		From: "rig-a", To: []string{"rig-b"}, Date: at.Format(time.RFC3339), Status: "▶ Working on turn " + fmt.Sprint(turn),
		Type: "STATE", Thread: thread, TLDR: "Turn of a thread", Body: Body(i),
	}
	name := fmt.Sprintf("STATE-%d.md", turn)
	if turn == 0 {
		f.Type, name = "REQUEST", "REQUEST.md"
	}
	if o.Relays && turn == per-1 {
		nonce, err := relay.NewNonce(at, bytes.NewReader([]byte(fmt.Sprintf("%010d", i))))
		if err != nil {
			panic(err)
		}
		f.From, f.Type, f.Nonce = "op-relay", "DECISIONS", nonce
		f.AttestedAt, f.AttestedBy = at.Format("2006-01-02T15:04:05.000Z"), operatorKey().Fingerprint()
		f.InReplyTo = hashOf(Body(i - turn))
		name = "RELAY-" + nonce + ".md"
	}
	f.BodyHash = hashOf(f.Body)
	data, err := envelope.Render(f)
	if err != nil {
		panic(err)
	}
	return thread + "/" + name, data
}

func hashOf(body []byte) string { return envelope.BodyHash(envelope.NormalizeBody(body)) }

// Body is the text of the i-th envelope, about 600 bytes.
func Body(i int) []byte {
	return []byte(fmt.Sprintf("Turn %d.\n\n%s", i, strings.Repeat("The work goes on; tests are green and the next step is known.\n", 9)))
}

// Signers is the allowed_signers file that comes with the first commit.
func Signers() string { return operatorKey().Line(OperatorEmail+",op-relay,rig-a,rig-b", "") }

// Generate makes a bare repository at dir with the branch main.
func Generate(dir string, o Options) error {
	if err := git(nil, io.Discard, "", "init", "-q", "--bare", "--initial-branch=main", dir); err != nil {
		return err
	}
	r, w := io.Pipe()
	go func() {
		out := bufio.NewWriterSize(w, 1<<20)
		fmt.Fprintf(out, "feature done\n")
		for _, first := range o.commits() {
			path, _ := Envelope(first, o)
			when := Start.Unix() + int64(first)*15
			fmt.Fprintf(out, "commit refs/heads/main\ncommitter %s <%s> %d +0000\ndata <<E\nSend %s\nE\n", OperatorName, OperatorEmail, when, path)
			if first == 0 {
				s := Signers()
				fmt.Fprintf(out, "M 100644 inline .bridge/allowed_signers\ndata %d\n%s\n", len(s), s)
			}
			for i := first; i < min(o.Envelopes, first+max(1, o.PerCommit)); i++ {
				path, data := Envelope(i, o)
				fmt.Fprintf(out, "M 100644 inline %s\ndata %d\n%s\n", path, len(data), data)
			}
		}
		fmt.Fprintf(out, "done\n")
		w.CloseWithError(out.Flush())
	}()
	if err := git(r, io.Discard, dir, "fast-import", "--quiet", "--depth=50"); err != nil {
		return err
	}
	if o.Signed {
		if err := sign(dir, o); err != nil {
			return err
		}
	}
	return git(nil, io.Discard, dir, "pack-refs", "--all")
}

// sign writes the history again with every commit signed: the trees stay, the
// commits come as one pack.
func sign(dir string, o Options) error {
	var list bytes.Buffer
	if err := git(nil, &list, dir, "log", "--reverse", "--format=%T", "main"); err != nil {
		return err
	}
	trees, first := strings.Fields(list.String()), o.commits()
	p := newPack(len(trees))
	key, parent := operatorKey(), ""
	for n, tree := range trees {
		i := first[n]
		path, _ := Envelope(i, o)
		when := Start.Unix() + int64(i)*15
		who := fmt.Sprintf("%s <%s> %d +0000", OperatorName, OperatorEmail, when)
		head := "tree " + tree + "\n"
		if parent != "" {
			head += "parent " + parent + "\n"
		}
		payload := head + "author " + who + "\ncommitter " + who + "\n\nSend " + path + "\n"
		parent = p.commit(testkeys.SignCommit([]byte(payload), key))
	}
	file := filepath.Join(dir, "signed.pack")
	if err := os.WriteFile(file, p.finish(), 0o644); err != nil {
		return err
	}
	defer os.Remove(file)
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := git(f, io.Discard, dir, "index-pack", "--stdin"); err != nil {
		return err
	}
	return git(nil, io.Discard, dir, "update-ref", "refs/heads/main", parent)
}

// A pack is a packfile of commits (gitformat-pack(5)), without deltas.
type pack struct {
	buf bytes.Buffer
	sum hash.Hash
	z   *zlib.Writer
}

func newPack(n int) *pack {
	p := &pack{sum: sha1.New()}
	p.z, _ = zlib.NewWriterLevel(&p.buf, zlib.BestSpeed)
	p.buf.WriteString("PACK")
	p.buf.Write(binary.BigEndian.AppendUint32(nil, 2))
	p.buf.Write(binary.BigEndian.AppendUint32(nil, uint32(n)))
	return p
}

func (p *pack) commit(raw []byte) (id string) {
	n := len(raw)
	c := byte(1<<4 | n&15)
	for n >>= 4; n > 0; n >>= 7 {
		p.buf.WriteByte(c | 0x80)
		c = byte(n & 0x7f)
	}
	p.buf.WriteByte(c)
	p.z.Reset(&p.buf)
	p.z.Write(raw)
	p.z.Close()
	h := sha1.New()
	fmt.Fprintf(h, "commit %d\x00", len(raw))
	h.Write(raw)
	return hex.EncodeToString(h.Sum(nil))
}

func (p *pack) finish() []byte {
	p.sum.Write(p.buf.Bytes())
	return p.sum.Sum(p.buf.Bytes())
}

// Git runs git away from the user's configuration.
func Git(dir string, args ...string) (string, error) {
	var out bytes.Buffer
	err := git(nil, &out, dir, args...)
	return out.String(), err
}

func git(stdin io.Reader, stdout io.Writer, dir string, args ...string) error {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout = dir, stdin, stdout
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME="+OperatorName, "GIT_AUTHOR_EMAIL="+OperatorEmail, "GIT_COMMITTER_NAME="+OperatorName, "GIT_COMMITTER_EMAIL="+OperatorEmail)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, stderr.String())
	}
	return nil
}

// Relay returns a relay of its own in the thread of envelope first, answering
// that thread's request; i makes its nonce.
func Relay(first, i int, at time.Time, o Options) (path string, data []byte) {
	first -= first % o.Per()
	thread := fmt.Sprintf("thread-%06d", first/o.Per())
	nonce, err := relay.NewNonce(at, bytes.NewReader([]byte(fmt.Sprintf("%010d", i))))
	if err != nil {
		panic(err)
	}
	f := envelope.Fields{
		From: "op-relay", To: []string{"rig-b"}, Date: at.UTC().Format(time.RFC3339), Status: "▶ Decided", Type: "DECISIONS", Thread: thread,
		Nonce: nonce, AttestedAt: at.UTC().Format("2006-01-02T15:04:05.000Z"), AttestedBy: operatorKey().Fingerprint(),
		InReplyTo: hashOf(Body(first)), Body: Body(i),
	}
	f.BodyHash = hashOf(f.Body)
	data, err = envelope.Render(f)
	if err != nil {
		panic(err)
	}
	return thread + "/RELAY-" + nonce + ".md", data
}

// SignTip signs the commit that main of a repository points to, and returns
// the id of the signed one, which main then points to.
func SignTip(dir, id string) (string, error) {
	var raw, out bytes.Buffer
	if err := git(nil, &raw, dir, "cat-file", "commit", id); err != nil {
		return "", err
	}
	if err := git(bytes.NewReader(testkeys.SignCommit(raw.Bytes(), operatorKey())), &out, dir, "hash-object", "-t", "commit", "-w", "--stdin"); err != nil {
		return "", err
	}
	signed := strings.TrimSpace(out.String())
	return signed, git(nil, io.Discard, dir, "update-ref", "refs/heads/main", signed)
}
