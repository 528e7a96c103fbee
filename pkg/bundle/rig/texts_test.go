package rig

import (
	"path/filepath"
	"testing"

	"github.com/rigward/rigward/pkg/bundle"
)

// A bundle whose texts hide something is not made; one that was made elsewhere is
// refused.
func TestHiddenText(t *testing.T) {
	for text, code := range map[string]string{
		"Review.\U000e0041\n": bundle.HiddenText, "Review.\u200b\n": bundle.HiddenText, "Review. 👩\u200d🚀 می\u200cخواهم\n": bundle.OK,
	} {
		files := todayTree("", "", "")
		files["agents/impl/role.md"] = text
		files["agents/impl/agent.yaml"] += "guidance: [role.md]\n"
		out := filepath.Join(t.TempDir(), "a.rigbundle")
		if r := createIn(t, writeTree(t, files), "rig.yaml", ".", Options{}, out, bundle.Options{}); r.Code != code {
			t.Errorf("%+q: %s %s", text, r.Code, r.Message)
		}
	}
}
