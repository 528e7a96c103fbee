package bridge

import (
	"bytes"
	"encoding/json"
	goflag "flag"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/outputschema"
	"github.com/rigward/rigward/internal/verdict"
	"github.com/rigward/rigward/schemas"
)

// outputs are what the commands print with --json, by their op. query is
// answered by rig-control, whose tests hold its answers to the same file.
var outputs = []struct {
	op  string
	typ any
}{
	{"init", initObject{}}, {"new", newObject{}}, {"send", sentObject{}}, {"close", sentObject{}}, {"relay", relayObject{}},
	{"status", statusObject{}}, {"thread", threadObject{}}, {"sync", syncObject{}}, {"validate", validateObject{}},
	{"read", readObject{}}, {"inbox", inboxObject{}}, {"wait", waitObject{}}, {"ack", sentObject{}}, {"reply", sentObject{}},
}

// A schema is a JSON Schema that is put together.
type schema = map[string]any

// words are the values that some properties are limited to, and what is said
// of others.
var words = map[string]schema{
	"schema_version": {"const": schemaVersion},
	"state": {"description": "whose word it is: verified, unsigned and refused as the gates say; not-pushed and not-committed are this clone's own, pending is not judged yet, unknown cannot be decided",
		"enum": []any{verdict.Verified, verdict.Unsigned, verdict.Refused, verdict.NotPushed, verdict.NotCommitted, verdict.Pending, verdict.Unknown}},
	"severity":     {"enum": []any{"warning", "error"}},
	"code":         {"enum": []any{"usage", "not-a-repository", "config", "thread", "exists", "invalid", "refused", "push-rejected", "runtime", "interrupted"}},
	"event":        {"enum": []any{"snapshot", "change", "error"}},
	"status_class": {"description": "active, pending, targeted, completed, cancelled or unknown"},
	"fingerprint":  {"pattern": "^SHA256:[A-Za-z0-9+/]{43}$"},
	"rules":        {"description": "by which the gates refuse it, see docs/rules.md"},
	"restored":     {"description": "what was accepted; the work tree does not hold it any more"},
	"refused":      {"description": "what the gates refuse: it was not said in this thread"},
	"committed_at": {"description": "committer date of the commit that brought it, where that is known"},
	"unread":       {"description": "not marked by rig-bridge read: of a message whether it is so, else how many to the rig are"},
	"why": {"description": "unread: it is to the rig and not marked; turn: the last word of an open thread, and to the rig; decision: an operator's verified relay that is not marked",
		"items": schema{"enum": []any{whyUnread, whyTurn, whyDecision}}},
	"cursor":   {"description": "for --after of rig-bridge inbox and wait"},
	"untaken":  {"description": "what was fetched and is not in HEAD, because sync --auto would refuse it"},
	"repeated": {"description": "an earlier run has sent it"},
	"mark":     {"description": "for rig-bridge read --at"},
	"pushed":   {"description": "a remote has the commit"},
	"expunged": {"description": "operators have taken the body out; signer is one of them"},
	"revoked":  {"description": "since it signed, its key was revoked"},
}

// of returns the schema of a type as encoding/json writes it.
func of(t reflect.Type) schema {
	switch t {
	case reflect.TypeFor[json.RawMessage]():
		return schema{}
	}
	switch t.Kind() {
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int:
		return schema{"type": "integer", "minimum": 0}
	case reflect.Slice:
		return schema{"type": "array", "items": of(t.Elem())}
	case reflect.Pointer:
		return schema{"anyOf": []any{of(t.Elem()), schema{"type": "null"}}}
	case reflect.Struct:
		s := schema{"type": "object", "properties": schema{}, "required": []any{}}
		fields(t, s)
		return s
	}
	panic("no schema for " + t.String())
}

func fields(t reflect.Type, s schema) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, tagged := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && !tagged && f.Tag.Get("json") == "":
			fields(f.Type, s)
			continue
		case !f.IsExported() || name == "-" || name == "":
			continue
		}
		p := of(f.Type)
		if options == "omitempty" {
			if f.Type.Kind() == reflect.Pointer {
				p = of(f.Type.Elem())
			}
		} else {
			s["required"] = append(s["required"].([]any), name)
		}
		switch {
		case name == "frontmatter":
			p = schema{"type": "object"}
		case name == "to" && f.Type == reflect.TypeFor[json.RawMessage]():
			p = schema{"anyOf": []any{schema{"type": "string"}, schema{"type": "array", "items": schema{"type": "string"}}}}
		}
		for key, value := range words[name] {
			p[key] = value
		}
		s["properties"].(schema)[name] = p
	}
}

// published puts the file together.
func published() ([]byte, error) {
	defs := schema{}
	var all []any
	add := func(name string, s schema) {
		defs[name] = s
		all = append(all, schema{"$ref": "#/$defs/" + name})
	}
	op := func(s schema, op any) schema {
		s["properties"].(schema)["op"] = op
		return s
	}
	for _, o := range outputs {
		add(o.op, op(of(reflect.TypeOf(o.typ)), schema{"const": o.op}))
	}
	text, list := schema{"type": "string"}, schema{"type": "array"}
	object := func(required []any, properties schema) schema {
		properties["schema_version"] = words["schema_version"]
		return op(schema{"type": "object", "required": append([]any{"schema_version", "op"}, required...), "properties": properties}, schema{"const": "query"})
	}
	asOf := func(named bool) schema {
		s := schema{"type": "object", "required": []any{"commit", "at"}, "properties": schema{"commit": text, "at": text}}
		if named {
			s["required"], s["properties"].(schema)["repo"] = []any{"repo", "commit", "at"}, text
		}
		return s
	}
	add("query", object([]any{"query", "repo", "rows", "more", "as_of"}, schema{"query": text, "repo": text, "as_of": asOf(false), "after": schema{"type": "string", "description": "for --after: the rows that follow"}, "repositories": schema{"type": "array", "items": asOf(true)}, "more": schema{"type": "boolean"},
		"rows": schema{"type": "array", "items": schema{"type": "object"}, "description": "their keys are the columns of docs/spec/controlplane.md#messages"}}))
	event := schema{"notes": schema{"anyOf": []any{text, schema{"type": "null"}}}}
	names := []any{"notes"}
	for _, name := range strings.Fields("repo key thread filename message_type from_rig to_rig verdict message_sha event_type rig commit_sha created_at") {
		event[name] = text
		names = append(names, name)
	}
	add("query-event", object([]any{"query", "cursor"}, schema{"query": schema{"const": "events"}, "cursor": schema{"type": "string", "description": "for --after: the events that follow"},
		"reset": schema{"type": "string", "description": "the repository whose index was made anew: its events begin again, with the same keys"},
		"event": schema{"type": "object", "required": names, "properties": event}}))
	add("query-sql", object([]any{"query", "sql", "parameters"}, schema{"query": text, "sql": text, "parameters": list}))
	names = []any{"query"}
	for _, c := range commands() {
		if c.Name != "query" {
			names = append(names, c.Name)
		}
	}
	watch := of(reflect.TypeFor[watchError]())
	watch["required"] = []any{"schema_version", "op", "error"}
	add("error", op(watch, schema{"enum": names}))
	data, err := json.MarshalIndent(schema{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "urn:rigward:schema:rig-bridge-output:" + schemaVersion,
		"title":       "what rig-bridge prints with --json: one object a line",
		"description": "Keys may be added; what is here is not taken away without another schema_version.",
		"oneOf":       all, "$defs": defs,
	}, "", "  ")
	return append(data, '\n'), err
}

// TestOutputSchema holds the published file against the types that the commands
// print. flag -update writes it.
func TestOutputSchema(t *testing.T) {
	want, err := published()
	if err != nil {
		t.Fatal(err)
	}
	const file = "../../schemas/rig-bridge-output.schema.json"
	if f := goflag.Lookup("update"); f != nil && f.Value.String() == "true" {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got := schemas.BridgeOutput(); !bytes.Equal(got, want) {
		t.Errorf("%s is not what the commands print; run go test ./internal/bridge -run 'TestOutputSchema' -update", file)
	}
	s, err := outputschema.Strict()
	if err != nil {
		t.Fatal(err)
	}
	for text, ok := range map[string]bool{
		`{"schema_version":"1.0","op":"new","type":"REQUEST","thread_id":"a","thread":"a","file_path":"b","file":"b"}`:          true,
		`{"schema_version":"1.0","op":"thread","error":{"code":"usage","message":"x"}}`:                                         true,
		`{"schema_version":"2.0","op":"new","type":"REQUEST","thread_id":"a","thread":"a","file_path":"b","file":"b"}`:          false,
		`{"schema_version":"1.0","op":"new","type":"REQUEST","thread_id":"a","thread":"a","file_path":"b"}`:                     false,
		`{"schema_version":"1.0","op":"new","type":"REQUEST","thread_id":"a","thread":"a","file_path":"b","file":"b","more":1}`: false,
		`{"schema_version":"1.0","op":"thread","error":{"code":"strange","message":"x"}}`:                                       false,
	} {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}
