package envelope

import (
	"bytes"
	"strings"
)

const fence = "---"

// HasFence reports whether the first line of a file, after an optional byte
// order mark, is the opening fence. The beginning of a file is enough: its
// first 7 bytes.
func HasFence(data []byte) bool {
	line, _, _ := cutLine(bytes.TrimPrefix(data, []byte(bom)))
	return string(line) == fence
}

// cutLine splits the first line, without its end (LF, CRLF or CR), from the
// rest; ended is false if data has no line end.
func cutLine(data []byte) (line, rest []byte, ended bool) {
	i := bytes.IndexAny(data, "\r\n")
	if i < 0 {
		return data, nil, false
	}
	n := 1
	if data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n' {
		n = 2
	}
	return data[:i], data[i+n:], true
}

// split cuts a file after its opening fence into front matter text and body
// (spec/envelope.md section 3). size is the number of bytes between the fences
// with LF line ends, closing the line number of the closing fence, counted from
// the opening fence as line 1; closing is 0 if there is none.
func split(afterOpening []byte) (text string, body []byte, size, closing int) {
	rest := afterOpening
	for line := 2; ; line++ {
		l, next, ended := cutLine(rest)
		if string(l) == fence {
			between := string(afterOpening[:len(afterOpening)-len(rest)])
			return frontMatter(between), next, size, line
		}
		if !ended {
			return "", nil, 0, 0
		}
		size += len(l) + 1
		rest = next
	}
}

// frontMatter gives the lines between the fences LF as line end. The last LF
// stays only behind a line that is not empty.
func frontMatter(between string) string {
	if strings.Contains(between, "\r") {
		between = strings.ReplaceAll(strings.ReplaceAll(between, "\r\n", "\n"), "\r", "\n")
	}
	if between == "\n" || strings.HasSuffix(between, "\n\n") {
		between = between[:len(between)-1]
	}
	return between
}
