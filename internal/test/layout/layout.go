// Package layout writes images for tests, with none of the code that reads them.
package layout

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Write writes an OCI layout of one image with one layer of these files, and returns its digest.
func Write(t testing.TB, dir, arch string, files map[string]string) string {
	t.Helper()
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(w, text)
	}
	w.Close()
	put := func(name string, data []byte) {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	blob := func(mediaType string, data []byte) map[string]any {
		sum := sha256.Sum256(data)
		digest := hex.EncodeToString(sum[:])
		put(filepath.Join("blobs", "sha256", digest), data)
		return map[string]any{"mediaType": mediaType, "digest": "sha256:" + digest, "size": len(data)}
	}
	text := func(v any) []byte { b, _ := json.Marshal(v); return b }
	l := blob("application/vnd.oci.image.layer.v1.tar", layer.Bytes())
	config := blob("application/vnd.oci.image.config.v1+json", text(map[string]any{"os": "linux", "architecture": arch,
		"config": map[string]any{"Env": []string{"PATH=/usr/bin:/bin", "NODE_ENV=test"}, "Cmd": []string{"sh"}}, "history": []any{map[string]any{"created_by": "a test"}}, "rootfs": map[string]any{"type": "layers", "diff_ids": []any{l["digest"]}}}))
	m := blob("application/vnd.oci.image.manifest.v1+json", text(map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": []any{l}}))
	put("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	put("index.json", text(map[string]any{"schemaVersion": 2, "manifests": []any{m}}))
	return m["digest"].(string)
}
