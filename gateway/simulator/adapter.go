package simulator

import (
	"context"
	"strings"

	"github.com/elnor/promptlab/gateway"
)

// Adapter is the provider "simulator". A target's model is "helpful" or "null"
// (or "simulator/helpful", "simulator/null") and names the world.
type Adapter struct{ seed uint64 }

// NewAdapter makes the provider; seed is the world's.
func NewAdapter(seed uint64) *Adapter { return &Adapter{seed: seed} }

// Complete implements gateway.Adapter without any connection.
func (a *Adapter) Complete(ctx context.Context, call gateway.Call) (gateway.Reply, error) {
	if ctx.Err() != nil {
		return gateway.Reply{}, &gateway.Error{Class: gateway.ClassTransport, NotBilled: true}
	}
	w, err := New(Kind(strings.TrimPrefix(call.Target.Model, "simulator/")), a.seed)
	if err != nil {
		return gateway.Reply{}, &gateway.Error{Class: gateway.ClassModelNotFound, NotBilled: true}
	}
	r := call.Request
	answer := w.Answer(r.Messages, Params{Role: r.Role, MaxTokens: r.MaxTokens, Seed: r.Seed})
	return gateway.Reply{Text: answer.Text, Finish: answer.Finish, Usage: answer.Usage, ServedModel: w.Name()}, nil
}

// Stream implements gateway.Adapter: the same answer, word by word.
func (a *Adapter) Stream(ctx context.Context, call gateway.Call, emit func(gateway.Event) error) (gateway.Reply, error) {
	reply, err := a.Complete(ctx, call)
	if err != nil {
		return reply, err
	}
	cut := gateway.Reply{ServedModel: reply.ServedModel}
	for _, w := range Words(reply.Text) {
		if ctx.Err() != nil {
			return cut, &gateway.Error{Class: gateway.ClassTransport}
		}
		if err := emit(gateway.Event{Kind: gateway.EventDelta, Text: w}); err != nil {
			return cut, err
		}
	}
	if err := emit(gateway.Event{Kind: gateway.EventFinish}); err != nil {
		return cut, err
	}
	return reply, nil
}

// Words cuts a text before the white space of each word: joined they are the
// text again.
func Words(text string) []string {
	var out []string
	for text != "" {
		n := word(text)
		out = append(out, text[:n])
		text = text[n:]
	}
	return out
}

// word gives the length of the first word with the white space before it.
func word(s string) int {
	start := len(s) - len(strings.TrimLeft(s, " \n\t"))
	if n := strings.IndexAny(s[start:], " \n\t"); n >= 0 {
		return start + n
	}
	return len(s)
}
