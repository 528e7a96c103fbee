package portable_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rigward/rigward/internal/portable"
)

func TestFold(t *testing.T) {
	for _, pair := range [][2]string{
		{"rel-check", "Rel-Check"}, {".bridge", ".BRIDGE"}, {".bridge/policy.yaml", ".Bridge/Policy.YAML"},
		{"rel-check/x.md", "rel-check./x.md"}, {"rel-check/x.md", "rel-check . ./x.md"}, {".bridge /x", ".bridge/x"},
		{"rel-check/REQUEST.md", "rel-check/REQUEST.md::$DATA"}, {".bridge", ".bridge::$INDEX_ALLOCATION"},
		{".bridge", ".bridge:$I30:$INDEX_ALLOCATION"}, {"rel-check/x.md", "rel-check/x.md:other"},
		{"rel-check/x.md", `rel-check\x.md`}, {".bridge/policy.yaml", `a\..\.bridge\policy.yaml`},
		{"rel-check/x.md", "rel-check/.../x.md"}, {"rel-check/x.md", "rel-check//x.md"},
		{"rel-check", "rel\u200c-check"}, {"rel-check", "rel-check\ufeff"}, {"rel-check", "\u202erel-check"},
		{"rel-check", "rel\u200b-check"}, {"rel-check", "rel\u00ad-check"}, {"rel-check", "rel-check\ufe0f"},
		{"rel-check.", "rel-check\u200d"}, // for the one nor for the other alone
		{"ÜBER.md", "u\u0308ber.md"}, {"straße", "STRASSE"}, {"ﬁ.md", "FI.md"}, {"K", "\u212a"}, {"ſ", "s"},
		{"σ", "ς"}, {"\u1f80", "\u1f00\u03b9"}, {"µ", "μ"},
		{"t/A.md", "t/a.md"}, {"t/É.md", "t/e\u0301.md"}, {"t/ﬀ.md", "t/FF.md"}, {"t/İ.md", "t/i\u0307.md"},
		{".bridge", "\uff0e\uff42\uff52\uff49\uff44\uff47\uff45"}, {"x2", "x²"}, // ZFS with normalization=formKC
	} {
		if a, b := portable.Fold(pair[0]), portable.Fold(pair[1]); a != b {
			t.Errorf("%q and %q are one for some file system, folded %q and %q", pair[0], pair[1], a, b)
		}
	}
	for _, pair := range [][2]string{
		{"rel-check", "rel_check"}, {"rel-check", "relcheck"}, {"rel-check", " rel-check"}, {"a/b", "a-b"}, {"a", "a/b"},
		{"x.md", "x.md.txt"}, {".bridge", "bridge"}, {"ÜBER.md", "UBER.md"}, {"o", "ø"}, {"t/a.md", "t/b.md"}, {"t/é.md", "t/e.md"}, {"t/ı.md", "t/i.md"}, {"a／b", "a/b"}, {"a／b", "b"},
		{"rel-check", "rel-ch\u0435ck"}, // a Cyrillic letter looks alike and is another one
	} {
		if portable.Fold(pair[0]) == portable.Fold(pair[1]) {
			t.Errorf("%q and %q are one", pair[0], pair[1])
		}
	}
	for _, nothing := range []string{"", ".", "...", " ", ":stream", "\u200b", "a/..", `..\..`} {
		if got := portable.Fold(nothing); nothing != "a/.." && got != "" {
			t.Errorf("Fold(%q) = %q", nothing, got)
		}
	}
}

func TestShort(t *testing.T) {
	for _, pair := range [][2]string{
		{"RELCHE~1", "rel-check"}, {"REL-CH~1", "rel-check"}, {"rel-ch~9", "rel-check"}, {"REL-C~10", "rel-check"},
		{"BRIDGE~1", ".bridge"}, {"BRIDGE~1::$INDEX_ALLOCATION", ".bridge"}, {"bridge~1.", ".bridge"},
		{"RESOLU~1.MD", "RESOLUTION.md"}, {"ALLOWE~1", "allowed_signers"}, {"POLICY~1.YAM", "policy.yaml"},
		{"GIT~1", ".git"}, {"GIT~2", ".git"}, {"GI7EBA~1", ".gitmodules"}, {"GI250A~1", ".gitignore"}, {"MABA30~1", ".mailmap"},
		{"RE1A2B~5", "rel-check"}, {"REQUES~1.MD", "REQUEST 2.md"}, {"AB~1.MD", "a.b.md"},
		{"_BER-L~1.MD", "Über-lang.md"}, {"ÜBER-L~1.MD", "Über-lang.md"}, {"POLICY~1.YAM", "policy.yaml:x"},
	} {
		if s, ok := portable.ParseShort(pair[0]); !ok || !s.Of(pair[1]) {
			t.Errorf("%q may be the short name of %q (form %v)", pair[0], pair[1], ok)
		}
	}
	for _, pair := range [][2]string{
		{"RELCHE~1", "rel-chk"}, {"RELCHE~1", "release-check"}, {"OTHER~1", "rel-check"}, {"REQUES~1.MD", "REQUEST.md"}, // fits
		{"RESOLU~1.TXT", "RESOLUTION.md"}, {"RESOLU~1", "RESOLUTION.md"}, {"REL~1", "rel-check"}, {"G~1", ".git"}, {"GIT~1", "git"},
		{"RE1A2G~5", "rel-check"}, {"RELXXX~1", "rel-check"},
	} {
		if s, ok := portable.ParseShort(pair[0]); ok && s.Of(pair[1]) {
			t.Errorf("%q cannot be the short name of %q", pair[0], pair[1])
		}
	}
	for _, none := range []string{"", "~", "x~", "~1", "x~y", "x~0", "x~01", "RELCHEC~1", "notes~1.text", "a~1.b.c", "rel-check", "x~1~1"} {
		if _, ok := portable.ParseShort(none); ok {
			t.Errorf("%q has the form of a short name", none)
		}
	}
}

// A set finds by its index what asking for each pair finds.
func TestShorts(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 3))
	parts := []string{"rel", "check", "-", "_", "a", "ü", " ", "+", ".", "12af", "md", "REQUEST"}
	pairs := 0
	for round := range 300 {
		var set portable.Shorts
		var names []string
		for range 30 + 300*(round%50/49) { // some are large
			name := ""
			for range 1 + rnd.IntN(5) {
				name += parts[rnd.IntN(len(parts))]
			}
			if r := []rune(name); rnd.IntN(2) == 0 {
				name = strings.Trim(string(r[:min(len(r), 1+rnd.IntN(6))]), ". ") + "~" + strconv.Itoa(1+rnd.IntN(12))
				if rnd.IntN(2) == 0 {
					name += ".MD"
				}
			}
			if slices.Contains(names, name) {
				continue
			}
			want := map[string]bool{}
			for _, other := range names {
				a, short := portable.ParseShort(name)
				b, back := portable.ParseShort(other)
				if short && a.Of(other) || back && b.Of(name) {
					want[other] = true
				}
			}
			got := map[string]bool{}
			for other := range set.Twins(name) {
				got[other] = true
			}
			if !maps.Equal(got, want) {
				t.Fatalf("of %q\n got %v\nwant %v", name, got, want)
			}
			pairs += len(want)
			set.Add(name)
			names = append(names, name)
		}
	}
	if pairs < 300 {
		t.Errorf("%d pairs are few", pairs)
	}
}

// FuzzShorts holds the index of a set, small and large, against what asking for
// each pair finds.
func FuzzShorts(f *testing.F) {
	f.Add("rel-check\nRELCHE~1", false)
	f.Add("REQUEST.md\nREQUES~2.MD\nre12AF~1.md", true)
	f.Add("ü+.x\n__~1.X\n\xff~1\n.a.b c~3", true)
	f.Fuzz(func(t *testing.T, text string, large bool) {
		var set portable.Shorts
		var names []string
		if large {
			for i := range 257 {
				name := fmt.Sprintf("rel-check %d.md", i)
				set.Add(name)
				names = append(names, name)
			}
		}
		for name := range strings.SplitSeq(text, "\n") {
			if slices.Contains(names, name) || len(names) > 300 {
				continue
			}
			a, short := portable.ParseShort(name)
			want, got := map[string]bool{}, map[string]bool{}
			for _, other := range names {
				if b, back := portable.ParseShort(other); short && a.Of(other) || back && b.Of(name) {
					want[other] = true
				}
			}
			for other := range set.Twins(name) {
				got[other] = true
			}
			if !maps.Equal(got, want) {
				t.Fatalf("of %q\n got %v\nwant %v", name, got, want)
			}
			set.Add(name)
			names = append(names, name)
		}
	})
}

func TestCheck(t *testing.T) {
	for _, good := range []string{"x.md", "ÜBER.md", "a b.md", "rel-check", ".bridge", "conx", "com", "com10", "x~1", "🎯.md"} {
		if why := portable.Check(good); why != "" || portable.Windows(good) != "" {
			t.Errorf("%q %s", good, why)
		}
	}
	for _, bad := range []string{
		"", "a:b", `a\b`, "a/b", "x.", "x ", "con", "CON.md", "aux.x.y", "com1", "COM¹.md", "conin$", "nul .md", "a\x01", "a\u0085", "a\u202e",
		"a\u2028", "u\u0308", "\xff", strings.Repeat("a", 256),
	} {
		if portable.Check(bad) == "" {
			t.Errorf("%q passes", bad)
		}
	}
	for _, bad := range []string{"a/con/b", "a./b", "a?", "LPT³.txt"} {
		if portable.Windows(bad) == "" {
			t.Errorf("Windows holds %q", bad)
		}
	}
}

func TestDevice(t *testing.T) {
	for name, want := range map[string]bool{
		"con": true, "Aux.txt": true, "nul ": true, "NUL .x": true, "com1": true, "LPT³.md": true, "conın$": true, "clock$": true, "PRN.": true,
		"": false, " ": false, "con1": false, "com": false, "com10": false, "xcon": false, "ncon": false, ".con": false, "ıcon": false,
	} {
		if got := portable.Device(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}

func FuzzFold(f *testing.F) {
	for _, s := range []string{"Rel-Check/x.md", `a\..\B:c`, "ᾀ/\u0345\u0313", "\u200b.Git ", "İ/ı", "\xff\xfe", "ǰ\u0345", "…"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		key := portable.Fold(s)
		if again := portable.Fold(key); again != key && utf8.ValidString(s) {
			t.Fatalf("Fold(%q) = %q, folded again %q", s, key, again)
		}
		for _, same := range []string{upper(s), strings.ReplaceAll(s, "/", `\`), s + "/", s + "\u200d", s + ". "} {
			if got := portable.Fold(same); utf8.ValidString(s) && got != key && !strings.Contains(s, "..") {
				t.Fatalf("Fold(%q) = %q, of %q %q", same, got, s, key)
			}
		}
		portable.SimpleFold(s)
		portable.FullFold(s)
		portable.Check(s)
		if portable.DotGit(s) && !portable.TakenForGit(s) {
			t.Fatalf("%q is .git and not taken for it", s)
		}
		if short, ok := portable.ParseShort(s); ok {
			short.Of(s)
		}
	})
}

// upper is s in upper case, where that is a matter of letters alone.
func upper(s string) string {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return s
		}
	}
	return strings.ToUpper(s)
}
