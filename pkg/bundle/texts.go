package bundle

import (
	"bytes"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/screen"
)

// HiddenText is the code of characters that readers of a text do not see, Secret
// that of keys and tokens, and
// NoteHiddenMarkup that of text which a page does not show
// (docs/spec/envelope.md#hidden-text).
const (
	HiddenText       = screen.RuleHidden
	Secret           = screen.RuleSecret
	NoteHiddenMarkup = "hidden-markup"
)

// Texts says which files of an archive are judged as texts.
type Texts int

// The choices of a format.
const (
	// TextsByContent are files that are UTF-8 without NUL, and whatever a name
	// calls a text.
	TextsByContent Texts = iota
	// TextsByName are files that a name calls a text, outside of directories in
	// which packages of others are installed, and what agents read wherever it lies.
	TextsByName
)

// textNames are the extensions of texts and of manifests.
var textNames = []string{".md", ".markdown", ".mdx", ".txt", ".rst", ".prompt", ".html", ".htm", ".yaml", ".yml", ".json", ".toml"}

// agentNames are files that agents read by their name.
var agentNames = []string{"skill.md", "agents.md", "agent.md", "claude.md", "gemini.md", "copilot-instructions.md", ".cursorrules"}

// installed are directories that hold packages of others.
var installed = []string{"node_modules", "site-packages", "dist-packages", "vendor"}

// of reports whether a file is judged as a text, and whether its name says that it
// is one.
func (t Texts) of(name string) (judged, named bool) {
	base := strings.ToLower(path.Base(name))
	if slices.Contains(agentNames, base) {
		return true, true
	}
	named = slices.Contains(textNames, path.Ext(base))
	if t == TextsByContent {
		return true, named
	}
	dirs := strings.Split(strings.ToLower(path.Dir(name)), "/")
	return named && !slices.ContainsFunc(dirs, func(d string) bool { return slices.Contains(installed, d) }), named
}

// ScreenText judges a file as a text (docs/spec/envelope.md#hidden-text): what is
// hidden in it, as findings and notes. A file that is no text has none. allow has the
// keys of findings that are none.
func ScreenText(name string, data []byte, which Texts, allow []string) ([]*Finding, []Note) {
	s := newTextScreen(name, which, allow)
	if s == nil {
		return nil, nil
	}
	s.part(data)
	return s.end()
}

// ScreenName judges the name of a file, nil if nothing is hidden in it. allow is as
// for [ScreenText].
func ScreenName(name string, allow []string) *Finding {
	fs, secrets := screen.Text([]byte(name), screen.Where{Member: true})
	for _, f := range fs {
		if !slices.Contains(allow, f.Key) {
			return &Finding{Code: f.Rule, Path: secrets.Hide(name), Message: "the name has " + f.Message, Hint: "give it another name", Key: f.Key}
		}
	}
	return nil
}

// A textScreen judges a text as it is read, in parts.
type textScreen struct {
	name   string
	allow  []string
	named  bool // its name says that it is a text
	off    bool // it is none
	buf    []byte
	lines  int // before buf
	faults []*Finding
	notes  []Note
	marks  int // places of hidden markup
}

// newTextScreen returns what judges a file, nil if it is not judged.
func newTextScreen(name string, which Texts, allow []string) *textScreen {
	judged, named := which.of(name)
	if !judged {
		return nil
	}
	return &textScreen{name: name, allow: allow, named: named}
}

// screenChunk is how much of a text is judged at once: lines stay whole up to it.
const screenChunk = 1 << 20

func (s *textScreen) write(b []byte) {
	if s.off {
		return
	}
	if s.buf = append(s.buf, b...); len(s.buf) < screenChunk {
		return
	}
	cut := bytes.LastIndexByte(s.buf, '\n')
	if cut <= 0 {
		for cut = len(s.buf); cut > len(s.buf)-utf8.UTFMax && !utf8.RuneStart(s.buf[cut-1]); {
			cut--
		}
		cut--
	}
	s.part(s.buf[:cut])
	s.lines += bytes.Count(s.buf[:cut], []byte("\n"))
	s.buf = append(s.buf[:0], s.buf[cut:]...) // begins with the line end, so that it is no begin of the file
}

// end judges the rest, and returns what was found.
func (s *textScreen) end() ([]*Finding, []Note) {
	if s.part(s.buf); s.off {
		return nil, nil
	}
	return s.faults, s.notes
}

func (s *textScreen) part(data []byte) {
	if s.off || len(data) == 0 {
		return
	}
	binary := bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data)
	if binary && !s.named {
		s.off = true
		return
	}
	w := screen.Where{Path: s.name, Loose: binary, Member: true}
	fs, _ := screen.Text(data, w)
	switch path.Ext(strings.ToLower(s.name)) {
	case ".json", ".yaml", ".yml", ".toml":
		fs = append(fs, screen.Escaped(data, w)...)
	case ".md", ".markdown", ".mdx", ".html", ".htm":
		s.markup(data)
	}
	for _, f := range fs {
		if len(s.faults) < maxScreened && !slices.Contains(s.allow, f.Key) {
			s.faults = append(s.faults, &Finding{Code: f.Rule, Path: s.name, Line: s.lines + f.Line, Column: f.Col, Message: f.Message, Hint: f.Hint, Key: f.Key})
		}
	}
}

// Of one text, so much is told.
const (
	maxScreened = 20
	maxMarks    = 5
)

// markup notes what a page does not show: comments, and what a style hides.
func (s *textScreen) markup(data []byte) {
	note := func(at int, what string, text []byte) {
		if s.marks++; s.marks > maxMarks {
			return
		}
		line := s.lines + bytes.Count(data[:at], []byte("\n")) + 1
		s.notes = append(s.notes, Note{Code: NoteHiddenMarkup, Path: s.name, Line: line,
			Detail: "a page does not show " + what + " " + finding.QuoteMax(string(bytes.TrimSpace(text)), 80)})
	}
	for i := 0; ; {
		n := bytes.Index(data[i:], []byte("<!--"))
		if n < 0 {
			break
		}
		i += n + 4
		text, rest, _ := bytes.Cut(data[i:], []byte("-->"))
		text = bytes.TrimSpace(text)
		signature := bytes.HasPrefix(text, []byte("rye:signed:")) || bytes.HasPrefix(text, []byte("ryeos:signed:"))
		if !signature && len(text) > 0 {
			note(i-4, "the comment", text[:min(len(text), 400)])
		}
		i = len(data) - len(rest)
	}
	for i := 0; ; {
		n := bytes.IndexByte(data[i:], ':')
		if n < 0 {
			return
		}
		i += n + 1
		if i >= 8 && hides(data[:i-1], data[i:]) {
			from := bytes.LastIndexByte(data[:i], '\n') + 1
			line, _, _ := bytes.Cut(data[from:], []byte("\n"))
			note(i-1, "what this line hides:", line[:min(len(line), 400)])
		}
	}
}

// hides reports whether a style says before and after its colon that something
// is not shown.
func hides(before, after []byte) bool {
	before = bytes.TrimRight(before[max(0, len(before)-16):], " \t")
	after = bytes.TrimLeft(after[:min(16, len(after))], " \t")
	for _, style := range [...][2]string{{"display", "none"}, {"visibility", "hidden"}} {
		name, value := style[0], style[1]
		if len(before) >= len(name) && len(after) >= len(value) &&
			strings.EqualFold(string(before[len(before)-len(name):]), name) && strings.EqualFold(string(after[:len(value)]), value) {
			return true
		}
	}
	return false
}
