package bridge

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rigward/rigward/pkg/finding"
)

// ControlPlane returns what `.bridge/config.yaml` of a work tree says of the
// control plane (docs/spec/controlplane.md): the rig, and the address of the
// database, "" if it names none or if there is no such file.
func ControlPlane(root string) (rigID, target string, err error) {
	if _, err := os.Lstat(filepath.Join(root, filepath.FromSlash(configFile))); errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	c, err := readConfig(root)
	return c.rigID, c.controlPlane, err
}

// Token returns s as the value of a key=value pair of a text line (docs/spec/client.md#output).
func Token(s string) string { return token(s) }

// Line returns v as a JSON object on one line, without its end (docs/spec/client.md#output).
func Line(v any) ([]byte, error) { return finding.JSON(v) }

// runControl is `rig-bridge query` and `rig-bridge ui`, which rig-control does.
func runControl(r *run) error {
	if r.env.HandOver == nil {
		return fail(codeRuntime, "this program cannot start rig-control")
	}
	code, err := r.env.HandOver(r.env.Args)
	if err != nil {
		return fail(codeRuntime, "rig-control cannot be started: %s", reason(err)).withHint("%s", controlHint)
	}
	r.exit = code
	return nil
}

// runMCP is `rig-bridge mcp`, which rig-mcp does.
func runMCP(r *run) error {
	if r.env.HandOver == nil {
		return fail(codeRuntime, "this program cannot start rig-mcp")
	}
	code, err := r.env.HandOver(r.env.Args)
	if err != nil {
		return fail(codeRuntime, "rig-mcp cannot be started: %s", reason(err)).
			withHint("go install github.com/rigward/rigward/cmd/rig-mcp@latest")
	}
	r.exit = code
	return nil
}

// controlHint is the command that installs rig-control.
const controlHint = "go install github.com/rigward/rigward/cmd/rig-control@latest"

// controlTime is how long a command waits for the control plane after its own
// work is done: the two seconds that a write may take, and a start.
const controlTime = 3 * time.Second

// record brings the control plane up to the branch, if there is one. It never
// changes how a command ends: what is missing comes with the next one.
func (r *run) record() {
	if out, told := r.control("record"); out == "" && told != "" {
		r.note("%s", told)
	}
}

// lastSeen returns what the control plane says to whether its last row is of
// HEAD, "" without a control plane.
func (r *run) lastSeen() string {
	out, told := r.control("last-seen")
	if out == "" {
		out = told
	}
	if out != "" {
		r.note("%s", out)
	}
	return out
}

// control runs a command of rig-control: the first line of what it says, and
// of what went wrong.
func (r *run) control(command string) (out, told string) {
	if r.env.Control == nil || r.root == "" {
		return "", ""
	}
	if _, target, err := ControlPlane(r.root); err != nil || target == "" {
		return "", ""
	}
	ctx, cancel := context.WithTimeout(r.ctx, controlTime)
	defer cancel()
	stdout, stderr, code, err := r.env.Control(ctx, r.root, []string{command})
	first := func(text []byte) string {
		line, _, _ := strings.Cut(string(text), "\n")
		return escapeLine(line)
	}
	switch {
	case err != nil:
		return "", "the control plane is not brought up: " + reason(err) + "; " + controlHint
	case code < 0:
		return "", "the control plane did not answer in time; the next command catches up"
	}
	return first(stdout), first(stderr)
}
