package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/rigward/rigward/pkg/bundle"
)

// StageOptions say what Stage prepares.
type StageOptions struct {
	Base    string // image that CheckBase accepts
	Digest  string // of that image, as it was looked at; "" if it was not
	Dir     string // new or empty directory
	ModTime int64  // of all that is written, in seconds since 1970
	Windows bool   // Dir lies where names mean what they mean to Windows, see [bundle.WindowsNames]
}

// Staged is what stage adds to a result.
type Staged struct {
	Target string `json:"target"`
	Base   string `json:"base"`
	Out    string `json:"out"`
}

// staged is stage.json.
type staged struct {
	Name         string          `json:"name"`
	Version      string          `json:"version"`
	Entry        string          `json:"entry"`
	Target       string          `json:"target"`
	Base         string          `json:"base"`
	BaseDigest   string          `json:"base_digest,omitempty"`
	FileDigest   string          `json:"file_digest"`
	TarDigest    string          `json:"tar_digest"`
	Capabilities map[string]bool `json:"capabilities"`
	Mounts       []Mount         `json:"mounts"`
}

// Stage writes the context of an image build (docs/spec/agentbundle.md#stage) of a bundle that
// Verify has accepted, from the same open file: agent/ with the extracted
// tree, Containerfile, stage.json. The same input gives the same bytes; an
// error, or a finding that r gets, leaves nothing behind.
func Stage(ctx context.Context, r *Result, o StageOptions) error {
	if !r.OK() || r.Manifest == nil {
		return fmt.Errorf("the bundle is not accepted: %s", r.Code)
	}
	if _, err := CheckBase(o.Base); err != nil {
		return err
	}
	if o.Windows {
		paths := make([]string, len(r.Archive.Members))
		for i := range r.Archive.Members {
			paths[i] = r.Archive.Members[i].Name
		}
		if r.Fail(bundle.WindowsNames(paths)...); !r.OK() {
			return nil
		}
	}
	m := r.Manifest
	r.Command, r.Staged = "stage", &Staged{m.Target(), o.Base, o.Dir}
	about := staged{
		Name: m.Name, Version: m.Version, Entry: m.Entry, Target: m.Target(), Base: o.Base, BaseDigest: o.Digest,
		FileDigest: r.Archive.FileDigest.String(), TarDigest: r.Archive.TarDigest.String(),
		Capabilities: m.Capabilities, Mounts: Mounts(),
	}
	if about.Capabilities == nil {
		about.Capabilities = map[string]bool{}
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(about); err != nil {
		return err
	}
	when := time.Unix(o.ModTime, 0)
	return bundle.NewTree(o.Dir, func(d *bundle.Dirs) error {
		if _, err := d.MkdirAll("agent"); err != nil {
			return err
		}
		tree, err := d.Sub("agent")
		if err != nil {
			return err
		}
		err = r.Archive.Extract(ctx, tree, when)
		if cerr := tree.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
		if err := create(d, "Containerfile", m.Containerfile(o.Base)); err != nil {
			return err
		}
		if err := create(d, "stage.json", text.Bytes()); err != nil {
			return err
		}
		for _, name := range []string{"agent", "Containerfile", "stage.json"} {
			if err := d.Chtimes(name, when); err != nil {
				return err
			}
		}
		return nil
	})
}

func create(d *bundle.Dirs, name string, content []byte) error {
	f, err := d.Create(name, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, bytes.NewReader(content))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
