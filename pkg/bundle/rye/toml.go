package rye

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/rigward/rigward/pkg/finding"
)

// A tomlTable holds what parseTOML read, by key.
type tomlTable map[string]any

// text returns the string at a path of keys.
func (t tomlTable) text(path ...string) (string, bool) {
	for _, k := range path[:len(path)-1] {
		next, ok := t[k].(map[string]any)
		if !ok {
			return "", false
		}
		t = next
	}
	s, ok := t[path[len(path)-1]].(string)
	return s, ok
}

// maxTOMLDepth bounds tables and arrays within each other.
const maxTOMLDepth = 16

// parseTOML reads TOML 1.0 in valid UTF-8, and refuses what the library takes
// beyond Python's tomllib, which rye reads key documents with.
func parseTOML(text string) (tomlTable, error) {
	doc := map[string]any{}
	err := toml.Unmarshal([]byte(text), &doc)
	if err == nil {
		return doc, checkTOML(doc, strings.Contains(text, `\e`), 0)
	}
	why := finding.Clean(strings.TrimPrefix(err.Error(), "toml: "))
	var at *toml.DecodeError
	if errors.As(err, &at) {
		line, _ := at.Position()
		why = fmt.Sprintf("line %d: %s", line, why)
	}
	return nil, errors.New(why)
}

// checkTOML judges a value: no year 0, no escape \e of TOML 1.1, no more than
// maxTOMLDepth levels.
func checkTOML(v any, escapes bool, depth int) error {
	year := 1
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if err := errors.Join(checkTOML(k, escapes, 0), checkTOML(x, escapes, depth+1)); err != nil {
				return err
			}
		}
	case []any:
		for _, x := range v {
			if err := checkTOML(x, escapes, depth+1); err != nil {
				return err
			}
		}
	case string:
		if escapes && strings.Contains(v, "\x1b") {
			return errors.New(`the escape \e is not one of TOML 1.0`)
		}
	case time.Time:
		year = v.Year()
	case toml.LocalDateTime:
		year = v.Year
	case toml.LocalDate:
		year = v.Year
	}
	switch {
	case year < 1:
		return errors.New("a date in the year 0")
	case depth > maxTOMLDepth:
		return errors.New("values nested too deeply")
	}
	return nil
}
