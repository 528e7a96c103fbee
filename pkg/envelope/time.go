package envelope

import (
	"errors"
	"fmt"
	"time"

	"github.com/rigward/rigward/pkg/finding"
)

// ParseTime reads the value of date or attested_at: YYYY-MM-DD, or that with
// Thh:mm:ss, a fraction and a zone, each optional after the one before it.
// Without a zone the time is UTC; dayOnly tells a date alone, for which t is
// the begin of its UTC day. A value of another form or that is not a real date or
// time (docs/spec/envelope.md#dates) is an error.
func ParseTime(s string) (t time.Time, dayOnly bool, err error) {
	d, ok := scanDate(s)
	if !ok {
		return time.Time{}, false, errors.New(finding.QuoteMax(s, 40) + " is not of the form YYYY-MM-DD or YYYY-MM-DDThh:mm:ssZ")
	}
	if problem := d.problem(); problem != "" {
		return time.Time{}, false, errors.New(problem)
	}
	zone := time.UTC
	if d.offsetHour != 0 || d.offsetMinute != 0 {
		zone = time.FixedZone("", d.sign*(d.offsetHour*3600+d.offsetMinute*60))
	}
	return time.Date(d.year, time.Month(d.month), d.day, d.hour, d.minute, d.second, d.nanosecond, zone), d.dayOnly, nil
}

// date is what the pattern of date finds, whether or not it is real.
type date struct {
	year, month, day                 int
	dayOnly                          bool
	hour, minute, second, nanosecond int
	sign, offsetHour, offsetMinute   int
}

// scanDate matches the pattern of the property date (docs/spec/envelope.md#schema).
func scanDate(s string) (d date, ok bool) {
	number := func(digits int) int {
		if len(s) < digits {
			ok = false
			return 0
		}
		n := 0
		for _, c := range []byte(s[:digits]) {
			if c < '0' || c > '9' {
				ok = false
			}
			n = n*10 + int(c-'0')
		}
		s = s[digits:]
		return n
	}
	literal := func(c byte) {
		if s == "" || s[0] != c {
			ok = false
			return
		}
		s = s[1:]
	}
	ok = true
	d.year = number(4)
	literal('-')
	d.month = number(2)
	literal('-')
	d.day = number(2)
	if !ok {
		return d, false
	}
	if s == "" {
		d.dayOnly = true
		return d, true
	}
	literal('T')
	d.hour = number(2)
	literal(':')
	d.minute = number(2)
	literal(':')
	d.second = number(2)
	if !ok {
		return d, false
	}
	if s != "" && s[0] == '.' {
		digits := 0
		for s = s[1:]; s != "" && '0' <= s[0] && s[0] <= '9'; s = s[1:] {
			if digits++; digits <= 9 {
				d.nanosecond = d.nanosecond*10 + int(s[0]-'0')
			}
		}
		if digits == 0 {
			return d, false
		}
		for ; digits < 9; digits++ {
			d.nanosecond *= 10
		}
	}
	switch {
	case s == "", s == "Z":
		return d, true
	case s[0] == '+':
		d.sign = 1
	case s[0] == '-':
		d.sign = -1
	default:
		return d, false
	}
	s = s[1:]
	d.offsetHour = number(2)
	if s != "" && s[0] == ':' {
		s = s[1:]
	}
	d.offsetMinute = number(2)
	return d, ok && s == ""
}

// problem names the part that no real date or time has, "" if all are real.
func (d date) problem() string {
	days := 31
	switch d.month {
	case 4, 6, 9, 11:
		days = 30
	case 2:
		days = 28
		if d.year%4 == 0 && (d.year%100 != 0 || d.year%400 == 0) {
			days = 29
		}
	}
	switch {
	case d.year < 1:
		return "year 0000 does not exist, expected 0001 to 9999"
	case d.month < 1 || d.month > 12:
		return fmt.Sprintf("month %02d does not exist, expected 01 to 12", d.month)
	case d.day < 1 || d.day > days:
		return fmt.Sprintf("day %02d does not exist in %04d-%02d, expected 01 to %d", d.day, d.year, d.month, days)
	case d.hour > 23:
		return fmt.Sprintf("hour %02d does not exist, expected 00 to 23", d.hour)
	case d.minute > 59:
		return fmt.Sprintf("minute %02d does not exist, expected 00 to 59", d.minute)
	case d.second > 59:
		return fmt.Sprintf("second %02d does not exist, expected 00 to 59", d.second)
	case d.offsetHour > 23:
		return fmt.Sprintf("hour %02d of the zone does not exist, expected 00 to 23", d.offsetHour)
	case d.offsetMinute > 59:
		return fmt.Sprintf("minute %02d of the zone does not exist, expected 00 to 59", d.offsetMinute)
	}
	return ""
}
