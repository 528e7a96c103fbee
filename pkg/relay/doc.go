// Package relay judges the attestation of relays: envelopes that carry a
// person's decision into a thread of machines (docs/spec/relay.md).
//
// All functions are pure. CheckContent judges what the envelope alone
// shows, NamesKey compares attested_by with the key that signed, and the other
// predicates take a commit's author, times and history as values; reading git
// and verifying signatures is done elsewhere.
package relay
