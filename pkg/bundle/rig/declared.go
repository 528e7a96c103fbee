package rig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
)

// maxDeclared bounds the depth of a settings file that is looked through.
const maxDeclared = 32

// declared tells the commands, servers and permissions that a settings file of
// a harness declares: JSON, YAML or TOML of any shape.
func (d *describer) declared(name, seat string) {
	data := d.text[name]
	if data == nil || d.full() {
		return
	}
	var v any
	var err error
	ext := strings.ToLower(path.Ext(name))
	switch ext {
	case ".json":
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		err = dec.Decode(&v)
	case ".yaml", ".yml":
		root, fault := parseYAML(data)
		if fault != nil {
			err = errors.New(fault.msg)
		} else {
			v = root.plain()
		}
	case ".toml":
		err = toml.Unmarshal(data, &v)
	default:
		return
	}
	if err != nil {
		d.fact(FactUnknown, seat, name, "", "is no %s that can be read", strings.Replace(strings.ToUpper(ext[1:]), "YML", "YAML", 1))
		return
	}
	d.visit(v, name, seat, "", 0)
}

// plain is a value as encoding/json has it; texts are shared, also by aliases.
func (n *node) plain() any {
	switch n.kind {
	case kindList:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = item.plain()
		}
		return list
	case kindMap:
		m := make(map[string]any, len(n.fields))
		for _, f := range n.fields {
			m[f.key] = f.value.plain()
		}
		return m
	case kindBool:
		return n.text == "true"
	}
	return n.text
}

func (d *describer) visit(v any, name, seat, at string, depth int) {
	if depth > maxDeclared {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for _, k := range sortedKeys(v) {
			if s, ok := v[k].(string); ok {
				d.setting(k, s, name, seat, dot(at, k))
			} else if b, ok := v[k].(bool); ok {
				d.setting(k, fmt.Sprint(b), name, seat, dot(at, k))
			} else if list, ok := v[k].([]any); ok && k == "allow" {
				d.allowed(list, name, seat, dot(at, k))
			} else {
				d.visit(v[k], name, seat, dot(at, k), depth+1)
			}
		}
	case []any:
		for i, item := range v {
			d.visit(item, name, seat, index(at, i), depth+1)
		}
	}
}

func (d *describer) allowed(list []any, name, seat, at string) {
	for i, item := range list {
		if s, ok := item.(string); ok {
			d.fact(FactPermission, seat, name, index(at, i), "allows %s without asking", q(s))
		}
	}
}

// setting tells one setting, if it is of those that do something.
func (d *describer) setting(key, value, name, seat, at string) {
	if value == "" {
		return
	}
	low := strings.ToLower(key[strings.LastIndexByte(key, '.')+1:])
	switch {
	case low == "command" || low == "script" || low == "run" || low == "notify" || strings.HasSuffix(key, "Helper") || strings.HasSuffix(key, "Refresh"):
		d.fact(FactHook, seat, name, at, "the harness runs %s", q(value))
	case low == "url" || low == "httpurl" || low == "serverurl" || low == "endpoint" || low == "base_url":
		d.fact(FactNetwork, seat, name, at, "the harness talks to %s", q(value))
	case low == "defaultmode" || low == "approval_policy" || low == "sandbox_mode" || low == "network_access":
		d.fact(FactPermission, seat, name, at, "sets %s to %s", q(key), q(value))
	case low == "skipdangerousmodepermissionprompt" || low == "dangerouslyskippermissions" || low == "enableallprojectmcpservers":
		d.fact(FactPermission, seat, name, at, "sets %s to %s", q(key), q(value))
	}
}

var addressPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("(?:https?|wss?|ssh|git)://[^\\s<>\"'`\\])}]+")
})

// addresses notes the hosts that a text names.
func (d *describer) addresses(name string, data []byte) {
	if !bytes.Contains(data, []byte("://")) || !utf8.Valid(data) {
		return
	}
	for _, raw := range addressPattern().FindAll(data, 10_000) {
		u, err := url.Parse(string(raw))
		if err != nil || u.Hostname() == "" {
			continue
		}
		host := strings.ToLower(u.Hostname())
		if _, ok := d.hosts[host]; ok {
			continue
		}
		if len(d.hosts) >= maxDomains {
			d.more = true
			return
		}
		d.hosts[host] = name
	}
}

// network tells the hosts that texts of the bundle name.
func (d *describer) network() {
	hosts := sortedKeys(d.hosts)
	slices.Sort(hosts)
	for _, h := range hosts {
		d.fact(FactNetwork, "", d.hosts[h], "", "a text names the address %s; whether anything talks to it is not known", q(h))
	}
	if d.more {
		d.fact(FactNetwork, "", "", "", "texts name more addresses than are listed")
	}
	if d.unread > 0 {
		d.fact(FactUnknown, "", "", "", "%d files are too large to be looked through", d.unread)
	}
}
