package agent

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// HeadSize is the number of bytes at the start of an executable file that
// decide whether it can be started (docs/spec/agentbundle.md#entry).
const HeadSize = 256

// entryFault is a finding about the file that entry names.
func entryFault(code, entry, hint, format string, args ...any) *bundle.Finding {
	return &bundle.Finding{Code: code, Path: entry, Field: "entry", Message: fmt.Sprintf(format, args...), Hint: hint}
}

// checkEntryPath judges the letters of entry, step 1 of docs/spec/agentbundle.md#entry.
func checkEntryPath(entry string) *bundle.Finding {
	why := ""
	switch {
	case strings.Contains(entry, `\`):
		why = "has a backslash"
	case strings.HasPrefix(entry, "/"):
		why = "is absolute"
	case strings.HasSuffix(entry, "/"):
		why = "ends in a slash"
	case hasDriveLetter(entry):
		why = "begins with a drive letter"
	default:
		for c := range strings.SplitSeq(entry, "/") {
			if c == "" {
				why = "has an empty component"
			} else if c == "." || c == ".." {
				why = `has the component "` + c + `"`
			}
		}
	}
	if why == "" {
		return nil
	}
	return entryFault(codeEntryPath, entry, "", "entry %s %s, a path below the bundle root like bin/agent is expected", finding.QuoteMax(entry, 200), why)
}

func hasDriveLetter(p string) bool {
	return len(p) >= 2 && p[1] == ':' && (p[0]|0x20 >= 'a' && p[0]|0x20 <= 'z')
}

// checkEntryFormat judges the first HeadSize bytes of the entry, step 5 of
// docs/spec/agentbundle.md#entry: a kernel of the bundle's platform can start it.
func checkEntryFormat(entry string, head []byte, platform, arch string) *bundle.Finding {
	format := func(why string) *bundle.Finding {
		return entryFault(codeEntryFormat, entry, "", "%s %s, a #! line or a binary for %s/%s is expected", finding.QuoteMax(entry, 200), why, platform, arch)
	}
	foreign := func(what string) *bundle.Finding {
		return entryFault(codeEntryArch, entry, "", "%s is %s, a #! line or a binary for %s/%s is expected", finding.QuoteMax(entry, 200), what, platform, arch)
	}
	head = head[:min(len(head), HeadSize)]
	switch {
	case bytes.HasPrefix(head, []byte("#!")):
		if why := shebangFault(head); why != "" {
			return format(why)
		}
		return nil
	case bytes.HasPrefix(head, []byte("\x7fELF")):
		what, ok := ELFArch(head)
		switch {
		case !ok:
			return format("has an ELF header that is cut short")
		case platform != "linux" || what != arch:
			return foreign("an ELF binary for linux/" + what)
		}
		return nil
	case isMachO(head):
		what := machOArches(head)
		if platform != "darwin" {
			return foreign("a Mach-O binary for darwin")
		}
		if len(what) > 0 && !slices.Contains(what, arch) {
			return foreign("a Mach-O binary for darwin/" + strings.Join(what, "+"))
		}
		return nil
	case bytes.HasPrefix(head, []byte("MZ")):
		return foreign("a Windows binary")
	case len(head) == 0:
		return format("is empty")
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf#!")):
		return format("has a byte order mark before its #! line")
	}
	return format("begins with neither #! nor the header of a binary")
}

// shebangFault says what keeps a kernel from following the #! line.
func shebangFault(head []byte) string {
	line, _, ok := bytes.Cut(head[2:], []byte("\n"))
	switch {
	case bytes.ContainsRune(line, '\r'):
		return "has a carriage return in its #! line"
	case !ok:
		return fmt.Sprintf("has a #! line without line feed in its first %d bytes", HeadSize)
	}
	line = bytes.TrimLeft(line, " \t")
	interpreter := line
	if i := bytes.IndexAny(line, " \t"); i >= 0 {
		interpreter = line[:i]
	}
	if !bytes.HasPrefix(interpreter, []byte("/")) || len(interpreter) == 1 || bytes.IndexByte(interpreter, 0) >= 0 {
		return "has a #! line without an absolute interpreter path"
	}
	return ""
}

// elfMachines are the headers of docs/spec/agentbundle.md#entry: class, byte order, machine (ELF
// gABI, e_ident and e_machine).
var elfMachines = map[[3]uint16]string{
	{2, 1, 62}:  "amd64",
	{2, 1, 183}: "arm64",
	{1, 1, 40}:  "arm",
	{1, 1, 3}:   "386",
	{2, 1, 21}:  "ppc64le",
	{2, 1, 243}: "riscv64",
	{2, 2, 22}:  "s390x",
}

// ELFArch names the architecture of an ELF header, of which 20 bytes are enough, by the words of the manifest; one that
// is none of ours is named by its numbers. ok is false if head is not that of an ELF file.
func ELFArch(head []byte) (arch string, ok bool) {
	if len(head) < 20 || !bytes.HasPrefix(head, []byte("\x7fELF")) {
		return "", false
	}
	var order binary.ByteOrder = binary.LittleEndian
	if head[5] == 2 {
		order = binary.BigEndian
	}
	machine := order.Uint16(head[18:])
	if a := elfMachines[[3]uint16{uint16(head[4]), uint16(head[5]), machine}]; a != "" {
		return a, true
	}
	return fmt.Sprintf("machine %d, class %d, byte order %d", machine, head[4], head[5]), true
}

// Mach-O magic numbers and CPU types (mach-o/loader.h, mach-o/fat.h,
// mach/machine.h of XNU).
const (
	machO32   = 0xfeedface
	machO64   = 0xfeedfacf
	machOFat  = 0xcafebabe
	machOFat6 = 0xcafebabf
	maxFat    = 30 // a Java class file has the magic of a fat binary and 45 or more here
)

var machOCPUs = map[uint32]string{7: "386", 12: "arm", 0x01000007: "amd64", 0x0100000c: "arm64"}

func isMachO(head []byte) bool {
	if len(head) < 8 {
		return false
	}
	big, little := binary.BigEndian.Uint32(head), binary.LittleEndian.Uint32(head)
	switch {
	case big == machO32, big == machO64, little == machO32, little == machO64:
		return true
	case big == machOFat, big == machOFat6:
		return binary.BigEndian.Uint32(head[4:]) <= maxFat
	}
	return false
}

// machOArches names the architectures that a Mach-O header holds, as far as
// they can be seen and have a name here.
func machOArches(head []byte) []string {
	var cpus []uint32
	big, little := binary.BigEndian.Uint32(head), binary.LittleEndian.Uint32(head)
	switch {
	case little == machO32 || little == machO64:
		cpus = append(cpus, binary.LittleEndian.Uint32(head[4:]))
	case big == machO32 || big == machO64:
		cpus = append(cpus, binary.BigEndian.Uint32(head[4:]))
	default:
		size := 20 // struct fat_arch
		if big == machOFat6 {
			size = 32
		}
		n := int(binary.BigEndian.Uint32(head[4:]))
		if 8+n*size > len(head) {
			return nil
		}
		for i := range n {
			cpus = append(cpus, binary.BigEndian.Uint32(head[8+i*size:]))
		}
	}
	var names []string
	for _, c := range cpus {
		if n := machOCPUs[c]; n != "" {
			names = append(names, n)
		}
	}
	return names
}
