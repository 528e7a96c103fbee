// Package docs holds the pages of the documentation that programs show.
package docs

import _ "embed"

//go:embed rules.md
var rules string

// Rules returns rules.md, in which each rule has a section by its name.
func Rules() string { return rules }
