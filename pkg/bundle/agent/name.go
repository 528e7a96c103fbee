package agent

import (
	"fmt"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

const (
	filePrefix = "agent-bundle-"
	extGzip    = ".tar.gz"
	extZstd    = ".tar.zst"
)

// FileName is the name that a bundle file has by docs/spec/agentbundle.md#file-name;
// ext is ".tar.gz" or ".tar.zst".
func (m *Manifest) FileName(ext string) string {
	return filePrefix + m.Name + "-" + m.Version + "-" + Target{m.Platform, m.Arch, m.Libc}.join("-") + ext
}

// CheckFileName judges the base name of a bundle file, which is never parsed:
// one that begins with agent-bundle- has to be the name that the manifest
// gives, any other is only noted. ext is as in FileName.
func (m *Manifest) CheckFileName(base, ext string) ([]*bundle.Finding, []bundle.Note) {
	want := m.FileName(ext)
	switch {
	case base == want:
		return nil, nil
	case strings.HasPrefix(base, filePrefix):
		return []*bundle.Finding{{Code: codeNamingMismatch,
			Message: fmt.Sprintf("the file is named %s, its manifest says %s", finding.QuoteMax(base, 300), finding.Path(want)),
			Hint:    "name it " + finding.Path(want)}}, nil
	}
	return nil, []bundle.Note{{Code: noteNameNotRecommended, Detail: fmt.Sprintf("%s is not the recommended name %s", finding.QuoteMax(base, 300), finding.Path(want))}}
}

// kindOf is the extension of a bundle file, empty if it has another one.
func kindOf(name string) string {
	for _, ext := range []string{extGzip, extZstd} {
		if strings.HasSuffix(name, ext) {
			return ext
		}
	}
	return ""
}
