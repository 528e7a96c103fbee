package screen

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strings"
	"sync"

	"github.com/rigward/rigward/pkg/finding"
)

// RuleSecret is the rule of keys and tokens.
const RuleSecret = "secret"

// A class is a set of bytes that the variable part of a token may have.
type class uint16

const (
	digit class = 1 << iota
	lowHex
	low // without lowHex
	upHex
	up // without upHex
	under
	dash
	dot
	slash // and plus
	equal

	hexes   = digit | lowHex
	lower   = lowHex | low
	upper   = upHex | up
	letters = lower | upper
	alnum   = letters | digit
	url64   = alnum | under | dash
	std64   = alnum | slash | equal
)

var classes = func() (t [256]class) {
	for c := '0'; c <= '9'; c++ {
		t[c] = digit
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = low, up
		if c <= 'f' {
			t[c], t[c-'a'+'A'] = lowHex, upHex
		}
	}
	t['_'], t['-'], t['.'], t['+'], t['/'], t['='] = under, dash, dot, slash, slash, equal
	return t
}()

// A form is a published form of a token: a fixed prefix, and so many bytes of a
// class after it.
type form struct {
	prefix   string
	what     string // in words, with its article
	class    class
	min, max int // of what follows the prefix
	// parts says more of what follows, nil: nothing.
	parts func(rest string) bool
}

// shape is a form of several parts between separators: the lengths of each.
func shape(sep string, lengths ...int) func(string) bool {
	return func(rest string) bool {
		parts := strings.Split(rest, sep)
		if len(parts) != len(lengths) {
			return false
		}
		for i, p := range parts {
			if len(p) != lengths[i] {
				return false
			}
		}
		return true
	}
}

// has is a form that holds a fixed text.
func has(text string) func(string) bool {
	return func(rest string) bool { return strings.Contains(rest, text) }
}

// forms are in the order of services. Where a service publishes no length, it is
// what its tokens have had (documents of the service named beside it).
var forms = [...]form{
	{"A3-", "a 1Password secret key", upper | digit | dash, 31, 40, nil},                                                               // 1Password security design, secret key
	{"ops_eyJ", "a 1Password service account token", std64, 200, 2000, nil},                                                            // developer.1password.com, service accounts
	{"p8e-", "an Adobe client secret", alnum, 32, 32, nil},                                                                             // developer.adobe.com, credentials
	{"LTAI", "an Alibaba Cloud access key id", alnum, 16, 20, nil},                                                                     // alibabacloud.com, AccessKey pair
	{"sk-ant-", "an Anthropic API key", url64, 80, 120, nil},                                                                           // console.anthropic.com, sk-ant-api03-, sk-ant-admin01-
	{"ATATT3", "an Atlassian API token", url64 | equal, 180, 200, nil},                                                                 // support.atlassian.com, API tokens
	{"AKIA", "an AWS access key id", upper | digit, 16, 16, nil},                                                                       // docs.aws.amazon.com, IAM unique identifiers
	{"ASIA", "an AWS temporary access key id", upper | digit, 16, 16, nil},                                                             // the same
	{"ABSK", "an AWS Bedrock API key", std64, 100, 280, nil},                                                                           // docs.aws.amazon.com, Bedrock API keys
	{"AccountKey=", "an Azure storage account key", std64, 86, 88, nil},                                                                // learn.microsoft.com, storage connection strings
	{"xkeysib-", "a Brevo API key", hexes | alnum | dash, 81, 81, shape("-", 64, 16)},                                                  // developers.brevo.com
	{"bkua_", "a Buildkite API token", hexes, 40, 40, nil},                                                                             // buildkite.com, token security
	{"CCIPAT_", "a CircleCI token", alnum | under, 40, 90, nil},                                                                        // circleci.com, managing API tokens
	{"CFPAT-", "a Contentful token", url64, 43, 43, nil},                                                                               // contentful.com, personal access tokens
	{"cio", "a crates.io token", alnum, 32, 32, nil},                                                                                   // rust-lang/crates.io, token prefix
	{"dapi", "a Databricks token", hexes | dash, 32, 34, nil},                                                                          // docs.databricks.com, personal access tokens
	{"dckr_pat_", "a Docker Hub token", url64, 27, 27, nil},                                                                            // docs.docker.com, access tokens
	{"dckr_oat_", "a Docker organization token", url64, 32, 32, nil},                                                                   // the same
	{"dop_v1_", "a DigitalOcean token", hexes, 64, 64, nil},                                                                            // docs.digitalocean.com, personal access tokens
	{"doo_v1_", "a DigitalOcean OAuth token", hexes, 64, 64, nil},                                                                      // the same
	{"dor_v1_", "a DigitalOcean refresh token", hexes, 64, 64, nil},                                                                    // the same
	{"dp.pt.", "a Doppler token", alnum, 40, 44, nil},                                                                                  // docs.doppler.com, token formats
	{"dp.st.", "a Doppler service token", alnum | under | dash | dot, 40, 90, nil},                                                     // the same
	{"duffel_live_", "a Duffel token", url64, 43, 43, nil},                                                                             // duffel.com, API
	{"dt0c01.", "a Dynatrace token", alnum | dot, 89, 89, shape(".", 24, 64)},                                                          // docs.dynatrace.com, token format
	{"EZAK", "an EasyPost API key", alnum, 54, 54, nil},                                                                                // docs.easypost.com
	{"figd_", "a Figma token", url64, 38, 60, nil},                                                                                     // figma.com, personal access tokens
	{"fm2_", "a Fly.io token", std64, 100, 2000, nil},                                                                                  // fly.io, macaroon tokens
	{"ghp_", "a GitHub personal access token", alnum, 36, 36, nil},                                                                     // github.blog, new authentication token formats
	{"gho_", "a GitHub OAuth token", alnum, 36, 36, nil},                                                                               // the same
	{"ghu_", "a GitHub user token of an app", alnum, 36, 36, nil},                                                                      // the same
	{"ghs_", "a GitHub installation token of an app", alnum, 36, 36, nil},                                                              // the same
	{"ghr_", "a GitHub refresh token", alnum, 36, 76, nil},                                                                             // the same
	{"github_pat_", "a GitHub fine-grained token", alnum | under, 82, 82, shape("_", 22, 59)},                                          // docs.github.com, token types
	{"glpat-", "a GitLab personal access token", url64 | dot, 20, 60, nil},                                                             // docs.gitlab.com, token overview
	{"gldt-", "a GitLab deploy token", url64, 20, 60, nil},                                                                             // the same
	{"glrt-", "a GitLab runner token", url64 | dot, 20, 60, nil},                                                                       // the same
	{"glptt-", "a GitLab trigger token", url64, 40, 60, nil},                                                                           // the same
	{"gloas-", "a GitLab OAuth secret", url64, 64, 64, nil},                                                                            // the same
	{"glagent-", "a GitLab agent token", url64, 50, 60, nil},                                                                           // the same
	{"AIza", "a Google API key", url64, 35, 35, nil},                                                                                   // cloud.google.com, API keys
	{"GOCSPX-", "a Google OAuth client secret", url64, 28, 28, nil},                                                                    // developers.google.com, OAuth 2.0
	{"ya29.", "a Google access token", url64, 60, 1000, nil},                                                                           // cloud.google.com, token types
	{"glsa_", "a Grafana service account token", alnum | under, 41, 41, shape("_", 32, 8)},                                             // grafana.com, service accounts
	{"glc_eyJ", "a Grafana Cloud token", std64, 40, 400, nil},                                                                          // grafana.com, access policies
	{"gsk_", "a Groq API key", alnum, 52, 52, nil},                                                                                     // console.groq.com
	{"hvs.", "a HashiCorp Vault token", url64, 90, 300, nil},                                                                           // developer.hashicorp.com, vault tokens
	{"hvb.", "a HashiCorp Vault batch token", url64, 130, 400, nil},                                                                    // the same
	{"HRKU-", "a Heroku API key", url64, 36, 80, nil},                                                                                  // devcenter.heroku.com, API key formats
	{"hf_", "a Hugging Face token", alnum, 34, 40, nil},                                                                                // huggingface.co, security tokens
	{"lin_api_", "a Linear API key", alnum, 40, 40, nil},                                                                               // developers.linear.app
	{"key-", "a Mailgun API key", hexes, 32, 32, nil},                                                                                  // documentation.mailgun.com
	{"NRAK-", "a New Relic user key", upper | digit, 27, 27, nil},                                                                      // docs.newrelic.com, API keys
	{"ntn_", "a Notion token", alnum, 40, 50, nil},                                                                                     // developers.notion.com, authorization
	{"npm_", "an npm token", alnum, 36, 36, nil},                                                                                       // github.blog, npm token format
	{"oy2", "a NuGet API key", lower | digit, 43, 43, nil},                                                                             // learn.microsoft.com, nuget.org API keys
	{"sk-proj-", "an OpenAI API key", url64, 48, 200, nil},                                                                             // platform.openai.com, project keys
	{"sk-svcacct-", "an OpenAI service account key", url64, 48, 200, nil},                                                              // the same
	{"sk-", "an OpenAI API key", url64, 48, 64, has("T3BlbkFJ")},                                                                       // the same; the text is "OpenAI"
	{"pplx-", "a Perplexity API key", alnum, 48, 48, nil},                                                                              // docs.perplexity.ai
	{"access-production-", "a Plaid access token", hexes | dash, 36, 36, shape("-", 8, 4, 4, 4, 12)},                                   // plaid.com, API
	{"pscale_tkn_", "a PlanetScale token", url64 | dot | equal, 32, 64, nil},                                                           // planetscale.com, service tokens
	{"pscale_pw_", "a PlanetScale password", url64 | dot | equal, 32, 64, nil},                                                         // the same
	{"PMAK-", "a Postman API key", hexes | dash, 59, 59, shape("-", 24, 34)},                                                           // learning.postman.com
	{"pul-", "a Pulumi token", hexes, 40, 40, nil},                                                                                     // pulumi.com, access tokens
	{"pypi-AgEIcHlwaS5vcmc", "a PyPI token", url64, 50, 1000, nil},                                                                     // pypi.org, API tokens; a macaroon of pypi.org
	{"pypi-AgENdGVzdC5weXBpLm9yZw", "a TestPyPI token", url64, 50, 1000, nil},                                                          // the same
	{"r8_", "a Replicate token", alnum, 37, 37, nil},                                                                                   // replicate.com, HTTP API
	{"rubygems_", "a RubyGems API key", hexes, 48, 48, nil},                                                                            // guides.rubygems.org
	{"SG.", "a SendGrid API key", url64 | dot, 66, 66, shape(".", 22, 43)},                                                             // docs.sendgrid.com
	{"sntrys_eyJ", "a Sentry organization token", std64 | under | dash, 60, 400, nil},                                                  // docs.sentry.io, auth tokens
	{"sntryu_", "a Sentry user token", hexes, 64, 64, nil},                                                                             // the same
	{"shpat_", "a Shopify access token", hexes | upHex, 32, 32, nil},                                                                   // shopify.dev, access tokens
	{"shpss_", "a Shopify shared secret", hexes | upHex, 32, 32, nil},                                                                  // the same
	{"shpca_", "a Shopify custom app token", hexes | upHex, 32, 32, nil},                                                               // the same
	{"shppa_", "a Shopify private app token", hexes | upHex, 32, 32, nil},                                                              // the same
	{"shippo_live_", "a Shippo token", hexes, 40, 40, nil},                                                                             // docs.goshippo.com
	{"xoxb-", "a Slack bot token", alnum | dash, 40, 120, nil},                                                                         // api.slack.com, token types
	{"xoxp-", "a Slack user token", alnum | dash, 40, 120, nil},                                                                        // the same
	{"xoxa-", "a Slack token", alnum | dash, 40, 160, nil},                                                                             // the same
	{"xoxr-", "a Slack refresh token", alnum | dash, 40, 160, nil},                                                                     // the same
	{"xoxe-", "a Slack configuration refresh token", alnum | dash, 100, 200, nil},                                                      // the same
	{"xoxe.xoxp-", "a Slack configuration token", alnum | dash, 100, 220, nil},                                                         // the same
	{"xapp-", "a Slack app-level token", alnum | dash, 60, 140, nil},                                                                   // the same
	{"hooks.slack.com/services/", "a Slack webhook", alnum | slash, 40, 50, func(r string) bool { return strings.Count(r, "/") == 2 }}, // api.slack.com, webhooks
	{"sq0atp-", "a Square access token", url64, 22, 22, nil},                                                                           // developer.squareup.com
	{"sq0csp-", "a Square OAuth secret", url64, 43, 43, nil},                                                                           // the same
	{"EAAA", "a Square access token", url64, 60, 60, nil},                                                                              // the same
	{"sk_live_", "a Stripe secret key", alnum, 24, 120, nil},                                                                           // docs.stripe.com, API keys
	{"rk_live_", "a Stripe restricted key", alnum, 24, 120, nil},                                                                       // the same
	{"whsec_", "a Stripe webhook secret", std64, 32, 64, nil},                                                                          // docs.stripe.com, webhook signatures
	{"sbp_", "a Supabase token", hexes, 40, 40, nil},                                                                                   // supabase.com, management API
	{"tskey-auth-", "a Tailscale auth key", alnum | dash, 30, 70, nil},                                                                 // tailscale.com, key prefixes
	{"tskey-api-", "a Tailscale API token", alnum | dash, 30, 70, nil},                                                                 // the same
	{"AKID", "a Tencent Cloud secret id", alnum, 32, 32, nil},                                                                          // tencentcloud.com, CAM
	{"tfp_", "a Typeform token", url64 | dot, 40, 70, nil},                                                                             // typeform.com, developers
	{"xai-", "an xAI API key", alnum, 80, 80, nil},                                                                                     // docs.x.ai
	{"AGE-SECRET-KEY-1", "an age secret key", upper | digit, 58, 58, nil},                                                              // age-encryption.org/v1, bech32 with hrp age-secret-key-
	{"AGE-SECRET-KEY-PQ-1", "an age post-quantum secret key", upper | digit, 58, 58, nil},                                              // the same
}

// starting holds forms by the first byte of their prefixes, and which bytes are the
// second one of any of these.
type starting struct {
	forms  [256][]*form
	second [256][256 / 64]uint64
}

var starts = sync.OnceValue(func() *starting {
	t := &starting{}
	for i := range forms {
		c, d := forms[i].prefix[0], forms[i].prefix[1]
		t.forms[c] = append(t.forms[c], &forms[i])
		t.second[c][d/64] |= 1 << (d % 64)
	}
	return t
})

// of returns the forms that may begin with two bytes.
func (t *starting) of(c, d byte) []*form {
	if t.second[c][d/64]>>(d%64)&1 == 0 {
		return nil
	}
	return t.forms[c]
}

// Secrets are the secrets of a text. None is ever told; see Hide.
type Secrets []string

// secrets finds keys and tokens of published forms (docs/spec/envelope.md#secret).
func secrets(data []byte, w Where) ([]finding.Finding, Secrets) {
	t := &told{data: data}
	var found Secrets
	known := map[string]bool{}
	tell := func(at int, what, secret string) {
		if len(found) <= maxSecrets && !known[secret] {
			known[secret] = true
			found = append(found, secret)
		}
		if key := Key(secret); !t.full(key) {
			t.add(RuleSecret, at, key, fmt.Sprintf("%s: %s, secret:%s", what, hint(secret), key), secretHint(w))
		}
	}
	by := starts()
	word := false // the byte before is part of a word
	for i := 0; i < len(data); i++ {
		c := data[i]
		if c == '-' && !word && i+4 < len(data) && data[i+1] == '-' {
			if n, what, secret := privateKey(data, i); n > 0 {
				if secret != "" {
					tell(i, what, secret)
				}
				i += n - 1
				word = false
				continue
			}
		}
		if !word && i+1 < len(data) {
			for _, f := range by.of(c, data[i+1]) {
				if n := f.match(data[i:]); n > 0 {
					tell(i, f.what, string(data[i:i+n]))
					i += n - 1
					break
				}
			}
		}
		word = classes[data[i]]&alnum != 0
	}
	return t.all(w), found
}

// match returns the length of the token at the begin of data, 0 if there is none.
func (f *form) match(data []byte) int {
	if !bytes.HasPrefix(data, []byte(f.prefix)) {
		return 0
	}
	rest := data[len(f.prefix):]
	n := 0
	for n < len(rest) && n <= f.max && classes[rest[n]]&f.class != 0 {
		n++
	}
	for n > 0 && (rest[n-1] == '.' || rest[n-1] == '-') { // the end of a sentence
		n--
	}
	if n < f.min || n > f.max || n < len(rest) && classes[rest[n]]&alnum != 0 {
		return 0
	}
	token := string(rest[:n])
	if f.parts != nil && !f.parts(token) {
		return 0
	}
	if !checked(f.prefix, token) && placeholder(token) {
		return 0
	}
	return len(f.prefix) + n
}

// checked reports whether a token has the checksum that its service computes: of
// GitHub's and npm's tokens the last six characters are the CRC-32 of those
// before, in base 62 (github.blog, behind GitHub's new authentication token
// formats).
func checked(prefix, token string) bool {
	if len(token) != 36 || !strings.HasPrefix(prefix, "gh") && prefix != "npm_" {
		return false
	}
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	sum := crc32.ChecksumIEEE([]byte(token[:30]))
	for i := 35; i >= 30; i-- {
		if token[i] != digits[sum%62] {
			return false
		}
		sum /= 62
	}
	return true
}

// placeholder reports whether what follows a prefix stands for a token, as in a
// document: few different characters, or words that say so.
func placeholder(token string) bool {
	seen, different := [256]bool{}, 0
	for i := range len(token) {
		if !seen[token[i]] {
			seen[token[i]] = true
			different++
		}
	}
	if different < 7 {
		return true
	}
	text := strings.ToLower(token)
	for _, word := range []string{"example", "xxxxxx", "000000000000", "your_", "your-", "placeholder", "redacted", "1234567890abcdef", "abcdefghijkl"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// privateKey looks at the begin of a block of RFC 7468, RFC 4716 or RFC 9580. n is
// how much of data it takes, 0 if it is none; secret is "" if it is not of a
// private key.
func privateKey(data []byte, at int) (n int, what, secret string) {
	line, _, _ := bytes.Cut(data[at:min(len(data), at+120)], []byte("\n"))
	begin := bytes.Index(line, []byte("BEGIN "))
	if begin < 3 || begin > 6 || len(bytes.Trim(line[:begin], "- ")) > 0 {
		return 0, "", ""
	}
	label, after, ok := bytes.Cut(line[begin+6:], []byte("--"))
	if !ok || len(bytes.Trim(label, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ")) > 0 || !bytes.Contains(label, []byte("PRIVATE KEY")) {
		return 0, "", ""
	}
	head := begin + 6 + len(label) + 2 + len(after) - len(bytes.TrimLeft(after, "-"))
	rest := data[at+head:]
	body := rest[:min(len(rest), 16<<10)]
	if end := bytes.Index(body, []byte("--")); end >= 0 {
		body = body[:end]
	}
	if end := bytes.IndexByte(body, '`'); end >= 0 {
		body = body[:end]
	}
	var material []byte
	for _, c := range body {
		if classes[c]&std64 != 0 {
			material = append(material, c)
		}
	}
	// What only names the header in a sentence is not a key: it begins a line, or
	// a key follows.
	before := data[max(0, at-40):at]
	lineStart := bytes.LastIndexByte(before, '\n') + 1
	first := (lineStart > 0 || at < 40) && len(bytes.Trim(before[lineStart:], " \t>\"'|*+")) == 0
	if len(material) < 16 && !first {
		return head, "", ""
	}
	what = "a private key (" + strings.TrimSpace(string(label)) + ")"
	if len(material) == 0 {
		return head, what, string(data[at : at+head])
	}
	return head + len(body), what, string(material)
}

// Key is what names a secret in a policy's allow: the begin of its SHA-256.
func Key(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:16])
}

// hint shows the first and last two characters of a secret.
func hint(secret string) string { return secret[:2] + "…" + secret[len(secret)-2:] }

func secretHint(w Where) string {
	text := "replace the key at its service first, then take it away here"
	if w.Commit != "" {
		text += ": " + w.rebase()
	}
	return text
}

// maxSecrets is how many secrets of one text are looked for in messages about it;
// with more, no such message is shown.
const maxSecrets = 50

// overlap is from how many bytes on a part of a secret is hidden.
const overlap = 8

// Hide returns a text without the secrets and without longer parts of them, as
// other findings may quote them.
func (s Secrets) Hide(text string) string {
	if len(s) > maxSecrets {
		return "withheld, the text has many secrets"
	}
	for _, secret := range s {
		if len(secret) < overlap {
			continue
		}
		var b strings.Builder
		for i := 0; i < len(text); {
			if i+overlap > len(text) || !strings.Contains(secret, text[i:i+overlap]) {
				b.WriteByte(text[i])
				i++
				continue
			}
			n := overlap
			for i+n < len(text) && strings.Contains(secret, text[i:i+n+1]) {
				n++
			}
			b.WriteString("…")
			i += n
		}
		text = b.String()
	}
	return text
}

// HideIn returns a text without what has the form of a secret in it.
func HideIn(text string) string {
	_, found := secrets([]byte(text), Where{})
	if len(found) == 0 {
		return text
	}
	return found.Hide(text)
}
