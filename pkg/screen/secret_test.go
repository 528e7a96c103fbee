package screen_test

import (
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/screen"
)

// tokens are forms of services: a letter and a length between braces stand for so
// many digits of an alphabet. None stands here as a whole, so that no other
// scanner takes this file for a leak.
var tokens = []string{
	"A3-{U6}-{U11}-{U5}-{U5}-{U5}", "ops_eyJ{a260}", "p8e-{a32}", "LTAI{a20}", "sk-ant-api03-{u93}AA", "sk-ant-admin01-{u93}AA", "ATATT3{u186}",
	"AKIA{U16}", "ASIA{U16}", "ABSK{a132}", "AccountKey={a86}==", "xkeysib-{x64}-{a16}", "bkua_{x40}", "CCIPAT_{a22}_{x40}", "CFPAT-{u43}", "cio{a32}",
	"dapi{x32}", "dckr_pat_{u27}", "dckr_oat_{u32}", "dop_v1_{x64}", "doo_v1_{x64}", "dor_v1_{x64}", "dp.pt.{a43}", "duffel_live_{u43}",
	"dt0c01.{U24}.{U64}", "EZAK{a54}", "figd_{u40}", "fm2_{a200}", "ghp_{a36}", "gho_{a36}", "ghu_{a36}", "ghs_{a36}", "ghr_{a36}",
	"github_pat_{a22}_{a59}", "glpat-{u20}", "gldt-{u20}", "glrt-{u20}", "glptt-{x40}", "gloas-{x64}", "glagent-{u50}", "AIza{u35}", "GOCSPX-{u28}",
	"ya29.{u120}", "glsa_{a32}_{x8}", "glc_eyJ{a80}", "gsk_{a52}", "hvs.{u95}", "hvb.{u150}", "HRKU-{u60}", "hf_{a34}", "lin_api_{a40}", "key-{x32}",
	"NRAK-{U27}", "ntn_{a46}", "npm_{a36}", "oy2{l43}", "sk-proj-{u60}", "sk-{a20}T3BlbkFJ{a20}", "pplx-{a48}", "pscale_tkn_{u43}", "PMAK-{x24}-{x34}",
	"pul-{x40}", "pypi-AgEIcHlwaS5vcmc{u150}", "r8_{a37}", "rubygems_{x48}", "SG.{u22}.{u43}", "sntrys_eyJ{a120}", "sntryu_{x64}", "shpat_{x32}",
	"shpss_{x32}", "shippo_live_{x40}", "xoxb-{d12}-{d12}-{a24}", "xoxp-{d12}-{d12}-{d12}-{x32}", "xapp-1-{U11}-{d13}-{x64}",
	"https://hooks.slack.com/services/T{U9}/B{U10}/{a24}", "sq0atp-{u22}", "sq0csp-{u43}", "sk_live_{a24}", "rk_live_{a24}", "whsec_{a32}", "sbp_{x40}",
	"tskey-auth-{a16}-{a32}", "AKID{a32}", "tfp_{a44}", "xai-{a80}", "AGE-SECRET-KEY-1{U58}", "access-production-{x8}-{x4}-{x4}-{x4}-{x12}",
}

var alphabets = map[byte]string{
	'U': "QPZRY9X8GF2TVDW7S3JN54KHCE6MUA", 'a': "Zq7Rb2Xw9Lk4Tn8Vd3Mp6Hc5Jf1Gs0Ay", 'u': "Zq7Rb2-Xw9Lk4Tn8V_d3Mp6Hc5Jf1Gs0Ay",
	'x': "3f9a1c7e5b0d8264", 'd': "7492058316", 'l': "q7rb2xw9lk4tn8vd3mp6hc5jf1gs0ay",
}

// spelled fills a form in; less is how much shorter its last part is.
func spelled(form string, less int) string {
	var b strings.Builder
	last := strings.LastIndexByte(form, '{')
	for i := 0; i < len(form); i++ {
		if form[i] != '{' {
			b.WriteByte(form[i])
			continue
		}
		at, end := i, i+strings.IndexByte(form[i:], '}')
		digits := alphabets[form[i+1]]
		n := 0
		for _, c := range form[i+2 : end] {
			n = n*10 + int(c-'0')
		}
		if at == last {
			n -= less
		}
		for k := range n {
			b.WriteByte(digits[(k*7+k/len(digits)+3)%len(digits)])
		}
		i = end
	}
	return b.String()
}

func secretsOf(t *testing.T, text string) (fs []finding.Finding) {
	t.Helper()
	all, _ := screen.Text([]byte(text), screen.Where{Path: "t-one/x.md"})
	for _, f := range all {
		if f.Rule == screen.RuleSecret {
			fs = append(fs, f)
		}
	}
	return fs
}

// Tokens of at least 60 forms are told wherever they stand, and what is near one
// is not.
func TestTokens(t *testing.T) {
	if len(tokens) < 60 {
		t.Fatal(len(tokens))
	}
	for _, form := range tokens {
		token := spelled(form, 0)
		for _, text := range []string{token, "token: " + token + "\n", `"` + token + `"`, "export X=" + token + ";", "(" + token + ").", "one\n\ntwo `" + token + "`", "x_" + token + " y"} {
			fs := secretsOf(t, text)
			if len(fs) != 1 {
				t.Errorf("%s in %.30q…: %d findings", form, text, len(fs))
				continue
			}
			f := fs[0]
			for i := 0; i+8 <= len(token); i++ {
				if strings.Contains(f.Message+f.Hint, token[i:i+8]) {
					t.Fatalf("%s: a part of it is told: %s | %s", form, f.Message, f.Hint)
				}
			}
			if f.Severity != finding.Error || len(f.Key) != 32 || !strings.Contains(f.Message, f.Key) || !strings.Contains(f.Hint, f.Key) {
				t.Errorf("%s: %+v", form, f)
			}
		}
		prefix := form[:strings.IndexByte(form, '{')]
		misses := []string{prefix, prefix + "…", prefix + "TOKEN", prefix + strings.Repeat("x", 40), "Q" + token}
		if form[len(form)-1] == '}' && !strings.Contains(form, "{a2") && !strings.Contains(form, "{a1") {
			misses = append(misses, prefix+" "+token[len(prefix):])
		}
		if strings.HasPrefix(form, "https://") {
			misses = misses[:4]
		}
		for _, miss := range misses {
			if fs := secretsOf(t, miss); len(fs) > 0 {
				t.Errorf("%s: the near miss %q is told: %s", form, miss, fs[0].Message)
			}
		}
	}
	for _, form := range []string{"ghp_{a36}", "npm_{a36}", "AKIA{U16}", "AIza{u35}", "SG.{u22}.{u43}", "shpat_{x32}", "dop_v1_{x64}", "sq0atp-{u22}", "glsa_{a32}_{x8}"} {
		for _, miss := range []string{spelled(form, 1), spelled(form, 0) + "Q"} {
			if fs := secretsOf(t, "x "+miss+" y"); len(fs) > 0 {
				t.Errorf("%s: the near miss %q is told", form, miss)
			}
		}
	}
	for _, text := range []string{
		"AKIAIOSFODNN7EXAMPLE", "ghp_" + strings.Repeat("x", 36), "sk-ant-api03-...", "see -----BEGIN PRIVATE KEY----- in RFC 7468",
		"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n",
		"-----BEGIN SSH SIGNATURE-----\nU1NIU0lHAAAAAQAAADMAAAAL\n-----END SSH SIGNATURE-----\n",
		"-----BEGIN CERTIFICATE-----\nMIIBeTCCAR+gAwIBAgIUe2wBd0VgfFgY\n-----END CERTIFICATE-----\n",
		"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "body_hash: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"SHA256:uNiVztksCsDhcc0u9e8BrqJXVDDQ0hSlJHDYYGnOgEs", "nonce: 01KE6X0000AAAAAAAAAAAAAAA1", "commit e9d71f5ee7c92d6dc9e92ffdad17b8bd49418f98", "--", "-----", "--- a\n+++ b\n",
	} {
		if fs := secretsOf(t, text); len(fs) > 0 {
			t.Errorf("%q: %s", text, fs[0].Message)
		}
	}
}

// A checksum that is right says that a token is none of a document's.
func TestChecksum(t *testing.T) {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	body := strings.Repeat("x", 30)
	sum, sums := crc32.ChecksumIEEE([]byte(body)), ""
	for range 6 {
		sum, sums = sum/62, string(digits[sum%62])+sums
	}
	if len(secretsOf(t, "ghp_"+body+sums)) != 1 || len(secretsOf(t, "ghp_"+body+"xxxxxx")) != 0 {
		t.Error("the checksum makes no difference")
	}
}

func TestPrivateKeys(t *testing.T) {
	material := strings.Repeat("MC4CAQAwBQYDK2VwBCIEIGb9ECWmEzf6FQbrBZ9w7lshQhqo\n", 3)
	for _, label := range []string{"PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "DSA PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK", "ENCRYPTED COSIGN PRIVATE KEY"} {
		head, end := "-----BEGIN "+label+"-----", "-----END "+label+"-----\n"
		for _, text := range []string{head + "\n" + material + end, "a:\n  " + head + "\n" + material, "> " + head + "\n> " + material,
			`{"key": "` + head + `\n` + strings.ReplaceAll(material, "\n", `\n`) + `"}`, head + "\n", head + "\nProc-Type: 4,ENCRYPTED\n\n" + material + end} {
			fs := secretsOf(t, text)
			if len(fs) != 1 || strings.Contains(fs[0].Message, "MC4CAQAw") {
				t.Errorf("%s: %q: %v", label, text, fs)
			}
		}
	}
	if fs := secretsOf(t, "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n"+material); len(fs) != 1 {
		t.Error("four hyphens")
	}
}

func TestHide(t *testing.T) {
	token := spelled("ghp_{a36}", 0)
	_, found := screen.Text([]byte("x "+token), screen.Where{})
	if got := found.Hide("got \"" + token[:20] + "…\" and " + token + "."); got != "got \"……\" and …." {
		t.Errorf("%q", got)
	}
	if got := screen.HideIn("a/" + token + "/b"); got != "a/…/b" {
		t.Errorf("%q", got)
	}
	if got := screen.HideIn("nothing here"); got != "nothing here" {
		t.Errorf("%q", got)
	}
	fs, _ := screen.Text([]byte("x "+token[:20]+"\u200b"+token[20:]+"\n"), screen.Where{Path: "a/b.md"})
	if len(fs) == 0 || fs[0].Rule != screen.RuleHidden {
		t.Error("a token that is cut by what is not seen passes")
	}
}

// Secrets are looked for in time that grows with the text.
func TestHostileSecrets(t *testing.T) {
	for name, part := range map[string]string{
		"headers": "-----BEGIN PRIVATE KEY-----\n", "begins": "-----BEGIN ", "hyphens": "-", "long tokens": "ghp_" + strings.Repeat("a1", 100) + " ", "prefixes": "sk-ant-",
		"tokens": spelled("ghp_{a36}", 0) + "\n",
	} {
		text := []byte(strings.Repeat(part, (4<<20)/len(part)))
		start := time.Now()
		fs, _ := screen.Text(text, screen.Where{Path: "a/b.md"})
		if took := time.Since(start); took > 10*time.Second || len(fs) > 20 {
			t.Errorf("%s took %s, %d findings", name, took, len(fs))
		}
	}
}
