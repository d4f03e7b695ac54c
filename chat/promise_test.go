package chat_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/prompt"
)

// R-PKT-30: a turn that is composed from a held packet has a receipt with the
// same ids, hashes, sources and totals as one whose packet was fetched.
func TestReceiptOfAHeldPacket(t *testing.T) {
	r := newRig(t)
	r.activate("t", "o-a")
	r.activate("t", "o-b")
	r.say("t", "the same words")
	fetched := r.truth("t")
	r.asked()
	r.say("t", "the same words")
	if got := r.asked(); len(got) != 0 {
		t.Fatalf("the packet was fetched again: %v", got)
	}
	held := r.truth("t")
	if held.TurnID == fetched.TurnID || len(held.AppliedOverlayIDs) != 2 || len(held.SourcesByOverlay) != 2 {
		t.Fatalf("receipts %+v and %+v", fetched, held)
	}
	of := contracts.OverlayRuntimeTruthSummary{}
	if d := cmp.Diff(fetched, held, cmpopts.IgnoreFields(of, "TurnID", "AppliedAt", "RefreshReason", "GeneratedAt")); d != "" {
		t.Errorf("R-PKT-30 a held packet's receipt tells less (-fetched +held):\n%s", d)
	}
	if held.PacketHash == "" || held.AppliedPacketHash != held.PacketHash || held.GeneratedAt == nil {
		t.Errorf("R-PKT-30 hashes and time: %+v", held)
	}
}

// R-PRE-16, G-043: where an overlay is applied the model is told once how to take
// it on trivial turns, and the overlay is there on those too; where none is, nothing
// is said of overlays.
func TestRoutingDirective(t *testing.T) {
	r := newRig(t)
	r.say("t", "thanks!")
	if got := r.model.last(t).Messages; len(got) != 1 || strings.Contains(got[0].Text(), prompt.RoutingDirective) {
		t.Errorf("R-PRE-16 a turn without overlays was sent as %+v", got)
	}
	r.activate("t", "o-a")
	r.activate("t", "o-b")
	for _, words := range []string{"thanks!", "Write the whole report."} {
		r.say("t", words)
		sent := r.model.last(t).Messages
		if n := strings.Count(sent[0].Content, prompt.RoutingDirective); n != 1 {
			t.Errorf("R-PRE-16 %q: the directive stands %d times, want once", words, n)
		}
		for _, id := range []string{"o-a", "o-b"} {
			if !strings.Contains(sent[0].Content, "[[promptlab:overlay id="+id+" ") {
				t.Errorf("R-PRE-16 %q: overlay %s is not in the turn", words, id)
			}
		}
	}
}

// R-PKT-04: what a client of this endpoint gets back names overlays and never holds
// their text; nor does what the endpoint writes about itself.
func TestOverlayTextStaysInThePrompt(t *testing.T) {
	r := newRig(t)
	r.activate("t", "o-a")
	a := r.post(hi, "X-PromptLab-Session", key("t").Token())
	r.read(a, 200)
	if sent := r.model.last(t).Messages[0].Content; !strings.Contains(sent, "Rule o-a.") {
		t.Fatalf("the text is not in the prompt:\n%s", sent)
	}
	var headers strings.Builder
	if err := a.header.Write(&headers); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"answer": string(a.body), "headers": headers.String(), "log": r.log.String()} {
		if strings.Contains(text, "Rule o-a.") {
			t.Errorf("R-PKT-04 the overlay's text is in the %s", name)
		}
	}
}
