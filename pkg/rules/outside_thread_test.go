package rules

import "testing"

const deny = "envelopes: {outside: deny}\n"

var outsidePlays = []play{
	{name: "allowed by itself", make: func(w *world) {
		w.commit("c", put("README.md", "x\n"), put("src/main.go", "x\n"))
	}},
	{name: "a file at the top", make: func(w *world) {
		w.policy = deny
		w.commit("c", put("README.md", "x\n"))
	}, want: []string{
		"error outside-thread README.md @c: the path lies outside threads, which the policy denies " +
			"(envelopes.outside: deny) | git rm --cached -- README.md",
	}},
	{name: "a name that a shell would take apart", make: func(w *world) {
		w.policy = deny
		w.commit("c", put("a b/c.txt", "x\n"))
	}, want: []string{
		`error outside-thread "a b/c.txt" @c: the path lies outside threads, which the policy denies ` +
			`(envelopes.outside: deny) | git rm --cached -- 'a b/c.txt'`,
	}},
	{name: "deleted", make: func(w *world) {
		w.commit("b", put("src/main.go", "x\n"))
		w.accept()
		w.policy = deny
		w.commit("c", del("src/main.go"))
	}, want: []string{
		"error outside-thread src/main.go @c: the path lies outside threads, which the policy denies " +
			"(envelopes.outside: deny) | git rm --cached -- src/main.go",
	}},
	{name: "no envelope in a directory that is not a thread", make: func(w *world) {
		w.policy = deny
		w.commit("c", put("notes/a.md", "Notes.\n"))
	}, want: []string{
		"error outside-thread notes/a.md @c: the path lies outside threads, which the policy denies " +
			"(envelopes.outside: deny) | git rm --cached -- notes/a.md",
	}},
	{name: "a note that becomes one beside an envelope", make: func(w *world) {
		w.policy = deny
		w.commit("b", put("t-two/a.md", "Notes.\n"))
		w.commit("c", put("t-two/b.md", turn("rig-a", "REQUEST", "What?\n", to("t-two"))))
	}, want: []string{
		"error outside-thread t-two/a.md @b: the path lies outside threads, which the policy denies " +
			"(envelopes.outside: deny) | git rm --cached -- t-two/a.md",
		`error envelope-parse t-two/a.md:1:1 @b: line 1 is "Notes.", expected the opening fence --- | begin the ` +
			`file with a line that is exactly ---`,
	}},
	{name: "an envelope that is deleted, which append-only tells", make: func(w *world) {
		w.policy = deny
		w.commit("c", del(request))
	}, want: []string{
		"error append-only t-one/REQUEST.md @c: an accepted envelope is deleted | write a new envelope instead; " +
			"to take the change back: git rebase --onto <c>~1 <c>",
	}},
	{name: "an envelope", make: func(w *world) {
		w.policy = deny
		w.commit("c", put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n")))
	}},
	{name: "what the policy ignores", make: func(w *world) {
		w.policy = "envelopes: {outside: deny, ignore: ['docs/**']}\n"
		w.commit("c", put("docs/a.txt", "x\n"))
	}},
	{name: "the signers file, which has its own rule", make: func(w *world) {
		w.policy = "envelopes: {outside: deny, ignore: []}\n"
		w.commit("c", put(".bridge/allowed_signers", signers+"\n"), signed(keyOp))
	}},
	{name: "off", make: func(w *world) {
		w.policy = deny + "rules: {outside-thread: off}\n"
		w.commit("c", put("README.md", "x\n"))
	}},
}

func TestOutsideThread(t *testing.T) { run(t, outsidePlays) }
