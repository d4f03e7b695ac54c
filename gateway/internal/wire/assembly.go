package wire

import (
	"encoding/json"
	"errors"
	"math"
	"strings"

	"github.com/elnor/promptlab/gateway"
)

// maxCalls bounds the tool calls of one answer.
const maxCalls = 128

// Assembly puts an answer together from its pieces and hands each on as it
// comes. A whole answer is an assembly whose pieces come at once.
type Assembly struct {
	emit    func(gateway.Event) error
	most    int64
	offered bool // tools were

	text, reasoning, refusal strings.Builder

	calls []*pending
	size  int64
	spoke bool
	ended bool
}

type pending struct {
	id, name  string
	arguments strings.Builder
}

// NewAssembly makes an empty answer to a call, of so many bytes at most. emit
// may be nil.
func NewAssembly(call gateway.Call, most int64, emit func(gateway.Event) error) *Assembly {
	if emit == nil {
		emit = func(gateway.Event) error { return nil }
	}
	return &Assembly{emit: emit, most: most, offered: len(call.Request.Tools) > 0}
}

// Malformed is the error of an answer that cannot be used. [Response.Locate]
// adds what only the answer's head knows.
func Malformed(reason string) error {
	return &gateway.Error{Class: gateway.ClassMalformedResponse, Reason: reason}
}

// Locate adds the answer's status and id to an error about its content.
func (r *Response) Locate(err error) error {
	var e *gateway.Error
	if errors.As(err, &e) && e.Class != gateway.ClassTransport {
		e.Status, e.RequestID = r.Status, r.ID
	}
	return err
}

// Speak notes that the answer has a place for text, be it empty.
func (a *Assembly) Speak() { a.spoke = true }

// Say takes a piece of text, reasoning or a refusal.
func (a *Assembly) Say(kind gateway.EventKind, text string) error {
	if text == "" {
		return nil
	}
	if err := a.Grow(len(text)); err != nil {
		return err
	}
	switch kind {
	case gateway.EventReasoning:
		a.reasoning.WriteString(text)
	case gateway.EventRefusal:
		a.refusal.WriteString(text)
	default:
		a.spoke = true
		a.text.WriteString(text)
	}
	return a.emit(gateway.Event{Kind: kind, Text: text})
}

// Open begins a tool call and gives its place in the answer.
func (a *Assembly) Open(id, name string) (at int, err error) {
	switch {
	case !a.offered || id == "" || name == "":
		return 0, Malformed("tool_call") // nobody asked for one, or it is of nothing
	case len(a.calls) == maxCalls:
		return 0, Malformed("too_many_tool_calls")
	}
	if err := a.Grow(len(id) + len(name)); err != nil {
		return 0, err
	}
	at = len(a.calls)
	a.calls = append(a.calls, &pending{id: id, name: name})
	return at, a.emit(gateway.Event{Kind: gateway.EventToolCall, Tool: &gateway.ToolDelta{Index: at, ID: id, Name: name}})
}

// Argue takes a piece of a tool call's arguments.
func (a *Assembly) Argue(at int, arguments string) error {
	if arguments == "" {
		return nil
	}
	if err := a.Grow(len(arguments)); err != nil {
		return err
	}
	a.calls[at].arguments.WriteString(arguments)
	return a.emit(gateway.Event{Kind: gateway.EventToolCall, Tool: &gateway.ToolDelta{Index: at, Arguments: arguments}})
}

// Argued tells whether a tool call has arguments by now.
func (a *Assembly) Argued(at int) bool { return a.calls[at].arguments.Len() > 0 }

// Grow counts bytes that are kept of the answer, and fails when it has too many.
// All pieces that are said, opened or argued are counted already.
func (a *Assembly) Grow(n int) error {
	if a.size += int64(n); a.size > a.most {
		return Malformed("answer_too_large")
	}
	return nil
}

// End makes the provider's own end of the answer known. The first one counts.
func (a *Assembly) End() error {
	if a.ended {
		return nil
	}
	if err := a.emit(gateway.Event{Kind: gateway.EventFinish}); err != nil {
		return err
	}
	a.ended = true
	return nil
}

// Ended tells whether the end was reached.
func (a *Assembly) Ended() bool { return a.ended }

// Reply gives the whole, after the end. The reply holds usage also when the
// answer turns out to be none: it is paid for.
func (a *Assembly) Reply(finish gateway.Finish, usage gateway.Usage) (gateway.Reply, error) {
	if finish == gateway.FinishStop && len(a.calls) > 0 {
		finish = gateway.FinishToolCalls
	}
	if finish == gateway.FinishStop && a.refusal.Len() > 0 {
		finish = gateway.FinishRefusal
	}
	if usage.Output == 0 && a.text.Len() > 0 { // words without tokens cannot be
		usage = gateway.Usage{}
	}
	r := gateway.Reply{
		Text: a.text.String(), Reasoning: strings.TrimSpace(a.reasoning.String()), Refusal: a.refusal.String(),
		Finish: finish, Usage: usage,
	}
	switch {
	case finish == gateway.FinishRefusal:
		r.Text = ""
		return r, nil
	case finish == gateway.FinishToolCalls && len(a.calls) == 0:
		return r, Malformed("tool_call")
	case finish == gateway.FinishStop && !a.spoke:
		return r, Malformed("no_content")
	}
	for _, c := range a.calls {
		call := gateway.ToolCall{ID: c.id, Name: c.name, Arguments: c.arguments.String()}
		if call.Arguments == "" && finish == gateway.FinishToolCalls {
			call.Arguments = "{}"
		}
		if finish == gateway.FinishToolCalls || json.Valid([]byte(call.Arguments)) { // one that was cut is none
			r.ToolCalls = append(r.ToolCalls, call)
		}
	}
	return r, nil
}

// SchemaName gives a schema's id in the letters that OpenAI's protocols allow.
func SchemaName(id string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}, id)
}

// Counts are the numbers of tokens that OpenAI's protocols tell: cached is a part
// of input, reasoning of output. A missing one is nil.
type Counts struct{ Input, Output, Cached, Reasoning *float64 }

// Usage makes our usage of them. Without a question's and an answer's number
// nothing is known, and no question is of no tokens.
func (c Counts) Usage() gateway.Usage {
	in, ok1 := Count(c.Input)
	out, ok2 := Count(c.Output)
	if !ok1 || !ok2 || in == 0 {
		return gateway.Usage{}
	}
	told := gateway.Usage{Known: true, Input: in, Output: out}
	if cached, ok := Count(c.Cached); ok && cached <= in {
		told.CacheRead, told.Input = cached, in-cached
	}
	if n, ok := Count(c.Reasoning); ok && n <= out {
		told.Reasoning = n
	}
	return told
}

// Count reads a number of tokens as a server told it. A count that is missing,
// negative, broken or absurd is none.
func Count(v *float64) (int64, bool) {
	const most = 1 << 40
	if v == nil || *v < 0 || *v > most || *v != math.Trunc(*v) {
		return 0, false
	}
	return int64(*v), true
}
