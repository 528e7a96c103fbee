package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

// Access says who may look.
type Access struct {
	Hosts []string // names by which the server is reached, without port
	Token string   // that a request must have; "" if none is needed
	// Header, if set, is one in which a proxy names who it has authenticated. It counts
	// from addresses in Proxies alone.
	Header  string
	Proxies []netip.Prefix
	Cookie  string // name of the cookie that stands for the token
}

// Loopback are the names of this machine for itself.
func Loopback() []string { return []string{"localhost", "127.0.0.1", "::1"} }

// admit decides whether a request is answered, and answers it if it is not.
func (c *Console) admit(w http.ResponseWriter, r *http.Request) bool {
	a := c.o.Access
	if !slices.Contains(a.Hosts, hostOf(r.Host)) { // a page elsewhere whose name leads here
		c.refuse(w, http.StatusMisdirectedRequest, "This server is not called "+finding.QuoteMax(r.Host, 100)+". hint: rig-control serve --host NAME")
		return false
	}
	if a.Header != "" {
		who := r.Header.Values(a.Header)
		if len(who) != 1 || strings.TrimSpace(who[0]) == "" || !a.fromProxy(r.RemoteAddr) {
			c.refuse(w, http.StatusForbidden, "The proxy in front of this server has not said who asks.")
			return false
		}
		return true
	}
	if a.Token == "" {
		return true
	}
	if given := r.URL.Query().Get("token"); given != "" {
		if !same(given, a.Token) {
			c.refuse(w, http.StatusUnauthorized, "The token is not that of this server.")
			return false
		}
		http.SetCookie(w, &http.Cookie{Name: a.Cookie, Value: a.pass(), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode,
			Secure: r.Header.Get("X-Forwarded-Proto") == "https"}) // of the proxy; who forges it has it for themselves
		u := *r.URL
		q := u.Query()
		q.Del("token")
		// A path of two slashes would lead to another server.
		to := "/" + strings.TrimLeft(u.EscapedPath(), "/\\")
		if rest := q.Encode(); rest != "" {
			to += "?" + rest
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
		return false
	}
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && same(bearer, a.Token) {
		return true
	}
	for _, cookie := range r.CookiesNamed(a.Cookie) {
		if same(cookie.Value, a.pass()) {
			return true
		}
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	c.refuse(w, http.StatusUnauthorized, "A token is needed: open the address that rig-control printed when it started, or send Authorization: Bearer TOKEN.")
	return false
}

// pass is the value of the cookie, from which the token cannot be told.
func (a Access) pass() string {
	mac := hmac.New(sha256.New, []byte(a.Token))
	mac.Write([]byte("cookie of the page"))
	return hex.EncodeToString(mac.Sum(nil))
}

// same compares in a time that does not depend on where they differ.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

func (a Access) fromProxy(remote string) bool {
	from, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(a.Proxies, func(p netip.Prefix) bool { return p.Contains(from.Addr().Unmap()) })
}

// hostOf is a Host without its port, in small letters.
func hostOf(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}
