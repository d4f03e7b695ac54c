package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/elnor/promptlab/gateway"
)

// maxCalls bounds the tool calls of one answer.
const maxCalls = 128

// assembly puts an answer together from its pieces and hands each on as it
// comes. A whole answer is an assembly of one piece.
type assembly struct {
	emit      func(gateway.Event) error // nil: nobody listens
	maxTokens int
	offered   bool // tools were
	most      int64

	model     string
	text      strings.Builder
	reasoning strings.Builder
	refusal   strings.Builder
	think     splitter
	apart     bool // the server sends reasoning in a field of its own
	spoke     bool // some content came, be it empty
	calls     []*pending
	size      int64

	usage   gateway.Usage
	ended   bool
	finish  gateway.Finish
	failure error // what the end was, if it was no answer
}

// pending is a tool call in the making.
type pending struct {
	theirs    int // the server's index
	id, name  string
	arguments strings.Builder
}

func newAssembly(call gateway.Call, most int64, emit func(gateway.Event) error) *assembly {
	if emit == nil {
		emit = func(gateway.Event) error { return nil }
	}
	return &assembly{emit: emit, maxTokens: call.Request.MaxTokens, offered: len(call.Request.Tools) > 0, most: most}
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
		text, thought := a.think.feed(content)
		if err := a.split(text, thought); err != nil {
			return err
		}
	} else if says(m.Content) {
		return malformed("content") // words that cannot be read would leave a hole
	}
	if m.Refusal != nil {
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
	if text == "" {
		return nil
	}
	if err := a.grow(len(text)); err != nil {
		return err
	}
	switch kind {
	case gateway.EventReasoning:
		a.reasoning.WriteString(text)
	case gateway.EventRefusal:
		a.refusal.WriteString(text)
	default:
		a.text.WriteString(text)
	}
	return a.emit(gateway.Event{Kind: kind, Text: text})
}

func (a *assembly) grow(n int) error {
	if a.size += int64(n); a.size > a.most {
		return malformed("answer_too_large")
	}
	a.usage = gateway.Usage{} // told too early to be the whole's
	return nil
}

// call takes a piece of a tool call.
func (a *assembly) call(p callPiece) error {
	if !a.offered {
		return malformed("tool_call") // nobody asked for one
	}
	at := a.find(p)
	if at < 0 {
		if len(a.calls) == maxCalls {
			return malformed("too_many_tool_calls")
		}
		at = len(a.calls)
		theirs := at
		if p.Index != nil {
			theirs = *p.Index
		}
		id := p.ID
		if id == "" {
			id = fmt.Sprintf("call_%d", at)
		}
		a.calls = append(a.calls, &pending{theirs: theirs, id: id})
	}
	c, arguments, name := a.calls[at], argumentsOf(p.Function.Arguments), ""
	first := c.name == ""
	if first {
		c.name, name = p.Function.Name, p.Function.Name
	}
	c.arguments.WriteString(arguments)
	if err := a.grow(len(arguments) + len(name)); err != nil {
		return err
	}
	d := gateway.ToolDelta{Index: at, Name: name, Arguments: arguments}
	if name != "" {
		d.ID = c.id
	}
	if name == "" && arguments == "" {
		return nil
	}
	return a.emit(gateway.Event{Kind: gateway.EventToolCall, Tool: &d})
}

// find gives the call that a piece belongs to, or -1 for a new one. The index
// decides, except that a server may give every call the same one: another id
// with a name is another call.
func (a *assembly) find(p callPiece) int {
	another := func(c *pending) bool { return p.ID != "" && p.ID != c.id && p.Function.Name != "" && c.name != "" }
	if p.Index == nil {
		if p.ID != "" {
			return slices.IndexFunc(a.calls, func(c *pending) bool { return c.id == p.ID })
		}
		if p.Function.Name != "" {
			return -1
		}
		return len(a.calls) - 1
	}
	for at := len(a.calls) - 1; at >= 0; at-- {
		if c := a.calls[at]; c.theirs == *p.Index {
			if another(c) {
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

// told gives the usage as far as it can be trusted: words without tokens
// cannot.
func (a *assembly) told() gateway.Usage {
	if a.usage.Output == 0 && a.text.Len() > 0 {
		return gateway.Usage{}
	}
	return a.usage
}

// end takes the reason why the answer ended; empty when the server just said
// that it did. The first end counts.
func (a *assembly) end(reason string) error {
	if a.ended {
		return nil
	}
	usage := a.usage
	text, thought, closed := a.think.close()
	if err := a.split(text, thought); err != nil {
		return err
	}
	if err := a.emit(gateway.Event{Kind: gateway.EventFinish}); err != nil {
		return err
	}
	a.ended, a.usage = true, usage
	a.finish = finishOf(reason)
	if reason == "" {
		a.finish = unsaid(a.told(), a.maxTokens)
	}
	if a.finish == gateway.FinishStop && len(a.calls) > 0 {
		a.finish = gateway.FinishToolCalls
	}
	if a.refusal.Len() > 0 && !filtered(reason) {
		a.finish = gateway.FinishRefusal
		return nil
	}
	switch nameless := func(c *pending) bool { return c.name == "" }; {
	case filtered(reason):
		a.failure = &gateway.Error{Class: gateway.ClassContentFilter}
	case a.finish == gateway.FinishToolCalls && len(a.calls) == 0, a.finish != gateway.FinishLength && slices.ContainsFunc(a.calls, nameless):
		a.failure = malformed("tool_call")
	case a.finish == gateway.FinishStop && !closed:
		a.failure = malformed("reasoning_unclosed")
	case !a.spoke && len(a.calls) == 0 && a.finish != gateway.FinishLength: // a cap reached while reasoning leaves no text
		a.failure = malformed("no_content")
	}
	return nil
}

// reply gives the whole, after the end.
func (a *assembly) reply() (gateway.Reply, error) {
	r := gateway.Reply{
		Text: a.text.String(), Reasoning: strings.TrimSpace(a.reasoning.String()), Refusal: a.refusal.String(),
		Finish: a.finish, Usage: a.told(), ServedModel: a.model,
	}
	if a.failure != nil {
		return r, a.failure
	}
	if r.Finish == gateway.FinishRefusal {
		r.Text = ""
		return r, nil
	}
	for _, c := range a.calls {
		call := gateway.ToolCall{ID: c.id, Name: c.name, Arguments: c.arguments.String()}
		if call.Arguments == "" {
			call.Arguments = "{}"
		}
		whole := call.Name != "" && json.Valid([]byte(call.Arguments))
		if r.Finish == gateway.FinishToolCalls || whole { // one that was cut is none
			r.ToolCalls = append(r.ToolCalls, call)
		}
	}
	return r, nil
}
