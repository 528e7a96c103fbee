// Command bench measures what rigward costs beside a named peer that does the
// same work, in one run, and prints a table for docs/performance.md or its appendix.
//
//	go run ./internal/bench all -dir DIR -reference NODE_MODULES
//	go run ./internal/bench gates -n 1000,100000 -dir DIR
//
// Each benchmark says with -h what it takes. The exit status is 1 if it could
// not be measured, or if a bar that the benchmark holds was missed.
package main

import (
	"flag"
	"fmt"
	"os"
)

// A benchmark takes its own flags and prints its table to standard output.
type benchmark struct {
	name, what string
	run        func(flags *flag.FlagSet, args []string) error
}

// benchmarks are in the order of the document; `all` runs the rest.
var benchmarks []benchmark

func init() {
	benchmarks = []benchmark{
		{"all", "runs the others and writes their figures into docs/performance.md and its appendix", all},
		{"commit", "a commit through pre-commit and commit-msg", commits},
		{"gates", "a push through pre-receive, and check --all", gates},
		{"thread", "a push into one long thread", longThread},
		{"hosts", "a server of many repositories to which many push at once", hosts},
		{"action", "the step of the GitHub Action on a pull request", action},
		{"bundles", "rig-bundle on RigBundles", bundles},
		{"agentbundle", "rig-bundle on agent bundles", agentBundle},
		{"image", "rig-bundle image beside buildah", images},
		{"ryebundle", "verification of a Rye bundle", ryeBundle},
		{"client", "rig-bridge beside git and the reference client", client},
		{"control", "the control plane", control},
		{"attest", "what attestations add to a push", attested},
	}
}

func main() {
	if len(os.Args) > 1 {
		for _, b := range benchmarks {
			if b.name != os.Args[1] {
				continue
			}
			if err := b.run(flag.NewFlagSet(b.name, flag.ExitOnError), os.Args[2:]); err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", b.name, err)
				os.Exit(1)
			}
			return
		}
	}
	fmt.Fprintln(os.Stderr, "usage: bench NAME [flags], where NAME is one of")
	for _, b := range benchmarks {
		fmt.Fprintf(os.Stderr, "  %-12s %s\n", b.name, b.what)
	}
	os.Exit(2)
}
