package rig_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/rig"
)

// What is wrong with a bundle is in the result; an error says that it could not be read.
func ExampleFormat_Verify() {
	file := strings.NewReader("not an archive")
	r, err := rig.Format{}.Verify(context.Background(), bundle.Input{Name: "demo.rigbundle", File: file, Size: file.Size()}, bundle.Options{})
	fmt.Println(err, r.OK(), r.Code)
	// Output: <nil> false container-unknown
}
