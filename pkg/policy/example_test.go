package policy_test

import (
	"fmt"

	"github.com/rigward/rigward/pkg/policy"
)

// A policy file is read over the defaults; what is wrong with it has a place.
func ExampleDecode() {
	p, err := policy.Decode([]byte("version: 1\nprotect: [main, 'release-*']\nrules: {divergence: error}\n"), policy.FromRepository)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Level("divergence"), p.Level("tldr-length"))
	fmt.Println(p.Protected("refs/heads/release-1", "refs/heads/main"))
	fmt.Println(p.Candidate("thread/REQUEST.md"), p.Candidate("docs/a/b.md"))

	// The repository's own file may not switch off what protects everybody.
	_, err = policy.Decode([]byte("version: 1\nrules: {append-only: off}\n"), policy.FromRepository)
	e, _ := policy.DecodeError(err)
	fmt.Printf("%d:%d: %s\n", e.Line, e.Col, e.Message)
	// Output:
	// error warning
	// true
	// true false
	// 2:22: rule append-only cannot be switched off by the repository itself
}
