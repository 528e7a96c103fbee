package relay

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
)

// Rules that CheckContent judges.
const (
	RuleSuffix = "relay-suffix"
	RuleFields = "relay-fields"
	RuleNonce  = "relay-nonce"
)

// DefaultTypes are the types that an envelope with attestation may have.
func DefaultTypes() []string { return []string{"DECISIONS", "RESPONSE", "ACK"} }

// CheckContent judges what an envelope alone shows (docs/spec/relay.md#content),
// and the form of the nonce. types are the policy's relay.types;
// without any, DefaultTypes. A value that violates the schema is told by
// envelope.Parse and not again here. The findings are sorted by place.
func CheckContent(e *envelope.Envelope, types ...string) []finding.Finding {
	if !e.IsRelay() {
		return nil
	}
	if len(types) == 0 {
		types = DefaultTypes()
	}
	var fs []finding.Finding
	add := func(rule, key, message, hint string) {
		line, col := e.Place(key)
		fs = append(fs, finding.Finding{Rule: rule, Severity: finding.Error, Path: e.Path, Line: line, Col: col, Message: message, Hint: hint})
	}
	present, absent := split(e, envelope.AttestationFields())
	relay := strings.HasSuffix(e.From, envelope.RelaySuffix)
	switch {
	case relay && len(present) == 0:
		add(RuleSuffix, "from", fmt.Sprintf("the sender %s ends in %s, but %s are absent", finding.QuoteMax(e.From, 60), envelope.RelaySuffix, strings.Join(absent, ", ")), "send as a rig without "+envelope.RelaySuffix+", or use rig-bridge relay")
	case !relay && e.From != "":
		add(RuleSuffix, "from", fmt.Sprintf("the sender %s does not end in %s, but has %s", finding.QuoteMax(e.From, 60), envelope.RelaySuffix, strings.Join(present, ", ")), "remove "+strings.Join(present, ", ")+", or relay as "+suggestion(e.From))
	}
	if len(present) > 0 {
		if _, missing := split(e, append(envelope.AttestationFields(), "in_reply_to", "body_hash")); len(missing) > 0 {
			hint := "rig-bridge relay writes all of them: " + Command(e.Path)
			if slices.Contains(missing, "body_hash") {
				hint = "body_hash: \"" + e.Hash + "\""
			}
			add(RuleFields, missing[0], "a relay lacks "+strings.Join(missing, ", "), hint)
		}
		if e.Conforms("type") && !slices.Contains(types, e.Type) {
			add(RuleFields, "type", "a relay has type "+finding.Quote(e.Type)+", expected "+oneOf(types), "relay one of these: "+Command(e.Path))
		}
		if e.Conforms("nonce") && !ValidNonce(e.Nonce) {
			add(RuleNonce, "nonce", "the nonce "+finding.QuoteMax(e.Nonce, 64)+" is neither "+nonceForm, "rig-bridge relay makes one: "+Command(e.Path))
		}
	}
	finding.Sort(fs)
	return fs
}

// Command is how rig-bridge makes a relay in the thread of a file: one for its directory, else with a word in its place.
func Command(file string) string {
	thread := "THREAD"
	if dir := path.Base(path.Dir(file)); file != "" && dir != "." {
		thread = finding.Word(dir)
	}
	return "rig-bridge relay TYPE --thread " + thread + " --in-reply-to FILE --tldr TEXT"
}

// split sorts keys by whether the front matter has them.
func split(e *envelope.Envelope, keys []string) (present, absent []string) {
	for _, k := range keys {
		if e.Has(k) {
			present = append(present, k)
		} else {
			absent = append(absent, k)
		}
	}
	return present, absent
}

// suggestion is the relay id of a sender, if it has one.
func suggestion(from string) string {
	if id := from + envelope.RelaySuffix; envelope.ValidRigID(id) && len(id) <= 60 {
		return id
	}
	return "a rig ending in " + envelope.RelaySuffix
}

func oneOf(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
