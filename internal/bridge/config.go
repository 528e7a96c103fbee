package bridge

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/yamlprofile"
)

// configFile is the path of the configuration from the top of the work tree.
const configFile = policy.CloneConfig

// A config is what `.bridge/config.yaml` says (docs/spec/client.md#files).
type config struct {
	rigID       string
	displayName string // "" if there is none
	// controlPlane is the address of a database, "" if there is none
	// (docs/spec/controlplane.md).
	controlPlane string
}

const (
	maxDisplayName = 80
	maxConfig      = 64 << 10 // bytes
)

// readConfig reads the configuration of a work tree.
func readConfig(root string) (config, error) {
	path := filepath.Join(root, filepath.FromSlash(configFile))
	data, err := readOwn(path, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return config{}, fail(codeConfig, "this clone has no %s", configFile).withHint("rig-bridge init --rig-id <id>")
	}
	if err != nil {
		return config{}, fail(codeConfig, "cannot read %s: %s", configFile, reason(err))
	}
	if len(data) > maxConfig {
		return config{}, fail(codeConfig, "%s:1:1: the file has more than %d bytes", configFile, maxConfig)
	}
	return parseConfig(data)
}

// parseConfig judges the bytes of a configuration. Unknown keys are ignored.
func parseConfig(data []byte) (config, error) {
	var c config
	n, err := yamlprofile.Parse(data, yamlprofile.Limits{})
	var bad *yamlprofile.Error
	if errors.As(err, &bad) {
		return c, fail(codeConfig, "%s:%d:%d: %s", configFile, bad.Line, bad.Col, bad.Message).withHint("%s", bad.Hint)
	}
	if err != nil {
		return c, fail(codeConfig, "%s: %s", configFile, err.Error())
	}
	at := func(n *yamlprofile.Node, format string, a ...any) error {
		return fail(codeConfig, "%s:%d:%d: %s", configFile, n.Line, n.Col, fmt.Sprintf(format, a...))
	}
	id := n.Get("rig_id")
	switch {
	case id == nil:
		return c, fail(codeConfig, "%s:1:1: rig_id is missing", configFile).withHint("rig-bridge init --rig-id <id> --force")
	case id.Kind != yamlprofile.String:
		return c, at(id, "rig_id is %s, a rig id was expected", id.Kind)
	case !envelope.ValidRigID(id.Value):
		e := at(id, "rig_id %s is not valid: a-z first, then a-z, 0-9 and hyphens", quote(id.Value))
		if fixed, err := envelope.NormalizeRigID(id.Value); err == nil {
			e.(*failure).withHint("rig_id: %s", fixed)
		}
		return c, e
	}
	c.rigID = id.Value
	if name := n.Get("display_name"); name != nil {
		if name.Kind != yamlprofile.String {
			return c, at(name, "display_name is %s, a string was expected", name.Kind)
		}
		if length := utf8.RuneCountInString(name.Value); length > maxDisplayName {
			return c, at(name, "display_name has %d characters, at most %d are allowed", length, maxDisplayName)
		}
		c.displayName = name.Value
	}
	if t := n.Get("default_thread"); t != nil && t.Kind != yamlprofile.String && t.Kind != yamlprofile.Null {
		return c, at(t, "default_thread is %s, a string or null was expected", t.Kind)
	}
	if p := n.Get("control_plane"); p != nil && p.Kind != yamlprofile.Null {
		if p.Kind != yamlprofile.String {
			return c, at(p, "control_plane is %s, a string or null was expected", p.Kind)
		}
		c.controlPlane = p.Value
	}
	return c, nil
}

// render returns the bytes that init writes. Values are written as in an
// envelope (docs/spec/envelope.md#rendering).
func (c config) render() ([]byte, error) {
	data, err := envelope.Render(envelope.Fields{From: c.rigID, DisplayName: c.displayName})
	if err != nil {
		return nil, fail(codeConfig, "the configuration cannot be rendered: %s", err.Error())
	}
	var out []byte
	for line := range bytes.Lines(data) {
		if value, ok := bytes.CutPrefix(line, []byte("from: ")); ok {
			out = append(append(out, "rig_id: "...), value...)
		} else if bytes.HasPrefix(line, []byte("display_name: ")) {
			out = append(out, line...)
		}
	}
	return out, nil
}

// isRelay reports whether this clone belongs to an operator's relay.
func (c config) isRelay() bool { return strings.HasSuffix(c.rigID, envelope.RelaySuffix) }

// notRelay refuses the commands that a relay must not use.
func (c config) notRelay() error {
	if !c.isRelay() {
		return nil
	}
	return fail(codeRefused, "this clone is the relay %s; a relay only relays signed decisions", quote(c.rigID)).
		withHint("rig-bridge relay --help").
		orTool("the operator decides with rig-bridge relay, at the command line; no tool does")
}
