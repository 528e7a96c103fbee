package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/net/publicsuffix"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// Network is what reading and writing registries needs from outside.
type Network struct {
	Keychain  authn.Keychain // whose credentials are sent; nil for nobody's
	UserAgent string
	Stall     time.Duration // after which a connection that is silent is given up; 0 is a minute
}

// UserNetwork is what registries see of a user of a program: the credentials that docker login left.
func UserNetwork(program string) *Network {
	return &Network{Keychain: authn.DefaultKeychain, UserAgent: program}
}

// registry reads one repository of a registry.
type registry struct {
	ref    name.Reference
	puller *remote.Puller
	keep   bool             // what was read once is not fetched again
	temp   string           // directory for that
	kept   map[string]*kept // by digest
}

// kept is a layer that was read, or is being read.
type kept struct {
	f     *os.File
	whole bool
}

// options are those of every call to the registry of a repository.
func (n *Network) options(repo name.Repository) []remote.Option {
	o := []remote.Option{
		remote.WithTransport(n.guard(repo.RegistryStr(), repo.Scheme())), remote.WithUserAgent(n.UserAgent), remote.WithJobs(2),
		remote.WithRetryBackoff(remote.Backoff{Duration: 200 * time.Millisecond, Factor: 3, Steps: 3}),
	}
	if n.Keychain != nil {
		o = append(o, remote.WithAuthFromKeychain(n.Keychain))
	}
	return o
}

func openRegistry(ref name.Reference, n *Network) (*registry, error) {
	p, err := remote.NewPuller(n.options(ref.Context())...)
	return &registry{ref: ref, puller: p, kept: map[string]*kept{}}, err
}

// Close removes what was kept.
func (r *registry) Close() error {
	for _, k := range r.kept {
		k.f.Close()
		os.Remove(k.f.Name())
	}
	return nil
}

// keeper writes what is read to a file, and says so when all of it was.
type keeper struct {
	io.ReadCloser
	k *kept
}

func (k *keeper) Read(p []byte) (int, error) {
	n, err := k.ReadCloser.Read(p)
	if _, werr := k.k.f.Write(p[:n]); werr != nil {
		return n, werr
	}
	if err == io.EOF {
		k.k.whole = true
	}
	return n, err
}

func (r *registry) root(ctx context.Context) (v1.Descriptor, []byte, error) {
	d, err := r.puller.Get(ctx, r.ref)
	if err != nil {
		return v1.Descriptor{}, nil, err
	}
	if !d.MediaType.IsImage() && !d.MediaType.IsIndex() {
		return v1.Descriptor{}, nil, fmt.Errorf("it is %s, a manifest of an image is expected", finding.QuoteMax(string(d.MediaType), 100))
	}
	if pin, ok := r.ref.(name.Digest); ok && pin.DigestStr() != d.Digest.String() {
		return v1.Descriptor{}, nil, fmt.Errorf("it has the digest %s", d.Digest)
	}
	return v1.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: int64(len(d.Manifest))}, d.Manifest, nil
}

func (r *registry) blob(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	at := r.ref.Context().Digest(d.Digest.String())
	if d.MediaType.IsImage() || d.MediaType.IsIndex() {
		got, err := r.puller.Get(ctx, at)
		if err != nil {
			return nil, err
		}
		if got.MediaType != d.MediaType {
			return nil, fmt.Errorf("the registry gives %s for %s", finding.QuoteMax(string(got.MediaType), 100), finding.QuoteMax(string(d.MediaType), 100))
		}
		return verify(io.NopCloser(strings.NewReader(string(got.Manifest))), d), nil
	}
	if k := r.kept[d.Digest.Hex]; k != nil && k.whole {
		return io.NopCloser(io.NewSectionReader(k.f, 0, d.Size)), nil
	}
	l, err := r.puller.Layer(ctx, at)
	if err != nil {
		return nil, err
	}
	rc, err := l.Compressed()
	if err != nil {
		return nil, err
	}
	v := verify(rc, d)
	if _, err := layerKind(d.MediaType); err != nil || !r.keep || r.kept[d.Digest.Hex] != nil {
		return v, nil
	}
	f, _, err := bundle.Scratch(r.temp)
	if err != nil {
		v.Close()
		return nil, err
	}
	k := &kept{f: f}
	r.kept[d.Digest.Hex] = k
	return &keeper{v, k}, nil
}

// guard is the transport of all requests to one registry. A registry may answer with redirects, and with the addresses of
// others that issue tokens: where requests go, what they carry and how much comes back is bounded here
// (docs/spec/agentbundle.md#registries).
type guard struct {
	*http.Transport
	host    string      // of the registry, with its port if the reference has one
	scheme  string      // https, or http for a registry on this machine
	proxies sync.Map    // addresses of the user's proxies
	private atomic.Bool // the registry itself is in a private network
}

// Bounds of what a registry answers, in bytes. Blobs are bounded by what describes them.
const (
	maxAnswer = maxDocument + 1 // of a manifest
	maxError  = 1 << 20

	maxRedirects = 5 // of one request
)

func (n *Network) guard(host, scheme string) http.RoundTripper {
	stall := cmp.Or(n.Stall, time.Minute)
	g := &guard{host: host, scheme: scheme}
	g.Transport = &http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) {
			u, err := http.ProxyFromEnvironment(r)
			if u != nil {
				g.proxies.Store(withPort(u.Host, u.Scheme), true)
			}
			return u, err
		},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			_, proxy := g.proxies.Load(address)
			d := &net.Dialer{Timeout: min(stall, 30*time.Second), Control: func(_, resolved string, _ syscall.RawConn) error {
				if proxy {
					return nil
				}
				return g.dial(resolved, address == withPort(g.host, g.scheme))
			}}
			c, err := d.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &impatient{c, stall}, nil
		},
		TLSHandshakeTimeout: min(stall, 30*time.Second), ResponseHeaderTimeout: stall, MaxIdleConnsPerHost: 4, DisableCompression: true,
	}
	return g
}

// withPort is an address with the port that it has by its scheme.
func withPort(host, scheme string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	port := "443"
	if scheme == "http" {
		port = "80"
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// dial decides about an address after its name was resolved, so that no name leads where an address may not.
func (g *guard) dial(resolved string, own bool) error {
	at, err := netip.ParseAddrPort(resolved)
	if err != nil {
		return err
	}
	ip := at.Addr().Unmap()
	if own {
		if ip.IsPrivate() {
			g.private.Store(true)
		}
		return nil
	}
	if inside(ip) || ip.IsPrivate() && !g.private.Load() {
		return fmt.Errorf("the registry leads to %s, which is inside this network", ip)
	}
	return nil
}

// inside reports whether an address is one of this machine, or of what only this machine reaches.
func inside(ip netip.Addr) bool {
	return ip.IsLoopback() || ip.IsUnspecified() || ip.IsLinkLocalUnicast() || ip.IsMulticast()
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	hops := 0
	for from := r.Response; from != nil && from.Request != nil; from = from.Request.Response {
		if hops++; hops > maxRedirects {
			return nil, fmt.Errorf("the registry leads on and on, after %d redirects", maxRedirects)
		}
	}
	if r.URL.Host != g.host {
		where := finding.QuoteMax(r.URL.Host, 100)
		ip, literal := netip.ParseAddr(r.URL.Hostname())
		switch {
		case r.URL.Scheme != "https":
			return nil, fmt.Errorf("the registry leads to %s without TLS", where)
		case literal == nil && inside(ip.Unmap()): // beyond a proxy, nobody else would look
			return nil, fmt.Errorf("the registry leads to %s, which is inside this network", where)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			return nil, fmt.Errorf("the registry wants data sent to %s", where)
		case r.Header.Get("Authorization") != "" && !sameSite(r.URL.Hostname(), g.host):
			return nil, fmt.Errorf("the registry wants credentials sent to %s", where)
		}
	} else if r.URL.Scheme != g.scheme && r.URL.Scheme != "https" {
		return nil, fmt.Errorf("the registry leads to %s", finding.QuoteMax(r.URL.Scheme+"://"+r.URL.Host, 100))
	}
	resp, err := g.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		resp.Body = &atMost{resp.Body, maxError}
	} else if strings.Contains(r.Header.Get("Accept"), "manifest") || strings.Contains(r.Header.Get("Accept"), "index") {
		resp.Body = &atMost{resp.Body, maxAnswer}
	}
	return resp, nil
}

// sameSite reports whether two hosts belong to one owner: they are equal, or below one registered domain, as
// auth.docker.io is beside index.docker.io.
func sameSite(a, registry string) bool {
	b := registry
	if host, _, err := net.SplitHostPort(registry); err == nil {
		b = host
	}
	if a == b {
		return true
	}
	x, err := publicsuffix.EffectiveTLDPlusOne(strings.ToLower(a))
	y, err2 := publicsuffix.EffectiveTLDPlusOne(strings.ToLower(b))
	_, ip := netip.ParseAddr(a)
	return err == nil && err2 == nil && ip != nil && x == y
}

// atMost fails when more comes than may come.
type atMost struct {
	io.ReadCloser
	left int64
}

func (a *atMost) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if a.left -= int64(n); a.left < 0 {
		return 0, errors.New("the registry answers with more than any manifest has")
	}
	return n, err
}

// impatient gives a connection up that is silent for too long.
type impatient struct {
	net.Conn
	stall time.Duration
}

func (c *impatient) Read(p []byte) (int, error) {
	var late atomic.Bool
	timer := time.AfterFunc(c.stall, func() {
		late.Store(true)
		c.Conn.Close()
	})
	n, err := c.Conn.Read(p)
	timer.Stop()
	if err != nil && late.Load() {
		err = fmt.Errorf("timeout: nothing came for %s", c.stall)
	}
	return n, err
}
