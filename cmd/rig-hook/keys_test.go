package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/testkeys"
	"github.com/rigward/rigward/pkg/sshsign"
)

// TestKeysAtOnce: of revocations and new keys at one moment none is lost that was said to
// be there, at a server and in a clone.
func TestKeysAtOnce(t *testing.T) {
	const people = 12
	server, clone := gittest.New(t, gittest.Options{Bare: true}), gittest.New(t, gittest.Options{})
	shared := filepath.Join(t.TempDir(), "lists", "revoked")
	other := gittest.New(t, gittest.Options{Bare: true})
	other.Run("config", "rigward.revoked", shared)
	var files []string
	var all []*testkeys.Key
	for i := range people {
		key := testkeys.Ed25519(fmt.Sprint("person ", i))
		file := filepath.Join(t.TempDir(), "key.pub")
		if err := os.WriteFile(file, []byte(key.Authorized()+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		files, all = append(files, file), append(all, key)
	}
	run := func(dir string, environ []string, args ...string) {
		var out bytes.Buffer
		env := &hooks.Env{Args: append([]string{"rig-hook", "keys"}, args...), Dir: dir, Environ: environ, Now: time.Now, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out}
		if code := Main(t.Context(), env); code != 0 {
			t.Errorf("%v: exit %d: %s", args, code, out.String())
		}
	}
	var wait sync.WaitGroup
	for i, file := range files {
		for _, do := range []func(){
			func() { run(server.Dir, server.Env, "revoke", "--server", server.Dir, file) },
			func() { run(other.Dir, other.Env, "revoke", "--server", other.Dir, file) },
			func() { run(clone.Dir, clone.Env, "add", fmt.Sprintf("p%d@example.com", i), file) },
		} {
			wait.Go(do)
		}
	}
	wait.Wait()
	for _, list := range []string{filepath.Join(server.Dir, "rigward-revoked"), shared} {
		data, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		revoked, err := sshsign.ParseRevocations(data)
		if err != nil {
			t.Fatal(err)
		}
		for i, key := range all {
			if !revoked.Revokes(key.PublicKey()) {
				t.Errorf("%s: the key of person %d is lost", list, i)
			}
		}
	}
	data, err := os.ReadFile(filepath.Join(clone.Dir, ".bridge", "allowed_signers"))
	if err != nil {
		t.Fatal(err)
	}
	if s, err := sshsign.ParseSigners(data); err != nil || len(s.List()) != people {
		t.Errorf("%v\n%s", err, data)
	}
	if out := clone.Run("status", "--porcelain", "--untracked-files=all"); strings.Contains(out, "lock") {
		t.Errorf("%s", out)
	}
}
