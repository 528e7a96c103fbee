// Package handover finds and starts the programs that hold what takes long to load
// (the databases' drivers, the SDK of MCP, what reads archives), so that the programs
// which every commit waits for do not have to load it.
package handover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Programs that the others hand over to.
const (
	Control = "rig-control"
	MCP     = "rig-mcp"
	Bundle  = "rig-bundle"
)

// ControlHint is the command that installs rig-control.
const ControlHint = "go install github.com/rigward/rigward/cmd/rig-control@latest"

// find returns the path of a program: beside the running one, else on the
// search path of environ, of which only absolute directories count.
func find(program, self string, environ []string) (string, error) {
	name := program
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	dirs := []string{filepath.Dir(self)}
	for i := len(environ) - 1; i >= 0; i-- {
		if key, list, _ := strings.Cut(environ[i], "="); strings.EqualFold(key, "PATH") {
			dirs = append(dirs, filepath.SplitList(list)...)
			break
		}
	}
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) {
			continue
		}
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode()&0o111 != 0) {
			return path, nil
		}
	}
	return "", errors.New(program + " is not installed beside this program or on PATH")
}

// To lets a program do the rest of this one's work: called says for whom, and
// is the name in its messages. Where the system can, it takes this process's
// place and To returns only if it cannot be started; else To returns its exit
// code.
func To(program, self, called string, args, environ []string) (code int, err error) {
	path, err := find(program, self, environ)
	if err != nil {
		return 0, err
	}
	return replace(path, append([]string{called}, args...), environ)
}

// Start starts a program in dir and does not wait for it: it has no output and, where stdin is
// nil, no input, and lives on when this process and its group end.
func Start(program, self, called, dir string, args, environ []string, stdin *os.File) error {
	path, err := find(program, self, environ)
	if err != nil {
		return err
	}
	cmd := exec.Command(path, args...)
	cmd.Args[0], cmd.Dir, cmd.Env, cmd.SysProcAttr = called, dir, environ, apart()
	if stdin != nil {
		cmd.Stdin = stdin
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}

// Run runs a program to its end, in dir, as a child of this one; stdin may be nil. A
// negative code says that it did not come to an end. One that writes more than most bytes
// is stopped, and stderr says so.
func Run(ctx context.Context, program, self, called, dir string, args, environ []string, stdin io.Reader, most int) (
	stdout, stderr []byte, code int, err error) {
	path, err := find(program, self, environ)
	if err != nil {
		return nil, nil, -1, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Args[0], cmd.Dir, cmd.Env, cmd.Stdin, cmd.WaitDelay = called, dir, environ, stdin, time.Second
	out, said := &kept{most: most, full: stop}, &kept{most: maxSaid}
	cmd.Stdout, cmd.Stderr = out, said
	err = cmd.Run()
	if out.over {
		return nil, fmt.Appendf(nil, "%s wrote more than %d bytes", program, most), -1, nil
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	code = -1
	if cmd.ProcessState != nil {
		code = cmd.ProcessState.ExitCode()
	}
	return out.data, said.data, code, err
}

// maxSaid is how much of a child's standard error is kept.
const maxSaid = 64 << 10

// kept keeps the first bytes written to it, and calls full once there are more.
type kept struct {
	data []byte
	most int
	over bool
	full func() // may be nil
}

// Write implements io.Writer. It takes everything, so that the child can go on.
func (k *kept) Write(p []byte) (int, error) {
	room := min(len(p), k.most-len(k.data))
	if k.data = append(k.data, p[:room]...); room < len(p) && !k.over {
		if k.over = true; k.full != nil {
			k.full()
		}
	}
	return len(p), nil
}
