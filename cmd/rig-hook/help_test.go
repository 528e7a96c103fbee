package main

import "testing"

// TestCommandsRun: each command of the table does something.
func TestCommandsRun(t *testing.T) {
	for _, c := range program().Commands {
		if actions[c.Name] == nil && c.Name != "gerrit" {
			t.Errorf("%s does nothing", c.Name)
		}
	}
	if len(actions) != len(program().Commands)-1 {
		t.Errorf("%d actions for %d commands", len(actions), len(program().Commands))
	}
}
