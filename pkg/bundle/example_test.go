package bundle_test

import (
	"fmt"

	"github.com/rigward/rigward/pkg/bundle"
)

// A member's name must be safe on every system.
func ExampleCheckName() {
	fmt.Println(bundle.CheckName("agents/impl/agent.yaml") == nil)
	fmt.Println(bundle.CheckName("../outside").Code)
	// Output:
	// true
	// member-path
}
