package agent

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// Root is where a runner extracts the bundle (docs/spec/agentbundle.md#stage).
const Root = "/holon/agent"

// Workspace is the directory in which an agent is started.
const Workspace = "/holon/workspace"

// A Mount is a directory that the runner mounts.
type Mount struct {
	Path     string `json:"path"`
	ReadOnly bool   `json:"read_only"`
}

// Mounts returns the three mounts of the runner contract.
func Mounts() []Mount {
	return []Mount{{"/holon/input", true}, {Workspace, false}, {"/holon/output", false}}
}

var (
	basePattern   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9._/:@+-]*\z`) })
	pinnedPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`@sha256:[0-9a-f]{64}\z`) })
)

// CheckBase judges the name of a base image, which stands in the FROM line. A
// name without digest is noted.
func CheckBase(base string) ([]bundle.Note, error) {
	if !basePattern().MatchString(base) {
		return nil, fmt.Errorf("base image is %s, NAME[:TAG][@sha256:DIGEST] is expected", finding.QuoteMax(base, 200))
	}
	if !pinnedPattern().MatchString(base) {
		return []bundle.Note{{Code: noteBaseNotPinned, Detail: finding.Path(base) + " has no @sha256: digest, so that the image may be another one tomorrow"}}, nil
	}
	return nil, nil
}

// Containerfile is the file that builds an image of the bundle staged in
// agent/ on a base that CheckBase accepts. It has no RUN line.
func (m *Manifest) Containerfile(base string) []byte {
	var b strings.Builder
	b.WriteString("FROM " + base + "\n")
	b.WriteString("COPY agent/ " + Root + "/\n")
	for _, k := range m.EnvKeys() {
		b.WriteString("ENV " + k + "=" + quoteEnv(m.Env[k]) + "\n")
	}
	b.WriteString("ENTRYPOINT [")
	b.Write(bundle.JSONText(Root + "/" + m.Entry))
	b.WriteString("]\n")
	return []byte(b.String())
}

// quoteEnv writes a value so that the builder's word processing (Dockerfile
// reference, "Escape" and "Environment replacement") yields it again: between
// double quotes, with a backslash before each of \ " $.
func quoteEnv(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`).Replace(value) + `"`
}
