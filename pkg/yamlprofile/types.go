package yamlprofile

import "strings"

// Resolve returns the kind of a plain scalar by the YAML 1.2 core schema, in
// the order of spec/envelope.md section 4: Null, Bool, Number or String.
func Resolve(plain string) Kind {
	switch plain {
	case "", "~", "null", "Null", "NULL":
		return Null
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return Bool
	}
	if isNumber(plain) {
		return Number
	}
	return String
}

// isNumber matches the four number rows of spec/envelope.md section 4.
func isNumber(s string) bool {
	if rest, ok := strings.CutPrefix(s, "0o"); ok {
		return rest != "" && skip(rest, isOctal) == len(rest)
	}
	if rest, ok := strings.CutPrefix(s, "0x"); ok {
		return rest != "" && skip(rest, isHex) == len(rest)
	}
	switch s {
	case ".nan", ".NaN", ".NAN":
		return true
	}
	if s[0] == '-' || s[0] == '+' {
		s = s[1:]
	}
	switch s {
	case "":
		return false
	case ".inf", ".Inf", ".INF":
		return true
	}
	whole := skip(s, isDigit)
	s = s[whole:]
	if strings.HasPrefix(s, ".") {
		fraction := skip(s[1:], isDigit)
		if whole == 0 && fraction == 0 {
			return false
		}
		s = s[1+fraction:]
	} else if whole == 0 {
		return false
	}
	if s == "" {
		return true
	}
	if s[0] != 'e' && s[0] != 'E' {
		return false
	}
	s = s[1:]
	if s != "" && (s[0] == '-' || s[0] == '+') {
		s = s[1:]
	}
	return s != "" && skip(s, isDigit) == len(s)
}

// skip counts the leading bytes of s of a class.
func skip(s string, class func(byte) bool) int {
	for i := range len(s) {
		if !class(s[i]) {
			return i
		}
	}
	return len(s)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isOctal(c byte) bool { return '0' <= c && c <= '7' }
func isHex(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
