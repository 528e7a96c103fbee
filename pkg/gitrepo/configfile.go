package gitrepo

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/rigward/rigward/internal/files"
)

// A configItem is one setting: its key, with section and name in lower case, and
// its value.
type configItem struct {
	key string
	configValue
}

// maxConfig is the largest configuration file read here, in bytes.
const maxConfig = 1 << 20

// parseConfigFile reads a configuration file (git-config(1), SYNTAX). ok is false
// for a text that git refuses, and for what is rare or was read differently by
// different versions of git: a value that goes on in the next line, control
// characters, dots in the name of a section, a tab within a value.
func parseConfigFile(text string) (items []configItem, ok bool) {
	section := ""
	for line := range strings.Lines(text) {
		rest := strings.TrimSuffix(line, "\n")
		if strings.ContainsFunc(rest, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f || r == 0xfeff }) {
			return nil, false
		}
		for {
			rest = strings.TrimLeft(rest, " \t")
			if rest == "" || rest[0] == '#' || rest[0] == ';' {
				break
			}
			if rest[0] == '[' {
				if section, rest, ok = sectionHead(rest[1:]); !ok {
					return nil, false
				}
				continue
			}
			name, after := cutName(rest)
			if section == "" || !plainName(name) {
				return nil, false
			}
			item := configItem{key: section + "." + strings.ToLower(name)}
			switch after = strings.TrimLeft(after, " \t"); {
			case after == "":
				item.bare = true
			case after[0] != '=':
				return nil, false
			default:
				if item.text, ok = configText(after[1:]); !ok {
					return nil, false
				}
			}
			items = append(items, item)
			break
		}
	}
	return items, true
}

// sectionHead reads what follows the bracket of `[name]` or `[name "subsection"]`.
func sectionHead(s string) (section, rest string, ok bool) {
	name, rest := cutName(s)
	if !plainName(name) || rest == "" {
		return "", "", false
	}
	section = strings.ToLower(name)
	if rest[0] == ']' {
		return section, rest[1:], true
	}
	sub, quoted := strings.CutPrefix(strings.TrimLeft(rest, " \t"), `"`)
	if rest[0] != ' ' && rest[0] != '\t' || !quoted {
		return "", "", false
	}
	var b strings.Builder
	for i := 0; i < len(sub); i++ {
		switch sub[i] {
		case '"':
			rest, ok = strings.CutPrefix(sub[i+1:], "]")
			return section + "." + b.String(), rest, ok
		case '\\':
			if i++; i == len(sub) || sub[i] != '"' && sub[i] != '\\' {
				return "", "", false
			}
		}
		b.WriteByte(sub[i])
	}
	return "", "", false
}

// configText reads what follows the sign of equality to the end of the line.
func configText(s string) (value string, ok bool) {
	var b strings.Builder
	quoted, blanks, tab := false, 0, false
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !quoted {
			if c == ' ' || c == '\t' {
				if b.Len() > 0 {
					blanks, tab = blanks+1, tab || c == '\t'
				}
				continue
			}
			if c == '#' || c == ';' {
				break
			}
		}
		if tab {
			return "", false
		}
		for ; blanks > 0; blanks-- {
			b.WriteByte(' ')
		}
		switch c {
		case '"':
			quoted = !quoted
			continue
		case '\\':
			if i++; i == len(s) {
				return "", false
			}
			if c = s[i]; c == 'n' {
				c = '\n'
			} else if c == 't' {
				c = '\t'
			} else if c != '"' && c != '\\' {
				return "", false
			}
		}
		b.WriteByte(c)
	}
	return b.String(), !quoted
}

// cutName cuts the letters, digits and hyphens off that a text begins with.
func cutName(s string) (name, rest string) {
	rest = strings.TrimLeft(s, nameChars)
	return s[:len(s)-len(rest)], rest
}

const nameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"

// plainName accepts the name of a section or key: letters, digits and hyphens,
// of which git wants a letter first in a key.
func plainName(s string) bool {
	return s != "" && (s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z') && strings.Trim(s, nameChars) == ""
}

// plainConfig reads the whole configuration without a process: that of the system,
// whose path git has built in, the user's, the repository's, and the settings of
// the environment. ok is false where git has to be asked.
func plainConfig(env Env, system, own string) (values map[string][]configValue, ok bool) {
	c := configReader{env: env}
	if !c.outside(system) || !c.file(own, 0) || !c.variables() {
		return nil, false
	}
	values = make(map[string][]configValue, len(c.items))
	for _, item := range c.items {
		values[item.key] = append(values[item.key], item.configValue)
	}
	return values, true
}

// A configReader collects the settings of several places in git's order.
type configReader struct {
	env   Env
	items []configItem
}

// outside reads the configuration of the system, of which git has the path built
// in, and the user's (git-config(1), FILES and ENVIRONMENT).
func (c *configReader) outside(system string) bool {
	if path, set := c.env.Lookup("GIT_CONFIG_SYSTEM"); set {
		system = path
	}
	switch off, _ := c.env.Lookup("GIT_CONFIG_NOSYSTEM"); off {
	case "":
		if _, set := c.env.Lookup("GIT_CONFIG_NOSYSTEM"); set || !filepath.IsAbs(system) || !c.file(system, 0) {
			return false
		}
	case "1", "true":
	default:
		return false
	}
	if path, set := c.env.Lookup("GIT_CONFIG_GLOBAL"); set {
		return filepath.IsAbs(path) && c.file(path, 0)
	}
	home := c.env.Get("HOME")
	more := c.env.Get("XDG_CONFIG_HOME")
	if more == "" {
		more = filepath.Join(home, ".config")
	}
	return filepath.IsAbs(home) && filepath.IsAbs(more) &&
		c.file(filepath.Join(more, "git", "config"), 0) && c.file(filepath.Join(home, ".gitconfig"), 0)
}

// maxIncludes is how deep files that include each other may lie, as in git.
const maxIncludes = 10

// file reads a file, if it is there, and those that it includes, each in the place
// of its mention. What depends on a condition is left to git.
func (c *configReader) file(path string, depth int) bool {
	f, err := files.Open(path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxConfig {
		return false
	}
	text, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil || len(text) > maxConfig {
		return false
	}
	items, ok := parseConfigFile(string(text))
	if !ok {
		return false
	}
	for _, item := range items {
		c.items = append(c.items, item)
		if strings.HasPrefix(item.key, "includeif.") || !item.harmless() {
			return false
		}
		if item.key != "include.path" {
			continue
		}
		target := item.text
		if below, own := strings.CutPrefix(target, "~/"); own {
			target = filepath.Join(c.env.Get("HOME"), below)
		}
		if item.bare || depth == maxIncludes || !filepath.IsAbs(target) || !c.file(target, depth+1) {
			return false
		}
	}
	return true
}

// variables reads the settings of the environment: those of GIT_CONFIG_COUNT, then
// those that `git -c` hands on.
func (c *configReader) variables() bool {
	count, set := c.env.Lookup("GIT_CONFIG_COUNT")
	n, err := strconv.ParseUint(count, 10, 10)
	if set && err != nil {
		return false
	}
	for i := range n {
		number := strconv.FormatUint(i, 10)
		key, ok := c.env.Lookup("GIT_CONFIG_KEY_" + number)
		value, ok2 := c.env.Lookup("GIT_CONFIG_VALUE_" + number)
		if !ok || !ok2 || !c.add(key, value) {
			return false
		}
	}
	rest, _ := c.env.Lookup("GIT_CONFIG_PARAMETERS")
	// 'key'='value', with blanks between them; what is quoted in another way is
	// left to git.
	for rest = strings.TrimLeft(rest, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		key, after, ok := cutQuoted(rest)
		after, ok2 := strings.CutPrefix(after, "=")
		value, after, ok3 := cutQuoted(after)
		if !ok || !ok2 || !ok3 || after != "" && after[0] != ' ' || !c.add(key, value) {
			return false
		}
		rest = after
	}
	return true
}

func cutQuoted(s string) (text, rest string, ok bool) {
	s, ok = strings.CutPrefix(s, "'")
	text, rest, ok2 := strings.Cut(s, "'")
	return text, rest, ok && ok2
}

// add adds a setting of the environment.
func (c *configReader) add(key, value string) bool {
	first, last := strings.IndexByte(key, '.'), strings.LastIndexByte(key, '.')
	if first < 0 || !plainName(key[:first]) || !plainName(key[last+1:]) || strings.Contains(key, "\n") {
		return false
	}
	if key = foldKey(key); strings.HasPrefix(key, "include") {
		return false
	}
	item := configItem{key, configValue{text: value}}
	c.items = append(c.items, item)
	return item.harmless()
}

// harmless reports whether git surely takes a setting. It reads some whatever it
// is asked for, and ends where the value is none of theirs (git, config.c,
// git_default_config and repo-settings.c).
func (i configItem) harmless() bool {
	section, name, _ := strings.Cut(i.key, ".")
	if i.bare {
		return !slices.Contains(readAlways, section)
	}
	switch section {
	case "core":
		return coreTakes(name, i.text)
	case "advice", "feature", "index", "sparse":
		return isBool(i.text)
	case "pack":
		return isBool(i.text) || isDigits(i.text) && len(i.text) < 10
	case "gc", "user", "fetch", "branch":
		switch name {
		case "writecommitgraph", "useconfigonly", "autosetupmerge":
			return isBool(i.text)
		case "negotiationalgorithm", "autosetuprebase":
			return false
		}
	case "push":
		known := []string{"nothing", "matching", "simple", "upstream", "tracking", "current"}
		return name != "default" || slices.Contains(known, i.text)
	case "mailmap":
		return plainPath(i.text)
	case "diff":
		return !strings.Contains(name, ".") // of a driver
	}
	return true
}

// readAlways are the sections of which git reads settings whatever it is asked for.
var readAlways = []string{
	"core", "advice", "feature", "index", "sparse", "pack", "gc", "user", "author", "committer", "fetch", "branch",
	"push", "mailmap", "diff", "i18n", "attr", "extensions",
}

func coreTakes(name, value string) bool {
	switch name {
	case "bare", "filemode", "ignorecase", "precomposeunicode", "symlinks", "trustctime", "quotepath", "fsmonitor",
		"untrackedcache", "protecthfs", "protectntfs":
		return isBool(value)
	case "logallrefupdates":
		return isBool(value) || value == "always"
	case "autocrlf":
		return isBool(value) || value == "input"
	case "safecrlf":
		return isBool(value) || value == "warn"
	case "sharedrepository":
		return isBool(value) || value == "group" || value == "all"
	case "repositoryformatversion":
		return value == "0" || value == "1"
	case "editor", "pager", "sshcommand", "askpass":
		return true
	case "hookspath", "excludesfile", "attributesfile":
		return plainPath(value)
	}
	return false
}

// isBool accepts the usual words for a boolean.
func isBool(s string) bool { return s == "true" || s == "false" }

// plainPath accepts a path that names no other user's home.
func plainPath(s string) bool {
	return s != "" && (s[0] != '~' || strings.HasPrefix(s, "~/")) && !strings.HasPrefix(s, "%(")
}
