package gitrepo_test

import (
	"errors"
	"fmt"

	"github.com/rigward/rigward/pkg/gitrepo"
)

// A ref is named in full, so that no other one can be meant.
func ExampleCheckRefName() {
	fmt.Println(gitrepo.CheckRefName("refs/heads/main"))
	err := gitrepo.CheckRefName("main")
	fmt.Println(err, errors.Is(err, gitrepo.ErrInvalid))
	// Output:
	// <nil>
	// "main" is not a full ref name true
}
