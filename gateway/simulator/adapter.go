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
