package responses

import (
	"encoding/json"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/internal/wire"
)

// response is what is read of an answer.
type response struct {
	Object     string `json:"object"`
	Status     string `json:"status"`
	Model      string `json:"model"`
	Output     []item `json:"output"`
	Incomplete *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Usage json.RawMessage `json:"usage"`
}

// item is one part of an answer.
type item struct {
	Type      string    `json:"type"`
	ID        string    `json:"id"`
	Content   []content `json:"content"`
	Summary   []content `json:"summary"`
	Encrypted string    `json:"encrypted_content"`
	CallID    string    `json:"call_id"`
	Name      string    `json:"name"`
	Arguments string    `json:"arguments"`
}

type content struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Refusal string `json:"refusal"`
}

// usage keeps numbers as they came: a missing one is not zero.
type usage struct {
	Input   *float64 `json:"input_tokens"`
	Output  *float64 `json:"output_tokens"`
	Details *struct {
		Cached *float64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	Thought *struct {
		Tokens *float64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

func readUsage(raw json.RawMessage) gateway.Usage {
	var u *usage
	if len(raw) == 0 || json.Unmarshal(raw, &u) != nil || u == nil {
		return gateway.Usage{}
	}
	c := wire.Counts{Input: u.Input, Output: u.Output}
	if u.Details != nil {
		c.Cached = u.Details.Cached
	}
	if u.Thought != nil {
		c.Reasoning = u.Thought.Tokens
	}
	return c.Usage()
}

// maxItems bounds the parts of one answer.
const maxItems = 1024

func (s *stream) at(index int) (*progress, error) {
	p := s.items[index]
	if p == nil {
		if len(s.items) == maxItems {
			return nil, wire.Malformed("item")
		}
		p = &progress{}
		s.items[index] = p
	}
	return p, nil
}

// item takes a part as it begins or, whole, when it is done. Of a whole one only
// that is handed on which no piece said before.
func (s *stream) item(index int, it item, whole bool) error {
	p, err := s.at(index)
	if err != nil {
		return err
	}
	switch it.Type {
	case "message":
		s.Speak()
		if whole {
			return s.words(p, it.Content)
		}
	case "function_call":
		if !p.opened {
			if p.call, err = s.Open(it.CallID, it.Name); err != nil {
				return err
			}
			p.opened = true
		}
		if whole && !s.Argued(p.call) {
			return s.Argue(p.call, it.Arguments)
		}
	case "reasoning":
		if whole {
			return s.thought(p, it)
		}
	}
	return nil // of another kind: not a part of the answer as it is known here
}

func (s *stream) words(p *progress, parts []content) error {
	said, refused := p.said, p.refused
	for _, c := range parts {
		var err error
		switch {
		case c.Type == "output_text" && !said:
			err = s.Say(gateway.EventDelta, c.Text)
		case c.Type == "refusal" && !refused:
			err = s.Say(gateway.EventRefusal, c.Refusal)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// thought takes a reasoning item, which goes back to the model as it came.
func (s *stream) thought(p *progress, it item) error {
	if it.Encrypted != "" {
		if err := s.Grow(len(it.Encrypted)); err != nil {
			return err
		}
		raw, err := json.Marshal(reasoningItem{Type: "reasoning", ID: it.ID, Summary: summaries(it.Summary), Encrypted: it.Encrypted})
		if err != nil {
			return wire.Malformed("item")
		}
		s.state = append(s.state, raw)
	}
	if p.thought {
		return nil
	}
	parts := it.Content
	if len(parts) == 0 {
		parts = it.Summary
	}
	for _, c := range parts {
		if err := s.Say(gateway.EventReasoning, c.Text); err != nil {
			return err
		}
	}
	return nil
}

func summaries(in []content) []summary {
	out := []summary{} // the protocol wants a list, be it empty
	for _, c := range in {
		out = append(out, summary{Type: c.Type, Text: c.Text})
	}
	return out
}

// delta takes a piece. One of an unknown kind says nothing.
func (s *stream) delta(e event) error {
	var text string
	if json.Unmarshal(e.Delta, &text) != nil || text == "" {
		return nil
	}
	p, err := s.at(e.Index)
	if err != nil {
		return err
	}
	switch e.Type {
	case "response.output_text.delta":
		p.said = true
		return s.Say(gateway.EventDelta, text)
	case "response.refusal.delta":
		p.refused = true
		return s.Say(gateway.EventRefusal, text)
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
		p.thought = true
		return s.Say(gateway.EventReasoning, text)
	case "response.function_call_arguments.delta":
		if !p.opened {
			return wire.Malformed("tool_call") // a piece of no call
		}
		return s.Argue(p.call, text)
	default:
		return nil
	}
}

// close takes the answer's end: what became of it, and what it took. document is
// the answer as it came.
func (s *stream) close(r response, document []byte) error {
	if r.Model != "" {
		s.model = r.Model
	}
	s.usage = readUsage(r.Usage)
	reason := ""
	if r.Incomplete != nil {
		reason = r.Incomplete.Reason
	}
	switch {
	case r.Status == "failed", gateway.HasError(document):
		return s.res.Fail(document)
	case r.Status == "incomplete" && reason == "content_filter":
		return &gateway.Error{Class: gateway.ClassContentFilter}
	case r.Status == "incomplete" && reason == "max_output_tokens":
		s.finish = gateway.FinishLength
	case r.Status == "incomplete":
		s.finish = gateway.FinishUnknown
	case r.Status == "completed":
		s.finish = gateway.FinishStop
	default:
		return wire.Malformed("status") // an answer that is not there yet is none
	}
	return s.End()
}

// reply gives the whole, after the end.
func (s *stream) reply() (gateway.Reply, error) {
	r, err := s.Reply(s.finish, s.usage)
	if err == nil && len(s.state) > 0 {
		if raw, failed := json.Marshal(s.state); failed == nil {
			r.State = raw
		}
	}
	return r, err
}
