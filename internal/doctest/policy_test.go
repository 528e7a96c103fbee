package doctest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/rigward/rigward/internal/test/programs"
	"github.com/rigward/rigward/schemas"
)

// TestPolicyPage makes docs/policy.md from the schema of the policy.
func TestPolicyPage(t *testing.T) {
	var doc yaml.Node // JSON is YAML, and its node tree keeps the order
	if err := yaml.Unmarshal(schemas.Policy(), &doc); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(`# The policy

Made from schemas/policy.schema.json, which ` + "`rig-hook explain --policy-schema`" + ` prints, by ` + "`go test ./internal/doctest -run PolicyPage -update`" + `.

A repository's policy is ` + "`.bridge/policy.yaml`" + `. Every key but ` + "`version`" + ` may be left out; without the file
every key has its default. A key that is not in the table is an error with its line and column.
[spec/policy.md](spec/policy.md) says whose policy counts where: for every protected ref that of the default branch
before the push, or the server's own file, which ` + "`git config rigward.policy FILE`" + ` names. So a change counts from the
next push on, and it needs the signature of a signer whom the server trusts already. A clone's ` + "`.git/rigward.yaml`" + ` has
the same form and can only tighten.

` + "```yaml" + `
version: 1
protect: [refs/heads/main, refs/heads/release/*]
require-signed: relay
rules:
  tldr-length: off
  references: error
` + "```" + `

| key | value | default | meaning |
|---|---|---|---|
`)
	rows(&b, "", value(doc.Content[0], "properties"))
	hold(t, filepath.Join(programs.Root(t), "docs", "policy.md"), b.String())
}

// value returns the value of a key of a mapping, nil if there is none.
func value(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func rows(b *strings.Builder, prefix string, properties *yaml.Node) {
	for i := 0; i < len(properties.Content); i += 2 {
		name, n := prefix+properties.Content[i].Value, properties.Content[i+1]
		said := ""
		if d := value(n, "description"); d != nil {
			said = d.Value
		}
		if inner := value(n, "properties"); inner != nil {
			if name == "rules" { // all alike
				fmt.Fprintf(b, "| `rules.ID` | `off`, `warning`, `error`, or a mapping with `level` | [rules.md](rules.md) | %s |\n", said)
				continue
			}
			rows(b, name+".", inner)
			continue
		}
		fallback := "—"
		if d := value(n, "default"); d != nil {
			fallback = code(d)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", name, kind(n), fallback, said)
		if items := value(n, "items"); value(items, "properties") != nil {
			rows(b, name+"[].", value(items, "properties"))
		}
	}
}

// code is a JSON value as the table shows it.
func code(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		var all []string
		for _, c := range n.Content {
			all = append(all, code(c))
		}
		return strings.Join(all, ", ")
	case n.Tag == "!!null":
		return "none"
	}
	return "`" + n.Value + "`"
}

// kind says in words what a schema takes.
func kind(n *yaml.Node) string {
	if v := value(n, "const"); v != nil {
		return code(v)
	}
	if v := value(n, "enum"); v != nil {
		return code(v)
	}
	if v := value(n, "oneOf"); v != nil {
		var all []string
		for _, c := range v.Content {
			all = append(all, kind(c))
		}
		return strings.Join(all, ", or ")
	}
	typ := value(n, "type")
	if typ == nil {
		return "any"
	}
	words := typ.Value
	if typ.Kind == yaml.SequenceNode {
		var all []string
		for _, c := range typ.Content {
			if c.Value != "null" {
				all = append(all, c.Value)
			}
		}
		words = strings.Join(all, " or ")
	}
	switch words {
	case "array":
		return "list of: " + kind(value(n, "items"))
	case "object":
		return "mapping"
	case "integer":
		low, high := value(n, "minimum"), value(n, "maximum")
		switch {
		case low != nil && high != nil:
			return fmt.Sprintf("%s to %s", low.Value, high.Value)
		case low != nil:
			return "number from " + low.Value
		}
		return "number"
	case "string":
		if p := value(n, "pattern"); p != nil {
			for mark, what := range map[string]string{"KiB": "a size such as `64 KiB`", "(ms|s|m|h)": "a duration such as `300 s`", "SHA256": "fingerprint (`SHA256:…`)"} {
				if strings.Contains(p.Value, mark) {
					return what
				}
			}
			return "text of the form `" + strings.ReplaceAll(p.Value, "|", `\|`) + "`"
		}
		return "text"
	}
	return words
}
