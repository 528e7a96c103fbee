package doctest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/bundle/rye"
)

// TestLimitsOfArchives holds the default limits of each bundle format equal to
// the table of its specification.
func TestLimitsOfArchives(t *testing.T) {
	take := func(l bundle.Limits, page string) bundle.Limits {
		for name, value := range limitsOf(t, page) {
			if err := l.Set(name + "=" + value); err != nil {
				t.Errorf("%s: %s: %v", page, name, err)
			}
		}
		return l
	}
	shared := take(bundle.Limits{}, "rigbundle.md")
	if is := bundle.DefaultLimits(); is != shared {
		t.Errorf("rigbundle.md says %+v, bundle.DefaultLimits %+v", shared, is)
	}
	if says, is := take(shared, "agentbundle.md"), agent.DefaultLimits(); is != says {
		t.Errorf("agentbundle.md says %+v, agent.DefaultLimits %+v", says, is)
	}
	says := limitsOf(t, "ryebundle.md")
	for name, is := range map[string]int64{"manifest": rye.MaxManifest, "entries": rye.MaxEntries, "nesting": rye.MaxNesting,
		"path": rye.MaxPath, "file": rye.MaxFile, "key-document": rye.MaxKeyDocument} {
		var l bundle.Limits // which reads the unit
		if err := l.Set("path=" + says[name]); err != nil || l.Path != is {
			t.Errorf("ryebundle.md: %s is %q, %d is expected", name, says[name], is)
		}
	}
}

// limitsOf reads the rows of the limits' table of a specification, the values
// as --limit takes them.
func limitsOf(t *testing.T, page string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "spec", page))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "# Limits\n")
	section, _, _ := strings.Cut(after, "\n#")
	rows := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z, -]+) \| ([0-9][^|]*) \|`).FindAllStringSubmatch(section, -1) {
		values := strings.Split(row[2], ", ")
		names := strings.Split(row[1], ", ")
		if len(names) != len(values) {
			t.Fatal(fmt.Sprint(page, ": ", row[0]))
		}
		for i, name := range names {
			rows[name] = strings.NewReplacer(" bytes", "", " ", "", ",", "").Replace(values[i])
		}
	}
	return rows
}
