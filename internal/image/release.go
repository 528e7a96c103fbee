package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// An Asset is a file of a release, which is known by its digest.
type Asset struct {
	Server                  string // https://github.com, or another one
	Owner, Repo, Tag, Asset string
	SHA256                  string // 64 hex digits
}

// Fetch returns the path of the asset in a cache, which it fetches if it is not there, or not as its digest says. At most
// limit bytes are taken. Nobody's credentials are sent (docs/spec/agentbundle.md#references).
func (a Asset) Fetch(ctx context.Context, cache string, net *Network, limit int64) (string, error) {
	dir := filepath.Join(cache, "sha256", a.SHA256)
	name := filepath.Join(dir, a.Asset)
	if is, err := a.is(ctx, name); err != nil || is {
		return name, err
	}
	server, err := url.Parse(a.Server)
	if err != nil || server.Scheme != "https" || server.Host == "" || server.User != nil {
		return "", fmt.Errorf("the server is %s, https:// and a host are expected", finding.QuoteMax(a.Server, 200))
	}
	from := server.JoinPath(a.Owner, a.Repo, "releases", "download", a.Tag, a.Asset)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("User-Agent", net.UserAgent)
	resp, err := (&http.Client{Transport: net.guard(server.Host, "https")}).Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers with status %d", finding.QuoteMax(from.String(), 300), resp.StatusCode)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	sum, n := sha256.New(), int64(0)
	err = bundle.WriteFile(name, 0o644, func(w io.Writer) error {
		n, err = io.Copy(io.MultiWriter(w, sum), io.LimitReader(contextReader{ctx, resp.Body}, limit+1))
		switch {
		case err != nil:
			return err
		case n > limit:
			return fmt.Errorf("%s has more than %d bytes, the limit total-size", finding.QuoteMax(from.String(), 300), limit)
		case hex.EncodeToString(sum.Sum(nil)) != a.SHA256:
			return &bundle.Finding{Code: bundle.ChecksumMismatch, Message: fmt.Sprintf("%s has the digest sha256:%x, sha256:%s is expected", finding.QuoteMax(from.String(), 300), sum.Sum(nil), a.SHA256)}
		}
		return nil
	}, nil)
	return name, err
}

// is reports whether a file is there and has the digest.
func (a Asset) is(ctx context.Context, name string) (bool, error) {
	f, _, err := bundle.OpenFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, contextReader{ctx, f})
	return err == nil && hex.EncodeToString(sum.Sum(nil)) == a.SHA256, err
}
