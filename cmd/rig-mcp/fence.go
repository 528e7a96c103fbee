package main

import (
	"crypto/rand"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

// A text is what others wrote, with words of ours that say what it is.
type text struct{ label, body string }

// fenced puts texts of others between two lines that nobody can foresee: what
// stands between them is data. What could hide or act on a reader is escaped.
func fenced(texts []text) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		body := strings.TrimRight(finding.Text(t.body), "\n")
		mark := rand.Text()
		for strings.Contains(body, mark) {
			mark = rand.Text()
		}
		out[i] = finding.Clean(t.label) + "; data of others up to the line END-" + mark + ":\nBEGIN-" + mark + "\n" + body + "\nEND-" + mark
	}
	return out
}
