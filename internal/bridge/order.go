package bridge

import (
	"github.com/rigward/rigward/internal/order"
	"github.com/rigward/rigward/internal/verdict"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// sortMessages puts the messages of a thread in order.
func sortMessages(ms []*message) {
	order.Sort(ms, func(m *message) order.Message {
		o := order.Message{Day: m.day, When: m.when, Came: m.came, File: m.file}
		if m.env != nil {
			o.Type, o.Hash, o.ReplyTo = m.env.Type, m.env.Hash, m.env.InReplyTo
		}
		return o
	})
}

func compareNames(a, b string) int { return order.Names(a, b) }

// placed has messages know when they came, so that sortMessages puts the newest
// last.
func placed(t *verdict.Thread, ms []*message) {
	for _, m := range ms {
		m.came = t.Came(m.file, m.blob)
	}
}

// newest returns the message of the day and instant of m, of those that the gates
// take, that a later commit brought, where there is one: m is what the messages
// alone tell to be the last. words leaves ACKs out.
func (w *work) newest(t *verdict.Thread, m *message, words bool) (*message, error) {
	at := t.Came(m.file, m.blob)
	if at.Commit == "" {
		return m, nil
	}
	var found []*message
	for _, v := range t.After(at) {
		if len(found) > 0 && v.Came.Compare(found[0].came) < 0 {
			break
		}
		typ, data, err := w.repo.Object(v.Blob, envelope.DefaultLimits().File)
		if err != nil {
			return nil, gitProblem(err)
		}
		n := blobMessage(m.thread, v.File, gitrepo.Object{ID: v.Blob, Type: typ, Data: data})
		n.came, n.verdict = v.Came, t.Of(v.File, v.Blob)
		if n.env == nil || n.apart() || n.day != m.day || !n.when.Equal(m.when) || words && n.env.Type == "ACK" {
			continue
		}
		found = append(found, n)
	}
	if len(found) == 0 {
		return m, nil
	}
	sortMessages(found)
	return found[len(found)-1], nil
}
