package rye

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/bundle"
)

func install(t testing.TB, dir, space string, change func(o *InstallOptions)) *InstallResult {
	t.Helper()
	src := openDir(t, dir)
	o := InstallOptions{Verify: Options{ID: notesID, Keys: pin(t, ownKey)}, Now: when, State: testState}
	if change != nil {
		change(&o)
	}
	r, err := Install(t.Context(), src, space, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func installed(t testing.TB, space string) *Report {
	t.Helper()
	r, err := VerifyInstalled(t.Context(), openDir(t, space), Options{ID: notesID, Keys: pin(t, ownKey)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// newer is the next version: one file changed, one added, one dropped.
func newer(t testing.TB) string {
	files := notesFiles()
	files[savePy] = strings.Replace(files[savePy], "saved", "kept", 1)
	files[".ai/tools/team/notes/new.sh"] = "x\n"
	delete(files, ".ai/tools/team/notes-extra/backup.sh")
	return writeBundle(t, "1.1.0", files)
}

func TestInstallUpgradeUninstall(t *testing.T) {
	one, two := writeBundle(t, "1.0.0", notesFiles()), newer(t)
	space := t.TempDir()
	put(t, space, ".ai/tools/mine.py", "mine\n")
	if r := install(t, one, space, nil); r.Status != "installed" || r.FilesWritten != 9 {
		t.Fatalf("%+v %v", r, messages(r.Findings))
	}
	if r := installed(t, space); !r.Verified() || r.FilesOK != 9 {
		t.Errorf("%+v %v", r, messages(r.Findings))
	}
	info, err := os.Stat(filepath.Join(space, savePy))
	if err != nil || info.Mode().Perm()&0o111 != 0 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
	before := treeOf(t, space)
	if r := install(t, one, space, nil); r.Status != "unchanged" {
		t.Errorf("%+v", r)
	}
	if r := install(t, two, space, func(o *InstallOptions) { o.DryRun = true }); r.Status != "upgraded" || r.FilesWritten != 2 || r.FilesRemoved != 1 || len(r.Plan) != 10 {
		t.Errorf("%+v", r)
	}
	if got := treeOf(t, space); !reflect.DeepEqual(got, before) {
		t.Error("a dry run or an unchanged install wrote something")
	}
	if err := os.Remove(filepath.Join(space, ".ai/tools/team/notes/show.ts")); err != nil {
		t.Fatal(err)
	}
	if r := installed(t, space); !slices.Equal(r.Codes, []string{FileMissing}) {
		t.Errorf("%v", r.Codes)
	}
	if r := install(t, one, space, nil); r.Status != "installed" || r.FilesWritten != 1 {
		t.Errorf("a lost file: %+v", r)
	}
	if err := os.Remove(filepath.Join(space, ManifestPath(notesID))); err != nil {
		t.Fatal(err)
	}
	if r := install(t, one, space, nil); r.Status != "installed" || r.FilesWritten != 0 || get(t, space, ManifestPath(notesID)) != get(t, one, ManifestPath(notesID)) {
		t.Errorf("a lost manifest: %+v", r)
	}
	old := strings.Replace(get(t, space, LockPath(notesID)), hexSum([]byte(get(t, one, ManifestPath(notesID)))), "", 1)
	old = strings.Replace(old, `"manifest_hash": ""`, `"manifest_hash": null`, 1)
	i, j := strings.Index(old, `,
  "file_hashes"`), strings.Index(old, `,
  "manifest_digest"`)
	put(t, space, LockPath(notesID), old[:i]+old[j:])
	if r := installed(t, space); !r.Verified() {
		t.Errorf("an old lockfile: %v", messages(r.Findings))
	}
	if r := install(t, one, space, nil); r.Status != "installed" || r.FilesWritten != 0 || !strings.Contains(get(t, space, LockPath(notesID)), "file_hashes") {
		t.Errorf("an old lockfile: %+v %v", r, messages(r.Findings))
	}
	if r := install(t, two, space, nil); r.Status != "upgraded" || r.FilesWritten != 2 || r.FilesRemoved != 1 {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(filepath.Join(space, ".ai/tools/team/notes-extra")); !os.IsNotExist(err) {
		t.Error("an empty folder stays")
	}
	if r := install(t, one, space, nil); r.Status != "refused" || !slices.Equal(r.Codes, []string{VersionNotNewer}) {
		t.Errorf("%+v", r)
	}
	if r := install(t, one, space, func(o *InstallOptions) { o.AllowDowngrade = true }); r.Status != "upgraded" {
		t.Errorf("%+v", r)
	}
	r, err := Uninstall(t.Context(), notesID, space, UninstallOptions{State: testState})
	if err != nil || r.Status != "uninstalled" || r.FilesRemoved != 9 {
		t.Errorf("%+v %v", r, err)
	}
	if got := treeOf(t, space); !reflect.DeepEqual(got, map[string]string{".ai/tools/mine.py": hexSum([]byte("mine\n"))}) {
		t.Errorf("left: %v", got)
	}
}

// TestInstallRefusals: whatever is in the way, nothing is written.
func TestInstallRefusals(t *testing.T) {
	one, two := writeBundle(t, "1.0.0", notesFiles()), newer(t)
	link := func(t *testing.T, space, at, target string) {
		p := filepath.Join(space, at)
		os.RemoveAll(p)
		os.MkdirAll(filepath.Dir(p), 0o755)
		if err := os.Symlink(target, p); err != nil {
			t.Skip("no symlinks here")
		}
	}
	for _, c := range []struct {
		name  string
		first bool // 1.0.0 is installed
		do    func(t *testing.T, space string)
		codes string
	}{
		{"another file", false, func(t *testing.T, s string) { put(t, s, savePy, "mine") }, InstallConflict},
		{"a folder", false, func(t *testing.T, s string) { put(t, s, savePy+"/x", "mine") }, InstallConflict},
		{"a file for a folder", false, func(t *testing.T, s string) { put(t, s, ".ai/tools/team", "mine") }, InstallConflict},
		{"a file for .ai", false, func(t *testing.T, s string) { put(t, s, ".ai", "mine") }, InstallConflict},
		{"another manifest, no lockfile", false, func(t *testing.T, s string) { put(t, s, ManifestPath(notesID), "mine") }, InstallConflict},
		{"a link for a file", false, func(t *testing.T, s string) { link(t, s, savePy, "/dev/null") }, SymlinkFound},
		{"a link to the same bytes", false, func(t *testing.T, s string) {
			put(t, s, "same.py", get(t, one, savePy))
			link(t, s, savePy, "../../../../same.py")
		}, SymlinkFound},
		{"a link for a folder", false, func(t *testing.T, s string) {
			os.Mkdir(filepath.Join(s, "elsewhere"), 0o755)
			link(t, s, ".ai/knowledge", "../elsewhere")
		}, SymlinkFound},
		{"a link for .ai", false, func(t *testing.T, s string) {
			os.Mkdir(filepath.Join(s, "elsewhere"), 0o755)
			link(t, s, ".ai", "elsewhere")
		}, SymlinkFound},
		{"a link for the lockfile", false, func(t *testing.T, s string) { link(t, s, LockPath(notesID), "../../../../x") }, SymlinkFound},
		{"changed since", true, func(t *testing.T, s string) { put(t, s, savePy, "mine") }, UserModified},
		{"manifest changed since", true, func(t *testing.T, s string) { put(t, s, ManifestPath(notesID), "mine") }, UserModified},
		{"two things at once", true, func(t *testing.T, s string) {
			put(t, s, savePy, "mine")
			put(t, s, ".ai/tools/team/notes/new.sh", "mine")
		}, InstallConflict + " " + UserModified},
		{"lockfile is not JSON", true, func(t *testing.T, s string) { put(t, s, LockPath(notesID), "{") }, LockInvalid},
		{"lockfile of another bundle", true, func(t *testing.T, s string) {
			put(t, s, LockPath(notesID), strings.Replace(get(t, s, LockPath(notesID)), notesID, "team/other", 1))
		}, LockInvalid},
		{"lockfile with an unsafe path", true, func(t *testing.T, s string) {
			put(t, s, LockPath(notesID), strings.ReplaceAll(get(t, s, LockPath(notesID)), savePy, ".ai/tools/../../x"))
		}, PathUnsafe},
		{"another bundle's lockfile is broken", false, func(t *testing.T, s string) { put(t, s, LockPath("rival"), "{") }, LockInvalid},
		{"owned by another, not there", false, func(t *testing.T, s string) {
			put(t, s, LockPath("rival"), string((&Lock{ID: "rival", Version: "1.0.0", ManifestHash: strings.Repeat("0", 64), InstalledAt: "2026-01-01T00:00:00Z", Files: []string{savePy}, FileHashes: map[string]string{savePy: strings.Repeat("0", 64)}}).encode()))
		}, OwnedByOther},
		{"same version, another manifest", true, func(t *testing.T, s string) {
			put(t, s, LockPath(notesID), strings.Replace(get(t, s, LockPath(notesID)), "\"version\": \"1.0.0\"", "\"version\": \"1.1.0\"", 1)) // no longer what this user has installed
		}, InstallConflict + " " + VersionNotNewer},
	} {
		t.Run(c.name, func(t *testing.T) {
			space := t.TempDir()
			if c.first {
				install(t, one, space, nil)
			}
			c.do(t, space)
			before := treeOf(t, space)
			r := install(t, two, space, nil)
			if r.Status != "refused" || !slices.Equal(r.Codes, strings.Fields(c.codes)) {
				t.Errorf("%s %v, want %s: %v", r.Status, r.Codes, c.codes, messages(r.Findings))
			}
			if got := treeOf(t, space); !reflect.DeepEqual(got, before) {
				t.Errorf("files changed:\n%v\n%v", before, got)
			}
			if left, _ := filepath.Glob(filepath.Join(space, ".ai", ".rigward*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestUninstallRefusals(t *testing.T) {
	one := writeBundle(t, "1.0.0", notesFiles())
	for name, c := range map[string]struct {
		do    func(space string)
		codes string
	}{
		"climbing path": {func(s string) {
			put(t, s, LockPath(notesID), strings.ReplaceAll(get(t, s, LockPath(notesID)), savePy, "../victim"))
		}, PathUnsafe},
		"absolute path": {func(s string) {
			put(t, s, LockPath(notesID), strings.ReplaceAll(get(t, s, LockPath(notesID)), savePy, "/etc/hosts"))
		}, PathUnsafe},
		"another bundle's manifest": {func(s string) {
			put(t, s, LockPath(notesID), strings.ReplaceAll(get(t, s, LockPath(notesID)), savePy, ".ai/bundles/rival/manifest.yaml"))
		}, PathNotCovered},
		"link on the way": {func(s string) {
			os.Rename(filepath.Join(s, ".ai/tools"), filepath.Join(s, "tools"))
			os.Symlink("../tools", filepath.Join(s, ".ai/tools"))
		}, SymlinkFound},
	} {
		t.Run(name, func(t *testing.T) {
			space := t.TempDir()
			install(t, one, space, nil)
			c.do(space)
			before := treeOf(t, space)
			r, err := Uninstall(t.Context(), notesID, space, UninstallOptions{State: testState})
			if err != nil || r.Status != "refused" || !slices.Equal(r.Codes, []string{c.codes}) {
				t.Errorf("%+v %v %v", r, messages(r.Findings), err)
			}
			if got := treeOf(t, space); !reflect.DeepEqual(got, before) {
				t.Error("files changed")
			}
		})
	}
	space := t.TempDir()
	install(t, one, space, nil)
	out := filepath.Join(t.TempDir(), "out.py")
	put(t, filepath.Dir(out), "out.py", get(t, one, savePy))
	os.Remove(filepath.Join(space, savePy))
	if err := os.Symlink(out, filepath.Join(space, savePy)); err != nil {
		t.Skip("no symlinks here")
	}
	r, err := Uninstall(t.Context(), notesID, space, UninstallOptions{State: testState})
	if err != nil || r.Status != "uninstalled" || !slices.Equal(r.FilesKept, []string{savePy}) || r.FilesRemoved != 8 {
		t.Errorf("%+v %v", r, err)
	}
	if got := treeOf(t, filepath.Dir(out)); len(got) != 1 {
		t.Error("a file was removed through a link")
	}
}

// A tricky source gives other bytes once a file was read often enough.
type tricky struct {
	bundle.Source
	path  string
	after int
}

func (s *tricky) Open(name string) (io.ReadCloser, error) {
	if name == s.path {
		if s.after--; s.after < 0 {
			return io.NopCloser(strings.NewReader("evil\n")), nil
		}
	}
	return s.Source.Open(name)
}

// TestInstallRace: a file that changes between verification and copy is not
// installed, and neither is anything else.
func TestInstallRace(t *testing.T) {
	dir := writeBundle(t, "1.0.0", notesFiles())
	for _, p := range []string{savePy, ManifestPath(notesID)} {
		space := t.TempDir()
		src := &tricky{openDir(t, dir), p, 1}
		_, err := Install(t.Context(), src, space, InstallOptions{Verify: Options{ID: notesID, Keys: pin(t, ownKey)}, Now: when, State: testState})
		if err == nil || !strings.Contains(err.Error(), "changed while") {
			t.Errorf("%s: %v", p, err)
		}
		if left, _ := os.ReadDir(space); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

func TestInstallInterrupted(t *testing.T) {
	one, two := writeBundle(t, "1.0.0", notesFiles()), newer(t)
	space := t.TempDir()
	install(t, one, space, nil)
	before := treeOf(t, space)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Install(ctx, openDir(t, two), space, InstallOptions{Verify: Options{ID: notesID, Keys: pin(t, ownKey)}, Now: when, State: testState}); err == nil {
		t.Error("an interrupted install succeeded")
	}
	if _, err := Uninstall(ctx, notesID, space, UninstallOptions{State: testState}); err == nil {
		t.Error("an interrupted uninstall succeeded")
	}
	if got := treeOf(t, space); !reflect.DeepEqual(got, before) {
		t.Errorf("files changed: %v", got)
	}
	txn, err := bundle.Begin(place(space, testState))
	if err != nil {
		t.Fatal(err)
	}
	defer txn.Close()
	if _, err := Install(t.Context(), openDir(t, two), space, InstallOptions{Verify: Options{ID: notesID, Keys: pin(t, ownKey)}, Now: when, State: testState}); err != bundle.ErrBusy {
		t.Errorf("two at once: %v", err)
	}
}

// TestKeysAreNotInstalled: a key document in a bundle never reaches the store of
// the space.
func TestKeysAreNotInstalled(t *testing.T) {
	files := notesFiles()
	name, doc, _ := OwnDocument(otherKey, "mallory", when)
	files[name] = string(doc)
	dir := writeFiles(t, files)
	c, err := Create(t.Context(), openDir(t, dir), CreateOptions{ID: notesID, Version: "1.0.0", Time: when, Key: ownKey})
	if err != nil || len(c.Findings) > 0 {
		t.Fatal(messages(c.Findings), err)
	}
	put(t, dir, c.Path, string(c.Text))
	space := t.TempDir()
	src := openDir(t, dir)
	keys := pin(t, ownKey, otherKey)
	r, err := Install(t.Context(), src, space, InstallOptions{Verify: Options{ID: notesID, Keys: keys}, Now: when, State: testState})
	if err != nil || r.Status != "installed" || !slices.Equal(r.FilesSkipped, []string{name}) || r.FilesWritten != 9 {
		t.Errorf("%+v %v %v", r, messages(r.Findings), err)
	}
	if _, err := os.Stat(filepath.Join(space, ".ai/config/keys")); !os.IsNotExist(err) {
		t.Error("a key folder was installed")
	}
}

func TestDiffRebuildInspect(t *testing.T) {
	one, two := writeBundle(t, "1.0.0", notesFiles()), newer(t)
	d, err := Diff(t.Context(), openDir(t, one), "", openDir(t, one), notesID, false)
	if err != nil || d.Status != "equal" || d.DigestA != d.DigestB {
		t.Errorf("%+v %v", d, err)
	}
	if d, err = Diff(t.Context(), openDir(t, one), "", openDir(t, two), "", false); err != nil || d.Status != "different" || len(d.Fields) != 1 || len(d.Files) != 3 {
		t.Errorf("%+v %v", d, err)
	}
	r, err := Rebuild(t.Context(), openDir(t, one), "")
	if err != nil || r.Status != "identical" || !r.SameBody || r.Digest != r.RebuiltDigest {
		t.Errorf("%+v %v", r, err)
	}
	put(t, two, ".ai/tools/team/notes/added.py", "x\n")
	put(t, two, savePy, "x\n")
	os.Remove(filepath.Join(two, ".ai/config/notes/notes.yaml"))
	if r, err = Rebuild(t.Context(), openDir(t, two), notesID); err != nil || r.Status != "differs" || len(r.Added) != 1 || len(r.Removed) != 1 || len(r.Modified) != 1 || r.Digest == r.RebuiltDigest {
		t.Errorf("%+v %v", r, err)
	}
	in, err := Inspect(t.Context(), openDir(t, one), "")
	if err != nil || in.Unverified == nil || in.Unverified.ManifestDigest != in.ManifestDigest || in.SignerClaim.Fingerprint != Fingerprint(public(ownKey)) || len(in.Unverified.Files) != 9 {
		t.Errorf("%+v %v", in, err)
	}
	resign(t, one, otherKey, nil) // nobody is asked whether the signer is trusted
	if in, err = Inspect(t.Context(), openDir(t, one), ""); err != nil || in.SignerClaim.Fingerprint != Fingerprint(public(otherKey)) || len(in.Codes) > 0 {
		t.Errorf("%+v %v", in, err)
	}
	put(t, one, ManifestPath(notesID), "a: [")
	if in, err = Inspect(t.Context(), openDir(t, one), ""); err != nil || in.Unverified != nil || !slices.Equal(in.Codes, []string{ManifestUnsigned, YAMLInvalid}) {
		t.Errorf("%+v %v", in, err)
	}
}

func TestList(t *testing.T) {
	one, two := writeBundle(t, "1.0.0", notesFiles()), newer(t)
	bad := writeBundle(t, "1.0.0", notesFiles())
	put(t, bad, savePy, "x\n")
	open := func(r Root) (bundle.Source, *Keyring, func() error, error) {
		s, err := bundle.OpenDirs(r.Path)
		if err != nil {
			return nil, nil, nil, err
		}
		return s, pin(t, ownKey), s.Close, nil
	}
	l, err := List(t.Context(), []Root{{Path: one, Categories: []string{"team/notes"}}, {Path: two}, {Path: bad}, {Path: filepath.Join(one, "none")}, {Path: one, ID: notesID, Version: "2.0.0"}}, open)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{HashMismatch, ManifestMissing, VersionInvalid}; !slices.Equal(l.Codes, want) {
		t.Errorf("%v, want %v", l.Codes, want)
	}
	var states []string
	for _, b := range l.Bundles {
		states = append(states, b.Status)
	}
	if want := []string{"verified", "verified", "failed", "failed"}; !slices.Equal(states, want) {
		t.Errorf("%v", states)
	}
	shown := map[string]int{}
	for _, it := range l.Items {
		shown[it.Root]++
		if (it.ShadowedBy != "") != (it.Root == two && it.Path != ".ai/tools/team/notes/new.sh") {
			t.Errorf("%+v", it)
		}
	}
	if !maps.Equal(shown, map[string]int{one: 8, two: 9}) { // backup.sh is in team/notes-extra
		t.Errorf("%v", shown)
	}
}

func TestVisible(t *testing.T) {
	for _, c := range []struct {
		path       string
		categories string
		want       bool
	}{
		{".ai/tools/rye/core/a.py", "rye/core", true},
		{".ai/tools/rye/core/x/a.py", "rye/core", true},
		{".ai/tools/rye/corex/a.py", "rye/core", false},
		{".ai/tools/rye/a.py", "rye/core", false},
		{".ai/tools/rye/core/a.py", "rye", true},
		{".ai/tools/a.py", "rye", false},
		{".ai/tools/a.py", "", true},
		{".ai/config/other/a.yaml", "rye", true},
		{".ai/config/keys/trusted/a.toml", "", false},
		{".ai/trusted_keys/a.toml", "", false},
		{".ai/plans/a.md", "", false},
	} {
		if got := Visible(c.path, strings.Fields(c.categories)); got != c.want {
			t.Errorf("%s with %q: %v", c.path, c.categories, got)
		}
	}
}

func TestParseRoots(t *testing.T) {
	roots, fault := ParseRoots([]byte("bundles:\n- bundle_id: a/b\n  root_path: x\n  categories: [c, d]\n  version: 1.0\n- {bundle_id: e, root_path: y, categories: [], manifest_path: .ai/bundles/e/manifest.yaml}\n"))
	if fault != nil || !reflect.DeepEqual(roots, []Root{{Path: "x", ID: "a/b", Version: "1.0", Categories: []string{"c", "d"}}, {Path: "y", ID: "e", Manifest: ".ai/bundles/e/manifest.yaml"}}) {
		t.Errorf("%+v %v", roots, fault)
	}
	if roots, fault = ParseRoots([]byte("version: 1\nbundles: [{bundle_id: a, root_path: x}]\n")); fault != nil || len(roots) != 1 {
		t.Errorf("another key beside the list: %v %v", roots, fault)
	}
	for _, bad := range []string{"", "a", "bundles: x", "bundles: [x]", "bundles: [{bundle_id: a}]", "bundles: [{bundle_id: ../a, root_path: x}]", "bundles: [{bundle_id: a, root_path: x, extra: y}]", "bundles: [{bundle_id: a, root_path: x, categories: c}]", "bundles: [&a {bundle_id: a, root_path: x}, *a]"} {
		if _, fault := ParseRoots([]byte(bad)); fault == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestCreateRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(dir string, o *CreateOptions)
		codes string
	}{
		"id":         {func(_ string, o *CreateOptions) { o.ID = "../x" }, BundleIDInvalid},
		"version":    {func(_ string, o *CreateOptions) { o.Version = "1.0" }, VersionInvalid},
		"entrypoint": {func(_ string, o *CreateOptions) { o.Entrypoint = "none" }, EntrypointMissing},
		"no files":   {func(dir string, _ *CreateOptions) { os.RemoveAll(filepath.Join(dir, ".ai")) }, FilesEmpty},
		"link": {func(dir string, _ *CreateOptions) {
			os.Symlink("save.py", filepath.Join(dir, ".ai/tools/team/notes/l.py"))
		}, SymlinkFound},
		"link for a folder": {func(dir string, _ *CreateOptions) {
			os.Rename(filepath.Join(dir, ".ai/tools"), filepath.Join(dir, "tools"))
			os.Symlink("../tools", filepath.Join(dir, ".ai/tools"))
		}, SymlinkFound},
		"unsafe path": {func(dir string, _ *CreateOptions) { put(t, dir, ".ai/tools/a:b", "x") }, PathUnsafe},
		"collision": {func(dir string, _ *CreateOptions) {
			put(t, dir, ".ai/tools/A", "x")
			put(t, dir, ".ai/tools/a", "x")
		}, PathCollision},
		"bad line":          {func(dir string, _ *CreateOptions) { put(t, dir, savePy, "# rye:signed:x\n") }, SignatureMalformed},
		"control character": {func(_ string, o *CreateOptions) { o.Description = "a\nb" }, ManifestMalformed},
		"item as a manifest": {func(dir string, o *CreateOptions) {
			put(t, dir, ".ai/config/x.yaml", "bundle: {}\nfiles: {}\n")
			o.SignItems = true
		}, ManifestMalformed},
		"directive, no tag": {func(dir string, o *CreateOptions) { put(t, dir, ".ai/directives/x.md", "x"); o.SignItems = true }, DirectiveTagMissing},
		"path of 513 bytes": {func(dir string, _ *CreateOptions) {
			put(t, dir, ".ai/tools/"+strings.Repeat(strings.Repeat("a", 99)+"/", 5)+"abc", "x")
		}, LimitExceeded},
		"not UTF-8, to sign": {func(dir string, o *CreateOptions) { put(t, dir, savePy, "\xff"); o.SignItems = true }, NotUTF8},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeFiles(t, notesFiles())
			o := CreateOptions{ID: notesID, Version: "1.0.0", Time: when, Key: ownKey}
			c.do(dir, &o)
			out, err := Create(t.Context(), openDir(t, dir), o)
			if err != nil || out.Manifest != nil || !slices.Equal(out.Codes, []string{c.codes}) {
				t.Errorf("%v %v %v", out, messages(out.Findings), err)
			}
		})
	}
}

func TestCreateLeavesOut(t *testing.T) {
	files := notesFiles()
	files[".ai/tools/team/notes/__pycache__/save.pyc"] = "x"
	files[".ai/tools/build/x"] = "x"
	files[".ai/trusted_keys/k.toml"] = "x"
	dir := writeFiles(t, files)
	root := filepath.Join(dir, "build", "root") // a root below a folder of such a name is not a root without files
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, ".ai"), filepath.Join(filepath.Dir(root), ".ai")); err != nil {
		t.Fatal(err)
	}
	c, err := Create(t.Context(), openDir(t, filepath.Dir(root)), CreateOptions{ID: notesID, Version: "1.0.0", Time: when, Key: ownKey})
	if err != nil || len(c.Findings) > 0 {
		t.Fatal(messages(c.Findings), err)
	}
	if want := []string{".ai/tools/build/", ".ai/tools/team/notes/__pycache__/", ".ai/trusted_keys/k.toml"}; !slices.Equal(c.LeftOut, want) {
		t.Errorf("%q, want %q", c.LeftOut, want)
	}
	if len(c.Notes) != 1 || c.Notes[0].Code != NotUTF8 || c.Notes[0].Path != ".ai/tools/team/notes/paper.png" {
		t.Errorf("%v", c.Notes)
	}
	again, _ := Create(t.Context(), openDir(t, filepath.Dir(root)), CreateOptions{ID: notesID, Version: "1.0.0", Time: when, Key: ownKey})
	if !bytes.Equal(c.Text, again.Text) {
		t.Error("equal input gives other bytes")
	}
}

func TestResultKeys(t *testing.T) {
	one := writeBundle(t, "1.0.0", notesFiles())
	space := t.TempDir()
	data, _ := json.Marshal(install(t, one, space, nil))
	if want := `{"schema_version":"1.0","command":"install","code":"ok","message":"ok","findings":[],"notes":[],"codes":[],"name":"team/notes","version":"1.0.0",` +
		`"status":"installed","bundle_id":"team/notes","files_written":9,"files_removed":0,"files_kept":[],"files_skipped":[]}`; string(data) != want {
		t.Errorf("%s", data)
	}
	r, _ := Uninstall(t.Context(), notesID, space, UninstallOptions{State: testState})
	data, _ = json.Marshal(r)
	if want := `{"schema_version":"1.0","command":"uninstall","code":"ok","message":"ok","findings":[],"notes":[],"codes":[],"name":"team/notes",` +
		`"status":"uninstalled","bundle_id":"team/notes","files_removed":9,"files_kept":[]}`; string(data) != want {
		t.Errorf("%s", data)
	}
}

// TestKeyFoldersByOtherNames: what some file system takes for the trust store of
// a space is not installed either.
func TestKeyFoldersByOtherNames(t *testing.T) {
	for p, want := range map[string]bool{
		".ai/config/keys/trusted/a.toml": true, ".ai/config/Keys/trusted/a.toml": true, ".ai/config/KEYS/a": true, ".ai/config/ke\u200cys/trusted/a.toml": true,
		".ai/trusted_keys/a.toml": true, ".ai/Trusted_Keys/a.toml": true, ".ai/config/\u212aeys/a": true,
		".ai/config/keys.yaml": false, ".ai/config/key/a.toml": false, ".ai/knowledge/keys/a.md": false, ".ai/config/team/keys/a.toml": false,
	} {
		if got := isKeyPath(p); got != want {
			t.Errorf("%q: %t", p, got)
		}
	}
}

// TestWriteThroughLink: a folder that is swapped for a link after it was read is
// not written through.
func TestWriteThroughLink(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	put(t, dir, ".ai/knowledge/a.md", "text\n")
	put(t, outside, "knowledge/a.md", "text\n")
	o := CreateOptions{ID: "notes", Version: "1.0.0", Time: when, Key: ownKey, SignItems: true}
	c, err := Create(t.Context(), openDir(t, dir), o)
	if err != nil || !c.OK() {
		t.Fatal(err, messages(c.Findings))
	}
	if err := os.RemoveAll(filepath.Join(dir, ".ai/knowledge")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "knowledge"), filepath.Join(dir, ".ai/knowledge")); err != nil {
		t.Skip(err)
	}
	if err := c.Write(dir); err == nil {
		t.Error("no error")
	}
	if b, _ := os.ReadFile(filepath.Join(outside, "knowledge/a.md")); string(b) != "text\n" {
		t.Errorf("outside: %q", b)
	}
	if err := os.Remove(filepath.Join(dir, ".ai/knowledge")); err != nil {
		t.Fatal(err)
	}
	put(t, dir, ".ai/knowledge/a.md", "text\n")
	if err := c.Write(dir); err != nil {
		t.Error("positive control:", err)
	}
}
