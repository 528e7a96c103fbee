package bridge

import "github.com/rigward/rigward/internal/order"

// sortMessages puts the messages of a thread in order.
func sortMessages(ms []*message) {
	order.Sort(ms, func(m *message) order.Message {
		o := order.Message{Day: m.day, When: m.when, File: m.file}
		if m.env != nil {
			o.Type, o.Hash, o.ReplyTo = m.env.Type, m.env.Hash, m.env.InReplyTo
		}
		return o
	})
}

func compareNames(a, b string) int { return order.Names(a, b) }
