package yamlprofile_test

import (
	"regexp"
	"testing"

	"github.com/rigward/rigward/pkg/yamlprofile"
)

// What a plain scalar is by the types of YAML 1.1 (yaml.org/type) and as PyYAML
// reads them, apart from strings. No reader takes a dot without any digit for a
// number.
var types11 = map[string]*regexp.Regexp{
	"a boolean":          regexp.MustCompile(`^(?:[yYnN]|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF|true|True|TRUE|false|False|FALSE)$`),
	"null":               regexp.MustCompile(`^(?:~|null|Null|NULL|)$`),
	"a mark of its own":  regexp.MustCompile(`^(?:=|<<)$`),
	"an integer":         regexp.MustCompile(`^[-+]?(?:0b[01_]+|0[0-7_]*|0x[0-9a-fA-F_]+|[1-9][0-9_]*(?::[0-5]?[0-9])*)$`),
	"a number":           regexp.MustCompile(`^[-+]?(?:[0-9][0-9_]*\.(?:[0-9][0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?$`),
	"a number in 60ths":  regexp.MustCompile(`^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*$`),
	"no finite number":   regexp.MustCompile(`^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$`),
	"a date":             regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`),
	"a date with a time": regexp.MustCompile(`^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::?[0-9]{2})?))?$`),
}

// FuzzInYAML11: no plain scalar that YAML 1.1 takes for anything but a string
// passes as one that has one reading.
func FuzzInYAML11(f *testing.F) {
	for _, s := range []string{"yes", "N", "oN", "0b1_0", "-0x_F", "1_000", "12:30", "190:20:30.15", "2026-05-15", "2026-5-5 1:02:03.4 +5", ".", ".e0", "._1e5", "<<", "~", "0_", "1e3", "a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		kind := yamlprofile.InYAML11(s)
		for what, form := range types11 {
			if form.MatchString(s) && kind == "" && yamlprofile.Resolve(s) == yamlprofile.String {
				t.Errorf("%q is %s in YAML 1.1", s, what)
			}
		}
		if kind != "" && yamlprofile.Resolve(s) != yamlprofile.String {
			t.Errorf("%q is %s in 1.1, and no string in 1.2", s, kind)
		}
	})
}
