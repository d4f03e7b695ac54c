// Package anthropic speaks Anthropic's Messages protocol. One call of Complete or
// Stream is one HTTP request.
//
// It deliberately does not know about retries, budgets, routes and clocks, nor
// about tools that run at the provider: none is ever asked for. What it shares
// with other protocols is package wire's.
package anthropic

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/internal/wire"
)

// version is the protocol's, as the header names it.
const version = "2023-06-01"

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

func (a *Adapter) post(ctx context.Context, call gateway.Call, stream bool) (*wire.Response, error) {
	body, err := encode(call, stream)
	if err != nil {
		return nil, &gateway.Error{Class: gateway.ClassBadRequest, NotBilled: true, Reason: "not_encodable"}
	}
	header := wire.Bearer(call)
	header.Set("Anthropic-Version", version)
	return a.client.Post(ctx, call, wire.Request{Path: "/messages", Body: body, Header: header, Stream: stream})
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
	return reply, res.Locate(err)
}

func (a *Adapter) whole(res *wire.Response, call gateway.Call) (gateway.Reply, error) {
	body, err := res.Document()
	if err != nil {
		return gateway.Reply{}, err
	}
	var in message
	broken := json.Unmarshal(body, &in)
	usage := usageOf(in.Usage).read()
	switch {
	case gateway.HasError(body):
		return gateway.Reply{Usage: usage}, res.Fail(body)
	case broken != nil || in.Type != "message":
		return gateway.Reply{Usage: usage}, wire.Malformed("not_a_message")
	}
	s := &stream{Assembly: wire.NewAssembly(call, a.client.MaxResponse(), nil), message: in, told: usageOf(in.Usage)}
	for i, b := range in.Content {
		if err := s.start(i, b); err != nil {
			return gateway.Reply{Usage: usage}, err
		}
	}
	_ = s.End() // nobody listens who could break it off
	return s.reply()
}

// Stream implements gateway.Adapter.
func (a *Adapter) Stream(ctx context.Context, call gateway.Call, emit func(gateway.Event) error) (gateway.Reply, error) {
	res, err := a.post(ctx, call, true)
	if err != nil {
		return gateway.Reply{}, err
	}
	defer res.Close()
	s := &stream{Assembly: wire.NewAssembly(call, a.client.MaxResponse(), emit), res: res}
	reply := gateway.Reply{}
	if err = res.Follow(s.Assembly, s.event); err == nil {
		reply, err = s.reply()
	}
	reply.ServedModel = s.message.Model
	reply.ProviderRequestID, reply.Upstream, reply.Wire = res.ID, res.Upstream(), res.Stats()
	return reply, res.Locate(err)
}

// stream is an answer in the making. It ends with message_stop, and with nothing
// else: until then an error may still take it back.
type stream struct {
	*wire.Assembly
	res     *wire.Response
	message message // of it: model, and why it ended
	begun   *usage  // told at the beginning
	told    *usage  // told at the end, with what was told only at the beginning
	blocks  []*block
}

// event is what is read of one event; everything else is ignored.
type event struct {
	Type    string          `json:"type"`
	Index   int             `json:"index"`
	Message *message        `json:"message"`
	Block   *block          `json:"content_block"`
	Delta   json.RawMessage `json:"delta"`
	Usage   json.RawMessage `json:"usage"`
}

func (s *stream) event(e wire.Event) error {
	if e.Type == "error" || gateway.HasError(e.Data) {
		return s.res.Fail(e.Data) // typed by its words: the status was sent before
	}
	var in event
	if there, err := s.res.Decode(e, &in); !there {
		return err
	}
	switch in.Type {
	case "message_start":
		if in.Message != nil {
			s.message.Model, s.begun = in.Message.Model, usageOf(in.Message.Usage)
		}
		return nil
	case "content_block_start":
		if in.Block == nil {
			return wire.Malformed("block")
		}
		s.told = nil // too early to be the whole's
		return s.start(in.Index, *in.Block)
	case "content_block_delta":
		s.told = nil
		return s.delta(in.Index, in.Delta)
	case "message_delta":
		return s.outcome(in)
	case "message_stop":
		return s.End()
	default: // ping, content_block_stop and what is yet to come
		return nil
	}
}

// outcome takes why the answer ended and what it took, which is told as a sum.
func (s *stream) outcome(in event) error {
	var d message
	if len(in.Delta) > 0 && json.Unmarshal(in.Delta, &d) != nil {
		return wire.Malformed("event")
	}
	if d.StopReason != "" {
		s.message.StopReason, s.message.StopDetails = d.StopReason, d.StopDetails
	}
	s.told = s.begun.with(usageOf(in.Usage))
	return nil
}
