// Command release makes what a release has besides programs and packages: lists
// of what its files were built from, and an image of its programs. Nothing of it
// depends on the machine, the time or a network. .goreleaser.yaml runs it.
//
//	release sbom VERSION FILE DOCUMENT
//	release image VERSION SECONDS DIR FILE
package main

import (
	"fmt"
	"os"
	"strconv"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 4 && args[0] == "sbom":
		return writeSBOM(args[1], args[2], args[3])
	case len(args) == 5 && args[0] == "image":
		seconds, err := strconv.ParseInt(args[2], 10, 64)
		if err != nil {
			return fmt.Errorf("the time %q is not a number of seconds", args[2])
		}
		return writeImage(args[1], seconds, args[3], args[4])
	}
	return fmt.Errorf("%q: sbom VERSION FILE DOCUMENT or image VERSION SECONDS DIR FILE is expected", args)
}
