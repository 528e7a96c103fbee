package envelope_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
)

// answer is what testdata/reference.mjs says of a file.
type answer struct {
	Parsed       bool
	Valid        bool // by its own schema
	BySchemaFile bool // by ours
	Error        string
	Hash         string
	Class        string
	Frontmatter  any
}

// reference has the reference client judge files, in order.
func reference(t testing.TB, files [][]byte) []answer {
	t.Helper()
	modules := os.Getenv("RIGWARD_NPM_CLIENT")
	if modules == "" {
		t.Skip("RIGWARD_NPM_CLIENT does not name a node_modules directory with @mcptoolshop/rig-bridge 1.0.2")
	}
	var in, out, stderr bytes.Buffer
	for _, f := range files {
		fmt.Fprintf(&in, "{\"file\":%q}\n", base64.StdEncoding.EncodeToString(f))
	}
	cmd := exec.Command("node", filepath.Join("testdata", "reference.mjs"), filepath.Join("..", "..", "schemas", "bridge-message.schema.json"))
	cmd.Env = append(os.Environ(), "NODE_NO_WARNINGS=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("node: %v\n%s", err, stderr.Bytes())
	}
	var answers []answer
	lines := bufio.NewReader(&out)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var a answer
			dec := json.NewDecoder(bytes.NewReader(line))
			dec.UseNumber()
			if err := dec.Decode(&a); err != nil {
				t.Fatalf("answer %d: %v", len(answers), err)
			}
			answers = append(answers, a)
		}
		if err != nil {
			break
		}
	}
	if len(answers) != len(files) {
		t.Fatalf("%d answers for %d files", len(answers), len(files))
	}
	return answers
}

// compare holds the law of docs/spec/envelope.md#deviations: what is accepted here is
// accepted by the reference, with the same typed front matter, hash and class.
func compare(t *testing.T, files [][]byte) (accepted, both int) {
	t.Helper()
	for begin := 0; begin < len(files); begin += 20_000 {
		chunk := files[begin:min(len(files), begin+20_000)]
		for i, a := range reference(t, chunk) {
			e, fs := judge(chunk[i], envelope.Options{})
			for _, f := range fs {
				checkFinding(t, f)
			}
			if e == nil {
				continue
			}
			if !a.Parsed {
				t.Errorf("parsed here, refused by the reference: %s\n%s", a.Error, show(chunk[i]))
				continue
			}
			if e.Valid() != a.Valid {
				t.Errorf("schema: %v here, %v by the reference\n%s\n%v", e.Valid(), a.Valid, show(chunk[i]), fs)
			}
			if e.Valid() != a.BySchemaFile {
				t.Errorf("schema: %v here, %v by the schema file in ECMA-262\n%s\n%v", e.Valid(), a.BySchemaFile, show(chunk[i]), fs)
			}
			if finding.Worst(fs) == finding.Error {
				continue
			}
			accepted++
			if e.Hash != a.Hash {
				t.Errorf("hash %s here, %s by the reference\n%s", e.Hash, a.Hash, show(chunk[i]))
			}
			if got := envelope.StatusClass(e.Status); got != a.Class {
				t.Errorf("class %q here, %q by the reference\n%s", got, a.Class, show(chunk[i]))
			}
			if got := generic(t, e); !reflect.DeepEqual(got, a.Frontmatter) {
				t.Errorf("front matter %q here, %q by the reference\n%s", got, a.Frontmatter, show(chunk[i]))
			} else {
				both++
			}
		}
	}
	return accepted, both
}

func show(file []byte) string {
	s := strconv.QuoteToASCII(string(file))
	return strings.ReplaceAll(s[:min(len(s), 1500)], `\n`, "\\n\n\t")
}

// TestReferenceVectors asks the reference itself for what the vectors recorded.
func TestReferenceVectors(t *testing.T) {
	files := corpus(t)
	accepted, _ := compare(t, files)
	t.Logf("%d files, %d accepted here", len(files), accepted)
}

// TestReferenceValues compares on every kind of value in every key, so that the
// schema file means the same in ECMA-262 as in Go.
func TestReferenceValues(t *testing.T) {
	r := rand.New(rand.NewPCG(uint64(number("RIGWARD_SEED", 1)), 3))
	var files [][]byte
	for key := range keyValues {
		for _, value := range allValues() {
			files = append(files, valueFile(r, key, value))
		}
		for range 100 {
			files = append(files, valueFile(r, key, randomValue(r, key)))
		}
	}
	accepted, _ := compare(t, files)
	t.Logf("%d files, %d accepted here", len(files), accepted)
}

// TestReferenceMutations compares on mutated files. RIGWARD_MUTATIONS says how
// many, RIGWARD_SEED which.
func TestReferenceMutations(t *testing.T) {
	seed := uint64(number("RIGWARD_SEED", 1))
	m := mutator{rand: rand.New(rand.NewPCG(seed, 0)), corpus: corpus(t)}
	files := make([][]byte, number("RIGWARD_MUTATIONS", 6000))
	for i := range files {
		files[i] = m.next()
	}
	accepted, both := compare(t, files)
	t.Logf("seed %d: %d files, %d accepted here, %d of them read alike by the reference", seed, len(files), accepted, both)
	if accepted < len(files)/50 {
		t.Errorf("only %d of %d mutated files are accepted: the mutations show little", accepted, len(files))
	}
}

func number(variable string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return otherwise
}

// corpus returns the envelope vectors, small ones first in name order.
func corpus(t testing.TB) [][]byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(vectorDir, "*.md"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	var files [][]byte
	for _, n := range names {
		data, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) < 8_000 {
			files = append(files, data)
		}
	}
	return files
}

// mutator makes files that are nearly envelopes.
type mutator struct {
	rand   *rand.Rand
	corpus [][]byte
}

var (
	// pieces of YAML and of text that readers take differently
	pieces = []string{
		"\"", "'", "\\", "\\\n", "\n", "\n\n", " ", "  ", "\t", " #", "#", "# c\n", ": ", ":", ":\t", "- ", "-", "-\n", "? ", ", ", ",", "[", "]", "{", "}", "[]", "{}",
		"|", ">", "|-\n ", ">+\n  ", "|2\n ", "&a ", "*a", "!", "! ", "!!str ", "<<: ", "%", "---", "--- ", "...", "\r", "\r\n", "\u0085", "\u2028", "\u00a0", "\ufeff", "\x00", "\x7f",
		"\\x41", "\\u00e9", "\\U0001F3AF", "\\/", "\\ ", "\\\t", "\\e", "\\N", "\\_", "\\L", "\\P", "\\0", "\\ud83c", "''", "\"\"", "~", "null", "true", "0x1F", "1e3", "1_000", ".5", "0o17", "é", "e\u0301", "🎯", "▶", "\uFE0F", "\xff",
		"'a\n b'", "\"a\n b\"", "\"a\n\n b\"", "\"a\n\tb\"", "\"a \n b\"", "'a\nb'", "[a,\n b]", "[a,\nb]", "[a\n ]", "[a, # c\n b]", "[a,#c\n b]", "{a: b}", "{\"a\":b}", "[a: b]", "[? a : b]", "a\n b", "a\n# c\n b", "a #c", "a#c",
	}
	// whole lines
	oddLines = []string{
		"", " ", "\t", " \t", "# c", " # c", "\t# c", "tldr: x", "tldr: \"x\"", "tldr: 'x'", "tldr:", "tldr: |", "tldr: >-", "tldr: |1", "  text", " text", "text", "\ttext", "? tldr", ": x", "\"tldr\": x", "'tldr' : x", "tldr : x",
		"references: []", "references: [a1b2c3d]", "references:", "- a1b2c3d", "  - a1b2c3d", "  -  \"a1b2c3d\"", "  -", "    a1b2c3d", "references: [", "  a1b2c3d ,", "  ]", "]", "display_name: \"", "display_name: '", " \"", "\"", " '", "'", "tldr: &a x", "tldr: ! x", "!!str tldr: x", "tldr: 2026-05-15", "tldr: -", "tldr: - x", "--- x", "%YAML 1.2", "<<: {}",
	}
)

func (m *mutator) pick(s []string) string { return s[m.rand.IntN(len(s))] }

func (m *mutator) next() []byte {
	f := bytes.Clone(m.corpus[m.rand.IntN(len(m.corpus))])
	if m.rand.IntN(3) > 0 { // a valid one, with one odd thing
		f = []byte("---\nfrom: mac-m5\nto: win\ndate: 2026-05-15\nstatus: ▶ Go\ntype: ACK\nthread: t-one\n---\nBody.\n")
	}
	for range 1 + m.rand.IntN(3) {
		f = m.mutate(f)
	}
	return f
}

func (m *mutator) mutate(f []byte) []byte {
	lines := strings.Split(string(f), "\n")
	at := m.rand.IntN(len(lines))
	if fences := strings.Count(string(f), "\n---\n"); fences > 0 && m.rand.IntN(4) > 0 {
		end := 1
		for end < len(lines)-1 && lines[end] != "---" {
			end++
		}
		at = 1 + m.rand.IntN(end)
	}
	insert := func(line string) {
		lines = append(lines[:at:at], append([]string{line}, lines[at:]...)...)
	}
	switch m.rand.IntN(9) {
	case 0:
		insert(m.pick(oddLines))
	case 1: // a string in double quotes of random pieces
		var b strings.Builder
		for range 1 + m.rand.IntN(5) {
			b.WriteString(m.pick(pieces))
		}
		insert("tldr: \"" + b.String() + "\"")
	case 2: // a plain or single-quoted value of random pieces
		q := m.pick([]string{"", "'"})
		insert("display_name: " + q + "a" + m.pick(pieces) + m.pick(pieces) + "b" + q)
	case 3:
		lines[at] = m.pick([]string{" ", "  ", "\t", "- ", "    "}) + lines[at]
	case 4:
		if i := m.rand.IntN(len(lines)); i != at {
			insert(lines[i])
		}
	case 5:
		if k, _, ok := strings.Cut(lines[at], ":"); ok {
			lines[at] = k + ":" + m.pick([]string{" ", "", "\n ", "\n", "  ", "\t"}) + m.pick(pieces) + m.pick([]string{"", m.pick(pieces)})
		}
	case 6:
		lines[at] += m.pick(pieces)
	case 7:
		insert("references: [" + m.pick(pieces) + "a1b2c3d" + m.pick(pieces) + ", " + m.pick([]string{"", "b1b2c3d", "\"1234567\"", "'e123456'"}) + m.pick(pieces) + "]" + m.pick([]string{"", m.pick(pieces)}))
	default: // anywhere
		p := m.pick(pieces)
		i := m.rand.IntN(len(f) + 1)
		return append(f[:i:i], append([]byte(p), f[i:]...)...)
	}
	return []byte(strings.Join(lines, "\n"))
}
