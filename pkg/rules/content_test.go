package rules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
)

// contentPlays show that what packages envelope and relay find of a file is
// told of its commit; what they find has its tests there.
var contentPlays = []play{
	{name: "good", make: func(w *world) { w.commit("c", put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n"))) }},
	{name: "envelope-parse", make: func(w *world) {
		w.commit("c", put("t-one/a.md", "---\nfrom: [\n---\n"))
	}, want: []string{
		"error envelope-parse t-one/a.md:2:1 @c: a value is missing, or begins with a character that no plain " +
			"value may begin with",
	}},
	{name: "no fence, in a thread", make: func(w *world) { w.commit("c", put("t-one/a.md", "Hello.\n")) }, want: []string{
		`error envelope-parse t-one/a.md:1:1 @c: line 1 is "Hello.", expected the opening fence --- | begin the ` +
			`file with a line that is exactly ---`,
	}},
	{name: "no fence, where no thread is", make: func(w *world) { w.commit("c", put("notes/a.md", "Hello.\n")) }},
	{name: "no fence, where a thread comes later in the push", make: func(w *world) {
		w.commit("b", put("t-two/a.md", "Hello.\n"))
		w.commit("c", put("t-two/b.md", turn("rig-a", "REQUEST", "What?\n", to("t-two"))))
	}, want: []string{
		`error envelope-parse t-two/a.md:1:1 @b: line 1 is "Hello.", expected the opening fence ---`,
	}},
	{name: "too large", make: func(w *world) {
		w.policy = "limits: {file: 64}\n"
		w.commit("c", put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n")))
	}, want: []string{
		"error envelope-parse t-one/a.md:1:1 @c: the file has 173 bytes, at most 64 are allowed",
	}},
	{name: "too large, which is a warning, and yet read", make: func(w *world) {
		w.policy = "limits: {file: 64}\nrules: {envelope-parse: warning}\n"
		w.commit("c", put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n",
			func(f *envelope.Fields) { f.BodyHash = bodyHash("No.\n") })))
	}, want: []string{
		"warning envelope-parse t-one/a.md:1:1 @c: the file has 173 bytes, at most 64 are allowed",
		"error body-hash t-one/a.md:8:12 @c: body_hash differs from the body's hash " +
			"c629a282f0a9012a9ff31002514bbd23083b60e9efa730fe91fa70909a1b75e4 | body_hash: " +
			"c629a282f0a9012a9ff31002514bbd23083b60e9efa730fe91fa70909a1b75e4",
	}},
	{name: "envelope-schema", make: func(w *world) {
		w.commit("c", put("t-one/a.md", turn("rig-a", "GOSSIP", "Yes.\n")))
	}, want: []string{
		`error envelope-schema t-one/a.md:6:7 @c: type is "GOSSIP", expected one of REQUEST, HANDOFF, RESPONSE, ` +
			`ACK, RESOLUTION, STATE, RESULT, RECOVERY, VERIFY, DECISIONS`,
	}},
	{name: "envelope-date", make: func(w *world) {
		w.commit("c", put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n", func(f *envelope.Fields) { f.Date = "2026-02-30" })))
	}, want: []string{
		"error envelope-date t-one/a.md:4:7 @c: date is not a real date: day 30 does not exist in 2026-02, expected " +
			"01 to 28",
	}},
	{name: "body-hash", make: func(w *world) {
		w.commit("c", put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n",
			func(f *envelope.Fields) { f.BodyHash = bodyHash("No.\n") })))
	}, want: []string{
		"error body-hash t-one/a.md:8:12 @c: body_hash differs from the body's hash " +
			"c629a282f0a9012a9ff31002514bbd23083b60e9efa730fe91fa70909a1b75e4",
	}},
	{name: "tldr-length", make: func(w *world) {
		w.commit("c", put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n",
			func(f *envelope.Fields) { f.TLDR = strings.Repeat("x", 281) })))
	}, want: []string{
		"warning tldr-length t-one/a.md:8:7 @c: tldr has 281 characters, at most 280 are shown everywhere",
	}},
	{name: "relay-suffix", make: func(w *world) {
		w.commit("c", put("t-one/a.md", turn("rig-relay", "ACK", "Yes.\n")))
	}, want: []string{
		"error commit-signed - @c: unsigned: the commit has no signature, expected that of an allowed signer | " +
			"sign it: git -c gpg.format=ssh rebase --no-ff --rebase-merges --gpg-sign <base>",
		`error relay-suffix t-one/a.md:2:7 @c: the sender "rig-relay" ends in -relay, but attested_by, ` +
			`attested_at, nonce are absent | send as a rig without -relay, or use rig-bridge relay`,
	}},
	{name: "relay-fields", make: func(w *world) {
		w.commit("c", signed(keyOp), put(relayAt, decision(nonce1, w.next(), func(f *envelope.Fields) { f.AttestedAt = "" })))
	}, want: []string{
		"error relay-fields t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md:12:1 @c: a relay lacks attested_at | " +
			"rig-bridge relay writes all of them: rig-bridge relay TYPE --thread t-one --in-reply-to FILE --tldr TEXT",
	}},
	{name: "relay-fields, by the types of the policy", make: func(w *world) {
		w.policy = "relay: {types: [ACK]}\n"
		w.relays("c")
	}, want: []string{
		`error relay-fields t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md:6:7 @c: a relay has type "DECISIONS", ` +
			`expected ACK`,
	}},
	{name: "what the caller asks besides", make: func(w *world) {
		w.judge = func(j *Judge, _ *Range) {
			j.Extra = func(e *envelope.Envelope) []finding.Finding {
				return []finding.Finding{{Rule: "envelope-schema", Severity: finding.Error, Line: 2, Col: 3,
					Message: "extra says no to " + e.From}}
			}
		}
		w.commit("c", put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n")))
	}, want: []string{
		"error envelope-schema t-one/a.md:2:3 @c: extra says no to rig-a",
	}},
}

func TestContent(t *testing.T) { run(t, contentPlays) }

// TestWideCommit: what is found of a commit of very many envelopes, which is
// read in portions, does not depend on how much is read together; neither does
// what is counted.
func TestWideCommit(t *testing.T) {
	found := map[int]string{}
	for _, portion := range []int{1, 2, 512} {
		w := newWorld(t)
		w.judge = func(j *Judge, _ *Range) { j.portion = portion }
		for i := range 6 {
			w.commit(fmt.Sprint(i), put(fmt.Sprintf("t-one/%d.md", i), turn("rig-a", "ACK", "Yes.\n",
				answers(fmt.Sprint(i, "\n")))))
		}
		w.commit("wide", wide(2*maxEntries)...)
		j, err := w.judgeAt(PreReceive)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(j.Commits, j.Envelopes, j.Total, j.More)
		for _, f := range j.Findings {
			text += "\n" + w.told(f)
		}
		found[portion] = text
	}
	if found[1] != found[512] || found[2] != found[512] || !strings.HasPrefix(found[1], fmt.Sprint(7, 6+2*maxEntries, 7)) {
		t.Errorf("one by one:\n%.2000s\ntogether:\n%.2000s", found[1], found[512])
	}
}

// wide brings many envelopes, of which some are not right.
func wide(n int) (edits []edit) {
	for i := range n {
		text := turn("rig-a", "ACK", fmt.Sprintf("Number %d.\n", i), to("t-wide"))
		if i%500 == 0 {
			text = strings.Replace(text, "type: ACK", "type: GOSSIP", 1)
		}
		edits = append(edits, put(fmt.Sprintf("t-wide/%05d.md", i), text))
	}
	return edits
}
