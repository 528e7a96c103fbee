package rye

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// emit writes the body of a manifest in the block style of docs/spec/ryebundle.md#manifest,
// which gives the old programs' bytes. The fault is a control
// character in a text.
func (m *Manifest) emit() ([]byte, *bundle.Finding) {
	var b bytes.Buffer
	for _, s := range []string{m.ID, m.Version, m.Entrypoint, m.Description, m.CreatedAt, m.Type, m.Digest} {
		if strings.IndexFunc(s, unicode.IsControl) >= 0 {
			return nil, bundle.Faultf(ManifestMalformed, "", "the text %s holds a control character", finding.QuoteMax(s, 120))
		}
	}
	fmt.Fprintf(&b, "bundle:\n  id: %s\n  version: %s\n  entrypoint: %s\n  description: %s\n  created_at: '%s'\n  type: %s\n",
		scalar(m.ID), scalar(m.Version), scalar(m.Entrypoint), scalar(m.Description), strings.ReplaceAll(m.CreatedAt, "'", "''"), scalar(m.Type))
	if m.hasDigest {
		fmt.Fprintf(&b, "  manifest_digest: %s\n", scalar(m.Digest))
	}
	b.WriteString("files:\n")
	for _, e := range m.Entries {
		fmt.Fprintf(&b, "  %s:\n", scalar(e.Path))
		if e.ObjectHash != "" {
			fmt.Fprintf(&b, "    object_hash: %s\n", scalar(e.ObjectHash))
		}
		if e.SHA256 != "" {
			fmt.Fprintf(&b, "    sha256: %s\n", scalar(e.SHA256))
		}
		fmt.Fprintf(&b, "    inline_signed: %t\n", e.InlineSigned)
		if e.hasItemType {
			fmt.Fprintf(&b, "    item_type: %s\n", e.ItemType)
		}
	}
	return b.Bytes(), nil
}

var (
	plainText = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[A-Za-z./_]([A-Za-z0-9 ._/@+=,()-]*[A-Za-z0-9._/@+=,()-])?$`)
	})
	notText = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?i:true|false|yes|no|on|off|y|n|null|\.inf|\.nan)$`)
	})
	numberStart = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\.\.\.|\.[0-9._])`) })
)

// scalar writes a text without control characters as a YAML scalar on one line.
func scalar(s string) string {
	switch {
	case bundle.IsVersion(s), isHex(s, 64) && strings.ContainsAny(s, "abcdef"),
		plainText().MatchString(s) && !notText().MatchString(s) && !numberStart().MatchString(s):
		return s
	case strings.IndexFunc(s, func(r rune) bool { return r < 0x20 || r > 0x7e }) < 0:
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r >= 0x20 && r <= 0x7e:
			b.WriteRune(r)
		case r <= 0xff:
			fmt.Fprintf(&b, `\x%02X`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			fmt.Fprintf(&b, `\U%08X`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
