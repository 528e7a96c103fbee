//go:build unix

package rye

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMachineStore takes trust from the store of the machine only if nobody
// else could have written it, and after the project's and the user's.
func TestMachineStore(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "etc")
	name, text, fault := OwnDocument(ownKey, "admin", when)
	if fault != nil {
		t.Fatal(fault)
	}
	put(t, dir, name, string(text))
	oldOwner, oldTop := machineOwner, machineTop
	t.Cleanup(func() { machineOwner, machineTop = oldOwner, oldTop })
	machineOwner = os.Getuid()
	var err error
	if machineTop, err = filepath.EvalSymlinks(root); err != nil {
		t.Fatal(err)
	}
	fp := Fingerprint(public(ownKey))
	trust := func(stores ...Store) Trust {
		t.Helper()
		key, trust, _, err := (&Keyring{Stores: stores}).Key(fp)
		if err != nil {
			t.Fatal(err)
		}
		if key == nil {
			return ""
		}
		return trust
	}
	open := func() Store {
		t.Helper()
		s, fault, err := OpenMachineStore(dir, "")
		if err != nil || fault != nil {
			t.Fatal(err, fault)
		}
		return s
	}
	if got := trust(open()); got != TrustMachine {
		t.Errorf("the machine's store gives %q", got)
	}
	for _, tier := range []Trust{TrustProject, TrustUser} {
		own := t.TempDir()
		put(t, own, name, string(text))
		s, err := OpenStore(tier, own, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := trust(s, open()); got != tier {
			t.Errorf("%s and the machine's give %q", tier, got)
		}
	}
	if s, fault, err := OpenMachineStore(filepath.Join(root, "none"), ""); err != nil || fault != nil || trust(s) != "" {
		t.Error("a machine without a store:", fault, err)
	}
	if s, _, err := OpenMachineStore(dir, root); err != nil || trust(s) != "" {
		t.Error("a bundle gives itself trust as the machine's store", err)
	}
	for _, p := range []string{".", ".ai", ".ai/config/keys/trusted", name} {
		p = filepath.Join(dir, p)
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, info.Mode().Perm()|0o020); err != nil {
			t.Fatal(err)
		}
		s, fault, err := OpenMachineStore(dir, "")
		if err != nil || fault == nil || fault.Hint == "" || trust(s) != "" {
			t.Errorf("%s can be written by a group, yet it counts: %v %v", p, fault, err)
		}
		if err := os.Chmod(p, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	if got := trust(open()); got != TrustMachine {
		t.Errorf("the store that is right again gives %q", got)
	}
	machineTop = oldTop
	if err := os.Chmod(root, 0o777); err != nil {
		t.Fatal(err)
	}
	if s, fault, err := OpenMachineStore(dir, ""); err != nil || fault == nil || trust(s) != "" {
		t.Error("a folder above that all can write counts", fault, err)
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	machineOwner--
	if s, fault, err := OpenMachineStore(dir, ""); err != nil || fault == nil || trust(s) != "" {
		t.Error("the store of somebody else counts", fault, err)
	}
}
