package yamlprofile

import "strings"

// Resolve returns the kind of a plain scalar by the YAML 1.2 core schema, in
// the order of docs/spec/envelope.md#types: Null, Bool, Number or String.
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

// isNumber matches the four number rows of docs/spec/envelope.md#types.
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

// InYAML11 says what readers of YAML 1.1 take a plain scalar for that is a
// string by [Resolve]: "a boolean", "a number", "a date"; "" if they, too, read
// a string. So PyYAML reads yes, 0b11, 1_000, 12:30 and 2026-05-15. What a
// value means must then be said by quotes.
func InYAML11(plain string) string {
	if len(plain) <= len("off") {
		switch strings.ToLower(plain) {
		case "y", "yes", "n", "no", "on", "off":
			if l := strings.ToLower(plain[1:]); plain[1:] == l || plain == strings.ToUpper(plain) {
				return "a boolean"
			}
			return ""
		case "=", "<<":
			return "a mark of its own"
		}
	}
	switch {
	case plain == "" || Resolve(plain) != String:
		return ""
	case isTimestamp(plain):
		return "a date"
	case isNumber11(plain):
		return "a number"
	}
	return ""
}

// isNumber11 matches the numbers of YAML 1.1 that are none in 1.2: with
// underscores, in base 2 and 60, and with a sign before the base.
func isNumber11(s string) bool {
	if s[0] == '-' || s[0] == '+' {
		s = s[1:]
	}
	if s == "" || s[0] != '.' && !isDigit(s[0]) {
		return false
	}
	if digits := strings.ReplaceAll(s, "_", ""); digits == "." || digits == "0x" || digits == "0b" {
		return digits != s
	} else {
		s = digits
	}
	if rest, ok := strings.CutPrefix(s, "0b"); ok {
		return strings.Trim(rest, "01") == ""
	}
	whole, rest, ok := strings.Cut(s, ":")
	if !ok {
		return isNumber(s)
	}
	if whole == "" || skip(whole, isDigit) != len(whole) {
		return false
	}
	rest, fraction, _ := strings.Cut(rest, ".")
	if skip(fraction, isDigit) != len(fraction) {
		return false
	}
	for part := range strings.SplitSeq(rest, ":") {
		if len(part) == 0 || len(part) > 2 || skip(part, isDigit) != len(part) || len(part) == 2 && part[0] > '5' {
			return false
		}
	}
	return true
}

// isTimestamp matches the timestamps of YAML 1.1, be they of a day that exists
// or not.
func isTimestamp(s string) bool {
	digits := func(least, most int) bool {
		n := skip(s[:min(len(s), most)], isDigit)
		s = s[n:]
		return n >= least
	}
	char := func(set string) bool {
		if s == "" || strings.IndexByte(set, s[0]) < 0 {
			return false
		}
		s = s[1:]
		return true
	}
	if !digits(4, 4) || !char("-") || !digits(1, 2) || !char("-") || !digits(1, 2) {
		return false
	}
	if s == "" {
		return true
	}
	if !char("Tt") {
		if !char(" \t") {
			return false
		}
		s = strings.TrimLeft(s, " \t")
	}
	if !digits(1, 2) || !char(":") || !digits(2, 2) || !char(":") || !digits(2, 2) {
		return false
	}
	if char(".") {
		s = s[skip(s, isDigit):]
	}
	if s = strings.TrimLeft(s, " \t"); s == "" || s == "Z" {
		return true
	}
	return char("+-") && digits(1, 2) && (s == "" || char(":") && digits(2, 2) && s == "")
}
