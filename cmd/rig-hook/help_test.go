package main

import (
	"strings"
	"testing"
)

// TestHelp: each command has a help that names its flags, and none besides.
func TestHelp(t *testing.T) {
	for name, c := range commands {
		var told []string
		for line := range strings.Lines(helps[name]) {
			if flag, ok := strings.CutPrefix(line, "  --"); ok {
				word := strings.Fields(flag)
				if len(word) > 1 && strings.ToUpper(word[1]) == word[1] {
					word[0] += "="
				}
				told = append(told, "--"+word[0])
			}
		}
		for _, f := range strings.Fields(c.flags) {
			if !strings.Contains(" "+strings.Join(told, " ")+" ", " "+f+" ") {
				t.Errorf("%s: the help lacks %s, it has %q", name, f, told)
			}
		}
		if len(told) != len(strings.Fields(c.flags)) {
			t.Errorf("%s: the help has %q, the flags are %s", name, told, c.flags)
		}
		if !strings.HasPrefix(helps[name], "usage: rig-hook "+name) {
			t.Errorf("%s: %.60q", name, helps[name])
		}
	}
}
