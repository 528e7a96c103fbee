package envelope

import (
	"bytes"
	"strings"
)

const fence = "---"

// FenceBytes is how many bytes of a file are enough for HasFence: a byte order
// mark, the fence and what follows it.
const FenceBytes = 7

// HasFence reports whether the first line of a file, after an optional byte
// order mark, is the opening fence. The beginning of a file is enough: its
// first FenceBytes bytes.
func HasFence(data []byte) bool {
	line, _, _ := cutLine(bytes.TrimPrefix(data, []byte(bom)))
	return string(line) == fence
}

// HeadBytes is how many bytes of a file are enough for Head, if its front
// matter has at most so many (each line end may be two).
func HeadBytes(frontmatter int64) int64 { return 2*frontmatter + 64 }

// Head returns the beginning of a file with its front matter, both fences
// included. data is the file, or its beginning if size, that of the whole in
// bytes, is more. ok is false if no fence begins it or no closing one follows.
func Head(data []byte, size int64) (head []byte, ok bool) {
	if int64(len(data)) < size { // the last line may go on
		data = data[:bytes.LastIndexAny(data, "\r\n")+1]
	}
	first, rest, ended := cutLine(bytes.TrimPrefix(data, []byte(bom)))
	if string(first) != fence {
		return nil, false
	}
	for ended {
		var line []byte
		if line, rest, ended = cutLine(rest); string(line) == fence {
			return data[:len(data)-len(rest)], true
		}
	}
	return nil, false
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
// (docs/spec/envelope.md#fence). size is the number of bytes between the fences
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
