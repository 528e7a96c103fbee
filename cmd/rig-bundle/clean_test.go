package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestNoSecretGoesOut: whatever a verb prints, as text, in JSON or as a message, goes
// through one function that leaves secrets out.
func TestNoSecretGoesOut(t *testing.T) {
	token := "glpat-" + "aB3dE6fG7hJ8kL9mN0pQ"
	var out, errs bytes.Buffer
	c := &call{Env: Env{Stdout: &out, Stderr: &errs}}
	c.print("env %s", token)
	c.object(map[string]string{"env": token, "kept": "glpat-short"})
	c.say("note: %s", token)
	if all := out.String() + errs.String(); strings.Contains(all, token) || strings.Count(all, "env") != 2 || !strings.Contains(all, `"kept":"glpat-short"`) && !strings.Contains(all, `"kept": "glpat-short"`) {
		t.Errorf("%s", all)
	}
}
