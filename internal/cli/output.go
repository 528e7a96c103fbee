package cli

import "io"

// An Output is standard output that remembers the first error of a write: what
// nobody got was not told.
type Output struct {
	W   io.Writer
	Err error
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	n, err := o.W.Write(p)
	if o.Err == nil {
		o.Err = err
	}
	return n, err
}
