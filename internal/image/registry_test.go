package image

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/rigward/rigward/pkg/bundle/agent"
)

// shelf is a registry of one image that is written by hand, so that it can lie.
type shelf struct {
	*httptest.Server
	b       *built
	answer  func(w http.ResponseWriter, r *http.Request) bool // true: it was answered
	asked   []string
	secrets []string // Authorization headers
}

func newShelf(t *testing.T, b *built) *shelf {
	t.Helper()
	s := &shelf{b: b}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *shelf) host() string { return strings.TrimPrefix(s.URL, "http://") }

func (s *shelf) serve(w http.ResponseWriter, r *http.Request) {
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	if a := r.Header.Get("Authorization"); a != "" {
		s.secrets = append(s.secrets, a)
	}
	if s.answer != nil && s.answer(w, r) {
		return
	}
	last := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	switch {
	case r.URL.Path == "/v2/":
	case strings.Contains(r.URL.Path, "/manifests/"):
		w.Header().Set("Content-Type", s.b.descriptor()["mediaType"].(string))
		w.Write(s.b.manifest)
	case strings.Contains(r.URL.Path, "/blobs/") && s.b.blobs[last] != nil:
		w.Write(s.b.blobs[last])
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// keychain has one password for every registry.
type keychain struct{}

func (keychain) Resolve(authn.Resource) (authn.Authenticator, error) {
	return authn.FromConfig(authn.AuthConfig{Username: "joe", Password: "secret"}), nil
}

func judgeAt(t *testing.T, ref string) (*Judgement, error) {
	t.Helper()
	at, err := ParseLocation(ref, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(t.Context(), ref, at, &Network{Keychain: keychain{}, Stall: 2 * time.Second})
	if err != nil {
		return nil, err
	}
	defer b.Close()
	return b.Judge(t.Context(), bundleFor(t, need{}), nil, agent.DefaultLimits())
}

// TestHostileRegistry: what a registry says of other places, of sizes and of types is not believed. The lawful neighbour
// of each is the registry that says nothing of the kind.
func TestHostileRegistry(t *testing.T) {
	b := build(t, shape{layers: [][]item{{elf(glibc, "amd64")}}})
	elsewhere := newShelf(t, b) // a server of this machine that nobody named
	secure := httptest.NewTLSServer(http.HandlerFunc(elsewhere.serve))
	t.Cleanup(secure.Close)
	blobs := func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/blobs/") }
	manifests := func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/manifests/") }
	redirect := func(which func(*http.Request) bool, to string) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if which(r) {
				http.Redirect(w, r, to+r.URL.Path, http.StatusTemporaryRedirect)
			}
			return which(r)
		}
	}
	raw := func(which func(*http.Request) bool, status int, header, body string) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if which(r) {
				for h := range strings.SplitSeq(header, "\n") {
					if k, v, ok := strings.Cut(h, ": "); ok {
						w.Header().Set(k, v)
					}
				}
				w.WriteHeader(status)
				w.Write([]byte(body))
			}
			return which(r)
		}
	}
	endless := func(which func(*http.Request) bool) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if which(r) {
				w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
				for piece := []byte(strings.Repeat(" ", 1<<20)); r.Context().Err() == nil; {
					if _, err := w.Write(piece); err != nil {
						break
					}
				}
			}
			return which(r)
		}
	}
	challenge := func(realm string) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasPrefix(r.Header.Get("Authorization"), "Bearer") || r.URL.Path == "/token" {
				return false
			}
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+realm+`",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
	}
	silent := func(w http.ResponseWriter, r *http.Request) bool {
		if blobs(r) {
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(20 * time.Second):
			}
		}
		return blobs(r)
	}
	for _, row := range []struct {
		name   string
		answer func(w http.ResponseWriter, r *http.Request) bool
		pin    bool
		want   string // "": the image is read
	}{
		{name: "an honest registry"},
		{name: "an honest registry, by digest", pin: true},
		{name: "a redirect within the registry", answer: func(w http.ResponseWriter, r *http.Request) bool {
			if path, moved := strings.CutPrefix(r.URL.Path, "/moved"); moved {
				r.URL.Path = path
				return false
			}
			if blobs(r) {
				http.Redirect(w, r, "/moved"+r.URL.Path, http.StatusTemporaryRedirect)
			}
			return blobs(r)
		}},
		{name: "a blob is said to be at this machine", answer: redirect(blobs, elsewhere.URL), want: "without TLS"},
		{name: "a blob is said to be at this machine, with TLS", answer: redirect(blobs, strings.Replace(secure.URL, "127.0.0.1", "localhost", 1)), want: "inside this network"},
		{name: "a manifest is said to be at this machine", answer: redirect(manifests, elsewhere.URL), want: "without TLS"},
		{name: "a blob is said to be where clouds keep secrets", answer: redirect(blobs, "https://169.254.169.254"), want: "denied"},
		{name: "a blob is said to be at a host without TLS", answer: redirect(blobs, "http://example.com"), want: "without TLS"},
		{name: "a blob is said to be a file", answer: redirect(blobs, "file:///etc"), want: "TLS"},
		{name: "redirects without end", answer: redirect(blobs, ""), want: "redirects"},
		{name: "an endless manifest", answer: endless(manifests), want: "more than any manifest has"},
		{name: "an endless blob", answer: endless(blobs), want: "blob"},
		{name: "an endless error", answer: func(w http.ResponseWriter, r *http.Request) bool {
			if blobs(r) {
				w.WriteHeader(http.StatusForbidden)
				endless(blobs)(w, r)
			}
			return blobs(r)
		}, want: "byte limit"},
		{name: "a silent blob", answer: silent, want: "timeout"},
		{name: "a blob of other bytes", answer: raw(blobs, 200, "", "nothing"), want: "verifying sha256"},
		{name: "another manifest than the digest names", pin: true, answer: raw(manifests, 200, "Content-Type: application/vnd.oci.image.manifest.v1+json", "{}"), want: "does not match requested digest"},
		{name: "a manifest of another type", answer: raw(manifests, 200, "Content-Type: text/html", "<html>"), want: "a manifest of an image is expected"},
		{name: "a manifest called by another type", answer: raw(manifests, 200, "Content-Type: application/vnd.oci.image.index.v1+json", string(b.manifest)), want: "says that it is"},
		{name: "credentials are wanted at another host", answer: challenge("https://evil.example/token"), want: "credentials sent to"},
		{name: "credentials are wanted at this machine", answer: challenge(secure.URL + "/token"), want: "private or link-local"},
		{name: "credentials are wanted by the registry itself", answer: func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/token" {
				fmt.Fprint(w, `{"token":"t"}`)
				return true
			}
			return challenge("http://"+r.Host+"/token")(w, r)
		}},
		{name: "not there", answer: raw(manifests, 404, "", ""), want: "404"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newShelf(t, b)
			s.answer = row.answer
			elsewhere.asked, elsewhere.secrets = nil, nil
			ref := s.host() + "/acme/base:1"
			if row.pin {
				ref = s.host() + "/acme/base@" + digestOf(b.manifest)
			}
			j, err := judgeAt(t, ref)
			if len(elsewhere.asked) > 0 {
				t.Errorf("a server that nobody named was asked: %v", elsewhere.asked)
			}
			if row.want == "" {
				if err != nil || len(j.Findings) > 0 {
					t.Errorf("%v %v", j, err)
				}
				return
			}
			var e *UnreadableError
			if !errors.As(err, &e) || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%v, want an UnreadableError with %q", err, row.want)
			}
		})
	}
}

// TestEachLayerOnce: of an image that is looked at each layer is fetched once, and of an index only what is meant.
func TestEachLayerOnce(t *testing.T) {
	s := newShelf(t, build(t, shape{layers: [][]item{{elf(glibc, "amd64")}, {file("x", "y")}, {file("z", "y")}}}))
	if _, err := judgeAt(t, s.host()+"/acme/base:1"); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, a := range s.asked {
		seen[a]++
		if seen[a] > 1 {
			t.Errorf("asked twice: %s", a)
		}
	}
	if len(seen) != 1+1+1+3 { // the registry, the manifest, the config, the layers
		t.Errorf("asked for %v", s.asked)
	}
}

// TestWhere: which addresses a registry may lead to, and who is the same owner.
func TestWhere(t *testing.T) {
	for _, row := range []struct {
		address string
		private bool // the registry's own
		ok      bool
	}{
		{"93.184.216.34:443", false, true}, {"127.0.0.1:443", false, false}, {"[::1]:443", true, false}, {"[::ffff:127.0.0.1]:443", true, false},
		{"169.254.169.254:80", true, false}, {"10.0.0.1:443", false, false}, {"10.0.0.1:443", true, true}, {"0.0.0.0:443", true, false}, {"[fe80::1]:443", true, false},
		{"[fd00::1]:443", false, false},
	} {
		g := &guard{}
		g.private.Store(row.private)
		if err := g.dial(row.address, false); (err == nil) != row.ok {
			t.Errorf("%+v: %v", row, err)
		}
		if err := g.dial(row.address, true); err != nil {
			t.Errorf("%s as the registry itself: %v", row.address, err)
		}
		if at := netip.MustParseAddrPort(row.address).Addr().Unmap(); g.private.Load() != (row.private || at.IsPrivate()) {
			t.Errorf("%s: private is %v", row.address, g.private.Load())
		}
	}
	for _, row := range []struct {
		a, registry string
		same        bool
	}{
		{"auth.docker.io", "index.docker.io", true}, {"gitlab.com", "registry.gitlab.com", true}, {"evil.com", "index.docker.io", false}, {"a.github.io", "b.github.io", false},
		{"localhost", "localhost:5000", true}, {"10.0.0.1", "10.0.0.2:5000", false}, {"docker.io.evil.com", "docker.io", false}, {"a.co.uk", "b.co.uk", false},
	} {
		if sameSite(row.a, row.registry) != row.same {
			t.Errorf("%+v", row)
		}
	}
}

// TestLocations: how images are named.
func TestLocations(t *testing.T) {
	abs := func(p string) string { return "/abs/" + p }
	for s, want := range map[string]Location{
		"oci:dir": {Layout: "/abs/dir"}, "oci:dir:1.0": {Layout: "/abs/dir", Tag: "1.0"}, "oci:a:b/c": {Layout: "/abs/a:b/c"},
		"docker-archive:x.tar": {Archive: "/abs/x.tar"}, "docker-archive:x.tar:latest": {Archive: "/abs/x.tar", Tag: "latest"},
	} {
		if got, err := ParseLocation(s, abs); err != nil || got != want {
			t.Errorf("%s: %+v %v", s, got, err)
		}
	}
	for s, want := range map[string]string{
		"alpine": "index.docker.io/library/alpine:latest", "alpine:3.20": "index.docker.io/library/alpine:3.20", "oci://ghcr.io/a/b:1": "ghcr.io/a/b:1", "localhost:5000/x": "localhost:5000/x:latest",
	} {
		if got, err := ParseLocation(s, abs); err != nil || got.Ref.Name() != want {
			t.Errorf("%s: %v %v", s, got.Ref, err)
		}
	}
	if l, err := ParseLocation("alpine@"+digestOf(nil), abs); err != nil || l.Ref.(name.Digest).DigestStr() != digestOf(nil) {
		t.Errorf("by digest: %v %v", l, err)
	}
	for _, s := range []string{"", "oci:", "docker-archive:", "A", "a b", "x:y:z", "https://a/b", "alpine@sha256:12"} {
		if l, err := ParseLocation(s, abs); err == nil {
			t.Errorf("%q is taken for %+v", s, l)
		}
	}
	for s, want := range map[string]bool{
		"localhost:5000/a:1": true, "ghcr.io/a/b:1": true, "ghcr.io/a/b@" + digestOf(nil): true, "oci://ghcr.io/a/b": true, "oci://localhost:5000/a": true,
		"alpine:3": false, "oci://alpine": false, "oci://acme/agent:1": false, "a/b:1": false, "ghcr.io/a/b": false, "./x.y/b:1": false, "../a/b:1": false, "dist/demo.tar.gz": false, "file:x.y/z:1": false, "gh:a/b@v1": false, "C:/x:1": false,
	} {
		if IsReference(s) != want {
			t.Errorf("%q: %v", s, !want)
		}
	}
}
