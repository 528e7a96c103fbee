package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"golang.org/x/crypto/ssh"

	"github.com/rigward/rigward/internal/test/layout"
	"github.com/rigward/rigward/internal/test/programs"
)

// sshKey writes a private key and a signers file that lists it, and returns their names.
func sshKey(t *testing.T, dir, name, principal string) (key, signers string) {
	t.Helper()
	seed := sha256.Sum256([]byte(name))
	private := ed25519.NewKeyFromSeed(seed[:])
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	pub, err := ssh.NewPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	key, signers = filepath.Join(dir, name), filepath.Join(dir, name+".signers")
	put(t, key, string(pem.EncodeToMemory(block)), 0o600)
	put(t, signers, principal+" "+string(ssh.MarshalAuthorizedKey(pub)), 0o644)
	return key, signers
}

// dockerRegistry starts Debian's docker-registry and returns its address.
func dockerRegistry(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("docker-registry")
	if err != nil {
		t.Skip("docker-registry is not installed")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	put(t, config, fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %q}}\nhttp: {addr: %q}\n", filepath.Join(dir, "data"), address), 0o644)
	cmd := exec.Command(program, "serve", config)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for range 300 {
		if r, err := http.Get("http://" + address + "/v2/"); err == nil {
			r.Body.Close()
			return address
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("docker-registry does not answer: %s", out.String())
	return ""
}

// TestPushPullVerify: a bundle goes to a registry with its signature and the proof of its source, and comes back as it was;
// with a list of referrers, with the tag that stands for it, and in docker's own registry.
func TestPushPullVerify(t *testing.T) {
	quiet := registry.Logger(log.New(io.Discard, "", 0))
	for kind, start := range map[string]func(t *testing.T) string{
		"referrers": func(t *testing.T) string {
			return serve(t, registry.New(quiet, registry.WithReferrersSupport(true)), nil)
		},
		"tag":             func(t *testing.T) string { return serve(t, registry.New(quiet), nil) },
		"docker-registry": dockerRegistry,
	} {
		t.Run(kind, func(t *testing.T) {
			host := start(t)
			dir := t.TempDir()
			src := filepath.Join(dir, "src")
			agentTree(t, src)
			agentObject(t, dir, nil, 0, "create", "src", "-o", dir)
			key, signers := sshKey(t, dir, "key", "op@example.com")
			_, strangers := sshKey(t, dir, "other", "op@example.com")
			ref := host + "/acme/demo:1.0.0"
			v := agentObject(t, dir, nil, 0, "push", demoFile, ref, "--key", key, "--source", "src")
			if v["signatures"] != 1.0 || v["statements"] != 1.0 || !strings.HasPrefix(v["digest"].(string), "sha256:") {
				t.Fatalf("push: %v", v)
			}
			pinned := host + "/acme/demo@" + v["digest"].(string)
			for _, at := range []string{ref, pinned, "oci://" + ref} {
				v := agentObject(t, dir, nil, 0, "verify", at, "--allowed-signers", signers, "--signer", "op@example.com", "--require-provenance", "--target", "linux/amd64/musl")
				if v["name"] != "demo" || !strings.Contains(fmt.Sprint(v["codes"]), "provenance") {
					t.Errorf("verify %s: %v", at, v)
				}
			}
			if v := agentObject(t, dir, nil, 1, "verify", ref, "--allowed-signers", strangers); v["code"] != "signature-untrusted" {
				t.Errorf("the signature of a stranger: %v", v)
			}
			if err := os.Mkdir(filepath.Join(dir, "got"), 0o755); err != nil {
				t.Fatal(err)
			}
			agentObject(t, dir, nil, 0, "pull", ref, "-o", "got", "--allowed-signers", signers)
			want, _ := os.ReadFile(filepath.Join(dir, demoFile))
			if got, err := os.ReadFile(filepath.Join(dir, "got", demoFile)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("pulled %d bytes of %d: %v", len(got), len(want), err)
			}
			agentObject(t, dir, nil, 0, "verify", filepath.Join("got", demoFile), "--allowed-signers", signers, "--require-signature")
			for _, verb := range []string{"inspect", "verify"} {
				agentObject(t, dir, nil, 0, verb, ref)
			}
			layout.Write(t, filepath.Join(dir, "base"), "amd64", muslBase)
			agentObject(t, dir, nil, 0, "image", ref, "--base", "oci:base", "-o", host+"/acme/image:1")
			if v := agentObject(t, dir, nil, 2, "pull", host+"/acme/image:1"); v["code"] != "image-unreadable" {
				t.Errorf("an image is no bundle: %v", v)
			}
			// Unsigned, and nothing but that is different.
			agentObject(t, dir, nil, 0, "push", demoFile, host+"/acme/plain:1")
			agentObject(t, dir, nil, 0, "verify", host+"/acme/plain:1")
			if v := agentObject(t, dir, nil, 1, "verify", host+"/acme/plain:1", "--allowed-signers", signers); v["code"] != "signature-missing" {
				t.Errorf("no signature: %v", v)
			}
			agentObject(t, dir, nil, 0, "push", demoFile, host+"/acme/signed:1", "--key", key)
			if v := agentObject(t, dir, nil, 1, "verify", host+"/acme/signed:1", "--allowed-signers", signers, "--require-provenance"); v["code"] != "provenance-missing" {
				t.Errorf("no statement: %v", v)
			}
			// A source that makes another bundle proves nothing, and nothing is pushed.
			put(t, filepath.Join(src, "more"), "x", 0o644)
			if v := agentObject(t, dir, nil, 1, "push", demoFile, host+"/acme/drift:1", "--key", key, "--source", "src"); v["code"] != "tar-differs" {
				t.Errorf("another source: %v", v)
			}
			if v := agentObject(t, dir, nil, 2, "verify", host+"/acme/drift:1"); v["code"] != "image-unreadable" {
				t.Errorf("it was pushed: %v", v)
			}
		})
	}
}

// serve serves a registry whose answers change may replace.
func serve(t *testing.T, keep http.Handler, change func(r *http.Request, w *httptest.ResponseRecorder)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if change == nil {
			keep.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		keep.ServeHTTP(rec, r)
		change(r, rec)
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.Header().Del("Content-Length")
		w.WriteHeader(rec.Code)
		w.Write(rec.Body.Bytes())
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// TestHostileReferrers: a registry that leaves proof out, or gives another's, gets no bundle accepted; and one that adds
// what proves nothing keeps none from being accepted.
func TestHostileReferrers(t *testing.T) {
	dir := t.TempDir()
	agentTree(t, filepath.Join(dir, "src"))
	agentObject(t, dir, nil, 0, "create", "src", "-o", dir)
	other := agentBundle(t, dir, map[string]any{"name": "other"}, nil)
	key, signers := sshKey(t, dir, "key", "op@example.com")
	stranger, _ := sshKey(t, dir, "stranger", "op@example.com")
	var change func(r *http.Request, w *httptest.ResponseRecorder)
	host := serve(t, registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)), func(r *http.Request, w *httptest.ResponseRecorder) {
		if change != nil {
			change(r, w)
		}
	})
	agentObject(t, dir, nil, 0, "push", other, host+"/acme/demo:other", "--key", key, "--source", filepath.Join(unpacked(t, dir, other), "agent"))
	agentObject(t, dir, nil, 0, "push", demoFile, host+"/acme/demo:1", "--key", stranger) // first in the list
	agentObject(t, dir, nil, 0, "push", demoFile, host+"/acme/demo:1", "--key", key, "--source", "src")
	list := func(edit func(object map[string]any)) func(r *http.Request, w *httptest.ResponseRecorder) {
		return func(r *http.Request, w *httptest.ResponseRecorder) {
			if !strings.Contains(r.URL.Path, "/referrers/") {
				return
			}
			var v map[string]any
			if json.Unmarshal(w.Body.Bytes(), &v) != nil {
				return
			}
			edit(v)
			text, _ := json.Marshal(v)
			w.Body = bytes.NewBuffer(text)
		}
	}
	foreign := func(t *testing.T) []any { // what refers to the other bundle
		var v map[string]any
		digest := agentObject(t, dir, nil, 0, "push", other, host+"/acme/demo:other")["digest"].(string)
		r, err := http.Get("http://" + host + "/v2/acme/demo/referrers/" + digest)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if err := json.NewDecoder(r.Body).Decode(&v); err != nil {
			t.Fatal(err)
		}
		return v["manifests"].([]any)
	}(t)
	if len(foreign) != 2 {
		t.Fatalf("%v refers to the other bundle", foreign)
	}
	for _, row := range []struct {
		name   string
		change func(r *http.Request, w *httptest.ResponseRecorder)
		exit   int
		code   string
	}{
		{"an honest registry", nil, 0, "ok"},
		{"no referrers", list(func(v map[string]any) { v["manifests"] = []any{} }), 1, "signature-missing"},
		{"those of another bundle", list(func(v map[string]any) { v["manifests"] = foreign }), 1, "signature-missing"},
		{"those of another bundle before", list(func(v map[string]any) { v["manifests"] = append(foreign, v["manifests"].([]any)...) }), 0, "ok"},
		{"what is not there", list(func(v map[string]any) {
			v["manifests"] = append([]any{map[string]any{"mediaType": "application/vnd.oci.image.manifest.v1+json", "artifactType": "application/vnd.rigward.sshsig.v1",
				"digest": "sha256:" + strings.Repeat("0", 64), "size": 3}}, v["manifests"].([]any)...)
		}), 0, "ok"},
		{"more than anybody has", list(func(v map[string]any) {
			for len(v["manifests"].([]any)) < 200 {
				v["manifests"] = append(v["manifests"].([]any), v["manifests"].([]any)...)
			}
		}), 2, "image-unreadable"},
		{"no list", func(r *http.Request, w *httptest.ResponseRecorder) {
			if strings.Contains(r.URL.Path, "/referrers/") {
				w.Code = http.StatusInternalServerError
			}
		}, 2, "image-unreadable"},
		{"another bundle", func(r *http.Request, w *httptest.ResponseRecorder) {
			if strings.HasSuffix(r.URL.Path, "/manifests/1") {
				q, err := http.Get("http://" + host + "/v2/acme/demo/manifests/other")
				if err == nil {
					b, _ := io.ReadAll(q.Body)
					q.Body.Close()
					w.Body = bytes.NewBuffer(b)
				}
			}
		}, 0, "ok"}, // it is signed as well: who means one bundle pins its digest
		{"a name that leads out", func(r *http.Request, w *httptest.ResponseRecorder) {
			w.Body = bytes.NewBuffer(bytes.ReplaceAll(w.Body.Bytes(), []byte(`"org.opencontainers.image.title":"agent-bundle-demo`), []byte(`"org.opencontainers.image.title":"../agent-bundle-demo`)))
		}, 2, "image-unreadable"},
	} {
		change = row.change
		v := agentObject(t, dir, nil, row.exit, "verify", host+"/acme/demo:1", "--allowed-signers", signers)
		if v["code"] != row.code {
			t.Errorf("%s: %v", row.name, v)
		}
		if row.exit != 0 {
			if v := agentObject(t, dir, nil, row.exit, "pull", host+"/acme/demo:1", "-o", dir, "--allowed-signers", signers); v["code"] != row.code {
				t.Errorf("%s: pull: %v", row.name, v)
			}
		}
	}
}

// TestFetchedAsset: an asset of a release is fetched over TLS if its digest is known, once; the mirror comes first, and
// what is not what the digest says is not kept.
func TestFetchedAsset(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the certificate of the server is given by SSL_CERT_FILE")
	}
	dir := t.TempDir()
	agentTree(t, filepath.Join(dir, "src"))
	agentObject(t, dir, nil, 0, "create", "src", "-o", dir)
	data, err := os.ReadFile(filepath.Join(dir, demoFile))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	pin := "#sha256=" + hex.EncodeToString(sum[:])
	asked := []string{}
	answer := func(w http.ResponseWriter, r *http.Request) { w.Write(data) }
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		if r.Header.Get("Authorization") != "" {
			t.Error("credentials were sent")
		}
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, "plain")
		w.Write(data)
	}))
	t.Cleanup(plain.Close)
	put(t, filepath.Join(dir, "ca.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})), 0o644)
	binary := filepath.Join(t.TempDir(), "rig-bundle")
	if err := programs.Build(filepath.Dir(binary), "rig-bundle"); err != nil {
		t.Fatal(err)
	}
	run := func(want int, code string, args ...string) {
		t.Helper()
		asked = nil
		cmd := exec.CommandContext(t.Context(), binary, append(append([]string{"verify"}, args...), "--json")...)
		cmd.Dir = dir
		cmd.Env = []string{"HOME=" + dir, "XDG_CACHE_HOME=" + filepath.Join(dir, "cache"), "GITHUB_SERVER_URL=" + server.URL, "SSL_CERT_FILE=" + filepath.Join(dir, "ca.pem"), "PATH=" + os.Getenv("PATH")}
		out, _ := cmd.Output()
		var v map[string]any
		if json.Unmarshal(out, &v); cmd.ProcessState.ExitCode() != want || v["code"] != code {
			t.Errorf("%q: exit %d, %s, want %d, %s", args, cmd.ProcessState.ExitCode(), out, want, code)
		}
	}
	name := "gh:acme/tools@v1:" + demoFile
	cached := filepath.Join(dir, "cache", "rig-bundle", "sha256", hex.EncodeToString(sum[:]), demoFile)
	run(1, "ref-not-found", name) // not pinned: nobody is asked
	run(1, "ref-not-found", "gh:acme/tools@v1"+pin)
	if len(asked) > 0 {
		t.Errorf("asked for %v", asked)
	}
	answer = func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("something else")) }
	run(1, "checksum-mismatch", name+pin)
	answer = func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }
	run(2, "fetch-failed", name+pin)
	for _, to := range []string{plain.URL, "file:///etc/passwd", "https://169.254.169.254/x"} {
		answer = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
		run(2, "fetch-failed", name+pin)
		if len(asked) != 1 {
			t.Errorf("a redirect to %s: asked %v", to, asked)
		}
	}
	answer = func(w http.ResponseWriter, r *http.Request) {
		for piece := make([]byte, 1<<16); ; {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}
	run(2, "fetch-failed", name+pin, "--limit", "total-size=1MiB")
	if _, err := os.Stat(cached); err == nil {
		t.Error("something else was kept")
	}
	answer = func(w http.ResponseWriter, r *http.Request) { w.Write(data) }
	run(0, "ok", name+pin)
	if len(asked) != 1 || asked[0] != "/acme/tools/releases/download/v1/"+demoFile {
		t.Errorf("asked for %v", asked)
	}
	run(0, "ok", name+pin)
	if len(asked) != 0 {
		t.Errorf("fetched again: %v", asked)
	}
	put(t, cached, "damaged", 0o644)
	run(0, "ok", name+pin)
	if len(asked) != 1 {
		t.Errorf("a damaged cache: asked for %v", asked)
	}
	put(t, filepath.Join(dir, "mirror", "acme", "tools", "v1", demoFile), string(data), 0o644)
	os.RemoveAll(filepath.Join(dir, "cache"))
	run(0, "ok", name+pin, "--mirror", "mirror")
	if len(asked) != 0 {
		t.Errorf("the mirror comes first, and yet was asked for %v", asked)
	}
}

// TestRegistryUsage: what is not asked of a registry.
func TestRegistryUsage(t *testing.T) {
	dir := t.TempDir()
	agentTree(t, filepath.Join(dir, "src"))
	agentObject(t, dir, nil, 0, "create", "src", "-o", dir)
	for _, args := range [][]string{
		{"push", demoFile}, {"push", demoFile, "oci:x"}, {"push", demoFile, "localhost:1/a@sha256:" + strings.Repeat("0", 64)}, {"push", demoFile, "localhost:1/a:1", "--source", "src"},
		{"pull"}, {"pull", "oci:x"}, {"verify", demoFile, "--require-provenance", "--format", "agent"}, {"pull", "localhost:1/a:1", "--require-provenance"},
	} {
		if v := agentObject(t, dir, nil, 2, args...); v["code"] != "usage" {
			t.Errorf("%q: %v", args, v)
		}
	}
	if v := agentObject(t, dir, nil, 2, "push", demoFile, "localhost:1/a:1"); v["code"] != "registry-error" {
		t.Errorf("no registry: %v", v)
	}
}
