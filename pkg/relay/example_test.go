package relay_test

import (
	"bytes"
	"fmt"
	"time"

	"github.com/rigward/rigward/pkg/relay"
)

// A nonce is made of a time and of random bytes.
func ExampleNewNonce() {
	nonce, err := relay.NewNonce(time.Unix(1767607200, 0), bytes.NewReader(make([]byte, 64)))
	fmt.Println(relay.ValidNonce(nonce), err)
	fmt.Println(relay.ValidNonce("again"))
	// Output:
	// true <nil>
	// false
}
