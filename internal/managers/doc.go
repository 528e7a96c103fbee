// Package managers holds tests of how the hooks get into a repository and out
// of it: by rig-hook install, by core.hooksPath, by pre-commit, lefthook and
// husky, from a module proxy, as a static program without a system around it.
// They run the real programs, each in a home directory of its own.
package managers
