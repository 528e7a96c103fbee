package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/bundle/rig"
	"github.com/rigward/rigward/pkg/bundle/rye"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/santhosh-tekuri/jsonschema/v5"
)

// A sample is a format with a source of its own.
type sample struct {
	f      bundle.Format
	src    bundle.Input
	output string                              // of create
	made   func(r *bundle.Result) bundle.Input // opens what create wrote
	change func(t *testing.T)                  // of the source
	target string                              // of install
}

// samples makes one of each format below dir.
func samples(t *testing.T, dir string) []sample {
	t.Helper()
	tree := func(name string) *bundle.Dirs {
		src, err := bundle.OpenDirs(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { src.Close() })
		return src
	}
	file := func(r *bundle.Result) bundle.Input {
		f, size, err := bundle.OpenFile(r.File)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		sum, err := bundle.ReadBeside(r.File + ".sha256")
		if err != nil || sum == nil {
			t.Fatal(sum, err)
		}
		return bundle.Input{Name: r.File, File: f, Size: size, Checksum: sum}
	}
	rigDir := newRig(t)
	agentDir, ryeDir := filepath.Join(dir, "agent"), filepath.Join(dir, "rye")
	agentTree(t, agentDir)
	put(t, filepath.Join(ryeDir, ".ai/tools/a.py"), "print(1)\n", 0o644)
	for _, d := range []string{"out", "space"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32))
	pin, err := rye.ParsePin(rye.LongFingerprint(key.Public().(ed25519.PublicKey)))
	if err != nil {
		t.Fatal(err)
	}
	_, doc, fault := rye.OwnDocument(key, "me", time.Unix(0, 0))
	if fault != nil {
		t.Fatal(fault)
	}
	put(t, filepath.Join(ryeDir, ".ai/config/keys/trusted", rye.Fingerprint(key.Public().(ed25519.PublicKey))+".toml"), string(doc), 0o644)
	now := func() time.Time { return time.Unix(0, 0) }
	return []sample{
		{
			f:   rig.Format{Source: rig.Source{RigRoot: "."}, Options: rig.Options{CreatedAt: "2026-01-01T00:00:00Z", Now: now}},
			src: bundle.Input{Name: "rig.yaml", Tree: tree(rigDir)}, output: filepath.Join(dir, "out", "a.rigbundle"), made: file, target: filepath.Join(dir, "rig-target"),
			change: func(t *testing.T) { appendTo(t, filepath.Join(rigDir, "agents/impl/role.md"), "# changed\n") },
		},
		{
			f: agent.Format{Base: "alpine:3"}, src: bundle.Input{Tree: tree(agentDir)}, output: filepath.Join(dir, "out"), made: file, target: filepath.Join(dir, "agent-target"),
			change: func(t *testing.T) { appendTo(t, filepath.Join(agentDir, "bin/agent"), "# changed\n") },
		},
		{
			f:   &rye.Format{Options: rye.Options{ID: "team/a", Keys: &rye.Keyring{Pins: []rye.Pin{pin}}}, New: rye.CreateOptions{Version: "1.0.0", Time: time.Unix(0, 0), Key: key}},
			src: bundle.Input{Tree: tree(ryeDir)}, output: ryeDir, target: filepath.Join(dir, "space"),
			made:   func(*bundle.Result) bundle.Input { return bundle.Input{Name: ryeDir, Tree: tree(ryeDir)} },
			change: func(t *testing.T) { appendTo(t, filepath.Join(ryeDir, ".ai/tools/a.py"), "# changed\n") },
		},
	}
}

func appendTo(t *testing.T, name, text string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFormats leads every format through all verbs of the interface: their
// results have one form, an unchanged source gives what create made, and a
// changed one does not.
func TestFormats(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the execute bit of an entry cannot be set here")
	}
	ctx, dir := t.Context(), t.TempDir()
	state := filepath.Join(t.TempDir(), "state")
	for _, s := range samples(t, dir) {
		t.Run(s.f.Name(), func(t *testing.T) {
			o := bundle.Options{Now: time.Unix(0, 0), Temp: t.TempDir(), State: state}
			ok := func(command string) func(r *bundle.Result, err error) *bundle.Result {
				return func(r *bundle.Result, err error) *bundle.Result {
					t.Helper()
					if err != nil || !r.OK() || r.Command != command || len(r.Findings) > 0 {
						t.Fatalf("%s: %v %+v", command, err, r)
					}
					oneForm(t, r)
					return r
				}
			}
			want := ok("digest")(s.f.Digest(ctx, s.src, o))
			if left, _ := os.ReadDir(filepath.Join(dir, "out")); s.output != dir && len(left) > 0 && s.f.Name() == "rig" {
				t.Errorf("digest wrote %v", left)
			}
			made := ok("create")(s.f.Create(ctx, s.src, s.output, o))
			in := s.made(made)
			got := ok("verify")(s.f.Verify(ctx, in, bundle.Options{RequireChecksum: true, Strict: true}))
			if want.Identity == (bundle.Digest{}) || made.Identity != want.Identity || got.Name == "" || got.Version == "" {
				t.Errorf("digest says %s, create made %s: %+v", want.Identity, made.Identity, got)
			}
			if r := ok("diff")(s.f.Diff(ctx, in, s.made(made), o)); len(r.Changes) > 0 {
				t.Errorf("changes %v", r.Changes)
			}
			if r := ok("rebuild")(s.f.Rebuild(ctx, s.src, in, o)); r.Identity != want.Identity || len(r.Changes) > 0 {
				t.Errorf("rebuild gives %s: %v", r.Identity, r.Changes)
			}
			o.Plan = true
			r, err := s.f.Install(ctx, in, s.target, o)
			if err != nil || !r.OK() {
				t.Fatal(err, r)
			}
			if left, _ := os.ReadDir(s.target); len(left) > 0 {
				t.Errorf("a plan wrote %v", left)
			}
			o.Plan = false
			r, err = s.f.Install(ctx, in, s.target, o)
			if err != nil || !r.OK() {
				t.Fatal(err, r)
			}
			oneForm(t, r)
			if left, _ := os.ReadDir(s.target); len(left) == 0 {
				t.Error("install wrote nothing")
			}
			s.change(t)
			if r, err := s.f.Rebuild(ctx, s.src, in, o); err != nil || r.OK() || len(r.Changes) != 1 {
				t.Errorf("rebuild of a changed source: %v %+v", err, r)
			} else {
				oneForm(t, r)
			}
		})
	}
}

// resultSchema is the published schema of results.
var resultSchema = sync.OnceValue(func() *jsonschema.Schema {
	return jsonschema.MustCompile("../../schemas/bundle-result.schema.json")
})

// oneForm checks that a result's JSON begins with the keys that all have, and
// follows the published schema.
func oneForm(t *testing.T, r *bundle.Result) {
	t.Helper()
	r.Finish()
	data, err := finding.JSON(r.Whole)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	if err := resultSchema().Validate(v); err != nil {
		t.Errorf("%s: %v", data, err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"schema_version", "command", "code", "message", "findings", "notes", "codes"} {
		key, err := dec.Token()
		if err != nil || key != want {
			t.Fatalf("%s: key %v, want %s in %s", r.Command, key, want, data)
		}
		var v any
		if err := dec.Decode(&v); err != nil || v == nil {
			t.Fatalf("%s is %v in %s", want, v, data)
		}
	}
}

// TestCancelled: a verb ends with the context's error once that has ended, in
// the middle of its work too, and leaves nothing behind.
func TestCancelled(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the execute bit of an entry cannot be set here")
	}
	dir := t.TempDir()
	state := filepath.Join(t.TempDir(), "state")
	for _, s := range samples(t, dir) {
		t.Run(s.f.Name(), func(t *testing.T) {
			o := bundle.Options{Now: time.Unix(0, 0), Temp: t.TempDir(), State: state}
			made, err := s.f.Create(t.Context(), s.src, s.output, o)
			if err != nil || !made.OK() {
				t.Fatal(err, made)
			}
			in := s.made(made)
			before := tree(t, dir)
			for _, after := range []int{0, 1} {
				for verb, run := range map[string]func(ctx context.Context, src, in bundle.Input) (*bundle.Result, error){
					"create": func(ctx context.Context, src, _ bundle.Input) (*bundle.Result, error) {
						return s.f.Create(ctx, src, s.output, o)
					},
					"verify": func(ctx context.Context, _, in bundle.Input) (*bundle.Result, error) { return s.f.Verify(ctx, in, o) },
					"digest": func(ctx context.Context, src, _ bundle.Input) (*bundle.Result, error) {
						return s.f.Digest(ctx, src, o)
					},
					"diff": func(ctx context.Context, _, in bundle.Input) (*bundle.Result, error) {
						return s.f.Diff(ctx, in, in, o)
					},
					"rebuild": func(ctx context.Context, src, in bundle.Input) (*bundle.Result, error) {
						return s.f.Rebuild(ctx, src, in, o)
					},
					"install": func(ctx context.Context, _, in bundle.Input) (*bundle.Result, error) {
						return s.f.Install(ctx, in, s.target, o)
					},
				} {
					ctx, cancel := context.WithCancel(t.Context())
					src, in := s.src, in
					if after == 0 {
						cancel()
					} else { // with the first byte that is read
						src, in = cancelling(src, cancel), cancelling(in, cancel)
					}
					if r, err := run(ctx, src, in); !errors.Is(err, context.Canceled) {
						t.Errorf("%s after %d reads: %v %+v", verb, after, err, r)
					}
					cancel()
				}
			}
			after := tree(t, dir)
			if !maps.Equal(after, before) {
				t.Errorf("left behind: %v, before %v", after, before)
			}
		})
	}
}

// cancelling is an input whose first read ends a context.
func cancelling(in bundle.Input, cancel func()) bundle.Input {
	if in.File != nil {
		file := in.File
		in.File = readerAt(func(p []byte, off int64) (int, error) { cancel(); return file.ReadAt(p, off) })
	}
	if in.Tree != nil {
		in.Tree = endingTree{in.Tree, cancel}
	}
	return in
}

type readerAt func(p []byte, off int64) (int, error)

func (f readerAt) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }

type endingTree struct {
	bundle.Source
	cancel func()
}

func (t endingTree) Open(name string) (io.ReadCloser, error) {
	t.cancel()
	return t.Source.Open(name)
}
