// Package responses speaks OpenAI's Responses protocol, for models whose
// reasoning has to be sent back to them. One call of Complete or Stream is one
// HTTP request, and nothing is stored at the provider: what an answer leaves for
// the next turn comes back in its State.
//
// It deliberately does not know about retries, budgets, routes and clocks, nor
// about tools that run at the provider: none is ever asked for. What it shares
// with other protocols is package wire's.
package responses

import (
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

func (a *Adapter) post(ctx context.Context, call gateway.Call, stream bool) (*wire.Response, error) {
	body, err := encode(call, stream)
	if err != nil {
		return nil, &gateway.Error{Class: gateway.ClassBadRequest, NotBilled: true, Reason: "not_encodable"}
	}
	return a.client.Post(ctx, call, wire.Request{Path: "/responses", Body: body, Header: wire.Bearer(call), Stream: stream})
}

// Complete implements gateway.Adapter.
func (a *Adapter) Complete(ctx context.Context, call gateway.Call) (gateway.Reply, error) {
	res, err := a.post(ctx, call, false)
	if err != nil {
		return gateway.Reply{}, err
	}
	defer res.Close()
	s := newStream(call, a.client.MaxResponse(), nil, res)
	reply, err := s.whole()
	reply.ServedModel, reply.ProviderRequestID, reply.Upstream = s.model, res.ID, res.Upstream()
	return reply, res.Locate(err)
}

func (s *stream) whole() (gateway.Reply, error) {
	body, err := s.res.Document()
	if err != nil {
		return gateway.Reply{}, err
	}
	var in response
	broken := json.Unmarshal(body, &in) != nil
	told := gateway.Reply{Usage: readUsage(in.Usage)}
	switch {
	case gateway.HasError(body):
		return told, s.res.Fail(body)
	case broken || in.Object != "response":
		return told, wire.Malformed("not_a_response")
	}
	for i, it := range in.Output {
		if err := s.item(i, it, true); err != nil {
			return told, err
		}
	}
	if err := s.close(in, body); err != nil {
		return told, err
	}
	return s.reply()
}

// Stream implements gateway.Adapter.
func (a *Adapter) Stream(ctx context.Context, call gateway.Call, emit func(gateway.Event) error) (gateway.Reply, error) {
	res, err := a.post(ctx, call, true)
	if err != nil {
		return gateway.Reply{}, err
	}
	defer res.Close()
	s := newStream(call, a.client.MaxResponse(), emit, res)
	err = res.Follow(s.Assembly, s.event)
	reply := gateway.Reply{Usage: s.usage} // told with the end, also of an answer that failed
	if err == nil {
		reply, err = s.reply()
	}
	reply.ServedModel, reply.ProviderRequestID, reply.Upstream, reply.Wire = s.model, res.ID, res.Upstream(), res.Stats()
	return reply, res.Locate(err)
}

// stream is an answer in the making. It ends with the event that holds it whole.
type stream struct {
	*wire.Assembly
	res    *wire.Response
	model  string
	items  map[int]*progress
	state  []json.RawMessage
	finish gateway.Finish
	usage  gateway.Usage
}

// progress is what of one item was handed on already.
type progress struct {
	call    int  // place among the tool calls, of a tool call
	opened  bool // it is a tool call
	said    bool // text
	refused bool
	thought bool
}

func newStream(call gateway.Call, most int64, emit func(gateway.Event) error, res *wire.Response) *stream {
	return &stream{Assembly: wire.NewAssembly(call, most, emit), res: res, items: map[int]*progress{}}
}

// event is what is read of one event; everything else is ignored.
type event struct {
	Type     string          `json:"type"`
	Index    int             `json:"output_index"`
	Delta    json.RawMessage `json:"delta"` // text; of unknown kinds anything
	Item     *item           `json:"item"`
	Response json.RawMessage `json:"response"`
}

func (s *stream) event(e wire.Event) error {
	var in event
	there, err := s.res.Decode(e, &in)
	switch {
	case e.Type == "error", in.Type == "error", gateway.HasError(e.Data):
		return s.res.Fail(e.Data)
	case !there:
		return err
	}
	switch in.Type {
	case "response.created":
		var r response
		_ = json.Unmarshal(in.Response, &r) // only for the record
		s.model = r.Model
		return nil
	case "response.output_item.added", "response.output_item.done":
		if in.Item == nil {
			return wire.Malformed("item")
		}
		return s.item(in.Index, *in.Item, in.Type == "response.output_item.done")
	case "response.completed", "response.incomplete", "response.failed":
		var r response
		if json.Unmarshal(in.Response, &r) != nil {
			return wire.Malformed("event")
		}
		return s.close(r, in.Response)
	}
	return s.delta(in)
}
