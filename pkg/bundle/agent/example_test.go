package agent_test

import (
	"fmt"

	"github.com/rigward/rigward/pkg/bundle/agent"
)

// A reference names where a bundle comes from, and pins its bytes.
func ExampleParseRef() {
	ref, _ := agent.ParseRef("gh:team/agents@v1.2.0:impl.tar.gz")
	fmt.Println(ref.Owner, ref.Repo, ref.Tag, ref.Asset)
	_, fault := agent.ParseRef("https://example.com/impl.tar.gz")
	fmt.Println(fault.Code)
	// Output:
	// team agents v1.2.0 impl.tar.gz
	// ref-scheme
}
