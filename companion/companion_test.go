package companion_test

import (
	"context"
	"errors"
	"testing"

	"github.com/elnor/promptlab/companion"
	"github.com/elnor/promptlab/contracts"
)

type fake struct {
	away bool
	err  error
	say  contracts.OverlayAdviceState
	got  *contracts.ContextFacts
}

func (f fake) Available() bool { return !f.away }

func (f fake) Resolve(_ context.Context, op contracts.ResolvedOperation, facts contracts.ContextFacts) (contracts.ResolvedOperation, error) {
	*f.got = facts
	op.OperationID = "another"
	op.SuggestedOverlayIDs = contracts.List[contracts.OverlayID]{"secure-code"}
	op.OverlayAdviceState, op.PromptRecipeSuggestionState = f.say, f.say
	return op, f.err
}

// R-REG-06, R-BND-06: advice that could not be had says so, whoever was asked.
func TestAdviceSaysInWhichStateItIs(t *testing.T) {
	facts := contracts.ContextFacts{ActiveOverlayIDs: contracts.List[contracts.OverlayID]{"verify-first"}}
	for _, c := range []struct {
		name      string
		who       func(*contracts.ContextFacts) companion.Recommender
		want      contracts.OverlayAdviceState
		suggested int
	}{
		{"nobody", func(*contracts.ContextFacts) companion.Recommender { return nil }, "unavailable", 0},
		{"the stand-in", func(*contracts.ContextFacts) companion.Recommender { return companion.Absent{} }, "unavailable", 0},
		{"one that is away", func(g *contracts.ContextFacts) companion.Recommender {
			return fake{away: true, say: "available", got: g}
		}, "unavailable", 0},
		{"one that fails", func(g *contracts.ContextFacts) companion.Recommender {
			return fake{err: errors.New("x"), say: "available", got: g}
		}, "degraded", 0},
		{"one that does not say", func(g *contracts.ContextFacts) companion.Recommender { return fake{got: g} }, "degraded", 1},
		{"one that answers", func(g *contracts.ContextFacts) companion.Recommender { return fake{say: "available", got: g} }, "available", 1},
	} {
		var seen contracts.ContextFacts
		out := companion.Resolve(t.Context(), c.who(&seen), contracts.ResolvedOperation{OperationID: "op"}, facts)
		if out.OverlayAdviceState != c.want || out.PromptRecipeSuggestionState != c.want || len(out.SuggestedOverlayIDs) != c.suggested || out.OperationID != "op" {
			t.Errorf("R-REG-06 asking %s: got %+v, want state %s with %d suggestions", c.name, out, c.want, c.suggested)
		}
		if c.suggested > 0 && len(seen.ActiveOverlayIDs) != 1 { // R-REG-13
			t.Errorf("asking %s: it was given %+v", c.name, seen)
		}
	}
}
