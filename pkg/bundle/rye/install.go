package rye

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// InstallOptions say what to install where. Verify holds the options of the
// verification; ID "" takes the only bundle of the source.
type InstallOptions struct {
	Verify         Options
	AllowDowngrade bool
	DryRun         bool
	Now            time.Time // recorded in the lockfile
	Windows        bool      // the space lies where names mean what they mean to Windows, see [bundle.WindowsNames]
	State          string    // the user's state directory, see [bundle.OpenState]
	Confirm        *Keyring  // keys that confirm an install of which only the space tells, see [Uninstall]; nil: none
}

// An InstallResult is the outcome of Install, with the keys of
// docs/spec/ryebundle.md#install. Version is absent if the bundle did not verify.
type InstallResult struct {
	bundle.Result
	Status       string   `json:"status"` // "installed", "upgraded", "unchanged" or "refused"
	ID           string   `json:"bundle_id"`
	FilesWritten int      `json:"files_written"`
	FilesRemoved int      `json:"files_removed"`
	FilesKept    []string `json:"files_kept"`    // dropped by this version, but changed since: left alone
	FilesSkipped []string `json:"files_skipped"` // key documents: installing must not widen the space's trust

	Dependencies []Dependencies `json:"dependencies,omitempty"` // what tools ask to be installed before they run

	Report *Report `json:"-"` // of the verification
	Plan   []Step  `json:"-"` // what was done, or would be in a dry run
}

// A Step is what the plan has in mind for one path.
type Step struct {
	Path string
	What string // "new", "replace", "adopt", "remove", "keep", "skip"
}

// area begins the name of the private folder of a transaction below .ai.
const area = ".rigward-rye"

// place is where a transaction of this format works.
func place(space, state string) bundle.Place {
	return bundle.Place{Target: space, Below: ".ai", State: state, Kind: area}
}

// Install verifies the bundle in src and installs it into the folder space,
// which must exist. What is written is what was verified: each file is read
// again and its hash compared before anything changes. A refusal or an error
// leaves the space as it was; so does a crash, once the next run has undone
// what it left.
func Install(ctx context.Context, src bundle.Source, space string, o InstallOptions) (*InstallResult, error) {
	in := &installer{src: src, o: o, r: &InstallResult{Result: bundle.NewResult("install"), Status: "refused", FilesKept: []string{}, FilesSkipped: []string{}}}
	report, err := Verify(ctx, src, o.Verify)
	if err != nil {
		return nil, err
	}
	in.r.Report, in.r.ID = report, report.Name
	if in.r.ID == "" {
		in.r.ID = o.Verify.ID
	}
	switch {
	case !report.Verified():
		in.add(report.Findings...)
		return in.conclude(), nil
	case report.Manifest == nil:
		in.headEntries()
		if len(in.r.Findings) > 0 {
			return in.conclude(), nil
		}
	}
	paths := report.Manifest.paths()
	for i, p := range paths {
		paths[i] = in.source(p)
	}
	if o.Windows {
		if in.add(bundle.WindowsNames(append(paths, ManifestPath(in.r.ID)))...); len(in.r.Findings) > 0 {
			return in.conclude(), nil
		}
	}
	if in.r.Dependencies, err = dependencies(bundle.WithContext(ctx, src), paths); err != nil {
		return nil, err
	}
	in.r.Version = report.Version
	in.r.TellAs(&report.Result)
	if err := in.into(ctx, space); err != nil {
		return nil, err
	}
	return in.conclude(), nil
}

type installer struct {
	src bundle.Source
	o   InstallOptions
	r   *InstallResult

	space bundle.Source
	txn   *bundle.Txn   // of .ai; nil if it does not exist
	own   *owned        // nil if the bundle is not installed
	claim *Lock         // as the lockfile in the space says, which anybody can have put there; nil if there is none
	all   record        // of all bundles that this user has installed there
	lock  Lock          // to be written
	told  []bundle.Note // about the place
	put   []string      // paths to be written
	gone  []string      // paths to be removed
}

func (in *installer) add(fs ...*bundle.Finding) { in.r.Fail(fs...) }

func (in *installer) conclude() *InstallResult {
	r := in.r
	addHints(r.Findings)
	if len(r.Findings) > 0 {
		r.Status, r.FilesWritten, r.FilesRemoved = "refused", 0, 0
		r.FilesKept, r.FilesSkipped = []string{}, []string{}
		r.Unsay()
		r.TellAs(&r.Report.Result)
		r.Tell(in.told...)
	}
	r.Name = r.ID
	r.Finish()
	return r
}

// openSpace opens a space and its .ai, which must be no link. ai is nil if
// there is none yet.
func openSpace(space string) (s *bundle.Dirs, hasAI bool, fault *bundle.Finding, err error) {
	if s, err = bundle.OpenDirs(space); err != nil {
		return nil, false, nil, err
	}
	code, err := folderAt(s, ".ai")
	if err == nil && code == FileMissing {
		var it bundle.Item
		if it, err = s.Lstat(".ai"); err == nil {
			fault = bundle.Faultf(InstallConflict, ".ai", "a %s stands where the folder .ai must be", kindName(it.Kind))
		} else {
			err = nil
		}
	}
	if code == SymlinkFound {
		fault = bundle.Faultf(code, ".ai", "the .ai folder of the space is a link")
	}
	if err != nil || fault != nil {
		s.Close()
		return nil, false, fault, err
	}
	return s, code == "", nil, nil
}

func kindName(k bundle.Kind) string {
	if k == bundle.KindFile {
		return "file"
	}
	return "device or the like"
}

// into plans under the lock and carries the plan out.
func (in *installer) into(ctx context.Context, space string) error {
	s, hasAI, fault, err := openSpace(space)
	if fault != nil || err != nil {
		in.add(fault)
		return err
	}
	defer s.Close()
	in.space = s
	ai := filepath.Join(space, ".ai")
	if in.o.DryRun {
		if hasAI {
			if in.txn, err = bundle.Look(place(space, in.o.State)); err != nil {
				return err
			}
			defer in.txn.Close()
			in.r.Tell(in.txn.Notes()...)
		}
		return in.plan()
	}
	made, err := bundle.TargetDir(ai)
	if err != nil {
		return err
	}
	done := false
	defer func() {
		if !done {
			bundle.RemoveMade(made, ai)
		}
	}()
	return bundle.Within(place(space, in.o.State), &in.r.Result, func(t *bundle.Txn) error { return in.within(ctx, t, &done) })
}

func (in *installer) within(ctx context.Context, txn *bundle.Txn, done *bool) error {
	if it, err := in.space.Lstat(".ai"); err != nil || it.Kind != bundle.KindDir {
		return errors.Join(errors.New("the .ai folder of the space was replaced"), err)
	}
	in.txn = txn
	if err := in.plan(); err != nil || len(in.r.Findings) > 0 || in.r.Status == "unchanged" {
		return err
	}
	put := slices.Clone(in.put)
	if !in.head() {
		put = append(put, ManifestPath(in.r.ID))
	}
	for _, name := range put {
		from := in.source(name)
		want := in.r.Report.hashes[from]
		if name == ManifestPath(in.r.ID) {
			want = in.r.Report.sum
		}
		it, err := in.src.Lstat(from)
		if err != nil {
			return err
		}
		data, err := readFile(in.src, from, it.Size, MaxFile)
		if err != nil {
			return err
		}
		if data == nil || hexSum(data) != want {
			return fmt.Errorf("%s changed while it was installed", finding.QuoteMax(name, 200))
		}
		if err := txn.StageBytes(belowAI(name), 0o644, data); err != nil {
			return err
		}
	}
	if err := txn.StageBytes(belowAI(LockPath(in.r.ID)), 0o644, in.lock.encode()); err != nil {
		return err
	}
	in.all[in.r.ID] = string(in.lock.encode())
	txn.SetRecord(in.all.encode())
	for _, name := range in.gone {
		txn.Remove(belowAI(name))
	}
	for _, dir := range parents(in.gone) {
		txn.RemoveDir(belowAI(dir))
	}
	if err := txn.Commit(ctx); err != nil {
		return err
	}
	*done = true
	return nil
}

// head reports whether the bundle is of the HEAD generation. It is installed as
// a tree of its own below .ai/bundles/ID, where it widens no trust.
func (in *installer) head() bool { return in.r.Report.Manifest.head }

// headRoot is the place of an installed HEAD bundle below a space.
func headRoot(id string) string { return path.Join(".ai/bundles", id) }

// source is the path in the bundle of a file in the space.
func (in *installer) source(p string) string {
	if in.head() {
		return strings.TrimPrefix(p, headRoot(in.r.ID)+"/")
	}
	return p
}

// headEntries makes the manifest of what was verified, with the paths of the
// space: every file and, first, the signed manifest itself.
func (in *installer) headEntries() {
	report := in.r.Report
	id := report.Name
	if strings.Contains(id, "/") {
		in.add(bundle.Faultf(BundleIDInvalid, headManifest, "a bundle of this generation has a name of one component, not %s", finding.QuoteMax(id, 200)))
		return
	}
	m := &Manifest{ID: id, Version: report.Version, head: true}
	report.hashes[headManifest] = report.sum
	var paths []string
	for p := range report.hashes {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for _, p := range paths {
		if f := headPathFault(p); f != nil {
			in.add(f)
			continue
		}
		m.Entries = append(m.Entries, Entry{Path: path.Join(headRoot(id), p), SHA256: report.hashes[p], InlineSigned: true})
	}
	in.add(checkHeadTree(m.paths())...)
	report.Manifest = m
}

// belowAI turns a path below the space into one below its .ai.
func belowAI(p string) string { return strings.TrimPrefix(p, ".ai/") }

// parents returns the folders of paths below .ai, the deepest first.
func parents(paths []string) (dirs []string) {
	seen := map[string]bool{".ai": true}
	for _, p := range paths {
		for d := path.Dir(p); !seen[d] && d != "."; d = path.Dir(d) {
			seen[d] = true
			dirs = append(dirs, d)
		}
	}
	slices.SortFunc(dirs, func(a, b string) int {
		if n := strings.Count(b, "/") - strings.Count(a, "/"); n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	return dirs
}

func asList(f *bundle.Finding) []*bundle.Finding {
	if f == nil {
		return nil
	}
	return []*bundle.Finding{f}
}

// state looks at a path of the space.
func (in *installer) state(p string) (st bundle.State, link bool, err error) {
	if in.txn == nil {
		return st, false, nil
	}
	st, err = in.txn.State(belowAI(p))
	var l *bundle.LinkError
	if errors.As(err, &l) {
		return st, true, nil
	}
	return st, false, err
}

// isKeyPath reports whether a path leads to where some file system keeps the
// trust store of a space.
func isKeyPath(p string) bool {
	p = portable.Fold(p)
	return strings.HasPrefix(p, ".ai/config/keys/") || strings.HasPrefix(p, ".ai/trusted_keys/")
}

// plan decides about every path (docs/spec/ryebundle.md#install, step 3).
func (in *installer) plan() error {
	r, m := in.r, in.r.Report.Manifest
	if in.txn != nil {
		in.told = in.txn.Notes()
	}
	owner, err := in.readLocks()
	if err != nil || len(r.Findings) > 0 {
		return err
	}
	in.checkVersion(m.Version)
	var same func(string, []byte) bool
	if in.own != nil {
		same = in.own.same
	}
	in.lock = Lock{
		ID: r.ID, Version: m.Version, ManifestHash: r.Report.sum, InstalledAt: in.o.Now.UTC().Format("2006-01-02T15:04:05Z"),
		Files: []string{}, FileHashes: map[string]string{}, ManifestDigest: m.digest(), Signer: *r.Report.Signer, Trust: r.Report.Trust,
	}
	step := func(p, what string) { r.Plan = append(r.Plan, Step{p, what}) }
	for _, e := range m.Entries {
		if isKeyPath(e.Path) {
			r.FilesSkipped = append(r.FilesSkipped, e.Path)
			step(e.Path, "skip")
			continue
		}
		hash := r.Report.hashes[in.source(e.Path)]
		in.lock.Files = append(in.lock.Files, e.Path)
		in.lock.FileHashes[e.Path] = hash
		what, fault, err := in.target(e.Path, hash, owner[e.Path], same)
		if err != nil {
			return err
		}
		if fault != nil {
			in.add(fault)
			continue
		}
		step(e.Path, what)
		if what != "adopt" {
			in.put = append(in.put, e.Path)
		}
	}
	stored, err := in.head(), error(nil)
	if !stored {
		stored, err = in.planManifest()
	}
	if err != nil {
		return err
	}
	if in.own != nil {
		if err := in.planDropped(same, step); err != nil {
			return err
		}
	}
	r.FilesWritten, r.FilesRemoved = len(in.put), len(in.gone)
	switch {
	case in.own == nil:
		r.Status = "installed"
	case in.own.ManifestHash != in.lock.ManifestHash:
		r.Status = "upgraded"
	case stored && in.claim != nil && in.claim.ManifestHash == in.own.ManifestHash && in.claim.FileHashes != nil && len(in.put)+len(in.gone) == 0:
		r.Status = "unchanged"
	default:
		r.Status = "installed" // what was lost is put back
	}
	return nil
}

// readLocks reads the record and all lockfiles of the space: owner maps the
// paths of other bundles to their ids. What only a lockfile claims keeps files
// from being touched and no more.
func (in *installer) readLocks() (owner map[string]string, err error) {
	if in.all, err = readRecord(in.txn); err != nil {
		return nil, err
	}
	ids, err := installedIDs(in.space)
	if err != nil {
		return nil, err
	}
	owner = map[string]string{}
	if !slices.Contains(ids, in.r.ID) {
		ids = append(ids, in.r.ID) // a link in its place is a fault
	}
	installed := record{}
	for _, id := range ids {
		l, fault, err := readLock(in.space, id)
		if err != nil {
			return nil, err
		}
		if in.add(fault); l == nil {
			continue
		}
		in.add(l.checkPaths()...)
		own, err := in.all.lock(l)
		if err != nil {
			return nil, err
		}
		if own != nil {
			installed[id] = in.all[id]
		}
		if id == in.r.ID {
			in.claim, in.own = l, own
			continue
		}
		for _, p := range l.Files {
			owner[p] = id
		}
	}
	in.all = installed
	if in.own == nil && in.claim != nil {
		if in.own, err = in.claim.confirmed(in.space, in.o.Confirm); err != nil {
			return nil, err
		}
	}
	return owner, nil
}

// checkVersion refuses a version that is not newer than what the record or the
// lockfile in the space says is installed.
func (in *installer) checkVersion(version string) {
	if in.own != nil && in.notNewer(in.own.Lock, version) {
		return
	}
	if in.claim != nil {
		in.notNewer(in.claim, version)
	}
}

func (in *installer) notNewer(own *Lock, version string) (refused bool) {
	if in.o.AllowDowngrade {
		return false
	}
	fault := func(format string, args ...any) {
		f := bundle.Faultf(VersionNotNewer, ManifestPath(in.r.ID), format, args...)
		f.Hint = "--allow-downgrade installs it all the same"
		in.add(f)
		refused = true
	}
	if !bundle.IsVersion(own.Version) {
		fault("the installed version %s is not SemVer, so whether %s is newer cannot be said", finding.QuoteMax(own.Version, 80), version)
		return refused
	}
	switch c := bundle.CompareVersions(version, own.Version); {
	case c < 0:
		fault("version %s is older than the installed %s", version, own.Version)
	case c == 0 && own.ManifestHash != "" && own.ManifestHash != in.r.Report.sum:
		fault("version %s is installed already, with another manifest", own.Version)
	}
	return refused
}

// target decides about one path that the bundle lists.
func (in *installer) target(p, hash, owner string, same func(string, []byte) bool) (what string, fault *bundle.Finding, err error) {
	st, link, err := in.state(p)
	if err != nil {
		return "", nil, err
	}
	switch {
	case link:
		return "", bundle.Faultf(SymlinkFound, p, "a link stands at %s or on the way to it", finding.QuoteMax(p, 200)), nil
	case owner != "":
		f := bundle.Faultf(OwnedByOther, p, "the file belongs to the installed bundle %s", finding.QuoteMax(owner, 200))
		f.Hint = "rig-bundle uninstall --format rye " + finding.Path(owner) + " makes room"
		return "", f, nil
	case !st.Exists:
		return "new", nil, nil
	case !st.Regular:
		return "", bundle.Faultf(InstallConflict, p, "a folder stands at %s, or a file on the way to it", finding.QuoteMax(p, 200)), nil
	case st.SHA256.Hex() == hash:
		return "adopt", nil, nil
	case in.own == nil || !slices.Contains(in.own.Files, p):
		return "", in.foreign(p), nil
	}
	unchanged, err := in.unchanged(p, st, same)
	if err != nil {
		return "", nil, err
	}
	if !unchanged {
		return "", bundle.Faultf(UserModified, p, "the file was changed since it was installed"), nil
	}
	return "replace", nil, nil
}

// foreign is the fault of a path at which something stands that this user has
// not installed.
func (in *installer) foreign(p string) *bundle.Finding {
	f := bundle.Faultf(InstallConflict, p, "something else stands at %s, which no installed bundle owns", finding.QuoteMax(p, 200))
	if in.claim != nil {
		f.Message = fmt.Sprintf("%s is not replaced: the lockfile in the space lists the bundle %s, but this user has not installed it there",
			finding.QuoteMax(p, 200), finding.QuoteMax(in.claim.Version, 80))
		f.Hint = "installing version " + finding.QuoteMax(in.claim.Version, 80) + " once takes its files over"
	}
	return f
}

// unchanged reports whether a file of the space is still the installed one.
func (in *installer) unchanged(p string, st bundle.State, same func(string, []byte) bool) (bool, error) {
	if same == nil {
		return false, nil
	}
	data, err := readFile(in.space, p, st.Size, MaxFile)
	return err == nil && data != nil && hexSum(data) == st.SHA256.Hex() && same(p, data), err
}

// planManifest decides about the manifest in the space. stored tells that it is
// there already.
func (in *installer) planManifest() (stored bool, err error) {
	p := ManifestPath(in.r.ID)
	st, link, err := in.state(p)
	if err != nil {
		return false, err
	}
	switch {
	case link:
		in.add(bundle.Faultf(SymlinkFound, p, "a link stands at %s or on the way to it", finding.QuoteMax(p, 200)))
	case !st.Exists:
	case st.Regular && st.SHA256.Hex() == in.r.Report.sum:
		return true, nil
	case !st.Regular, in.own == nil:
		in.add(in.foreign(p))
	case in.own.ManifestHash != "" && st.SHA256.Hex() != in.own.ManifestHash:
		in.add(bundle.Faultf(UserModified, p, "the stored manifest was changed since it was installed"))
	}
	return false, nil
}

// planDropped decides about the files that only the installed version has.
func (in *installer) planDropped(same func(string, []byte) bool, step func(p, what string)) error {
	dropped := in.own.Files
	if in.head() && !in.own.isHead() { // its manifest stands where no file of this generation does
		dropped = append(slices.Clone(dropped), ManifestPath(in.r.ID))
	}
	for _, p := range dropped {
		if _, listed := in.lock.FileHashes[p]; listed || isKeyPath(p) {
			continue
		}
		st, link, err := in.state(p)
		if err != nil {
			return err
		}
		if !st.Exists && !link {
			continue
		}
		unchanged := false
		if st.Regular && !link {
			if p == ManifestPath(in.r.ID) {
				unchanged = st.SHA256.Hex() == in.own.ManifestHash
			} else if unchanged, err = in.unchanged(p, st, same); err != nil {
				return err
			}
		}
		if unchanged {
			in.gone = append(in.gone, p)
			step(p, "remove")
			continue
		}
		in.r.FilesKept = append(in.r.FilesKept, p)
		in.r.Note(UserModified, p, "the new version drops the file, but it was changed since it was installed")
		step(p, "keep")
	}
	return nil
}
