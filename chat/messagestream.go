package chat

import (
	"encoding/json"

	"github.com/elnor/promptlab/gateway"
)

func (messages) pieces(s *Server, x *exchange, t *turn) pieces {
	return &blockStream{eventStream: newEventStream(x, t), note: noteOf(t, s.truth(t, t.target.Model)), current: -1}
}

// blockStream writes a streamed answer as blocks that open, grow and close, one
// at a time. Models may tell several tool calls at once, which this protocol
// cannot: they are written when they are whole.
type blockStream struct {
	eventStream
	note    *note  // goes with the first event: clients keep only known fields of later ones
	next    int    // number of the next block
	current int    // the block that is open; -1: none
	kind    string // of the open block
}

// at names an event's block.
type at struct {
	Type  string `json:"type"`
	Index int    `json:"index"`
	Block *block `json:"content_block,omitempty"`
	Delta any    `json:"delta,omitempty"`
}

func (p *blockStream) begin() error {
	if !p.open() {
		return nil
	}
	return p.send("message_start", map[string]any{"type": "message_start", "message": blockAnswer{
		ID: "msg_" + p.x.id, Type: "message", Role: "assistant", Model: p.t.target.Name, Content: []block{}, PromptLab: p.note,
	}})
}

// in opens a block of a kind, unless it is open already.
func (p *blockStream) in(kind string, b block) error {
	if p.current >= 0 && p.kind == kind {
		return nil
	}
	if err := p.close(); err != nil {
		return err
	}
	p.current, p.kind = p.next, kind
	p.next++
	return p.send("content_block_start", at{Type: "content_block_start", Index: p.current, Block: &b})
}

func (p *blockStream) close() error {
	if p.current < 0 {
		return nil
	}
	i := p.current
	p.current = -1
	return p.send("content_block_stop", at{Type: "content_block_stop", Index: i})
}

func (p *blockStream) grow(delta any) error {
	return p.send("content_block_delta", at{Type: "content_block_delta", Index: p.current, Delta: delta})
}

func (p *blockStream) event(e gateway.Event) error {
	if err := p.begin(); err != nil {
		return err
	}
	empty := ""
	switch e.Kind {
	case gateway.EventDelta, gateway.EventRefusal:
		if err := p.in("text", block{Type: "text", Text: &empty}); err != nil {
			return err
		}
		return p.grow(map[string]string{"type": "text_delta", "text": e.Text})
	case gateway.EventReasoning:
		if err := p.in("thinking", block{Type: "thinking", Thinking: &empty}); err != nil {
			return err
		}
		return p.grow(map[string]string{"type": "thinking_delta", "thinking": e.Text})
	}
	return nil
}

// call writes a whole tool call as one block.
func (p *blockStream) call(c gateway.ToolCall) error {
	if err := p.in("tool_use", block{Type: "tool_use", ID: c.ID, Name: c.Name, Input: json.RawMessage("{}")}); err != nil {
		return err
	}
	if err := p.grow(map[string]string{"type": "input_json_delta", "partial_json": string(object(c.Arguments))}); err != nil {
		return err
	}
	return p.close()
}

func (p *blockStream) fail(e *apiError) { _ = p.send("error", messages{}.failure(e, p.x.id)) }

func (p *blockStream) end(r gateway.Response, n *note) error {
	if err := p.close(); err != nil {
		return err
	}
	for _, c := range r.ToolCalls {
		if err := p.call(c); err != nil {
			return err
		}
	}
	err := p.send("message_delta", map[string]any{
		"type": "message_delta", "delta": map[string]any{"stop_reason": stopReason(r), "stop_sequence": nil}, "usage": blockUsageOf(r.Usage), "promptlab": n,
	})
	if err != nil {
		return err
	}
	return p.send("message_stop", map[string]string{"type": "message_stop"})
}
