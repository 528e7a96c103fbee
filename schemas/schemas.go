// Package schemas holds the JSON Schemas of the project as they are published.
package schemas

import _ "embed"

//go:embed bridge-message.schema.json
var bridgeMessage string

// BridgeMessage returns the JSON Schema (2020-12) of an envelope's front matter
// (docs/spec/envelope.md#schema).
func BridgeMessage() []byte { return []byte(bridgeMessage) }

//go:embed policy.schema.json
var policySchema string

// Policy returns the JSON Schema (2020-12) of the policy file
// (docs/spec/policy.md).
func Policy() []byte { return []byte(policySchema) }

//go:embed rig-bridge-output.schema.json
var bridgeOutput string

// BridgeOutput returns the JSON Schema (2020-12) of what rig-bridge prints with
// --json.
func BridgeOutput() []byte { return []byte(bridgeOutput) }
