package doctest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A Session is where the commands of a text run.
type Session struct {
	Dir string   // where the shell starts
	Env []string // the whole environment of the shell

	// Real turns a command as the document has it into the one that runs, and
	// Show an output into the one that the document has; nil changes nothing.
	Real, Show func(string) string
}

// A Step is a command that was run.
type Step struct {
	Command string // as the document has it
	Output  string // as the document shows it, without the exit code
	Code    int
	Console bool // of a console block; failure is shown, not forbidden
}

var filePath = regexp.MustCompile("^`([^`]+)`:?$")

// part is a piece of a text: lines that stay as they are, or a step.
type part struct {
	lines string
	run   string // what the shell is given
	step  *Step
}

// parse cuts a text into its parts.
func parse(text string) (parts []part, err error) {
	lines := strings.SplitAfter(text, "\n")
	keep := func(s string) { parts = append(parts, part{lines: s}) }
	above := "" // the last line that is not empty
	for i := 0; i < len(lines); i++ {
		line := strings.TrimRight(lines[i], "\n")
		kind, fence := strings.CutPrefix(line, "```")
		keep(lines[i])
		if !fence {
			if line != "" {
				above = line
			}
			continue
		}
		end := i + 1
		for end < len(lines) && strings.TrimRight(lines[end], "\n") != "```" {
			end++
		}
		if end == len(lines) {
			return nil, fmt.Errorf("line %d: the block does not end", i+1)
		}
		body := lines[i+1 : end]
		m := filePath.FindStringSubmatch(above)
		switch {
		case kind == "console":
			if err := console(&parts, body); err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
		case kind == "sh":
			for j := 0; j < len(body); j++ {
				keep(body[j])
				command := body[j]
				for strings.HasSuffix(command, "\\\n") && j+1 < len(body) {
					j++
					keep(body[j])
					command += body[j]
				}
				command = strings.TrimRight(command, "\n")
				if command != "" && !strings.HasPrefix(command, "#") {
					parts = append(parts, part{run: command, step: &Step{Command: command}})
				}
			}
		case m != nil:
			content := strings.Join(body, "")
			keep(content)
			parts = append(parts, part{run: fmt.Sprintf("mkdir -p \"$(dirname '%s')\" && cat >'%s' <<'END OF FILE'\n%sEND OF FILE", m[1], m[1], content)})
		default:
			keep(strings.Join(body, ""))
		}
		keep(lines[end])
		above, i = "", end
	}
	return parts, nil
}

func console(parts *[]part, body []string) error {
	for j := 0; j < len(body); {
		command, ok := strings.CutPrefix(body[j], "$ ")
		if !ok {
			return fmt.Errorf("%q follows no command", body[j])
		}
		shown := body[j]
		for j++; j < len(body) && strings.HasPrefix(body[j], "> "); j++ {
			command += strings.TrimPrefix(body[j], "> ")
			shown += body[j]
		}
		for j < len(body) && !strings.HasPrefix(body[j], "$ ") {
			j++ // the output as it was
		}
		command = strings.TrimRight(command, "\n")
		*parts = append(*parts, part{lines: shown, run: command, step: &Step{Command: command, Console: true}})
	}
	return nil
}

// Play runs the blocks of a text. It returns the text with the outputs that
// there were, and the commands. An error says that the text could not be
// played, or that a command of a sh block failed.
func (s *Session) Play(text string) (string, []Step, error) {
	parts, err := parse(text)
	if err != nil {
		return "", nil, err
	}
	const mark = "\x1e"
	var script strings.Builder
	for _, p := range parts {
		switch {
		case p.step != nil:
			run := p.run
			if s.Real != nil {
				run = s.Real(run)
			}
			fmt.Fprintf(&script, "%s\nprintf '%s%%d%s' $?\n", run, mark, mark)
		case p.run != "":
			script.WriteString(p.run + "\n")
		}
	}
	dir, err := os.MkdirTemp("", "doctest-")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "script")
	if err := os.WriteFile(file, []byte(script.String()), 0o600); err != nil {
		return "", nil, err
	}
	cmd := exec.Command("sh", file)
	cmd.Dir, cmd.Env = s.Dir, s.Env
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		return "", nil, err
	}
	said := strings.Split(string(out), mark)
	var b strings.Builder
	var steps []Step
	for _, p := range parts {
		b.WriteString(p.lines)
		if p.step == nil {
			continue
		}
		if len(said) < 3 {
			return "", nil, fmt.Errorf("the shell ended at %q: %s", p.step.Command, strings.Join(said, ""))
		}
		st := *p.step
		st.Output = clean(said[0])
		if s.Show != nil {
			st.Output = s.Show(st.Output)
		}
		if st.Code, err = strconv.Atoi(said[1]); err != nil {
			return "", nil, err
		}
		said = said[2:]
		steps = append(steps, st)
		if !st.Console {
			if st.Code != 0 {
				return "", nil, fmt.Errorf("%s: exit %d: %s", st.Command, st.Code, st.Output)
			}
			continue
		}
		b.WriteString(st.Output)
		if st.Code != 0 {
			fmt.Fprintf(&b, "[exit %d]\n", st.Code)
		}
	}
	return b.String(), steps, nil
}

// clean takes away what a terminal does not show: spaces at the end of a line,
// with which git covers older text.
func clean(out string) string {
	if out == "" {
		return ""
	}
	lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n") + "\n"
}
