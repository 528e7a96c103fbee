//go:build unix

package agent

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/pkg/bundle"
)

const npmAgent = `#!/usr/bin/env node
const chalk = require('chalk')
const path = require('path')
console.log(JSON.stringify({
  greeting: new chalk.Instance({level: 0}).green('hello'),
  bin: require('fs').realpathSync(path.join(__dirname, '../node_modules/.bin/semver')).endsWith('semver.js'),
  mode: process.env.AGENT_MODE,
}))
`

// TestNodeModules takes a real node_modules tree from npm through the whole
// life of a bundle; its entry runs from the staged tree.
func TestNodeModules(t *testing.T) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm is not installed")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the manifest of this test is for linux/amd64")
	}
	root := filepath.Join(t.TempDir(), "root")
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("package.json", `{"name":"npm-agent","version":"1.0.0","private":true,"dependencies":{"chalk":"4.1.2","semver":"7.6.3"}}`, 0o644)
	cmd := exec.Command(npm, "install", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("npm cannot install here: %v\n%s", err, out)
	}
	if _, err := os.Readlink(filepath.Join(root, "node_modules/.bin/semver")); err != nil {
		t.Fatal(err)
	}
	write("bin/agent", npmAgent, 0o755)
	write(ManifestName, with("env", `{"AGENT_MODE":"a b\"$HOME\\"}`), 0o644)

	src, err := bundle.OpenDirs(root)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	for _, c := range []bundle.Compression{bundle.Gzip, bundle.Zstd} {
		t.Run(c.String(), func(t *testing.T) {
			out := t.TempDir()
			made, err := Create(t.Context(), src, out, Format{Compression: c}, bundle.Options{})
			if err != nil || made.Code != "ok" {
				t.Fatalf("create: %v %v", err, made.Findings)
			}
			sum, err := os.ReadFile(made.File + ".sha256")
			if err != nil {
				t.Fatal(err)
			}
			in := open(t, made.File)
			in.Checksum = sum
			target := Target{"linux", "amd64", "glibc"}
			r, err := Verify(t.Context(), in, Format{Target: &target}, bundle.Options{RequireChecksum: true})
			if err != nil {
				t.Fatal(err)
			}
			checkResult(t, r, "ok", nil)
			t.Logf("%d members, tar %d bytes, file %d bytes, %s", len(r.Archive.Members), r.Archive.TarSize, r.Archive.FileSize, r.Archive.TarDigest)

			again, err := Rebuild(t.Context(), in, bundle.Input{}, Format{}, bundle.Options{Temp: t.TempDir()})
			if err != nil || again.Code != "ok" || again.RebuiltTarDigest != made.Archive.TarDigest {
				t.Fatalf("rebuild of the bundle: %v %+v", err, again)
			}
			again, err = Rebuild(t.Context(), bundle.Input{Tree: src}, in, Format{}, bundle.Options{Temp: t.TempDir()})
			if err != nil || again.Code != "ok" || again.RebuiltTarDigest != made.Archive.TarDigest || len(again.Changes) > 0 {
				t.Fatalf("rebuild of the tree: %v %+v", err, again)
			}

			ctx := filepath.Join(t.TempDir(), "context")
			if err := Stage(t.Context(), r, StageOptions{Base: "node:20", Dir: ctx}); err != nil {
				t.Fatal(err)
			}
			if diff, err := exec.Command("diff", "-r", "--no-dereference", root, filepath.Join(ctx, "agent")).CombinedOutput(); err != nil {
				t.Errorf("the staged tree differs from the source: %v\n%s", err, diff)
			}
			run := exec.Command(filepath.Join(ctx, "agent", r.Manifest.Entry))
			run.Dir = t.TempDir()
			run.Env = []string{"PATH=" + filepath.Dir(node) + ":/usr/bin:/bin"}
			for _, k := range r.Manifest.EnvKeys() {
				run.Env = append(run.Env, k+"="+r.Manifest.Env[k])
			}
			said, err := run.Output()
			if err != nil {
				t.Fatalf("the staged entry does not run: %v", err)
			}
			var got struct {
				Greeting, Mode string
				Bin            bool
			}
			if err := json.Unmarshal(said, &got); err != nil || got.Greeting != "hello" || got.Mode != `a b"$HOME\` || !got.Bin {
				t.Errorf("the agent said %s (%v)", said, err)
			}
		})
	}
}

// TestStage: the same input gives the same bytes and times, and nothing is
// left behind or overwritten when it fails.
func TestStage(t *testing.T) {
	members := base(symlink("run", "bin/agent"), dir("empty"), file("a", "x"), hardlink("b", "a"), member{name: "secret", mode: 0o600, body: "s"})
	members[0] = manifest(with("env", `{"B":"2","A":"q\"\\ $PATH `+"`x`"+` \tend","E":""}`))
	data := gzipOf(t, tarOf(t, members))
	r := verifyBytes(t, data, "x.tar.gz", bundle.Options{})
	checkResult(t, r, "ok", nil)
	parent := t.TempDir()
	if err := os.Mkdir(filepath.Join(parent, "two"), 0o755); err != nil { // an empty one is as good as none
		t.Fatal(err)
	}
	var first string
	for i, name := range []string{"one", "two"} {
		out := filepath.Join(parent, name)
		if err := Stage(t.Context(), r, StageOptions{Base: "base@sha256:" + strings.Repeat("0", 64), Dir: out, ModTime: 5}); err != nil {
			t.Fatal(err)
		}
		var list bytes.Buffer
		err := filepath.Walk(out, func(p string, info os.FileInfo, err error) error {
			if err != nil {
				return err
			}
			if rel, _ := filepath.Rel(out, p); rel != "." {
				content, _ := os.ReadFile(p)
				if info.Mode()&os.ModeSymlink != 0 {
					link, _ := os.Readlink(p)
					content = []byte("-> " + link)
				}
				list.WriteString(rel + " " + info.Mode().String() + " " + info.ModTime().UTC().Format(time.RFC3339) + "\n" + string(content))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = list.String()
		} else if list.String() != first {
			t.Errorf("the second stage differs:\n%s\n%s", first, list.String())
		}
	}
	for _, want := range []string{
		"agent drwxr-xr-x 1970-01-01T00:00:05Z", "agent/bin/agent -rwxr-xr-x 1970-01-01T00:00:05Z", "agent/secret -rw-r--r-- 1970-01-01T00:00:05Z",
		"agent/empty drwxr-xr-x 1970-01-01T00:00:05Z", "agent/run Lrwxrwxrwx 1970-01-01T00:00:05Z\n-> bin/agent", "agent/b -rw-r--r-- 1970-01-01T00:00:05Z\nx",
		"FROM base@sha256:" + strings.Repeat("0", 64) + "\nCOPY agent/ /holon/agent/\nENV A=\"q\\\"\\\\ \\$PATH `x` \tend\"\nENV B=\"2\"\nENV E=\"\"\nENTRYPOINT [\"/holon/agent/bin/agent\"]\n",
	} {
		if !strings.Contains(first, want) {
			t.Errorf("no %q in\n%s", want, first)
		}
	}
	if err := Stage(t.Context(), r, StageOptions{Base: "base", Dir: filepath.Join(parent, "one")}); err == nil {
		t.Error("a directory with content was taken")
	}
	bad := verifyBytes(t, data[:len(data)-1], "x.tar.gz", bundle.Options{})
	if err := Stage(t.Context(), bad, StageOptions{Base: "base", Dir: filepath.Join(parent, "three")}); err == nil {
		t.Error("a bundle that is not accepted was staged")
	}
	if err := Stage(t.Context(), r, StageOptions{Base: "base\nRUN x", Dir: filepath.Join(parent, "three")}); err == nil {
		t.Error("a base image with a line feed was taken")
	}
	entries, err := os.ReadDir(parent)
	if err != nil || len(entries) != 2 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}
