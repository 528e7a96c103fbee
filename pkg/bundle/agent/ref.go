package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// A Ref says where a bundle is (docs/spec/agentbundle.md#references): a file, or an
// asset of a release, which is looked up in a mirror; Resolve fetches nothing.
type Ref struct {
	Path string // of a file; empty for an asset

	Owner, Repo, Tag string
	Asset            string // empty: the target chooses

	SHA256 string // of the file's bytes, lower-case hex; empty if not given
}

var (
	refOwner  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\A[A-Za-z0-9._-]+\z`) })
	refDigest = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\Asha256=[0-9A-Fa-f]{64}\z`) })
)

// HasScheme reports whether s can only be a reference: it begins with file: or
// gh:, in any case, or ends in a digest.
func HasScheme(s string) bool {
	scheme, _, _ := strings.Cut(s, ":")
	return strings.EqualFold(scheme, "file") || strings.EqualFold(scheme, "gh") || strings.Contains(s, "#sha256=")
}

// OnlyRef reports whether s, which names no file, is a reference with a mistake
// in it rather than a path: it has another scheme, or a fragment. A drive is no
// scheme here.
func OnlyRef(s string) bool {
	_, f := ParseRef(s)
	return f != nil && (f.Code == codeRefScheme || f.Code == codeRefDigest) && (len(s) < 2 || s[1] != ':')
}

// ParseRef reads PATH, file:PATH, file:///PATH or gh:OWNER/REPO@TAG[:ASSET],
// each with an optional #sha256=DIGEST. It neither trims nor looks at files.
// The finding, if any, is ref-syntax, ref-scheme or ref-digest.
func ParseRef(s string) (Ref, *bundle.Finding) {
	text, fragment, hasFragment := s, "", false
	if i := strings.LastIndexByte(s, '#'); i >= 0 {
		text, fragment, hasFragment = s[:i], s[i+1:], true
	}
	var r Ref
	var f *bundle.Finding
	scheme, rest := "", text
	if i := strings.IndexAny(text, ":/"); i >= 0 && text[i] == ':' {
		scheme, rest = text[:i], text[i+1:]
	}
	switch {
	case text == "":
		f = refFinding(codeRefSyntax, s, "is empty", "")
	case strings.ContainsRune(text, 0):
		f = refFinding(codeRefSyntax, s, "holds a NUL", "")
	case rest == text:
		r.Path = text
	case scheme == "":
		f = refFinding(codeRefSyntax, s, "begins with a colon", "")
	case strings.EqualFold(scheme, "file"):
		f = r.parseFile(s, rest)
	case strings.EqualFold(scheme, "gh"):
		f = r.parseGitHub(s, rest)
	case len(scheme) == 1:
		f = refFinding(codeRefScheme, s, "begins with a drive letter, which reads as a scheme", "file:///"+rest)
	default:
		f = refFinding(codeRefScheme, s, "has a scheme other than file: and gh:", "download the bundle and give its path")
	}
	if f == nil && hasFragment {
		if !refDigest().MatchString(fragment) {
			f = refFinding(codeRefDigest, s, "ends in a fragment that is no SHA-256 digest", "#sha256= and 64 hex digits, or %23 for a # in the name of a file: reference")
		} else {
			r.SHA256 = strings.ToLower(strings.TrimPrefix(fragment, "sha256="))
		}
	}
	if f != nil {
		return Ref{}, f
	}
	return r, nil
}

func refFinding(code, ref, what, hint string) *bundle.Finding {
	if hint != "" && code == codeRefScheme {
		hint = finding.Path(hint)
	}
	return &bundle.Finding{Code: code, Hint: hint,
		Message: fmt.Sprintf("the reference %s %s, PATH, file:PATH or gh:OWNER/REPO@TAG[:ASSET] is expected", finding.QuoteMax(ref, 200), what)}
}

func (r *Ref) parseFile(ref, rest string) *bundle.Finding {
	if host, ok := strings.CutPrefix(rest, "//"); ok {
		if !strings.HasPrefix(host, "/") {
			return refFinding(codeRefSyntax, ref, "names a host", "")
		}
		rest = host
	}
	p, err := url.PathUnescape(rest)
	switch {
	case err != nil:
		return refFinding(codeRefSyntax, ref, "has a % without two hex digits", "write %25 for a percent sign")
	case p == "":
		return refFinding(codeRefSyntax, ref, "has no path", "")
	case strings.ContainsRune(p, 0):
		return refFinding(codeRefSyntax, ref, "holds a NUL", "")
	}
	r.Path = p
	return nil
}

func (r *Ref) parseGitHub(ref, rest string) *bundle.Finding {
	owner, rest, ok := strings.Cut(rest, "/")
	if !ok {
		return refFinding(codeRefSyntax, ref, "has no OWNER/REPO", "")
	}
	repo, rest, ok := strings.Cut(rest, "@")
	if !ok {
		return refFinding(codeRefSyntax, ref, "has no @TAG, and there are no floating versions", "")
	}
	tag, asset, hasAsset := strings.Cut(rest, ":")
	for _, c := range []string{owner, repo} {
		if !refOwner().MatchString(c) || c == "." || c == ".." {
			return refFinding(codeRefSyntax, ref, "has an OWNER or REPO of other characters than letters, digits, dot, _ and -", "")
		}
	}
	bad := func(s string) bool {
		return s == "" || s == "." || strings.Contains(s, "..") || strings.ContainsAny(s, `\:`) || strings.ContainsFunc(s, unicode.IsControl)
	}
	if bad(tag) || slices.ContainsFunc(strings.Split(tag, "/"), bad) {
		return refFinding(codeRefSyntax, ref, "has a malformed TAG", "")
	}
	if hasAsset && (bad(asset) || strings.Contains(asset, "/")) {
		return refFinding(codeRefSyntax, ref, "has a malformed ASSET", "")
	}
	r.Owner, r.Repo, r.Tag, r.Asset = owner, repo, tag, asset
	return nil
}

// String is a form that ParseRef reads as r.
func (r Ref) String() string {
	s := r.Path
	if s != "" {
		s = "file:" + strings.NewReplacer("%", "%25", "#", "%23").Replace(s)
		if strings.HasPrefix(r.Path, "//") {
			s = "file://" + strings.TrimPrefix(s, "file:")
		}
	} else {
		s = "gh:" + r.Owner + "/" + r.Repo + "@" + r.Tag
		if r.Asset != "" {
			s += ":" + r.Asset
		}
	}
	if r.SHA256 != "" {
		s += "#sha256=" + r.SHA256
	}
	return s
}

// Resolve returns the path of the file that r names. An asset is looked up
// below mirror/OWNER/REPO/TAG; if none is named, target chooses among the
// bundles there, or without a target the only one that is there. The finding
// is ref-not-found or ref-ambiguous, the error that a directory cannot be read.
func (r Ref) Resolve(mirror string, target *Target) (string, *bundle.Finding, error) {
	if r.Path != "" {
		return r.Path, nil, nil
	}
	if mirror == "" {
		return "", &bundle.Finding{Code: RefNotFound,
			Message: fmt.Sprintf("%s is looked up in a mirror, and none is given", finding.QuoteMax(r.String(), 200)),
			Hint:    "--mirror DIR, with the release's files in DIR/" + finding.Path(r.Owner+"/"+r.Repo+"/"+r.Tag) + "/, or name an asset and pin it with #sha256=, and it is fetched"}, nil
	}
	dir := filepath.Join(mirror, r.Owner, r.Repo, filepath.FromSlash(r.Tag))
	if r.Asset != "" {
		p := filepath.Join(dir, r.Asset)
		switch info, err := os.Stat(p); {
		case err == nil && info.Mode().IsRegular():
			return p, nil, nil
		case err == nil || errors.Is(err, fs.ErrNotExist):
			return "", r.notFound("no file " + finding.QuoteMax(r.Asset, 200)), nil
		default:
			return "", nil, err
		}
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", r.notFound("no such release"), nil
	}
	if err != nil {
		return "", nil, err
	}
	suffix := ""
	if target != nil {
		suffix = "-" + target.join("-")
	}
	var stems []string
	files := map[string]string{}
	for _, ext := range []string{extGzip, extZstd} {
		for _, e := range entries {
			stem, ok := strings.CutSuffix(e.Name(), ext)
			if !ok || !strings.HasPrefix(e.Name(), filePrefix) || !strings.HasSuffix(stem, suffix) || files[stem] != "" {
				continue
			}
			p := filepath.Join(dir, e.Name())
			if info, err := os.Stat(p); err != nil || !info.Mode().IsRegular() {
				continue
			}
			files[stem] = p
			stems = append(stems, stem)
		}
	}
	slices.Sort(stems)
	switch len(stems) {
	case 1:
		return files[stems[0]], nil, nil
	case 0:
		if target != nil {
			return "", r.notFound("no bundle for " + target.String()), nil
		}
		return "", r.notFound("no bundle"), nil
	}
	return "", &bundle.Finding{Code: codeRefAmbiguous,
		Message: fmt.Sprintf("%d bundles fit %s, one is expected", len(stems), finding.QuoteMax(r.String(), 200)),
		Hint:    "name the asset: " + finding.QuoteMax("gh:"+r.Owner+"/"+r.Repo+"@"+r.Tag+":"+filepath.Base(files[stems[0]]), 400)}, nil
}

func (r Ref) notFound(what string) *bundle.Finding {
	return &bundle.Finding{Code: RefNotFound,
		Message: fmt.Sprintf("the mirror has %s at %s/%s/%s", what, r.Owner, r.Repo, finding.Path(r.Tag))}
}
