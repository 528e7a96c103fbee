// Package stream takes what hooks told of pushes to a stream of NATS JetStream, from
// which any number of others may read it, in other places too
// (docs/spec/controlplane.md#stream).
//
// A record is told at least once. Its key is the id of its message, by which the
// stream drops what is told again.
package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rigward/rigward/internal/outbox"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

const (
	// subjects are those of the stream: rigward.pushes and the name of a repository.
	subjects = "rigward.pushes."
	// window is how long a stream that is made here knows what it was told.
	window = 24 * time.Hour
	// patience is how long an answer is waited for.
	patience = 5 * time.Second
)

// An Address is where a stream is.
type Address struct {
	URL         string // nats://HOST:PORT or tls://HOST:PORT, with whatever credentials it holds
	Credentials string // a file with a user's credentials, "" for none
	Stream      string // its name
}

// String names the server for people, without credentials.
func (a Address) String() string {
	u, err := url.Parse(a.URL)
	if err != nil {
		return "the NATS server"
	}
	return "the NATS server " + finding.Clean(u.Scheme+"://"+u.Host)
}

// A Stream is one that is open, to tell of one repository.
type Stream struct {
	address Address
	repo    string
	conn    *nats.Conn
	js      jetstream.JetStream
}

// Open reaches a stream, and makes it where it does not exist. No error holds
// credentials.
func Open(ctx context.Context, a Address, repo string) (*Stream, error) {
	u, err := url.Parse(a.URL)
	if err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls" {
		return nil, &policy.Undecided{Message: "the address of the NATS server is malformed", Hint: "nats://HOST:4222"}
	}
	options := []nats.Option{nats.Name("rig-control"), nats.Timeout(patience), nats.NoReconnect()}
	if a.Credentials != "" {
		options = append(options, nats.UserCredentials(a.Credentials))
	}
	s := &Stream{address: a, repo: repo}
	if s.conn, err = nats.Connect(a.URL, options...); err != nil {
		return nil, s.told("cannot be reached", err)
	}
	if s.js, err = jetstream.New(s.conn); err == nil {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if _, err = s.js.Stream(ctx, a.Stream); errors.Is(err, jetstream.ErrStreamNotFound) {
			_, err = s.js.CreateStream(ctx, jetstream.StreamConfig{Name: a.Stream, Subjects: []string{subjects + ">"}, Duplicates: window})
		}
	}
	if err != nil {
		s.Close()
		return nil, s.told("has no stream "+finding.QuoteMax(a.Stream, 40), err)
	}
	return s, nil
}

// Close ends the connection.
func (s *Stream) Close() { s.conn.Close() }

// told says what is wrong, without the address, which may be part of the error.
func (s *Stream) told(what string, err error) error {
	why := err.Error()
	if strings.Contains(why, "://") {
		why = "no answer"
	}
	return &policy.Undecided{Message: fmt.Sprintf("%s %s: %s", s.address, what, finding.QuoteMax(why, 120)), Cause: err}
}

// Tell adds records to the stream, and waits until it has them all on its disk, or on
// those of as many servers as keep it.
func (s *Stream) Tell(ctx context.Context, records []outbox.Record) error {
	ctx, cancel := context.WithTimeout(ctx, patience+time.Duration(len(records))*time.Millisecond)
	defer cancel()
	var waiting []jetstream.PubAckFuture
	for _, r := range records {
		data, err := json.Marshal(struct {
			Repo string `json:"repo"`
			outbox.Record
		}{s.repo, r})
		if err != nil {
			return s.told("cannot be told of a record", err)
		}
		ack, err := s.js.PublishMsgAsync(&nats.Msg{Subject: subjects + token(s.repo), Data: data}, jetstream.WithMsgID(s.repo+" "+r.ID), jetstream.WithExpectStream(s.address.Stream))
		if err != nil {
			return s.told("takes no more records", err)
		}
		waiting = append(waiting, ack)
	}
	for _, ack := range waiting {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return s.told("does not take a record", err)
		case <-ctx.Done():
			return s.told("does not take a record", ctx.Err())
		}
	}
	return nil
}

// token writes the name of a repository as one part of a subject, of letters, digits, - and
// _; another byte is = and its hexadecimal number, so that no two names are one.
func token(repo string) string {
	var b strings.Builder
	for _, c := range []byte(repo) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}
