// Package companion is where the systems beside this one are asked for advice:
// what they answer is taken in through one door, which never lets "nothing was
// found" and "nobody could look" be taken for each other.
//
// It deliberately does not know how advice is made, nor what an overlay says.
package companion

import (
	"context"

	"github.com/elnor/promptlab/contracts"
)

// Recommender is the system that learned recommendations come from.
type Recommender interface {
	Available() bool
	// Resolve adds what it has learned to an operation, from the facts of a session.
	Resolve(ctx context.Context, op contracts.ResolvedOperation, facts contracts.ContextFacts) (contracts.ResolvedOperation, error)
}

// Absent stands in where there is no such system.
type Absent struct{}

// Available is false.
func (Absent) Available() bool { return false }

// Resolve adds nothing.
func (Absent) Resolve(_ context.Context, op contracts.ResolvedOperation, _ contracts.ContextFacts) (contracts.ResolvedOperation, error) {
	return op, nil
}

// Resolve asks a recommender for what it has learned. The answer always says in
// which state the advice is: unavailable when there was nobody to ask, degraded
// when the asking failed; only advice that was looked for and found, or found to
// be nothing, is available. Nothing of the operation's own is changed.
func Resolve(ctx context.Context, r Recommender, op contracts.ResolvedOperation, facts contracts.ContextFacts) contracts.ResolvedOperation {
	bare := contracts.ResolvedOperation{OperationID: op.OperationID, OverlayAdviceState: contracts.AdviceUnavailable, PromptRecipeSuggestionState: contracts.AdviceUnavailable}
	if r == nil || !r.Available() {
		return bare
	}
	out, err := r.Resolve(ctx, op, facts)
	if err != nil {
		bare.OverlayAdviceState, bare.PromptRecipeSuggestionState = contracts.AdviceDegraded, contracts.AdviceDegraded
		return bare
	}
	out.OperationID = op.OperationID
	out.OverlayAdviceState = stateOf(out.OverlayAdviceState)
	out.PromptRecipeSuggestionState = stateOf(out.PromptRecipeSuggestionState)
	return out
}

// stateOf takes a state that was left out for what it may hide.
func stateOf(s contracts.OverlayAdviceState) contracts.OverlayAdviceState {
	if s == "" {
		return contracts.AdviceDegraded
	}
	return s
}
