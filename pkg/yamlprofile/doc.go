// Package yamlprofile reads the strict YAML 1.2 profile of docs/spec/envelope.md#yaml:
// one mapping, without anchors, aliases, tags, directives, document
// markers, merge keys, complex keys and duplicate keys.
//
// The front matter of an envelope, the policy file and the client's
// configuration are all written in it. Types are resolved by the YAML 1.2 core
// schema on plain scalars only; quoted and block scalars are strings, and no
// value is ever converted. What a program reads from a Node is what every other
// YAML 1.2 reader reads: where parsers are known to disagree, the document is
// refused.
//
// The package parses with gopkg.in/yaml.v3's node interface and closes the
// library's leniency on the source text. It is a pure function on bytes with
// limits, linear in the size of the document.
package yamlprofile
