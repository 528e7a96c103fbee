package bridge

import (
	"sync"

	"github.com/rigward/rigward/pkg/rules"
)

// A Memory keeps what one process has read of messages, so that a run that comes later
// reads what is new. All of it follows from their content, which is found by its id.
// The zero value is empty; runs at the same time may use one.
type Memory struct {
	once bool // one run has it, which glances at a file once
	said rules.Memory

	mu      sync.Mutex
	glances map[stored]glanced
}

// A stored is a file as git stores it.
type stored struct{ thread, file, blob string }

// A glanced is what status needs to know of a message, packed.
type glanced struct {
	packed []byte
	claims bool
}

// maxGlanced is how many messages are kept, some 500 bytes each.
const maxGlanced = 8192

// message returns what is known of a file, nil if it is not.
func (m *Memory) message(thread, file, blob string) *message {
	m.mu.Lock()
	g, known := m.glances[stored{thread, file, blob}]
	m.mu.Unlock()
	if !known {
		return nil
	}
	u := unpacker{data: g.packed}
	out := u.message(thread)
	out.claims = g.claims
	return out
}

// keep adds a message that was read. Where there is no room for it, all others go.
func (m *Memory) keep(msg *message) {
	if m.once {
		return
	}
	var p packer
	p.message(msg)
	if len(p) > maxGlance {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.glances == nil || len(m.glances) >= maxGlanced {
		m.glances = map[stored]glanced{}
	}
	m.glances[stored{msg.thread, msg.file, msg.blob}] = glanced{p, msg.claims}
}
