package bridge

import (
	"encoding/json"
	"math"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/yamlprofile"
)

// frontmatterJSON writes a front matter as JSON, keys in their order. A number
// that JSON cannot hold is null.
func frontmatterJSON(n *yamlprofile.Node) ([]byte, error) {
	switch n.Kind {
	case yamlprofile.Number:
		if f, ok := n.Float(); !ok || math.IsInf(f, 0) || math.IsNaN(f) {
			return []byte("null"), nil
		}
	case yamlprofile.List:
		out := []byte{'['}
		for i, item := range n.Items {
			if i > 0 {
				out = append(out, ',')
			}
			v, err := frontmatterJSON(item)
			if err != nil {
				return nil, err
			}
			out = append(out, v...)
		}
		return append(out, ']'), nil
	case yamlprofile.Map:
		out := []byte{'{'}
		for i, f := range n.Fields {
			if i > 0 {
				out = append(out, ',')
			}
			k, err := finding.JSON(f.Key.Value)
			if err != nil {
				return nil, err
			}
			v, err := frontmatterJSON(f.Value)
			if err != nil {
				return nil, err
			}
			out = append(append(append(out, k...), ':'), v...)
		}
		return append(out, '}'), nil
	}
	v, _ := n.Interface()
	return json.Marshal(v)
}
