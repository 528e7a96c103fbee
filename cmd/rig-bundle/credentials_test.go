package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// guarded is a registry that asks for a name and a password, and notes what it is given.
type guarded struct {
	host string
	mu   sync.Mutex
	seen map[string]bool // values of Authorization
	auth func(w http.ResponseWriter, r *http.Request) (answered bool)
}

func newGuarded(t *testing.T) *guarded {
	g := &guarded{seen: map[string]bool{}}
	keep := registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		if a := r.Header.Get("Authorization"); a != "" {
			g.seen[a] = true
		}
		answered := g.auth(w, r)
		g.mu.Unlock()
		if !answered {
			keep.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	g.host = strings.TrimPrefix(s.URL, "http://")
	return g
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// wants asks for a name and a password by HTTP's basic scheme.
func wants(want string) func(w http.ResponseWriter, r *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == want {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
}

// bearer asks for a token, which a name and a password get at a place.
func bearer(realm, want string) func(w http.ResponseWriter, r *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Path == "/token" && r.Header.Get("Authorization") == want:
			fmt.Fprint(w, `{"token":"granted"}`)
			return true
		case r.Header.Get("Authorization") == "Bearer granted":
			return false
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+realm+`",service="here"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
}

// TestCredentialHelper: docker's helper is asked for the registry at hand, by its protocol, and what it gives goes to that
// registry and nowhere else.
func TestCredentialHelper(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the helper is a shell script")
	}
	dir := t.TempDir()
	agentTree(t, filepath.Join(dir, "src"))
	agentObject(t, dir, nil, 0, "create", "src", "-o", dir)
	mine, other := newGuarded(t), newGuarded(t)
	secret := basic("alice", "s3cret")
	// docker-credential-helpers: a verb as argument, the server on standard input, JSON on standard output; what is not
	// known is this one sentence and status 1.
	put(t, filepath.Join(dir, "bin", "docker-credential-rigtest"), `#!/bin/sh
read -r server
echo "$1 $server" >>"$HELPER_LOG"
[ "$1" = get ] || exit 2
case $server in
"`+mine.host+`") printf '{"ServerURL":"%s","Username":"alice","Secret":"s3cret"}\n' "$server" ;;
*) echo 'credentials not found in native keychain'; exit 1 ;;
esac
`, 0o755)
	asked := filepath.Join(dir, "asked")
	t.Setenv("HELPER_LOG", asked)
	t.Setenv("PATH", filepath.Join(dir, "bin")+string(filepath.ListSeparator)+os.Getenv("PATH"))
	t.Setenv("DOCKER_CONFIG", filepath.Join(dir, "docker"))
	configured := func(v any) {
		t.Helper()
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, "docker", "config.json"), string(text), 0o600)
		os.Remove(asked)
	}
	said := func() string {
		data, _ := os.ReadFile(asked)
		return string(data)
	}
	one := map[string]any{"credHelpers": map[string]string{mine.host: "rigtest"}}
	every := map[string]any{"credsStore": "rigtest"}
	nobody := map[string]any{}
	push := func(exit int, code string, at *guarded) {
		t.Helper()
		if v := agentObject(t, dir, nil, exit, "push", demoFile, at.host+"/acme/demo:1"); v["code"] != code {
			t.Errorf("push: %v, expected %s", v, code)
		}
	}
	for _, c := range []struct {
		name   string
		config any
		auth   func(w http.ResponseWriter, r *http.Request) bool
		exit   int
		code   string
		asked  bool
	}{
		{"the helper of one registry", one, wants(secret), 0, "ok", true},
		{"the helper of all registries", every, wants(secret), 0, "ok", true},
		{"a token of the registry itself", one, bearer("http://"+mine.host+"/token", secret), 0, "ok", true},
		{"no helper", nobody, wants(secret), 2, "registry-error", false},
		{"another password is wanted", one, wants(basic("alice", "other")), 2, "registry-error", true},
		{"a token of another host", one, bearer("http://"+other.host+"/token", secret), 2, "registry-error", true},
		{"a token of another host, by another name", one, bearer("http://localhost:"+strings.Split(other.host, ":")[1]+"/token", secret), 2, "registry-error", true},
	} {
		configured(c.config)
		mine.auth, other.auth = c.auth, wants(secret)
		push(c.exit, c.code, mine)
		got := said()
		for line := range strings.Lines(got) {
			if line != "get "+mine.host+"\n" && line != "get "+mine.host+"/acme/demo\n" {
				t.Errorf("%s: the helper was asked %q", c.name, line)
			}
		}
		if (got != "") != c.asked {
			t.Errorf("%s: the helper was asked %q", c.name, got)
		}
		if len(other.seen) > 0 {
			t.Errorf("%s: another host saw %v", c.name, other.seen)
		}
	}
	// What the helper knows of one registry is not for another, which asks for it.
	configured(every)
	mine.auth, other.auth = wants(secret), wants(secret)
	push(2, "registry-error", other)
	if len(other.seen) > 0 || !strings.Contains(said(), "get "+other.host) {
		t.Errorf("another registry saw %v, the helper was asked %q", other.seen, said())
	}
	// Nor is a blob fetched elsewhere with it: the other would give it.
	configured(one)
	other.auth = func(w http.ResponseWriter, r *http.Request) bool {
		w.Write([]byte("x"))
		return true
	}
	mine.auth = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/sha256:") && r.Method == http.MethodGet {
			http.Redirect(w, r, "http://"+other.host+"/x", http.StatusTemporaryRedirect)
			return true
		}
		return wants(secret)(w, r)
	}
	if v := agentObject(t, dir, nil, 2, "verify", mine.host+"/acme/demo:1"); v["code"] != "image-unreadable" || len(other.seen) > 0 {
		t.Errorf("a blob elsewhere: %v, and the other saw %v", v, other.seen)
	}
	mine.auth = wants(secret)
	agentObject(t, dir, nil, 0, "verify", mine.host+"/acme/demo:1")
	if !mine.seen[secret] {
		t.Error("nothing was sent to the registry, so nothing was tested")
	}
}
