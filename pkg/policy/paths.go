package policy

import (
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/rigward/rigward/pkg/envelope"
)

// The paths that rigward has of its own in a repository, from its top, with slashes.
const (
	// Dir is the directory that they are in.
	Dir = ".bridge"
	// Path is where a repository keeps its policy.
	Path = Dir + "/policy.yaml"
	// Signers is where it keeps its signers, unless the policy names another file.
	Signers = Dir + "/allowed_signers"
	// Revoked is where it keeps its revocations, if the policy names what hints name.
	Revoked = Dir + "/revoked_keys"
	// CloneConfig is where a clone keeps its own configuration (docs/spec/client.md#files).
	CloneConfig = Dir + "/config.yaml"
)

// CloneConfigs returns the paths at which a clone's own configuration may lie: at the top,
// and in the root of the threads.
func (p *Policy) CloneConfigs() []string {
	if p.Root == "" {
		return []string{CloneConfig}
	}
	return []string{CloneConfig, p.Under(CloneConfig)}
}

// CloneConfig returns the path of CloneConfigs that a path is, or lies below; ok reports
// whether there is one.
func (p *Policy) CloneConfig(path string) (at string, ok bool) {
	if !strings.Contains(path, CloneConfig) {
		return "", false
	}
	for _, at := range p.CloneConfigs() {
		if path == at || strings.HasPrefix(path, at+"/") {
			return at, true
		}
	}
	return "", false
}

// Guards reports whether a path is that of the policy, the signers or the
// revocations: whoever changes it changes who is trusted.
func (p *Policy) Guards(path string) bool {
	return path == Path || path == p.Signers || p.Revoked != "" && path == p.Revoked
}

// TakesOutside reports whether a path that is not an envelope may be changed.
func (p *Policy) TakesOutside(path string) bool { return !p.OutsideDeny || p.ignored(path) }

// Candidate reports whether a path is one at which an envelope may lie
// (docs/spec/envelope.md#where, and the policy's root and ignore).
func (p *Policy) Candidate(path string) bool {
	_, ok := p.Below(path)
	return ok && !p.ignored(path)
}

// Below cuts the policy's root off a path; ok reports whether the rest has the
// form of an envelope path.
func (p *Policy) Below(path string) (rest string, ok bool) {
	rest = path
	if p.Root != "" {
		if rest, ok = strings.CutPrefix(path, p.Root+"/"); !ok {
			return "", false
		}
	}
	return rest, envelope.IsEnvelopePath(rest)
}

// ThreadOf returns the thread directory of an envelope path.
func (p *Policy) ThreadOf(path string) string {
	rest, _ := p.Below(path)
	thread, _, _ := strings.Cut(rest, "/")
	return thread
}

// ignored reports whether the policy says that a path is never an envelope
// (envelopes.ignore).
func (p *Policy) ignored(path string) bool {
	for _, glob := range p.Ignore {
		if ok, _ := doublestar.Match(glob, path); ok {
			return true
		}
	}
	return false
}

// Under puts the policy's root before a path.
func (p *Policy) Under(path string) string {
	if p.Root == "" {
		return path
	}
	return p.Root + "/" + path
}

// TrustPaths returns the paths of policy, signers and revocation file.
func (p *Policy) TrustPaths() []string {
	paths := []string{Path, p.Signers}
	if p.Revoked != "" {
		paths = append(paths, p.Revoked)
	}
	return paths
}
