package envelope_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/yamlprofile"
	"github.com/rigward/rigward/schemas"
	"github.com/santhosh-tekuri/jsonschema/v5"
)

// engine is the schema file in a JSON Schema engine: what our table must agree
// with.
var engine = sync.OnceValues(func() (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	c.LoadURL = func(url string) (io.ReadCloser, error) { return nil, errors.New("not loaded: " + url) }
	if err := c.AddResource("urn:rigward:schema:bridge-message:1.0", bytes.NewReader(schemas.BridgeMessage())); err != nil {
		return nil, err
	}
	return c.Compile("urn:rigward:schema:bridge-message:1.0")
})

// wrong returns what the engine refuses: keys, and items of lists as key/0.
func wrong(t testing.TB, n *yamlprofile.Node) map[string]bool {
	t.Helper()
	s, err := engine()
	if err != nil {
		t.Fatal(err)
	}
	value, _ := n.Interface() // infinity and NaN become null: neither is what any key wants
	at := map[string]bool{}
	err = s.Validate(value)
	if err == nil {
		return at
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		t.Fatal(err)
	}
	var leaf func(*jsonschema.ValidationError)
	leaf = func(e *jsonschema.ValidationError) {
		for _, c := range e.Causes {
			leaf(c)
		}
		key := strings.TrimPrefix(e.InstanceLocation, "/")
		if top, _, nested := strings.Cut(key, "/"); nested {
			key = top // a list is wrong where its items are
		}
		if len(e.Causes) == 0 {
			at[key] = true
		}
	}
	leaf(invalid)
	return at
}

// agree holds one front matter against the engine.
func agree(t testing.TB, e *envelope.Envelope, fs []finding.Finding) {
	t.Helper()
	engineAt := wrong(t, e.Frontmatter)
	if e.Valid() != (len(engineAt) == 0) {
		t.Errorf("valid %v here, the engine refuses %v", e.Valid(), slices.Collect(maps.Keys(engineAt)))
	}
	whole := false // keys missing or unknown: what the engine says of the whole
	told := 0
	for _, f := range fs {
		if f.Rule == envelope.RuleSchema && !strings.Contains(f.Message, "which readers of YAML 1.1 take for") {
			told++
		}
	}
	for _, f := range e.Frontmatter.Fields {
		key := f.Key.Value
		if !known(key) {
			whole = true
			continue
		}
		if e.Conforms(key) == engineAt[key] {
			t.Errorf("%s conforms %v here, the engine refuses it: %v", key, e.Conforms(key), engineAt[key])
		}
	}
	for _, key := range []string{"from", "to", "date", "status", "type", "thread"} {
		whole = whole || !e.Has(key)
	}
	if whole != engineAt[""] {
		t.Errorf("keys missing or unknown: %v here, %v by the engine", whole, engineAt[""])
	}
	if (told == 0) != e.Valid() {
		t.Errorf("%d findings, valid %v", told, e.Valid())
	}
	places := map[[2]int]bool{}
	for _, f := range fs {
		at := [2]int{f.Line, f.Col}
		if f.Rule == envelope.RuleSchema && places[at] {
			t.Errorf("two findings at %v", at)
		}
		places[at] = places[at] || f.Rule == envelope.RuleSchema
	}
}

func known(key string) bool {
	return slices.Contains([]string{"from", "to", "date", "status", "type", "thread", "display_name", "tldr", "references", "body_hash", "in_reply_to", "attested_by", "attested_at", "nonce"}, key)
}

// TestSchemaTable holds the table against the schema file in an engine: on the
// vectors and on every kind of value in every key.
func TestSchemaTable(t *testing.T) {
	parsed := 0
	for _, data := range corpus(t) {
		if e, fs := envelope.Parse(data, envelope.Options{}); e != nil {
			parsed++
			agree(t, e, fs)
		}
	}
	if parsed < 200 {
		t.Errorf("only %d vectors parse", parsed)
	}
	r := rand.New(rand.NewPCG(3, 0))
	for key := range keyValues {
		for _, value := range allValues() {
			checkValue(t, r, key, value)
		}
		for range 300 {
			checkValue(t, r, key, randomValue(r, key))
		}
	}
}

// valueFile has a value in one key, and good values in most others.
func valueFile(r *rand.Rand, key, value string) []byte {
	var b strings.Builder
	b.WriteString("---\n")
	for _, k := range slices.Sorted(maps.Keys(keyValues)) {
		if k == key {
			fmt.Fprintf(&b, "%s: %s\n", k, value)
		} else if r.IntN(8) > 0 || required(k) && r.IntN(4) > 0 {
			fmt.Fprintf(&b, "%s: %s\n", k, keyValues[k])
		}
	}
	b.WriteString("---\n")
	return []byte(b.String())
}

func required(key string) bool {
	return slices.Contains([]string{"from", "to", "date", "status", "type", "thread"}, key)
}

func checkValue(t *testing.T, r *rand.Rand, key, value string) {
	t.Helper()
	file := valueFile(r, key, value)
	e, fs := envelope.Parse(file, envelope.Options{})
	if e == nil {
		return
	}
	agree(t, e, fs)
	for _, f := range fs {
		checkFinding(t, f)
	}
	if t.Failed() {
		t.Fatalf("%s", file)
	}
}

// keyValues has a good value of every key, and a key that is unknown.
var keyValues = map[string]string{
	"from": "mac", "to": "win", "date": "2026-05-15", "status": "▶ Go", "type": "ACK", "thread": "t-one",
	"display_name": "Op", "tldr": "x", "references": "[a1b2c3d]", "body_hash": `"` + strings.Repeat("0", 64) + `"`,
	"in_reply_to": strings.Repeat("a", 64), "attested_by": "k", "attested_at": "2026-05-15T10:00:00Z", "nonce": "n",
}

func allValues() []string {
	values := []string{"", "~", "true", "5", "1.5", ".nan", "-.inf", "0x1F", "1e999", `""`, `" "`, "x", "X", "[]", "[5]", "[~]", "[[x]]", "{}", "{a: b}", "[a, a]", "[a1b2c3d, a1b2c3d]", "[5, 5]", "[5, 5.0]", `["", x]`,
		"2026-05-15T10:00:00", "2026-05-15T10:00:00.5+0200", "2026-05-15T10:00:00.+02:00", "2026-05-15T10:00:00+2:00", "2026-05-15 10:00:00Z", "2026-99-99", `"2026-05-15\n"`,
		`"\U0001F3AF\u00a0x"`, `"\u25b6\u0085x"`, `"\u25b6\u180ex"`, `"\u25b6\u200bx"`, `"\u25b6\u001cx"`, `"\u25b6\nx"`, `"\u25b6 \n"`, `"\u25b6 x\u2028"`, `"\u25b6 x\x85"`, `"\u25b6\ufe0f x"`, `"\u25b6  "`, `"\u25b6 "`,
		strings.Repeat("a", 40), strings.Repeat("a", 41), strings.Repeat("0a", 32), strings.Repeat("A", 64), `"` + strings.Repeat("a", 64) + `\n"`, strings.Repeat("a", 7), strings.Repeat("a", 6)}
	for _, n := range []int{63, 64, 65, 79, 80, 81, 255, 256, 257, 280, 281} {
		values = append(values, strings.Repeat("é", n), strings.Repeat("🎯", n), strings.Repeat("x", n))
	}
	for r := rune(0); r < 0x3100; r++ { // each character as white space of a status
		if r < 0x21 || 0x7f <= r && r <= 0xa0 || r == 0x1680 || r == 0x180e || 0x1fff <= r && r < 0x2070 || r >= 0x2fff && r <= 0x3001 {
			values = append(values, fmt.Sprintf(`"\u25b6\u%04xx"`, r), fmt.Sprintf(`"\u25b6 x\u%04xx"`, r))
		}
	}
	for _, v := range keyValues {
		values = append(values, v)
	}
	return values
}

// randomValue is a double-quoted string of pieces that are near a good one.
func randomValue(r *rand.Rand, key string) string {
	alphabet := []rune("az09-AZ_.:T+▶⏸🎯✅❌\ufe0f \u00a0\u3000\n\té")
	good := []rune(strings.Trim(keyValues[key], `"[]`))
	for range 1 + r.IntN(3) {
		i := r.IntN(len(good) + 1)
		switch c := alphabet[r.IntN(len(alphabet))]; r.IntN(3) {
		case 0:
			good = slices.Insert(good, i, c)
		case 1:
			if i < len(good) {
				good[i] = c
			}
		default:
			if i < len(good) {
				good = slices.Delete(good, i, i+1)
			}
		}
	}
	var b strings.Builder
	for _, c := range good {
		fmt.Fprintf(&b, `\U%08x`, c)
	}
	if key == "references" || key == "to" && r.IntN(2) == 0 {
		return `["` + b.String() + `", "` + b.String() + `"]`
	}
	return `"` + b.String() + `"`
}

// FuzzSchemaTable holds the table against the engine on any front matter.
func FuzzSchemaTable(f *testing.F) {
	for _, data := range corpus(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if e, fs := envelope.Parse(data, envelope.Options{}); e != nil {
			agree(t, e, fs)
		}
	})
}

func TestAtMostTwentyViolations(t *testing.T) {
	var b strings.Builder
	b.WriteString("---\nfrom: mac\ndate: 2026-05-15\nstatus: ▶ Go\ntype: ACK\nthread: t-one\nreferences:\n")
	for range 30 {
		b.WriteString("  - 5\n")
	}
	b.WriteString("---\n")
	e, fs := envelope.Parse([]byte(b.String()), envelope.Options{})
	if e == nil || e.Valid() {
		t.Fatal("valid")
	}
	n := 0
	for _, f := range fs {
		if f.Rule == envelope.RuleSchema {
			n++
		}
		checkFinding(t, f)
	}
	last := fs[20]
	if n != 21 || last.Line != 28 || !strings.Contains(last.Message, "11 more") { // 30 items and the missing to
		t.Errorf("%d findings, the last %+v", n, last)
	}
}
