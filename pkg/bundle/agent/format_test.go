package agent

import (
	"bytes"
	"testing"

	"github.com/rigward/rigward/pkg/bundle"
)

func TestRecognize(t *testing.T) {
	both := gzipOf(t, tarOf(t, append([]member{file("bundle.yaml", "x")}, base()...)))
	bare := gzipOf(t, tarOf(t, []member{file("x", "y")}))
	for _, c := range []struct {
		base string
		data []byte
		want bundle.Match
	}{
		{"agent-bundle-demo-1.0.0-linux-amd64-glibc.tar.gz", both, bundle.Certain},
		{"demo.tar.gz", both, bundle.ContentSure},
		{"demo", both, bundle.ContentSure},
		{"agent-bundle-demo", bare, bundle.NameMatch},
		{"demo.tar.zst", bare, bundle.NameMatch},
		{"demo.tar.gz", nil, bundle.NameMatch},
		{"demo.rigbundle", bare, bundle.NoMatch},
	} {
		p, err := bundle.ProbeFile(t.Context(), c.base, bytes.NewReader(c.data), int64(len(c.data)))
		if err != nil {
			t.Fatal(err)
		}
		if got := (Format{}).Recognize(p); got != c.want {
			t.Errorf("%s: %d, want %d", c.base, got, c.want)
		}
	}
}

func TestFormatVerify(t *testing.T) {
	data := gzipOf(t, tarOf(t, base()))
	in := bundle.Input{Name: "x.tar.gz", File: bytes.NewReader(data), Size: int64(len(data))}
	v, err := Format{}.Verify(t.Context(), in, bundle.Options{RequireChecksum: true})
	if err != nil || v.Code != "checksum-missing" || v.OK() || v.Name != "demo" || v.TarDigest == (bundle.Digest{}) {
		t.Errorf("%v %+v", err, v)
	}
	in.Checksum = []byte(bundle.Sum(data).Hex())
	if v, err = (Format{}).Verify(t.Context(), in, bundle.Options{RequireChecksum: true}); err != nil || !v.OK() {
		t.Errorf("%v %+v", err, v)
	}
	if _, err := (Format{}).Verify(t.Context(), bundle.Input{Name: "dir"}, bundle.Options{}); err == nil {
		t.Error("a directory was taken for a bundle")
	}
}
