package envelope_test

import (
	"fmt"

	"github.com/rigward/rigward/pkg/envelope"
)

// An envelope is rendered, read again, and judged.
func Example() {
	file, err := envelope.Render(envelope.Fields{
		From: "rig-a", To: []string{"rig-b"}, Date: "2026-01-05", Status: "▶ Asking", Type: "REQUEST", Thread: "release",
		BodyHash: envelope.BodyHash([]byte("Ready?\n")), Body: []byte("Ready?\n"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	e, found := envelope.Parse(file, envelope.Options{Path: "release/REQUEST.md", Mode: 0o100644})
	fmt.Println(e.From, e.To, e.Type, len(found))

	changed := append(file, "At once!\n"...)
	_, found = envelope.Parse(changed, envelope.Options{Path: "release/REQUEST.md", Mode: 0o100644})
	fmt.Println(found[0].Rule, found[0].Line)
	// Output:
	// rig-a [rig-b] REQUEST 0
	// body-hash 8
}
