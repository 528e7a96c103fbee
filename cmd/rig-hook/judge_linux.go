package main

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/internal/resident"
)

// Bounds of a process that judges one call after the other. Then a new one takes
// its place.
const (
	maxCalls = 10_000
	maxIdle  = 96 << 20 // bytes of memory that it keeps between two calls
	// handingOver is how long a hook has to hand over its call.
	handingOver = 2 * time.Second
)

// States of such a process.
const (
	idle = iota
	busy
	ending
)

// worker judges the calls that come to the listening socket 3, one at a time,
// each with the directory, environment, umask and files of the hook that it comes
// from: there is no difference to a process of its own, and nothing is kept from
// one to the next.
func worker() {
	self, err := os.Executable()
	if err != nil {
		os.Exit(report.ExitUndecided)
	}
	var state atomic.Int32
	var last atomic.Bool
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-end
		last.Store(true)
		if state.CompareAndSwap(idle, ending) {
			os.Exit(report.ExitClean)
		}
	}()
	for range maxCalls {
		fd, _, err := syscall.Accept4(3, syscall.SOCK_CLOEXEC)
		if err == syscall.EINTR || err == syscall.ECONNABORTED {
			continue
		}
		if err != nil {
			os.Exit(report.ExitUndecided)
		}
		if !state.CompareAndSwap(idle, busy) {
			return // the hook judges by itself
		}
		fresh := judgeCall(fd, self)
		syscall.Close(fd)
		if os.Chdir("/") != nil {
			return // it would hold on to the hook's directory
		}
		if last.Load() || !fresh || memoryOf(os.Getpid()) > maxIdle {
			return
		}
		state.Store(idle)
		if last.Load() {
			return
		}
	}
}

// judgeCall judges one call. fresh says that nothing of it is left in this process.
func judgeCall(fd int, self string) (fresh bool) {
	peer, err := syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	if err != nil || int(peer.Uid) != os.Getuid() {
		say(fd, resident.Refused)
		return true
	}
	patience := syscall.NsecToTimeval(int64(handingOver))
	_ = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &patience)
	if !say(fd, resident.Ready) {
		return true // it has waited long enough, and judges by itself
	}
	call, files, err := receive(fd)
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if err != nil || !slices.Contains(hooks.Names(), call.Args[0]) || !assume(call) {
		say(fd, resident.Refused)
		return false
	}
	_ = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{})
	ctx, stop := context.WithCancelCause(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		var b [1]byte
		for {
			if n, err := syscall.Read(fd, b[:]); err != syscall.EINTR || n > 0 {
				stop(errors.New("the hook has ended"))
				return
			}
		}
	}()
	code := Main(ctx, &hooks.Env{
		Args: append([]string{"rig-hook"}, call.Args...), Stdin: files[0], Stdout: files[1], Stderr: files[2],
		Environ: call.Environ, Dir: call.Dir, Executable: self, Now: time.Now, Rand: rand.Reader,
		StdinTTY: term.IsTerminal(int(files[0].Fd())), StderrTTY: term.IsTerminal(int(files[2].Fd())),
		Ship:    shipper(self, call.Dir),
		Bundles: bundleJudge(self),
		Attest:  func(turn *os.File) error { return startSigner(self, call.Dir, call.Environ, turn) },
	})
	say(fd, resident.Verdict, byte(code))
	_ = syscall.Shutdown(fd, syscall.SHUT_RDWR)
	<-gone
	// What was not decided may have left work behind that goes on.
	return code != report.ExitUndecided
}

// say sends bytes to a hook and reports whether it is still there.
func say(fd int, b ...byte) bool {
	return syscall.Sendmsg(fd, b, nil, nil, syscall.MSG_NOSIGNAL) == nil
}

// receive reads a call, and the three files beside it.
func receive(fd int) (call resident.Call, files []*os.File, err error) {
	var header [resident.HeaderSize]byte
	oob := make([]byte, syscall.CmsgSpace(4*8))
	n, oobn, flags, _, err := syscall.Recvmsg(fd, header[:], oob, syscall.MSG_CMSG_CLOEXEC|syscall.MSG_WAITALL)
	if err != nil {
		return call, nil, err
	}
	messages, err := syscall.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return call, nil, err
	}
	for _, m := range messages {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			return call, files, err
		}
		for i, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "standard file "+strconv.Itoa(i)))
		}
	}
	size, ok := resident.Size(header)
	if n != len(header) || len(files) != 3 || flags&syscall.MSG_CTRUNC != 0 || !ok {
		return call, files, errors.New("this is not a call")
	}
	data := make([]byte, size)
	for got := 0; got < size; {
		n, err := syscall.Read(fd, data[got:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return call, files, errors.New("the call is cut off")
		}
		got += n
	}
	call, err = resident.Parse(data)
	return call, files, err
}

// assume makes this process like the one that a call comes from. It fails where
// its directory is another one here, such as in a container.
func assume(call resident.Call) bool {
	var st syscall.Stat_t
	if os.Chdir(call.Dir) != nil || syscall.Stat(".", &st) != nil || uint64(st.Dev) != call.Dev || st.Ino != call.Ino {
		return false
	}
	syscall.Umask(call.Umask)
	os.Clearenv()
	for _, kv := range call.Environ {
		if key, value, ok := strings.Cut(kv, "="); ok {
			_ = os.Setenv(key, value)
		}
	}
	return true
}

// memoryOf is how many bytes of memory a process has, 0 if it has ended.
func memoryOf(pid int) int64 {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(data))
	if len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(f[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
