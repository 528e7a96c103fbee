package main

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
)

// started runs serve or ui until the test ends, and returns the address that it
// printed.
func started(t *testing.T, r *gittest.Repo, args ...string) string {
	t.Helper()
	cmd := command(r, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	cmd.Stderr = &told
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	line, _ := bufio.NewReader(out).ReadString('\n')
	address := regexp.MustCompile(`http://\S+`).FindString(line)
	if address == "" {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // its output is whole then
		t.Fatalf("%q: %s", line, told.String())
	}
	return address
}

// visit asks for a page as a browser does that opens the printed address first.
func visit(t *testing.T, address, path string) (status int, text string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	base, _, _ := strings.Cut(address, "?")
	for _, a := range []string{address, base + path} {
		res, err := client.Get(a)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		status, text = res.StatusCode, string(data)
	}
	return status, text
}

func TestServe(t *testing.T) {
	databases(t, func(t *testing.T, database func() string) {
		where := database()
		if where == "" {
			where = "sqlite:" + filepath.ToSlash(filepath.Join(t.TempDir(), "shared.db"))
		}
		one, clone := server(t, "one", where)
		other, _ := server(t, "other", where)
		must(t, other, "index")
		hook(t, one)
		must(t, one, "index")
		clone.Commit("x", map[string]string{"build/REQUEST.md": say("REQUEST", "build", "rig-a", "rig-b", "Something else")})
		if p := clone.Push("-q", "origin", "main"); p.Code == 0 {
			t.Fatal("an accepted envelope was changed")
		}
		must(t, one, "ship", "--once")
		sum := func() (s [32]byte) {
			if file, ok := strings.CutPrefix(where, "sqlite:"); ok {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				s = sha256.Sum256(data)
			}
			return s
		}
		before := sum()
		address := started(t, one, "serve", "--listen", "127.0.0.1:0", ".", other.Dir)
		for path, want := range map[string]string{
			"": "2 turns wait", "thread?repo=one&thread=build": "Please build", "thread?repo=other&thread=build": "Please build", "pushes": "append-only",
			"repositories": "up to date", "search?q=please": "build", "?repo=other": "One turn waits", "rigs": "rig-b",
		} {
			if status, text := visit(t, address, path); status != http.StatusOK || !strings.Contains(text, want) {
				t.Errorf("/%s: %d, expected %q:\n%s", path, status, want, text)
			}
		}
		_, text := visit(t, address, "metrics")
		for _, want := range []string{`rigward_commits_behind{repo="one"} 0`, `rigward_commits_behind{repo="other"} 0`, `rigward_problem{repo="one"} 0`, `rigward_pushes{repo="one",exit="1"} 1`} {
			if !strings.Contains(text, want+"\n") || strings.Count(text, "# TYPE rigward_commits_behind ") != 1 {
				t.Errorf("metrics lack %s:\n%s", want, text)
			}
		}
		// What is no question about a page is refused before Go's server answers it.
		base, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		for _, lines := range []string{"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: evil.example\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"} {
			c, err := net.Dial("tcp", base.Host)
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.WriteString(c, lines)
			data, readErr := io.ReadAll(c) // to the end: it is not kept
			if err := errors.Join(err, readErr, c.Close()); err != nil || !strings.HasPrefix(string(data), "HTTP/1.1 405 ") || strings.Count(string(data), "HTTP/1.1 ") != 1 {
				t.Errorf("%q: %v: %s", lines, err, data)
			}
		}
		if sum() != before {
			t.Error("looking has changed the database")
		}
	})
}

// TestServeSafely: nothing is open to others by mistake.
func TestServeSafely(t *testing.T) {
	bare, _ := server(t, "team", "")
	must(t, bare, "index")
	write := func(name, text string, mode os.FileMode) string {
		if err := os.WriteFile(filepath.Join(bare.Dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return name
	}
	secret := strings.Repeat("k", 32)
	good, open, short := write("token", secret+"\n", 0o600), write("open", secret, 0o644), write("short", "abc", 0o600)
	for want, args := range map[string][]string{
		"can be reached from other machines": {"--listen", "0.0.0.0:0"}, "expected HOST:PORT": {"--listen", "7117"}, "exclude each other": {"--no-token", "--token-file", good},
		"can be read by others": {"--token-file", open}, "holds no token": {"--token-file", short}, "cannot be read": {"--token-file", "none"},
		"--proxy is for --auth-header": {"--proxy", "10.0.0.1"}, "--proxy is": {"--auth-header", "X", "--proxy", "here"},
		"--auth-header is empty": {"--auth-header", "", "--listen", "0.0.0.0:0"}, "--host is empty": {"--no-token", "--host="},
		`"0.0.0.0:1" can be reached`: {"--listen", "0.0.0.0:1", "--no-token"},
	} {
		if got := control(bare, append([]string{"serve"}, args...)...); got.code != 2 || !strings.Contains(got.err, want) {
			t.Errorf("%q: exit %d: %s", args, got.code, got.err)
		}
	}
	// What needs no other flag needs no --listen: it is told where only the port is in the way.
	taken, err := net.Listen("tcp", defaultListen)
	if err == nil {
		defer taken.Close()
	}
	for _, args := range [][]string{nil, {"--no-token"}, {"--token-file", good}, {"--auth-header", "X-Remote-User", "--host", "rigward.example.com"}} {
		if got := control(bare, append([]string{"serve"}, args...)...); got.code != 2 || !strings.Contains(got.err, "cannot listen on \""+defaultListen) {
			t.Errorf("%q: exit %d: %s", args, got.code, got.err)
		}
	}
	address := started(t, bare, "serve", "--listen", "127.0.0.1:0", "--token-file", good)
	if strings.Contains(address, secret) {
		t.Error("the token of a file is printed")
	}
	if status, _ := visit(t, address, ""); status != http.StatusUnauthorized {
		t.Errorf("without the token: %d", status)
	}
	if status, text := visit(t, address+"?token="+secret, ""); status != http.StatusOK || !strings.Contains(text, "One turn waits") {
		t.Errorf("control: %d: %s", status, text)
	}
}

// TestUI shows a clone that has no control plane, and follows its branch.
func TestUI(t *testing.T) {
	_, clone := server(t, "team", "")
	address := started(t, clone, "ui")
	if status, text := visit(t, address, ""); status != http.StatusOK || !strings.Contains(text, "One turn waits") {
		t.Fatalf("%d: %s", status, text)
	}
	clone.Commit("x", map[string]string{"later/REQUEST.md": say("REQUEST", "later", "rig-b", "rig-a", "Came later")})
	for i := 0; ; i++ {
		if _, text := visit(t, address, "search?q=came"); strings.Contains(text, "thread=later") {
			break
		}
		if i == 300 {
			t.Fatal("a new message does not come")
		}
		time.Sleep(200 * time.Millisecond)
	}
	if got := clone.Run("status", "--porcelain"); got != "" {
		t.Errorf("the work tree has %s", got)
	}
	if info, err := os.Stat(filepath.Join(clone.Dir, ".git", "rigward", "page.db")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
