package rig

import (
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// A vocabulary is a list of words that a field of a rig, an agent or a startup
// block may hold. It is open: a word that it does not know gives the note
// unknown-value, because a newer OpenRig may have brought it. Words that every
// release refuses stay refused.
type vocabulary struct {
	known   []string
	refused map[string]string // word to why
	any     bool              // any text passes, with the note
}

func words(known ...string) *vocabulary { return &vocabulary{known: known} }

// refusing returns the vocabulary with a word that is refused.
func (v *vocabulary) refusing(word, why string) *vocabulary {
	out := &vocabulary{known: v.known, refused: map[string]string{word: why}}
	for k, w := range v.refused {
		out.refused[k] = w
	}
	return out
}

func (v *vocabulary) has(s string) bool { return slices.Contains(v.known, s) }

// The vocabularies of OpenRig up to 0.6.8.
var (
	runtimes        = &vocabulary{known: []string{"claude-code", "codex", "pi", "omp", "jcode", "cursor", "terminal", "stub"}, any: true}
	restorePolicy   = words(restorePolicies...)
	executionModes  = words("interactive_resident").refusing("wake_on_demand", "is refused by every release")
	edgeKinds       = words("delegates_to", "spawned_by", "can_observe", "collaborates_with", "escalates_to")
	syncTriggers    = words("pre_compaction", "pre_shutdown", "manual", "milestone")
	repoKinds       = words("user", "project", "knowledge", "lab", "delivery")
	sourceModes     = words("fork", "rebuild", "agent_image")
	startupKinds    = words("file", "context_pack")
	orientations    = words("role")
	deliveryHints   = words("auto", "guidance_merge", "skill_install", "send_text")
	appliesOnWords  = words(appliesOn...)
	actionTypes     = words("slash_command", "send_text", "startup_proof").refusing("shell", "is refused by every release")
	actionPhases    = words("after_files", "after_ready")
	proofs          = words("authenticated", "none")
	guidanceMerges  = words("managed_block", "append")
	pluginSources   = words("local")
	pluginTypes     = words("claude", "codex", "auto")
	builtinPolicies = words("locked", "standard", "open", "yolo", "auto")
	blockRuntimes   = words("claude-code")
	blockFiles      = words("CLAUDE.md", "CLAUDE.local.md")
	serviceKinds    = words("compose")
	downPolicies    = words("leave_running", "down", "down_and_volumes")
	waitConditions  = words("healthy")

	compactionStrategies = words("default-compaction", "managed-compaction", "handover", "apprentice-handover",
		"harness_native", "pod_continuity").refusing("custom_prompt", "is refused by every release")
)

// sourceRefKinds are the kinds of a session source's ref, by mode. A kind that
// another mode has, or that OpenRig names only to refuse it, does not fit.
var sourceRefKinds = map[string]*vocabulary{
	"fork": words("native_id").refusing("artifact_set", "does not fit mode fork").
		refusing("image_name", "does not fit mode fork").refusing("artifact_path", "does not fit mode fork").
		refusing("name", "does not fit mode fork").refusing("last", "does not fit mode fork"),
	"rebuild": words("artifact_set").refusing("native_id", "does not fit mode rebuild").
		refusing("image_name", "does not fit mode rebuild").refusing("artifact_path", "does not fit mode rebuild").
		refusing("name", "does not fit mode rebuild").refusing("last", "does not fit mode rebuild"),
	"agent_image": words("image_name").refusing("artifact_set", "does not fit mode agent_image").
		refusing("native_id", "does not fit mode agent_image"),
}

// maxWord bounds a value that is taken for a word of a newer release.
const maxWord = 100

// isWord reports whether a value could be a word of a newer release: letters,
// digits and _ . : @ / -, at most 100 of them.
func isWord(s string) bool {
	if s == "" || len(s) > maxWord {
		return false
	}
	for i := range len(s) {
		if !alnum(s[i]) && strings.IndexByte("_.:@/-", s[i]) < 0 {
			return false
		}
	}
	return true
}

// word checks a string field against a vocabulary and returns its value.
func (c *checker) word(in *node, at, key string, required bool, v *vocabulary) (string, *node) {
	n, field := c.child(in, at, key, required)
	if n == nil {
		return "", nil
	}
	return c.wordNode(n, field, v), n
}

func (c *checker) wordNode(n *node, field string, v *vocabulary) string {
	if n.kind != kindString {
		c.wrongType(field, n, "a string")
		return ""
	}
	expected := "expected one of " + strings.Join(v.known, ", ")
	switch why := v.refused[n.text]; {
	case v.has(n.text):
	case why != "":
		c.wrongValue(field, n, "%s %s, %s", finding.QuoteMax(n.text, maxWord), why, expected)
	case isWord(n.text) || v.any && n.text != "":
		c.noteAt(NoteUnknownValue, field, n, "is %s, which is not known to this version, %s", finding.QuoteMax(n.text, maxWord), expected)
	default:
		c.wrongValue(field, n, "%s is unknown, %s", finding.QuoteMax(n.text, maxWord), expected)
	}
	return n.text
}

// hostPath reports whether the host that runs a rig resolves a path, so that
// it is never joined to a directory of the bundle: below OpenRig's own home or
// the user's, absolute, of another machine, or a URL.
func hostPath(p string) bool {
	if p == "~" || strings.HasPrefix(p, "~/") || strings.HasPrefix(p, "/") || strings.HasPrefix(p, `\`) {
		return true
	}
	if len(p) > 1 && alnum(p[0]) && p[0] > '9' && p[1] == ':' && (len(p) == 2 || p[2] == '/' || p[2] == '\\') {
		return true // a drive
	}
	scheme, rest, ok := strings.Cut(p, ":")
	return ok && (scheme == openrigHome || isScheme(scheme) && strings.HasPrefix(rest, "//"))
}

// openrigHome is the prefix of paths below OpenRig's home directory.
const openrigHome = "openrig-home"

// isScheme reports whether s is the scheme of a URL (RFC 3986 section 3.1).
func isScheme(s string) bool {
	for i := range len(s) {
		if !alnum(s[i]) && strings.IndexByte("+.-", s[i]) < 0 || i == 0 && s[i] <= '9' {
			return false
		}
	}
	return s != ""
}

// bundlePathRule is cleanRefRule for a path that the host may resolve instead.
// Absolute paths are refused there, as OpenRig does.
func bundlePathRule(s string) string {
	if hostPath(s) && !strings.HasPrefix(s, "/") && !strings.Contains(s, `\`) && bundle.Printable(s) &&
		!slices.Contains(strings.Split(s, "/"), "..") && len(s) <= 4096 && !strings.HasPrefix(s[1:], ":") {
		return ""
	}
	return cleanRefRule(s)
}
