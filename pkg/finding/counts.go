package finding

// Counts are numbers of findings by severity.
type Counts struct{ Errors, Warnings int }

// Add counts one more finding of a severity.
func (c *Counts) Add(s Severity) {
	switch s {
	case Error:
		c.Errors++
	case Warning:
		c.Warnings++
	}
}

// Plus returns the sum of two counts.
func (c Counts) Plus(d Counts) Counts {
	return Counts{c.Errors + d.Errors, c.Warnings + d.Warnings}
}

// Of returns how many findings of a severity were counted.
func (c Counts) Of(s Severity) int {
	switch s {
	case Error:
		return c.Errors
	case Warning:
		return c.Warnings
	}
	return 0
}

// Total returns how many findings were counted.
func (c Counts) Total() int { return c.Errors + c.Warnings }

// Worst returns the highest severity that was counted, Off if there is none.
func (c Counts) Worst() Severity {
	switch {
	case c.Errors > 0:
		return Error
	case c.Warnings > 0:
		return Warning
	}
	return Off
}
