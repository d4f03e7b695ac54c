package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/internal/wire"
)

// assembly reads the pieces of an answer as servers of this protocol write them.
// A whole answer is an assembly of one piece.
type assembly struct {
	*wire.Assembly
	maxTokens int

	model string
	think splitter
	apart bool // the server sends reasoning in a field of its own
	spoke bool // some content came, be it empty
	calls []named

	usage   gateway.Usage
	refused bool
	finish  gateway.Finish
	failure error // what the end was, if it was no answer
}

// named is how the server speaks of a tool call.
type named struct {
	index int
	id    string
}

func newAssembly(call gateway.Call, most int64, emit func(gateway.Event) error) *assembly {
	return &assembly{Assembly: wire.NewAssembly(call, most, emit), maxTokens: call.Request.MaxTokens}
}

// piece takes a delta, or a whole message.
func (a *assembly) piece(m message) error {
	for _, raw := range []json.RawMessage{m.ReasoningContent, m.Reasoning} {
		if r, _ := textOf(raw); r != "" { // servers that send both say the same twice
			a.apart = true
			if err := a.say(gateway.EventReasoning, r); err != nil {
				return err
			}
			break
		}
	}
	if content, ok := textOf(m.Content); ok {
		a.spoke = true
		a.Speak()
		text, thought := a.think.feed(content)
		if err := a.split(text, thought); err != nil {
			return err
		}
	} else if says(m.Content) {
		return wire.Malformed("content") // words that cannot be read would leave a hole
	}
	if m.Refusal != nil && *m.Refusal != "" {
		a.refused = true
		if err := a.say(gateway.EventRefusal, *m.Refusal); err != nil {
			return err
		}
	}
	for _, c := range m.ToolCalls {
		if err := a.call(c); err != nil {
			return err
		}
	}
	return nil
}

func (a *assembly) split(text, thought string) error {
	if a.apart {
		thought = ""
	}
	if err := a.say(gateway.EventReasoning, thought); err != nil {
		return err
	}
	return a.say(gateway.EventDelta, text)
}

func (a *assembly) say(kind gateway.EventKind, text string) error {
	if text != "" {
		a.usage = gateway.Usage{} // told too early to be the whole's
	}
	return a.Say(kind, text)
}

// call takes a piece of a tool call.
func (a *assembly) call(p callPiece) error {
	a.usage = gateway.Usage{} // told too early as well
	at := a.find(p)
	if at < 0 {
		c := named{index: len(a.calls), id: p.ID}
		if p.Index != nil {
			c.index = *p.Index
		}
		if c.id == "" {
			c.id = fmt.Sprintf("call_%d", len(a.calls))
		}
		var err error
		if at, err = a.Open(c.id, p.Function.Name); err != nil {
			return err
		}
		a.calls = append(a.calls, c)
	}
	return a.Argue(at, argumentsOf(p.Function.Arguments))
}

// find gives the call that a piece belongs to, or -1 for a new one. The index
// decides, except that a server may give every call the same one: another id
// with a name is another call.
func (a *assembly) find(p callPiece) int {
	switch {
	case p.Index == nil && p.ID != "":
		return slices.IndexFunc(a.calls, func(c named) bool { return c.id == p.ID })
	case p.Index == nil && p.Function.Name != "":
		return -1
	case p.Index == nil:
		return len(a.calls) - 1
	}
	for at := len(a.calls) - 1; at >= 0; at-- {
		if c := a.calls[at]; c.index == *p.Index {
			if p.ID != "" && p.ID != c.id && p.Function.Name != "" {
				break
			}
			return at
		}
	}
	return -1
}

// count takes what a chunk says about usage. A count that more of the answer
// follows is forgotten again.
func (a *assembly) count(raw json.RawMessage) {
	if says(raw) {
		a.usage = readUsage(raw)
	}
}

// end takes the reason why the answer ended; empty when the server just said
// that it did. The first end counts.
func (a *assembly) end(reason string) error {
	if a.Ended() {
		return nil
	}
	usage := a.usage
	text, thought, closed := a.think.close()
	if err := a.split(text, thought); err != nil {
		return err
	}
	if err := a.End(); err != nil {
		return err
	}
	a.usage = usage
	if a.finish = finishOf(reason); reason == "" {
		a.finish = unsaid(usage, a.maxTokens)
	}
	switch {
	case filtered(reason):
		a.failure = &gateway.Error{Class: gateway.ClassContentFilter}
	case a.refused:
		a.finish = gateway.FinishRefusal
	case a.finish == gateway.FinishStop && len(a.calls) == 0 && !closed:
		a.failure = wire.Malformed("reasoning_unclosed")
	case !a.spoke && len(a.calls) == 0 && a.finish == gateway.FinishUnknown:
		a.failure = wire.Malformed("no_content")
	}
	return nil
}

// reply gives the whole, after the end.
func (a *assembly) reply() (gateway.Reply, error) {
	r, err := a.Reply(a.finish, a.usage)
	r.ServedModel = a.model
	if a.failure != nil {
		return r, a.failure
	}
	return r, err
}

// finishOf reads a reason. Neither a known one nor none at all gives "unknown":
// something else than the model ended the answer ("abort", "error").
func finishOf(reason string) gateway.Finish {
	switch strings.ToLower(reason) {
	case "stop", "end_turn", "stop_sequence", "eos", "eos_token":
		return gateway.FinishStop
	case "length", "max_tokens", "model_length":
		return gateway.FinishLength
	case "tool_calls", "function_call", "tool_use":
		return gateway.FinishToolCalls
	default:
		return gateway.FinishUnknown
	}
}

func filtered(reason string) bool {
	switch strings.ToLower(reason) {
	case "content_filter", "safety":
		return true
	default:
		return false
	}
}

// unsaid decides about an answer without a finish reason: fewer tokens than the
// cap cannot have been cut by it.
func unsaid(u gateway.Usage, maxTokens int) gateway.Finish {
	switch {
	case !u.Known || u.Output == 0: // words without tokens: the count is not to be trusted
		return gateway.FinishUnknown
	case u.Output >= int64(maxTokens):
		return gateway.FinishLength
	default:
		return gateway.FinishStop
	}
}
