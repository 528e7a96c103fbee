// Package envelope reads and writes the envelopes of the rig-bridge protocol:
// a Markdown body below a YAML front matter between two --- lines.
//
// Parse takes the bytes of a file, and where known its path and git mode, and
// returns the Envelope and every finding that content alone allows: the rules
// envelope-parse, envelope-schema, envelope-date, envelope-path, body-hash and
// tldr-length of docs/spec/envelope.md. Render is its inverse. There is no git here,
// no file and no clock, and all work is linear in the size of the input.
//
// The schema is judged by a table of this package, so that a gate doesn't pay
// for a schema engine at every start; tests hold the table against
// schemas/bridge-message.schema.json and a JSON Schema 2020-12 engine. Package
// userschema judges an envelope by a schema of the user's own.
package envelope
