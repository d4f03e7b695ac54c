package anthropic

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/internal/wire"
)

// message is what is read of an answer, and of its beginning and end in a
// stream.
type message struct {
	Type        string  `json:"type"`
	Model       string  `json:"model"`
	Content     []block `json:"content"`
	StopReason  string  `json:"stop_reason"`
	StopDetails *struct {
		Explanation string `json:"explanation"`
	} `json:"stop_details"`
	Usage json.RawMessage `json:"usage"`
}

// block is one part of an answer.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"` // thinking that only the model can read
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`

	index int // the server's
	call  int // place of a tool call among the calls
}

// delta is a piece of a block.
type delta struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Thinking    string `json:"thinking"`
	Signature   string `json:"signature"`
	PartialJSON string `json:"partial_json"`
}

// usage keeps numbers as they came: a missing one is not zero.
type usage struct {
	Input      *float64 `json:"input_tokens"`
	Output     *float64 `json:"output_tokens"`
	CacheRead  *float64 `json:"cache_read_input_tokens"`
	CacheWrite *float64 `json:"cache_creation_input_tokens"`
}

// usageOf reads counts; nil when there are none that can be read.
func usageOf(raw json.RawMessage) *usage {
	var u *usage
	if len(raw) == 0 || json.Unmarshal(raw, &u) != nil {
		return nil
	}
	return u
}

// with gives the counts with those that a later event told anew. An answer whose
// end told none has none: what its beginning says is not what it took.
func (u *usage) with(later *usage) *usage {
	if later == nil {
		return nil
	}
	out := *later
	if u == nil {
		return &out
	}
	for _, f := range []struct {
		to   **float64
		from *float64
	}{{&out.Input, u.Input}, {&out.CacheRead, u.CacheRead}, {&out.CacheWrite, u.CacheWrite}} {
		if *f.to == nil {
			*f.to = f.from
		}
	}
	return &out
}

// read turns what was told into tokens. The kinds of input are told apart.
func (u *usage) read() gateway.Usage {
	if u == nil {
		return gateway.Usage{}
	}
	zero := 0.0
	out, known := gateway.Usage{Known: true}, true
	for _, f := range []struct {
		to   *int64
		from *float64
	}{{&out.Input, u.Input}, {&out.Output, u.Output}, {&out.CacheRead, or(u.CacheRead, &zero)}, {&out.CacheWrite, or(u.CacheWrite, &zero)}} {
		n, ok := wire.Count(f.from)
		*f.to, known = n, known && ok
	}
	if !known || out.Input+out.CacheRead+out.CacheWrite == 0 { // no question is of no tokens
		return gateway.Usage{}
	}
	return out
}

func or(v, otherwise *float64) *float64 {
	if v == nil {
		return otherwise
	}
	return v
}

// at gives the block with the server's index, or nil.
func (s *stream) at(index int) *block {
	for _, b := range slices.Backward(s.blocks) {
		if b.index == index {
			return b
		}
	}
	return nil
}

// start begins a block with what is there of it already.
func (s *stream) start(index int, b block) error {
	if s.at(index) != nil || len(s.blocks) == maxBlocks {
		return wire.Malformed("block")
	}
	b.index = index
	s.blocks = append(s.blocks, &b)
	if err := s.Grow(len(b.Data) + len(b.Signature)); err != nil {
		return err
	}
	switch b.Type {
	case "text":
		s.Speak()
		return s.Say(gateway.EventDelta, b.Text)
	case "thinking":
		return s.Say(gateway.EventReasoning, b.Thinking)
	case "tool_use":
		at, err := s.Open(b.ID, b.Name)
		if err != nil {
			return err
		}
		b.call = at
		if input := bytes.TrimSpace(b.Input); len(input) > 0 && !bytes.Equal(input, []byte("{}")) && !bytes.Equal(input, []byte("null")) {
			return s.Argue(at, string(input))
		}
	}
	return nil // of another kind: not a part of the answer as it is known here
}

// maxBlocks bounds the parts of one answer.
const maxBlocks = 4096

func (s *stream) delta(index int, raw json.RawMessage) error {
	var d delta
	b := s.at(index)
	if b == nil || json.Unmarshal(raw, &d) != nil {
		return wire.Malformed("block")
	}
	switch {
	case d.Type == "text_delta" && b.Type == "text":
		return s.Say(gateway.EventDelta, d.Text)
	case d.Type == "thinking_delta" && b.Type == "thinking":
		b.Thinking += d.Thinking
		return s.Say(gateway.EventReasoning, d.Thinking)
	case d.Type == "signature_delta" && b.Type == "thinking":
		b.Signature += d.Signature
		return s.Grow(len(d.Signature))
	case d.Type == "input_json_delta" && b.Type == "tool_use":
		return s.Argue(b.call, d.PartialJSON)
	case d.Type == "text_delta", d.Type == "input_json_delta":
		if b.Type == "text" || b.Type == "tool_use" {
			return wire.Malformed("block") // a piece of something else
		}
	}
	return nil
}

// finishOf reads a stop reason. pause_turn belongs to tools that run at the
// provider, which are never asked for: who pauses has not answered.
func finishOf(reason string) gateway.Finish {
	switch reason {
	case "end_turn", "stop_sequence":
		return gateway.FinishStop
	case "max_tokens", "model_context_window_exceeded":
		return gateway.FinishLength
	case "tool_use":
		return gateway.FinishToolCalls
	case "refusal":
		return gateway.FinishRefusal
	default:
		return gateway.FinishUnknown
	}
}

// reply gives the whole, after the end.
func (s *stream) reply() (gateway.Reply, error) {
	r, err := s.Reply(finishOf(s.message.StopReason), s.told.read())
	r.ServedModel = s.message.Model
	if d := s.message.StopDetails; d != nil && r.Finish == gateway.FinishRefusal {
		r.Refusal = d.Explanation
	}
	if err == nil {
		r.State = s.state()
	}
	return r, err
}

// state keeps the thinking that must be sent back, signed as it came, when the
// answer's tool calls are answered.
func (s *stream) state() json.RawMessage {
	var kept []wireBlock
	for _, b := range s.blocks {
		switch {
		case b.Type == "thinking" && b.Signature != "":
			kept = append(kept, wireBlock{Type: b.Type, Thinking: &b.Thinking, Signature: b.Signature})
		case b.Type == "redacted_thinking":
			kept = append(kept, wireBlock{Type: b.Type, Data: b.Data})
		}
	}
	if len(kept) == 0 {
		return nil
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		return nil
	}
	return raw
}
