package yamlprofile

import (
	"strings"
	"unicode/utf8"
)

// source maps the library's places to the text they stand for.
type source struct {
	text   string
	first  int   // line of the file that line 1 of the text is
	starts []int // offset of each line of the text

	// The place last asked for: nodes come in document order, so that going
	// on from it keeps a long line linear.
	line, col, at int
}

// offset returns the byte offset of a place in the text, which may be its end.
func (s *source) offset(line, col int) int {
	if s.starts == nil {
		s.starts = append(make([]int, 0, 16), 0)
		for i := 0; ; {
			n := strings.IndexByte(s.text[i:], '\n')
			if n < 0 {
				break
			}
			i += n + 1
			s.starts = append(s.starts, i)
		}
	}
	if line > len(s.starts) {
		return len(s.text)
	}
	if line != s.line || col < s.col {
		s.line, s.col, s.at = line, 1, s.starts[line-1]
	}
	for s.col < col && s.at < len(s.text) {
		if s.text[s.at] < utf8.RuneSelf {
			s.at++
		} else {
			_, size := utf8.DecodeRuneInString(s.text[s.at:])
			s.at += size
		}
		s.col++
	}
	return s.at
}

// place returns the place of a byte offset in the file.
func (s *source) place(at int) (line, col int) {
	before := s.text[:at]
	start := strings.LastIndexByte(before, '\n') + 1
	return s.first + strings.Count(before, "\n"), utf8.RuneCountInString(before[start:]) + 1
}

// oneLine returns the text from at to end if it has no line end, else "".
func (s *source) oneLine(at, end int) string {
	if t := s.text[at:end]; !strings.Contains(t, "\n") {
		return t
	}
	return ""
}

// quotedEnd returns the offset after the closing quote of the quoted scalar
// that begins at at.
func (s *source) quotedEnd(at int) int {
	quote := s.text[at]
	for i := at + 1; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '\\' && quote == '"':
			i++
		case c == quote && quote == '\'' && i+1 < len(s.text) && s.text[i+1] == quote:
			i++
		case c == quote:
			return i + 1
		}
	}
	return len(s.text)
}
