package gitrepo

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/rigward/rigward/internal/files"
)

// A program is a git as stat(2) describes it, and what it has built in.
type program struct{ of, path string }

// lookedThrough is the program that this process has looked through last: a resident
// judge has one for all repositories.
var lookedThrough atomic.Pointer[program]

// systemConfig is systemConfig of the repository's git. Looking through the program
// takes a tenth of a hook's time, so what was found is kept in the file rigward/git of
// the repository, where there is such a directory: one line, of the program as stat(2)
// describes it, and the path. It is heeded only if nobody else could write it but who
// may write the repository's configuration, which says more than the system's.
func (r *Repo) systemConfig() (path string, ok bool) {
	var st unix.Stat_t
	if unix.Stat(r.git, &st) != nil {
		return "", false
	}
	of := fmt.Sprintf("1 %q %d %d %d %d.%d %d.%d ", r.git, st.Dev, st.Ino, st.Size, st.Mtim.Sec, st.Mtim.Nsec, st.Ctim.Sec, st.Ctim.Nsec)
	file := filepath.Join(r.commonDir, "rigward", "git")
	if rest, found := strings.CutPrefix(keptAlone(file), of); found {
		if path, whole := strings.CutSuffix(rest, "\n"); whole && filepath.IsAbs(path) {
			return path, true
		}
	}
	if last := lookedThrough.Load(); last != nil && last.of == of {
		path, ok = last.path, true
	} else if path, ok = systemConfig(r.git); ok {
		lookedThrough.Store(&program{of, path})
	}
	if ok {
		_ = files.Keep(file, []byte(of+path+"\n"), 0o644) // without the directory nothing is kept
	}
	return path, ok
}

// keptAlone returns what a small file holds, "" unless this user or root alone may
// write it.
func keptAlone(file string) string {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o022 != 0 || st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return ""
	}
	data := make([]byte, 4096)
	n, _ := f.Read(data)
	return string(data[:n])
}

// systemConfig returns the path of the system's configuration that a git program
// has built in (git-config(1), FILES). ok is false unless the file is git itself,
// of a version that knows `cat-file --batch-command`: for a script in its place,
// and for a git whose place decides.
func systemConfig(program string) (path string, ok bool) {
	f, err := os.Open(program)
	if err != nil {
		return "", false
	}
	defer f.Close()
	for _, part := range constants(f) {
		// The kernel maps whole pages.
		skip := part.at % int64(os.Getpagesize())
		data, err := unix.Mmap(int(f.Fd()), part.at-skip, int(part.size+skip), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_POPULATE)
		if err != nil {
			return "", false
		}
		path, ok = builtIn(data[skip:])
		_ = unix.Munmap(data)
		if ok {
			return path, true
		}
	}
	return "", false
}

// A span is a part of a file.
type span struct{ at, size int64 }

// maxConstants is up to how many bytes of constants are looked through; git has
// about one million.
const maxConstants = 16 << 20

// constants returns where a program for a 64-bit machine of this byte order holds
// what is neither run nor written: the segments of its program header (elf(5)).
func constants(f *os.File) (parts []span) {
	info, err := f.Stat()
	var head [4096]byte
	if n, _ := f.ReadAt(head[:], 0); err != nil || !info.Mode().IsRegular() || n < 64 || string(head[:4]) != elf.ELFMAG ||
		elf.Class(head[elf.EI_CLASS]) != elf.ELFCLASS64 || elf.Data(head[elf.EI_DATA]) != elf.ELFDATA2LSB {
		return nil
	}
	le := binary.LittleEndian
	at, each, count := le.Uint64(head[32:]), le.Uint16(head[54:]), le.Uint16(head[56:])
	for i := range uint64(count) {
		from := at + i*uint64(each)
		if each < 56 || from > uint64(len(head)-56) {
			return nil
		}
		h := head[from:]
		offset, size := le.Uint64(h[8:]), le.Uint64(h[32:])
		if elf.ProgType(le.Uint32(h)) != elf.PT_LOAD || elf.ProgFlag(le.Uint32(h[4:])) != elf.PF_R {
			continue
		}
		if size == 0 || size > maxConstants || offset > uint64(info.Size()) || size > uint64(info.Size())-offset {
			return nil
		}
		parts = append(parts, span{int64(offset), int64(size)})
	}
	return parts
}

// builtIn looks among constants for the texts of git: the name of the option, and
// the one absolute path that ends in /etc/gitconfig.
func builtIn(data []byte) (path string, ok bool) {
	const name = "/etc/gitconfig\x00"
	i := bytes.Index(data, []byte(name))
	if i < 0 || bytes.Contains(data[i+1:], []byte(name)) || !bytes.Contains(data, []byte("\x00batch-command\x00")) {
		return "", false
	}
	start := bytes.LastIndexByte(data[:i], 0) + 1
	path = string(data[start : i+len(name)-1])
	return path, start > 0 && path[0] == '/'
}
