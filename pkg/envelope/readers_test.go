package envelope_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/yamlprofile"
)

// A reading is what another program reads in a file.
type reading struct {
	Error  string
	Fields map[string]json.RawMessage
}

// A readers names the programs that read front matter beside this package.
type readers struct{ commands [][]string }

// otherReaders finds npm's yaml and gray-matter, and PyYAML.
func otherReaders(t testing.TB) readers {
	t.Helper()
	modules := os.Getenv("RIGWARD_NPM_READERS")
	if modules == "" {
		t.Skip("RIGWARD_NPM_READERS does not name a node_modules directory with yaml and gray-matter")
	}
	python := ""
	for _, p := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(p, "-c", "import yaml").Run() == nil {
			python = p
			break
		}
	}
	if python == "" {
		t.Skip("no python3 has PyYAML (python3-yaml)")
	}
	return readers{[][]string{
		{"node", filepath.Join("testdata", "readers.cjs"), filepath.Join(modules, "yaml"), filepath.Join(modules, "gray-matter")},
		{python, filepath.Join("testdata", "readers.py")},
	}}
}

// read has every program read the files: one map of readings for each.
func (r readers) read(t testing.TB, files [][]byte) []map[string]reading {
	t.Helper()
	all := make([]map[string]reading, len(files))
	var in bytes.Buffer
	for i, f := range files {
		all[i] = map[string]reading{}
		fmt.Fprintln(&in, base64.StdEncoding.EncodeToString(f))
	}
	for _, args := range r.commands {
		var out, stderr bytes.Buffer
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in.Bytes()), &out, &stderr
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, stderr.Bytes())
		}
		n := 0
		for s := bufio.NewReader(&out); ; n++ {
			line, err := s.ReadBytes('\n')
			if err != nil {
				break
			}
			var answer map[string]reading
			if err := json.Unmarshal(line, &answer); err != nil || n >= len(all) {
				t.Fatalf("answer %d of %v: %v", n, args, err)
			}
			for name, a := range answer {
				all[n][name] = a
			}
		}
		if n != len(files) {
			t.Fatalf("%v: %d answers for %d files", args, n, len(files))
		}
	}
	return all
}

// differs says how another program's reading differs from ours, "" if it does
// not, which is so if it reads nothing at all. Dates are one if they stand for one instant, as far as the program holds
// it: to the millisecond.
func differs(e *envelope.Envelope, other reading) string {
	if other.Error != "" {
		return ""
	}
	for _, f := range e.Frontmatter.Fields {
		raw, ok := other.Fields[f.Key.Value]
		if !ok {
			return f.Key.Value + " is not there"
		}
		if why := differ(f.Key.Value, f.Value, raw); why != "" {
			return f.Key.Value + " " + why
		}
	}
	if len(other.Fields) != len(e.Frontmatter.Fields) {
		return fmt.Sprintf("has %d fields, expected %d", len(other.Fields), len(e.Frontmatter.Fields))
	}
	return ""
}

func differ(key string, n *yamlprofile.Node, raw json.RawMessage) string {
	if n.Kind == yamlprofile.List {
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil || len(items) != len(n.Items) {
			return fmt.Sprintf("is %s, expected a list of %d", raw, len(n.Items))
		}
		for i, item := range n.Items {
			if why := differ(key, item, items[i]); why != "" {
				return why
			}
		}
		return ""
	}
	var v struct {
		S *string
		D *float64
	}
	if err := json.Unmarshal(raw, &v); err == nil {
		if v.S != nil && *v.S == n.Value {
			return ""
		}
		if at, _, err := envelope.ParseTime(n.Value); v.D != nil && err == nil && (key == "date" || key == "attested_at") &&
			math.Abs(*v.D-float64(at.UnixMicro())/1000) < 1 {
			return ""
		}
	}
	return fmt.Sprintf("is %s, expected %q", raw, n.Value)
}

// readAlike holds that of what is accepted no field reads differently.
func readAlike(t *testing.T, r readers, files [][]byte) (accepted, differences int) {
	t.Helper()
	unread := map[string]int{} // files that a program refuses, by its name
	defer func() { t.Logf("refused by other programs: %v", unread) }()
	kinds := map[string]int{}
	for chunk := range slices.Chunk(files, 10_000) {
		var ours []*envelope.Envelope
		var taken [][]byte
		for _, f := range chunk {
			if e, fs := judge(f, envelope.Options{}); e != nil && finding.Worst(fs) != finding.Error {
				ours, taken = append(ours, e), append(taken, f)
			}
		}
		accepted += len(ours)
		for i, answers := range r.read(t, taken) {
			for name, a := range answers {
				if a.Error != "" {
					unread[name]++
				}
				if why := differs(ours[i], a); why != "" {
					differences++
					kind := name + ": " + strings.SplitN(why, ":", 3)[0]
					if kinds[kind]++; kinds[kind] <= 5 {
						t.Errorf("%s: %s\n\t%s", name, why, show(taken[i]))
					}
				}
			}
		}
	}
	return accepted, differences
}

// J07: of every front matter that is accepted, npm's yaml, gray-matter and
// PyYAML read the same fields. RIGWARD_READINGS says of how many mutated files,
// RIGWARD_SEED of which.
func TestJ07EveryReaderReadsTheSame(t *testing.T) {
	r := otherReaders(t)
	seed := uint64(number("RIGWARD_SEED", 1))
	m := mutator{rand: rand.New(rand.NewPCG(seed, 7)), corpus: corpus(t)}
	files := corpus(t)
	for n := number("RIGWARD_READINGS", 4000); len(files) < n; {
		files = append(files, m.reading())
	}
	begin := time.Now()
	accepted, differences := readAlike(t, r, files)
	t.Logf("seed %d: %d files, %d accepted, %d refused, %d differences, %v", seed, len(files), accepted, len(files)-accepted, differences, time.Since(begin).Round(time.Second))
	if accepted < len(files)/50 {
		t.Errorf("only %d of %d files are accepted: the mutations show little", accepted, len(files))
	}
}

// J07: what readers were found to take differently is refused, and what stands
// near it is not.
func TestJ07FilesWithTwoReadings(t *testing.T) {
	front := func(lines string) []byte {
		return []byte("---\nfrom: mac-m5\nto: win\ndate: 2026-05-15\nstatus: ▶ Go\ntype: ACK\nthread: t-one\n" + lines + "---\nBody.\n")
	}
	refused := map[string][]byte{
		"a key behind a CR in a comment":            []byte("---\nfrom: mac-m5\nto: win\ndate: 2026-05-15\nstatus: ▶ Go #\rtype: REQUEST\ntype: ACK\nthread: t-one\n---\n"),
		"the only type behind a CR":                 []byte("---\nfrom: mac-m5\nto: win\ndate: 2026-05-15\nstatus: ▶ Go #\rtype: REQUEST\nthread: t-one\n---\n"),
		"a CR behind the opening fence":             []byte("---\rfrom: mac-m5\nto: win\ndate: 2026-05-15\nstatus: ▶ Go\ntype: ACK\nthread: t-one\n---\n"),
		"a CR behind the closing fence":             []byte("---\nfrom: mac-m5\nto: win\ndate: 2026-05-15\nstatus: ▶ Go\ntype: ACK\nthread: t-one\n---\rBody.\n"),
		"two CR and a LF":                           front("tldr: x\r\r\n"),
		"a CR in double quotes":                     front("tldr: \"a\rb\"\n"),
		"a blank at a line's end in single quotes":  front("tldr: 'a \n  b'\n"),
		"a blank at a line's end in double quotes":  front("tldr: \"a \n  b\"\n"),
		"a TAB at a line's end in quotes":           front("tldr: \"a\t\n  b\"\n"),
		"more blanks than the text's at the end":    front("tldr: |\n  a\n   \n"),
		"blanks alone in a block of known indent":   front("tldr: |1\n  \n"),
		"a block that ends with a TAB":              front("tldr: |+\n  a\n  \t\n"),
		"a year that counts from 1900 for some":     []byte("---\nfrom: mac-m5\nto: win\ndate: 0026-05-15\nstatus: ▶ Go\ntype: ACK\nthread: t-one\n---\n"),
		"two lines that fold to a timestamp of 1.1": front("tldr: 2026-05-15\n  10:30:00\n"),
		"a flow list of words of YAML 1.1":          []byte("---\nfrom: mac-m5\nto: [win, no]\ndate: 2026-05-15\nstatus: ▶ Go\ntype: ACK\nthread: t-one\n---\n"),
	}
	for _, r := range "\x00\x01\v\f\x1b\x1f\x7f\u0080\u0085\u009f\u2028\u2029\ufeff\ufffe\uffff" {
		refused[fmt.Sprintf("U+%04X in a comment", r)] = front("# a" + string(r) + "b\n")
		refused[fmt.Sprintf("U+%04X in quotes", r)] = front("tldr: 'a" + string(r) + "b'\n")
	}
	for name, data := range refused {
		if _, fs := envelope.Parse(data, envelope.Options{}); finding.Worst(fs) != finding.Error {
			t.Errorf("%s is accepted", name)
		}
	}
	for name, data := range map[string][]byte{
		"CRLF throughout":              bytes.ReplaceAll(front("tldr: |\n  a\n\n  b\n"), []byte("\n"), []byte("\r\n")),
		"a CR in the body":             append(front(""), "a\rb\r"...),
		"a CR as an escape":            front("tldr: \"a\\rb\"\n"),
		"lines in quotes":              front("tldr: 'a\n  b\n\n  c'\n"),
		"empty lines at a block's end": front("tldr: |+\n  a\n\n  \n"),
		"a blank line within a block":  front("tldr: |\n  a\n   \n  b\n"),
		"blanks behind a plain value":  front("tldr: a  \n"),
		"words of YAML 1.1 in quotes":  front("tldr: \"yes\"\ndisplay_name: '12:30'\n"),
		"words of YAML 1.1 in a text":  front("tldr: yes, on 2026-05-15 12:30\n"),
		"NBSP, ZWSP and a soft hyphen": front("tldr: a\u00a0b\u200bc\u00add\n"),
	} {
		if _, fs := envelope.Parse(data, envelope.Options{}); finding.Worst(fs) == finding.Error {
			t.Errorf("%s is refused: %+v", name, fs)
		}
	}
}

// whole is an envelope with every field, so that a mutation can meet each.
var whole = "---\nfrom: op-relay\nto: [win-b, mac-m5]\ndate: 2026-05-15T10:30:00Z\nstatus: ▶ Go on\ntype: ACK\nthread: t-one\n" +
	"in_reply_to: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nattested_by: \"SHA256:abc\"\nattested_at: 2026-05-15T10:30:00Z\nnonce: 01ARZ3NDEKTSV4RRFFQ69G5FAV\n" +
	"display_name: Mac M5\ntldr: >-\n  two\n  lines\nreferences:\n  - a1b2c3d\n  - \"1234567\"\n" +
	"body_hash: \"" + envelope.BodyHash([]byte("Body.\n")) + "\"\n---\nBody.\n"

// words are scalars that YAML 1.1 and 1.2 take for different things, or nearly.
var words = strings.Split("yes Yes YES yEs no No NO on On ON off Off OFF y Y n N true tRue false null Null nULL ~ ~~ = == =a << <<< <a 1_000 _1 1_ 0b11 0B11 0b2 0x_1 0xg 0o17 017 08 0_7 +1 -1 +a "+
	"1:20 1:60 01:20 12:30 12:30:45 12:30:45.5 1:2:3 -1:30 +1:30 190:20:30.15 1:20a .5 ._5 5. 1. 1._ 1e3 1e+3 1_0.5 1.5e+3 1.5e3 .inf .Inf .INF +.inf -.INF .nan .NaN inf nan NaN "+
	"2026-05-15 2026-5-1 2026-05-15T10:30:00Z 2026-05-15T10:30:00.123456789+05:30 2026-05-15T10:30:00+0530 2026-05-15t10:30:00z 2026-05-15_10 2026-05-15T1:2:3 0099-01-01 0001-01-01T00:00:00+23:59 9999-12-31T23:59:59-23:59 "+
	"a\tb a\u00a0b \u3000a a\u200bb #a a#b -a ?a :a a: a:b %a @a `a`", " ")

// folded writes a value over several lines, in any style.
func (m *mutator) folded() string {
	style := m.pick([]string{"", "", "'", "\"", "\"", "|", "|-", "|+", ">", ">-", ">+", "|2", ">2-", "|1", ">\t", "> # c", "[", "[\""})
	block := style != "" && (style[0] == '|' || style[0] == '>')
	b := style
	if block {
		b += m.pick([]string{"\n", "\n", "\n", " \n", "\n\n", "\n  \n", "\n   \n"})
	}
	for i := range 1 + m.rand.IntN(4) {
		if i > 0 || block {
			b += m.pick([]string{"  ", "  ", "  ", "   ", "    ", "  \t", " "})
		}
		for range m.rand.IntN(4) {
			b += m.pick([]string{"a", "b c", "é", " ", "  ", "\t", "#", " #", ",", ":", "-", "\\n", "''", "\\\"", "\u00a0", "yes", "12", ".", "'", "\"", "\\", "\\\n  "})
		}
		b += m.pick([]string{"\n", "\n", "\n", "\n\n", "\n  \n", "\n\t\n", "\n  # c\n"})
	}
	b = strings.TrimSuffix(b, "\n")
	switch style {
	case "'", "\"":
		b += style
	case "[":
		b += "]"
	case "[\"":
		b += "\"]"
	}
	return b
}

// reading makes a file for the comparison of readers.
func (m *mutator) reading() []byte {
	if m.rand.IntN(2) == 0 {
		return m.next()
	}
	f := []byte(whole)
	if m.rand.IntN(2) == 0 {
		keys := []string{"from", "to", "date", "status", "status", "type", "thread", "thread", "display_name", "display_name", "tldr", "tldr", "attested_by", "attested_at", "nonce"}
		lines := strings.Split(string(f), "\n")
		for range 1 + m.rand.IntN(2) {
			key := m.pick(keys)
			for i, l := range lines {
				if !strings.HasPrefix(l, key+":") || strings.HasSuffix(l, "-") {
					continue
				}
				w := m.pick(words)
				lines[i] = key + ":" + m.pick([]string{" ", " ", " ", "  ", "\t", "\n  "}) + m.pick([]string{w, w, w, w + " " + m.pick(words), "\"" + w + "\"", "'" + w + "'", "[" + w + "]", "- " + w, "|\n  " + w, ">\n  " + w, m.folded(), m.folded(), m.folded(), m.folded(), w + " # c", m.pick([]string{"▶ ", "✅ "}) + w})
			}
		}
		f = []byte(strings.Join(lines, "\n"))
	}
	for m.rand.IntN(3) == 0 {
		f = m.mutate(f)
	}
	if m.rand.IntN(4) == 0 { // a character that readers disagree on, anywhere before the closing fence
		end := bytes.Index(f, []byte("\n---\n"))
		if end > 0 {
			i := m.rand.IntN(end)
			odd := []string{"\r", "\r\n", "\u0085", "\u2028", "\u2029", "\ufeff", "\u00a0", "\t", "\v", "\f", "\x1b", "\x7f", "\u0080", "\u009f", "\ufffe", "\uffff", "\ufffd", "\u00ad", "\u200b", "\u200e", "\x00", "\U0001fffe", "\U0010ffff", "\ue000"}
			f = slices.Concat(f[:i], []byte(m.pick(odd)), f[i:])
		}
	}
	if m.rand.IntN(12) == 0 {
		f = bytes.ReplaceAll(f, []byte("\n"), []byte("\r\n"))
	}
	return f
}
