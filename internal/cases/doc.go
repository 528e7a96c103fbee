// Package cases guards docs/cases.md, the table that leads from every failure
// of similar tools that rigward must not repeat to the test that plays it.
package cases
