// Package outputschema holds what rig-bridge prints with --json against the
// published schema, for tests.
package outputschema

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/rigward/rigward/schemas"
)

// Strict returns the published schema, but without leave to add keys: what the
// programs print today is all in it.
var Strict = sync.OnceValues(func() (*jsonschema.Schema, error) {
	var v any
	if err := json.Unmarshal(schemas.BridgeOutput(), &v); err != nil {
		return nil, err
	}
	tighten(v)
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	const name = "urn:rigward:schema:rig-bridge-output"
	if err := c.AddResource(name, bytes.NewReader(data)); err != nil {
		return nil, err
	}
	return c.Compile(name)
})

func tighten(v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			tighten(item)
		}
	case map[string]any:
		for _, item := range v {
			tighten(item)
		}
		if _, is := v["properties"].(map[string]any); is && v["type"] == "object" {
			v["additionalProperties"] = false
		}
	}
}
