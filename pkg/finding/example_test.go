package finding_test

import (
	"fmt"

	"github.com/rigward/rigward/pkg/finding"
)

// A name that a pusher chose is shown so that it cannot act on a terminal or a shell.
func Example() {
	name := "notes/\x1b[2Jrm -rf;.md"
	fmt.Println(finding.Quote(name))
	fmt.Println("git mv -- " + finding.Word("it's here.md") + " new.md")
	// Output:
	// "notes/\x1b[2Jrm -rf;.md"
	// git mv -- 'it'\''s here.md' new.md
}
