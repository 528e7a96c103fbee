//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const (
	initializeLine  = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n"
	initializedLine = `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
)

func (w *world) piped(rig, input string) []dict {
	w.t.Helper()
	cmd := w.command(rig, "rig-bridge", "mcp")
	cmd.Stdin = strings.NewReader(input)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		w.t.Fatalf("%v\n%s%s", err, &out, &errs)
	}
	var answers []dict
	for line := range strings.Lines(out.String()) {
		var d dict
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			w.t.Fatalf("%v in %s", err, line)
		}
		answers = append(answers, d)
	}
	return answers
}

// TestPipe: what was read is answered before the server ends with its input, and
// what is no message ends nothing.
func TestPipe(t *testing.T) {
	w := newWorld(t, "rig-a", "rig-b")
	call := func(id, tool, args string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `}}`
	}
	got := w.piped("rig-a", initializeLine+initializedLine+
		call("2", "send", `{"type":"REQUEST","thread":"t-pipe","to":["rig-b"],"tldr":"piped"}`)+"\n"+
		call("3", "wait", `{"seconds":1}`)+"\n"+call(`"four"`, "status", "{}")) // the last line has no end
	ids := map[any]bool{}
	for _, d := range got {
		ids[d["id"]] = d["result"] != nil
	}
	if len(got) != 4 || !ids[1.0] || !ids[2.0] || !ids[3.0] || !ids["four"] {
		t.Errorf("%v", got)
	}
	if !strings.Contains(w.git("origin.git", "log", "--format=%s", "main"), "REQUEST: piped") {
		t.Error("the message was not sent")
	}
	// Noise, in front of and between what is asked.
	got = w.piped("rig-a", "hello\n\n{\"a\":\n"+`{"jsonrpc":"2.0","id":9,"method":"tools/list"}`+"\n"+initializeLine+"\xff\xfe\n[]\n{}\n"+initializedLine+
		strings.Repeat("x", 1<<16)+"\n"+`{"jsonrpc":"2.0","id":7,"method":5}`+"\n"+call("5", "inbox", "{}")+"\n")
	var codes []string
	for _, d := range got {
		if e, bad := d["error"].(dict); bad {
			codes = append(codes, strings.TrimSuffix(jsonOf(e["code"]), ".0")+" "+jsonOf(d["id"]))
		}
	}
	want := "-32700 null|-32700 null|-32700 null|-32600 null|-32600 null|-32700 null|-32600 7|-32600 9"
	count := map[string]int{}
	for _, c := range strings.Split(want, "|") {
		count[c]++
	}
	for _, c := range codes {
		count[c]--
	}
	for c, n := range count {
		if n != 0 {
			t.Errorf("%s: %d too few; answers %v", c, n, got)
		}
	}
	if last := got[len(got)-1]; last["id"] != 5.0 || last["result"] == nil {
		t.Errorf("%v", last)
	}
}

func jsonOf(v any) string { data, _ := json.Marshal(v); return string(data) }

// TestLines holds the connection itself: batches, ids that are used twice, lines
// that are too long, and the end of the input.
func TestLines(t *testing.T) {
	ctx := context.Background()
	in := `[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"n"},{"x":1},{"jsonrpc":"2.0","id":2,"method":"b"}]` + "\n" +
		strings.Repeat("y", 300) + "\n" + `{"jsonrpc":"2.0","id":1,"method":"again"}` + "\n" + `{"jsonrpc":"2.0","id":3,"method":"c"}`
	var out bytes.Buffer
	conn, err := stdio{strings.NewReader(in), &out, 200}.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var methods []string
	for range 4 {
		m, err := conn.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		methods = append(methods, m.(*jsonrpc.Request).Method)
	}
	if got := strings.Join(methods, ""); got != "anbc" {
		t.Errorf("%s", got)
	}
	ended := make(chan error, 1)
	go func() { _, err := conn.Read(ctx); ended <- err }()
	for _, id := range []float64{3, 2, 1} {
		select {
		case err := <-ended:
			t.Fatalf("it ended before %v was answered: %v", id, err)
		default:
		}
		i, _ := jsonrpc.MakeID(id)
		if err := conn.Write(ctx, &jsonrpc.Response{ID: i, Result: json.RawMessage(`"r"`)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	rows := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(rows) != 4 || !strings.Contains(rows[0], "longer than") || !strings.Contains(rows[1], "waits for its answer") ||
		!strings.Contains(rows[2], `"id":3`) || !strings.HasPrefix(rows[3], "[") || strings.Count(rows[3], `"jsonrpc"`) != 3 {
		t.Errorf("%q", rows)
	}
}

// FuzzLines: no line ends the connection before its input does, and each line of
// the output is JSON.
func FuzzLines(f *testing.F) {
	f.Add([]byte("hello\n" + initializeLine))
	f.Add([]byte("[{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"\"}]\n[[]]\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		ctx := context.Background()
		conn, _ := stdio{bytes.NewReader(in), &out, 1 << 10}.Connect(ctx)
		for {
			m, err := conn.Read(ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%q: %v", in, err)
			}
			if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
				_ = conn.Write(ctx, &jsonrpc.Response{ID: r.ID, Result: json.RawMessage("{}")})
			}
		}
		for line := range bytes.Lines(out.Bytes()) {
			if !json.Valid(line) {
				t.Fatalf("%q", line)
			}
		}
	})
}
