package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A lines is a connection of the protocol over lines of JSON. What is not a
// message is answered as such, and the next line is read; at the end of the input
// all that was read is answered first. The SDK's own ends in both cases.
type lines struct {
	in     <-chan line
	out    io.Writer
	queue  []jsonrpc.Message // of a line that was read
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex // guards what follows, and writing
	waiting map[jsonrpc.ID]*batch
	idle    chan struct{} // closed when nothing waits for an answer; nil: nobody asks
}

// A line is one line of input, or why there is none.
type line struct {
	data []byte
	long bool // it is longer than allowed, and left out
	err  error
}

// A batch are calls that came in one array, which are answered in one.
type batch struct {
	left    int
	answers []json.RawMessage
}

// stdio makes a connection over a reader and a writer, with lines of at most max
// bytes.
type stdio struct {
	in  io.Reader
	out io.Writer
	max int
}

// Connect implements the SDK's interface.
func (s stdio) Connect(context.Context) (mcp.Connection, error) {
	in := make(chan line)
	c := &lines{in: in, out: s.out, closed: make(chan struct{}), waiting: map[jsonrpc.ID]*batch{}}
	go func() {
		r := bufio.NewReader(s.in)
		for {
			l := readLine(r, s.max)
			select {
			case in <- l:
			case <-c.closed:
				return
			}
			if l.err != nil {
				return
			}
		}
	}()
	return c, nil
}

// readLine reads a line, without its end. The last one needs none.
func readLine(r *bufio.Reader, most int) (l line) {
	for {
		part, err := r.ReadSlice('\n')
		if l.long = l.long || len(l.data)+len(part) > most+1; l.long {
			l.data = nil
		} else {
			l.data = append(l.data, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && (len(l.data) > 0 || l.long):
			return l // the end is told by the next one
		}
		l.err = err
		return l
	}
}

// SessionID implements the SDK's interface.
func (c *lines) SessionID() string { return "" }

// Close implements the SDK's interface.
func (c *lines) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

// Read returns the next message; io.EOF when the input has ended and all of it is
// answered.
func (c *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		if len(c.queue) > 0 {
			m := c.queue[0]
			c.queue = c.queue[1:]
			return m, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.closed:
			return nil, io.EOF
		case l := <-c.in:
			if errors.Is(l.err, io.EOF) {
				select {
				case <-c.answered():
				case <-ctx.Done():
				case <-c.closed:
				}
			}
			if l.err != nil {
				return nil, l.err
			}
			if err := c.take(l); err != nil {
				return nil, err
			}
		}
	}
}

// answered returns a channel that is closed when nothing waits for an answer.
func (c *lines) answered() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := make(chan struct{})
	c.idle = idle
	c.rest()
	return idle
}

func (c *lines) rest() {
	if c.idle != nil && len(c.waiting) == 0 {
		close(c.idle)
		c.idle = nil
	}
}

// take queues the messages of a line, and answers what is none.
func (c *lines) take(l line) error {
	data := bytes.TrimSpace(l.data)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case l.long:
		return c.refuse(nil, nil, jsonrpc.CodeInvalidRequest, "the line is longer than a request may be")
	case len(data) == 0:
		return nil
	case !utf8.Valid(data):
		return c.refuse(nil, nil, jsonrpc.CodeParseError, "the line is not valid UTF-8")
	case !json.Valid(data):
		return c.refuse(nil, nil, jsonrpc.CodeParseError, "the line is not JSON")
	case data[0] != '[':
		return c.message(nil, data)
	}
	var all []json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil || len(all) == 0 {
		return c.refuse(nil, nil, jsonrpc.CodeInvalidRequest, "the array holds no message")
	}
	b := &batch{left: 1} // until all of it is looked at
	for _, one := range all {
		if err := c.message(b, one); err != nil {
			return err
		}
	}
	b.left--
	return c.send(b)
}

// message queues a message, of a batch or alone.
func (c *lines) message(b *batch, data []byte) error {
	m, err := jsonrpc.DecodeMessage(data)
	if err != nil {
		var named struct{ ID any }
		_ = json.Unmarshal(data, &named)
		switch named.ID.(type) {
		case string, float64:
		default:
			named.ID = nil
		}
		return c.refuse(b, named.ID, jsonrpc.CodeInvalidRequest, "it is not a JSON-RPC 2.0 message")
	}
	if call, ok := m.(*jsonrpc.Request); ok && call.IsCall() {
		if _, used := c.waiting[call.ID]; used {
			return c.refuse(b, call.ID.Raw(), jsonrpc.CodeInvalidRequest, "the id is that of a request that waits for its answer")
		}
		if b != nil {
			b.left++
		}
		c.waiting[call.ID] = b
	}
	c.queue = append(c.queue, m)
	return nil
}

// refuse answers what is not a message.
func (c *lines) refuse(b *batch, id any, code int64, why string) error {
	data, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": why}})
	if err != nil {
		return err
	}
	return c.answer(b, data)
}

// answer writes the answer to a call, or keeps it until its batch is answered.
func (c *lines) answer(b *batch, data []byte) error {
	if b == nil {
		_, err := c.out.Write(append(data, '\n'))
		return err
	}
	b.answers = append(b.answers, data)
	return c.send(b)
}

// send writes the answers of a batch once all are there.
func (c *lines) send(b *batch) error {
	if b.left > 0 || len(b.answers) == 0 {
		return nil
	}
	data, err := json.Marshal(b.answers)
	b.answers = nil
	if err != nil {
		return err
	}
	return c.answer(nil, data)
}

// Write writes a message. An error without a code is one of the request.
func (c *lines) Write(ctx context.Context, m jsonrpc.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var b *batch
	response, ok := m.(*jsonrpc.Response)
	var coded *jsonrpc.Error
	if ok && response.Error != nil && !errors.As(response.Error, &coded) {
		response.Error = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: response.Error.Error()}
	}
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return fmt.Errorf("cannot write a message: %w", err)
	}
	if ok {
		if b = c.waiting[response.ID]; b != nil {
			b.left--
		}
		delete(c.waiting, response.ID)
		defer c.rest()
	}
	return c.answer(b, data)
}
