package rye

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/rigward/rigward/pkg/bundle"
)

// A vector is one case of expectations.json; see the README beside it.
type vector struct {
	ID        string   `json:"id"`
	Kind      string   `json:"kind"`
	Path      string   `json:"path"`
	BundleID  string   `json:"bundle_id"`
	ItemType  string   `json:"item_type"`
	Options   []string `json:"options"`
	TrustKeys struct {
		Project *string  `json:"project"`
		User    *string  `json:"user"`
		Pin     []string `json:"pin"`
	} `json:"trust_keys"`
	Verdict    string          `json:"verdict"`
	Code       []string        `json:"code"`
	Report     json.RawMessage `json:"report"`
	FilesExtra []string        `json:"files_extra"`
	Signer     *string         `json:"signer"`
	Trust      Trust           `json:"trust"`
	Create     *vectorCreate   `json:"create"`
	Action     string          `json:"action"`
	Source     string          `json:"source"`
	Now        string          `json:"now"`
	Result     json.RawMessage `json:"result"`
	After      map[string]string
}

type vectorCreate struct {
	ID          string `json:"id"`
	Version     string `json:"version"`
	Epoch       int64  `json:"source_date_epoch"`
	Key         string `json:"key"`
	Description string `json:"description"`
	Entrypoint  string `json:"entrypoint"`
}

// sharedVectors returns the folder of the vectors that may not be copied into
// this repository.
func sharedVectors(t testing.TB) string {
	dir := filepath.Join("..", "..", "..", "..", "shared", "vectors", "ryebundle")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("the shared vectors are not beside this checkout")
	}
	return dir
}

func readVectors(t testing.TB, dir string) []vector {
	data, err := os.ReadFile(filepath.Join(dir, "expectations.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []vector
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// keyring opens the stores and pins of a case.
func (c *vector) keyring(t testing.TB, dir, bundleRoot string) *Keyring {
	k := &Keyring{}
	for _, p := range c.TrustKeys.Pin {
		pin, err := ParsePin(p)
		if err != nil {
			t.Fatal(err)
		}
		k.Pins = append(k.Pins, pin)
	}
	for trust, root := range map[Trust]*string{TrustProject: c.TrustKeys.Project, TrustUser: c.TrustKeys.User} {
		if root == nil {
			continue
		}
		s, err := OpenStore(trust, filepath.Join(dir, *root), bundleRoot)
		if err != nil {
			t.Fatal(err)
		}
		k.Stores = append(k.Stores, s)
	}
	if len(k.Stores) == 2 && k.Stores[0].Trust == TrustUser {
		k.Stores[0], k.Stores[1] = k.Stores[1], k.Stores[0]
	}
	return k
}

func openDir(t testing.TB, name string) *bundle.Dirs {
	d, err := bundle.OpenDirs(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func equalJSON(t testing.TB, what string, got any, want []byte) {
	t.Helper()
	var w, g any
	if err := json.Unmarshal(want, &w); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("%s:\n got %s\nwant %s", what, data, want)
	}
}

// recorded is a result in the form of the vectors: without what all results
// have but the version, and with the set of codes under their old key.
// oldCodes are codes that the vectors know, which are older than the note on
// comments.
func oldCodes(codes []string) []string {
	return slices.DeleteFunc(slices.Clone(codes), func(code string) bool { return code == bundle.NoteHiddenMarkup })
}

func recorded(t testing.TB, result any) map[string]any {
	t.Helper()
	data, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	got["code"] = slices.DeleteFunc(got["codes"].([]any), func(code any) bool { return code == bundle.NoteHiddenMarkup })
	for _, k := range []string{"schema_version", "command", "message", "findings", "notes", "codes", "name"} {
		delete(got, k)
	}
	switch _, install := result.(*InstallResult); {
	case !install:
		delete(got, "version")
	case got["version"] == nil:
		got["version"] = nil
	}
	return got
}

func replayVectors(t *testing.T, dir string, list []vector) {
	n := 0
	for _, c := range list {
		switch c.Kind {
		case "bundle":
			t.Run(c.ID, func(t *testing.T) { replayBundle(t, dir, &c) })
		case "item":
			t.Run(c.ID, func(t *testing.T) { replayItem(t, dir, &c) })
		case "install":
			t.Run(c.ID, func(t *testing.T) { replayInstall(t, dir, &c) })
		default:
			t.Errorf("%s: unknown kind %s", c.ID, c.Kind)
		}
		n++
	}
	t.Logf("%d cases", n)
}

func replayBundle(t *testing.T, dir string, c *vector) {
	root := withLinks(t, dir, c.Path)
	k := c.keyring(t, dir, root)
	tree := openDir(t, root)
	k.Bundle = tree
	if c.Create != nil {
		replayCreate(t, dir, c)
	}
	o := Options{ID: c.BundleID, Keys: k}
	for _, opt := range c.Options {
		if opt != "--allow-extra" {
			t.Fatalf("unknown option %s", opt)
		}
		o.AllowExtra = true
	}
	r, err := Verify(t.Context(), tree, o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Verified() != (c.Verdict == "accept") {
		t.Errorf("verified %v, want %s", r.Verified(), c.Verdict)
	}
	six := recorded(t, r)
	for _, k := range []string{"code", "files_extra", "signer", "trust"} {
		delete(six, k)
	}
	equalJSON(t, "report", six, c.Report)
	if !reflect.DeepEqual(oldCodes(r.Codes), c.Code) {
		t.Errorf("code %v, want %v: %v", r.Codes, c.Code, messages(r.Findings))
	}
	if !reflect.DeepEqual(r.FilesExtra, c.FilesExtra) {
		t.Errorf("extra %q, want %q", r.FilesExtra, c.FilesExtra)
	}
	if !reflect.DeepEqual(r.Signer, c.Signer) || r.Trust != c.Trust {
		t.Errorf("signer %v trust %s, want %v %s", r.Signer, r.Trust, c.Signer, c.Trust)
	}
}

func replayItem(t *testing.T, dir string, c *vector) {
	data, err := os.ReadFile(filepath.Join(dir, c.Path))
	if err != nil {
		t.Fatal(err)
	}
	r, err := VerifyItem(c.Path, data, Type(c.ItemType), c.keyring(t, dir, ""))
	if err != nil {
		t.Fatal(err)
	}
	if (r.Status == "verified") != (c.Verdict == "accept") || !reflect.DeepEqual(oldCodes(r.Codes), c.Code) {
		t.Errorf("%s %v, want %s %v: %v", r.Status, r.Codes, c.Verdict, c.Code, messages(r.Findings))
	}
	if !reflect.DeepEqual(r.Signer, c.Signer) || r.Trust != c.Trust {
		t.Errorf("signer %v trust %s, want %v %s", r.Signer, r.Trust, c.Signer, c.Trust)
	}
}

// links are the symlinks of the vectors, which a copy without links holds as
// files with the target in them.
var links = map[string]string{
	"bundles/email-file-symlink":   ".ai/tools/rye/email/router.py",
	"bundles/syn-manifest-symlink": ".ai/bundles/acme/greeter/manifest.yaml",
	"bundles/syn-parent-symlink":   ".ai/tools/acme/greeter-extra",
	"install/space-symlink":        "space/.ai/tools",
}

// withLinks returns the tree at dir/name, or a copy of it with its symlink.
func withLinks(t *testing.T, dir, name string) string {
	root := filepath.Join(dir, name)
	link, ok := links[name]
	if !ok {
		return root
	}
	at := filepath.Join(root, link)
	if info, err := os.Lstat(at); err != nil || info.Mode()&os.ModeSymlink != 0 {
		return root
	}
	target, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "tree")
	copyTree(t, copied, root)
	at = filepath.Join(copied, link)
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(string(target), at); err != nil {
		t.Skip("this file system has no symlinks")
	}
	return copied
}

// A treeFile is a file of trees.json: a text, or an object.
type treeFile struct {
	text   string
	Base64 []byte `json:"base64"`
	Link   string `json:"link"`
}

func (f *treeFile) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return json.Unmarshal(data, &f.text)
	}
	type plain treeFile
	return json.Unmarshal(data, (*plain)(f))
}

// writeTrees writes the named trees of testdata/ryebundle below a new folder,
// all if none is named.
func writeTrees(t testing.TB, only ...string) (dir string, list []vector) {
	from := filepath.Join("..", "..", "..", "testdata", "ryebundle")
	data, err := os.ReadFile(filepath.Join(from, "trees.json"))
	if err != nil {
		t.Fatal(err)
	}
	var trees map[string]struct {
		Base    string
		Files   map[string]treeFile
		Without []string
	}
	if err := json.Unmarshal(data, &trees); err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for name, tree := range trees {
		if len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		files := map[string]treeFile{}
		maps.Copy(files, trees[tree.Base].Files)
		for _, p := range tree.Without {
			delete(files, p)
		}
		maps.Copy(files, tree.Files)
		for p, f := range files {
			p = filepath.Join(dir, name, p)
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				t.Fatal(err)
			}
			switch {
			case f.Link != "":
				err = os.Symlink(f.Link, p)
			case f.Base64 != nil:
				err = os.WriteFile(p, f.Base64, 0o644)
			default:
				err = os.WriteFile(p, []byte(f.text), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir, readVectors(t, from)
}

func TestVectors(t *testing.T) {
	dir, list := writeTrees(t)
	replayVectors(t, dir, list)
}

func TestSharedVectors(t *testing.T) {
	dir := sharedVectors(t)
	replayVectors(t, dir, readVectors(t, dir))
}

// treeOf lists the files below root as the vectors do: path to SHA-256, "*"
// for lockfiles, "-> target" for links.
func treeOf(t *testing.T, root string) map[string]string {
	files := map[string]string{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		rel = filepath.ToSlash(rel)
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			files[rel] = "-> " + target
			return err
		case d.Name() == lockName:
			files[rel] = "*"
			return nil
		}
		data, err := os.ReadFile(p)
		files[rel] = hexSum(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func replayInstall(t *testing.T, dir string, c *vector) {
	scratch := t.TempDir()
	space := filepath.Join(scratch, "space")
	from := filepath.Join(withLinks(t, dir, c.Path), "space")
	if _, err := os.Stat(from); err == nil {
		copyTree(t, space, from)
	} else if err := os.Mkdir(space, 0o755); err != nil {
		t.Fatal(err)
	}
	beside := filepath.Join(scratch, "victim.txt")
	if err := os.WriteFile(beside, []byte("not yours"), 0o644); err != nil {
		t.Fatal(err)
	}
	now, err := time.Parse(time.RFC3339, c.Now)
	if err != nil {
		t.Fatal(err)
	}
	var result any
	confirm := c.keyring(t, dir, space) // what lies in the space is not of this user's doing
	switch c.Action {
	case "install":
		root := withLinks(t, dir, c.Source)
		src := openDir(t, root)
		k := c.keyring(t, dir, root)
		k.Bundle = src
		dry, err := Install(t.Context(), src, space, InstallOptions{Verify: Options{ID: c.BundleID, Keys: k}, Now: now, DryRun: true, State: testState, Confirm: confirm})
		if err != nil {
			t.Fatal(err)
		}
		equalJSON(t, "dry run", recorded(t, dry), c.Result)
		r, err := Install(t.Context(), src, space, InstallOptions{Verify: Options{ID: c.BundleID, Keys: k}, Now: now, State: testState, Confirm: confirm})
		if err != nil {
			t.Fatal(err)
		}
		if (len(r.Findings) == 0) != (c.Verdict == "accept") || !reflect.DeepEqual(oldCodes(r.Codes), c.Code) {
			t.Errorf("%v %v, want %s %v", r.Codes, messages(r.Findings), c.Verdict, c.Code)
		}
		result = r
	case "uninstall":
		r, err := Uninstall(t.Context(), c.BundleID, space, UninstallOptions{State: testState, Confirm: confirm})
		if err != nil {
			t.Fatal(err)
		}
		if (len(r.Findings) == 0) != (c.Verdict == "accept") || !reflect.DeepEqual(oldCodes(r.Codes), c.Code) {
			t.Errorf("%v %v, want %s %v", r.Codes, messages(r.Findings), c.Verdict, c.Code)
		}
		result = r
	default:
		t.Fatalf("unknown action %s", c.Action)
	}
	equalJSON(t, "result", recorded(t, result), c.Result)
	if got := treeOf(t, space); !reflect.DeepEqual(got, c.After) {
		t.Errorf("files afterwards:\n got %v\nwant %v", got, c.After)
	}
	if got := treeOf(t, scratch); got["victim.txt"] != hexSum([]byte("not yours")) {
		t.Error("a file beside the space was touched")
	}
}

// copyTree copies a tree with its symlinks.
func copyTree(t *testing.T, to, from string) {
	err := filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, p)
		dest := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(dest, 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return os.Symlink(target, dest)
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return os.WriteFile(dest, data, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// replayCreate writes the manifest of a case anew: the bytes must be the same.
func replayCreate(t *testing.T, dir string, c *vector) {
	root := filepath.Join(dir, c.Path)
	want, err := os.ReadFile(filepath.Join(root, ManifestPath(c.Create.ID)))
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "tree")
	copyTree(t, copied, root)
	if err := os.Remove(filepath.Join(copied, ManifestPath(c.Create.ID))); err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(filepath.Join(dir, c.Create.Key))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ParsePrivateKey(pem)
	if err != nil {
		t.Fatal(err)
	}
	out, err := Create(t.Context(), openDir(t, copied), CreateOptions{
		ID: c.Create.ID, Version: c.Create.Version, Description: c.Create.Description, Entrypoint: c.Create.Entrypoint,
		Time: time.Unix(c.Create.Epoch, 0), Key: key,
	})
	if err != nil || len(out.Findings) > 0 {
		t.Fatal(err, messages(out.Findings))
	}
	if string(out.Text) != string(want) {
		t.Errorf("manifest:\n%s\nwant:\n%s", out.Text, want)
	}
}
