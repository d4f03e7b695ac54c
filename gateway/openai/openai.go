// Package openai speaks the OpenAI Chat Completions protocol to any server that
// speaks it. One call of Complete or Stream is one HTTP request.
//
// It deliberately does not know about retries, budgets, routes, clocks or which
// company runs the server: a further provider is configuration, not code. What
// it shares with other protocols, from the connection to the reader of events,
// is package wire's.
package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/internal/wire"
)

// Config is what an Adapter needs. The zero value is good.
type Config struct {
	MaxResponse int64             // bytes; 0: 8 MiB
	Transport   http.RoundTripper // nil: the package's own, without proxies
}

// Adapter implements gateway.Adapter.
type Adapter struct{ client *wire.Client }

// New makes an adapter with its own connections.
func New(c Config) *Adapter {
	return &Adapter{client: wire.New(wire.Config{MaxResponse: c.MaxResponse, Transport: c.Transport})}
}

// post makes the one HTTP request.
func (a *Adapter) post(ctx context.Context, call gateway.Call, stream bool) (*wire.Response, error) {
	body, err := encode(call, stream)
	if err != nil {
		return nil, &gateway.Error{Class: gateway.ClassBadRequest, NotBilled: true, Reason: "not_encodable"}
	}
	return a.client.Post(ctx, call, wire.Request{Path: "/chat/completions", Body: body, Header: wire.Bearer(call), Stream: stream})
}

// Complete implements gateway.Adapter.
func (a *Adapter) Complete(ctx context.Context, call gateway.Call) (gateway.Reply, error) {
	res, err := a.post(ctx, call, false)
	if err != nil {
		return gateway.Reply{}, err
	}
	defer res.Close()
	reply, err := a.whole(res, call)
	reply.ProviderRequestID, reply.Upstream = res.ID, res.Upstream()
	return reply, err
}

func (a *Adapter) whole(res *wire.Response, call gateway.Call) (gateway.Reply, error) {
	body, err := res.Document()
	if err != nil {
		return gateway.Reply{}, err
	}
	if gateway.HasError(body) {
		return gateway.Reply{Usage: usageOf(body)}, res.Fail(body)
	}
	reply, inside, err := decode(body, newAssembly(call, a.client.MaxResponse(), nil))
	if inside != nil { // one answer of the list failed behind the server's back
		return gateway.Reply{Usage: reply.Usage}, res.Fail(inside)
	}
	return reply, res.Locate(err)
}

// Stream implements gateway.Adapter. A server that does not answer with an event
// stream fails the call: its answer may be anything.
func (a *Adapter) Stream(ctx context.Context, call gateway.Call, emit func(gateway.Event) error) (gateway.Reply, error) {
	res, err := a.post(ctx, call, true)
	if err != nil {
		return gateway.Reply{}, err
	}
	defer res.Close()
	s := &stream{assembly: newAssembly(call, a.client.MaxResponse(), emit), res: res}
	err = s.read()
	var reply gateway.Reply
	if s.Ended() {
		reply, err = s.reply()
	} else {
		reply.ServedModel = s.model
	}
	reply.ProviderRequestID, reply.Upstream, reply.Wire = res.ID, res.Upstream(), res.Stats()
	return reply, res.Locate(err)
}

// stream reads the chunks of one answer.
type stream struct {
	*assembly
	res *wire.Response
}

// chunk is what is read of one event; everything else is ignored.
type chunk struct {
	Model   json.RawMessage `json:"model"`
	Choices []struct {
		Index        int             `json:"index"`
		Delta        *message        `json:"delta"`
		FinishReason *string         `json:"finish_reason"`
		Error        json.RawMessage `json:"error"`
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`
}

// read takes events until the answer and what belongs to it are complete. Once
// the answer has ended nothing that follows can spoil it.
func (s *stream) read() error {
	for e, err := range s.res.Events() {
		if err != nil {
			return err
		}
		if string(bytes.TrimSpace(e.Data)) == "[DONE]" {
			return s.end("") // does nothing after an end with a reason
		}
		if err := s.event(e); err != nil && !s.Ended() {
			return err
		}
	}
	return s.res.Truncated()
}

func (s *stream) event(e wire.Event) error {
	if e.Type == "error" || gateway.HasError(e.Data) {
		return s.res.Fail(e.Data)
	}
	var c chunk
	switch data := bytes.TrimSpace(e.Data); {
	case len(data) == 0:
		return nil
	case json.Unmarshal(data, &c) == nil:
	case bytes.HasPrefix(data, []byte("{")): // a piece that is lost would leave a hole in the answer
		s.res.Skip()
		return wire.Malformed("chunk")
	default: // a keep-alive of somebody's own making
		s.res.Skip()
		return nil
	}
	if s.model == "" {
		_ = json.Unmarshal(c.Model, &s.model) // only for the record
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // one answer was asked for
		}
		if err := errorOf(choice.Error); gateway.HasError(err) {
			return s.res.Fail(err)
		}
		if choice.Delta != nil && !s.Ended() {
			if err := s.piece(*choice.Delta); err != nil {
				return err
			}
		}
		if reason := choice.FinishReason; reason != nil && *reason != "" {
			s.count(c.Usage)
			return s.end(*reason)
		}
	}
	s.count(c.Usage)
	return nil
}
