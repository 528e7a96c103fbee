package image

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/rigward/rigward/pkg/finding"
)

// A Location says where an image is: in a registry, in a directory that is an OCI layout, or in a file that docker save
// or skopeo wrote.
type Location struct {
	Ref     name.Reference // of a registry; nil if one of the others is set
	Layout  string         // path of an OCI layout
	Archive string         // path of a docker archive
	Tag     string         // of the image in the layout or archive, "" for the only one
}

const (
	layoutScheme   = "oci:"
	archiveScheme  = "docker-archive:"
	registryScheme = "oci://" // as others write a reference that might be taken for a path
)

var tagPattern = regexp.MustCompile(`\A[A-Za-z0-9_][A-Za-z0-9._-]{0,127}\z`)

// ParseLocation reads oci:DIR[:TAG], docker-archive:FILE[:TAG] or a registry's [oci://]NAME[:TAG][@DIGEST]. abs makes a
// path one that can be opened.
func ParseLocation(s string, abs func(string) string) (Location, error) {
	return parseLocation(s, abs, func(path string) bool {
		_, err := os.Lstat(path)
		return err == nil
	})
}

// parseLocation is ParseLocation; there reports whether something is at a path that abs gave.
func parseLocation(s string, abs func(string) string, there func(string) bool) (Location, error) {
	if rest, ok := strings.CutPrefix(s, registryScheme); ok {
		return registryLocation(rest)
	}
	if rest, ok := strings.CutPrefix(s, layoutScheme); ok {
		path, tag := splitTag(rest, abs, there)
		if path == "" {
			return Location{}, fmt.Errorf("%s names no directory, oci:DIR[:TAG] is expected", finding.QuoteMax(s, 200))
		}
		return Location{Layout: path, Tag: tag}, nil
	}
	if rest, ok := strings.CutPrefix(s, archiveScheme); ok {
		path, tag := splitTag(rest, abs, there)
		if path == "" {
			return Location{}, fmt.Errorf("%s names no file, docker-archive:FILE[:TAG] is expected", finding.QuoteMax(s, 200))
		}
		return Location{Archive: path, Tag: tag}, nil
	}
	return registryLocation(s)
}

func registryLocation(s string) (Location, error) {
	ref, err := name.ParseReference(s)
	if err != nil {
		return Location{}, fmt.Errorf("%s is not the name of an image, NAME[:TAG][@sha256:DIGEST], oci:DIR or docker-archive:FILE is expected", finding.QuoteMax(s, 200))
	}
	return Location{Ref: ref}, nil
}

// splitTag takes what follows a colon for a tag, NAME:TAG in a docker archive: that behind the first path that is there, or
// what follows the last colon. A path that is there as a whole has none.
func splitTag(s string, abs func(string) string, there func(string) bool) (path, tag string) {
	if s == "" {
		return "", ""
	}
	if there(abs(s)) {
		return abs(s), ""
	}
	first := len(filepath.VolumeName(s))
	for i := first; i < len(s); i++ {
		if s[i] == ':' && i > first {
			if there(abs(s[:i])) {
				return abs(s[:i]), s[i+1:]
			}
		}
	}
	i := strings.LastIndexByte(s, ':')
	if i <= first || !tagPattern.MatchString(s[i+1:]) {
		return abs(s), ""
	}
	return abs(s[:i]), s[i+1:]
}

// IsReference reports whether s can only be the reference of a registry: its host has a dot, a port or is localhost, and
// it begins with oci:// or ends in a tag or digest.
func IsReference(s string) bool {
	s, marked := strings.CutPrefix(s, registryScheme)
	host, rest, ok := strings.Cut(s, "/")
	if !ok || host != "localhost" && !strings.ContainsAny(host, ".:") || strings.HasPrefix(host, ".") || strings.HasSuffix(host, ":") {
		return false
	}
	if marked {
		_, err := name.ParseReference(s)
		return err == nil
	}
	_, err := name.ParseReference(s, name.StrictValidation)
	return err == nil && strings.ContainsAny(rest, ":@")
}
