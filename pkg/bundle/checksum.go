package bundle

import (
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

// maxChecksum bounds a digest file.
const maxChecksum = 64 << 10

// ParseChecksum reads a `.sha256` file and returns the digest for the file
// called name (docs/spec/rigbundle.md#identity, docs/spec/agentbundle.md#checksum-and-signature).
// It holds one lone digest with white space around it, or lines as sha256sum
// or BSD's sha256 write them; hex in any case; names are compared by their
// last path part. A line that begins with a backslash has an escaped name and
// never matches. Faults: checksum-format, checksum-name, checksum-conflict.
func ParseChecksum(data []byte, name string) (d Digest, fault *Finding) {
	format := func(why string) (Digest, *Finding) {
		return Digest{}, Faultf(ChecksumFormat, "", "the digest file %s, expected 64 hex digits or lines of sha256sum", why)
	}
	if len(data) > maxChecksum {
		return format("is over 64 KiB")
	}
	text := string(data)
	if lone := strings.Trim(text, " \t\r\n"); len(lone) == 64 {
		if d, ok := parseAnyHex(lone); ok {
			return d, nil
		}
	}
	found, lines := 0, 0
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.Trim(line, " \t") == "" {
			continue
		}
		lines++
		digest, file, ok := checksumLine(line)
		if !ok {
			return format("has a line of unknown shape: " + finding.QuoteMax(line, 100))
		}
		if lastPart(file) != name || line[0] == '\\' {
			continue
		}
		if found > 0 && digest != d {
			return Digest{}, Faultf(ChecksumConflict, "", "the digest file has two digests for %s", finding.QuoteMax(name, 100))
		}
		d, found = digest, found+1
	}
	if lines == 0 {
		return format("is empty or no regular file")
	}
	if found == 0 {
		return Digest{}, Faultf(ChecksumName, "", "the digest file has no line for %s", finding.QuoteMax(name, 100))
	}
	return d, nil
}

// checksumLine reads `HEX  NAME`, `HEX *NAME` or `SHA256 (NAME) = HEX`.
func checksumLine(line string) (d Digest, file string, ok bool) {
	line = strings.TrimPrefix(line, `\`)
	if rest, bsd := strings.CutPrefix(line, "SHA256 ("); bsd {
		i := strings.LastIndex(rest, ") = ")
		if i < 1 {
			return d, "", false
		}
		d, ok = parseAnyHex(rest[i+len(") = "):])
		return d, rest[:i], ok
	}
	if len(line) < 67 || line[64] != ' ' || line[65] != ' ' && line[65] != '*' {
		return d, "", false
	}
	d, ok = parseAnyHex(line[:64])
	return d, line[66:], ok
}

func parseAnyHex(s string) (Digest, bool) { return ParseHex(strings.ToLower(s)) }

func lastPart(p string) string { return p[strings.LastIndexAny(p, `/\`)+1:] }
