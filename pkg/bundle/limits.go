package bundle

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Limits bound what a reader takes. Exceeding means strictly more. The zero
// value of a field allows nothing; start from [DefaultLimits].
type Limits struct {
	TotalSize  int64 // bytes: headers and declared sizes of all members
	MemberSize int64 // bytes: declared size of one member
	Entries    int64 // members
	Manifest   int64 // bytes: size of the manifest member
	Path       int64 // bytes of a name after normalising
	Component  int64 // bytes of one path component
	Depth      int64 // components of a path
	NameBytes  int64 // bytes: sum of all names and link targets
	Window     int64 // bytes: zstd window of any frame
	Ratio      int64 // decompressed size : file size, once more than 64 MiB came out
}

// DefaultLimits returns the limits of docs/spec/rigbundle.md#limits. Formats
// change those that they define otherwise.
func DefaultLimits() Limits {
	return Limits{
		TotalSize: 1 << 30, MemberSize: 256 << 20, Entries: 32768, Manifest: 4 << 20,
		Path: 4096, Component: 255, Depth: 256, NameBytes: 64 << 20, Window: 128 << 20, Ratio: 200,
	}
}

// ratioFloor is the amount of output up to which no ratio is too high.
const ratioFloor = 64 << 20

// maxPax bounds the body of a pax header.
const maxPax = 1 << 20

// limitNames are the names of the fields, in their order.
var limitNames = []string{"total-size", "member-size", "entries", "manifest", "path", "component", "depth", "name-bytes", "window", "ratio"}

// Set changes one limit as `--limit NAME=VALUE` writes it. VALUE is a decimal
// number, for sizes with an optional suffix KiB, MiB or GiB.
func (l *Limits) Set(arg string) error {
	name, value, ok := strings.Cut(arg, "=")
	i := slices.Index(limitNames, name)
	if !ok || i < 0 {
		return fmt.Errorf("--limit takes NAME=VALUE with NAME one of %s", strings.Join(limitNames, ", "))
	}
	digits, unit := value, int64(1)
	for i, suffix := range []string{"KiB", "MiB", "GiB"} {
		if d, found := strings.CutSuffix(value, suffix); found {
			digits, unit = d, 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseUint(digits, 10, 62)
	if err != nil || int64(n) > (1<<62)/unit {
		return fmt.Errorf("--limit %s takes a whole number, optionally with KiB, MiB or GiB", name)
	}
	fields := []*int64{&l.TotalSize, &l.MemberSize, &l.Entries, &l.Manifest, &l.Path, &l.Component, &l.Depth, &l.NameBytes, &l.Window, &l.Ratio}
	*fields[i] = int64(n) * unit
	return nil
}
