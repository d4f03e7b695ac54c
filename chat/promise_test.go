package chat_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
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

// R-ROM-01, R-ROM-12, R-SES-03: a turn in a room is composed of the room's role, the
// participant's with its overlays, and then the room's overlays; another participant's
// turn has another role and the same room.
func TestTurnInARoom(t *testing.T) {
	r := newRig(t)
	room := contracts.OverlaySessionKey{WorkspaceID: "w", SurfaceKind: contracts.SurfaceRoom, SurfaceID: "r1", RoomID: "r1"}
	for _, id := range []string{"in-room", "of-role"} {
		rec := ectest.Overlay(id, "Rule "+id+".\n")
		rec.Frontmatter.SupportedSurfaces = contracts.List[contracts.SupportedSurface]{contracts.SurfaceRoom}
		r.env.Must(ec.CreateOverlay{Record: rec})
	}
	r.env.Must(ec.PutRoom{Key: room, Room: contracts.Room{RolePrompt: "This is the budget round.", Participants: contracts.List[contracts.RoomParticipant]{
		{ParticipantID: "ann", RolePrompt: "You keep the minutes.", OverlayIDs: contracts.List[contracts.OverlayID]{"of-role"}}, {ParticipantID: "bob", RolePrompt: "You ask for reasons."},
	}}})
	r.env.Must(ec.ActivateOverlay{Key: room, OverlayID: "in-room", Source: contracts.FromManual})
	say := func(who string) string {
		t.Helper()
		c := r.read(r.post(`{"messages":[{"role":"user","content":"q"}],"promptlab":{"participant_id":"`+who+`"}}`, "X-PromptLab-Session", room.Token()), 200)
		if c.PromptLab.Path != "room" || len(c.PromptLab.Applied) != 1 {
			t.Errorf("%s: %+v", who, c.PromptLab)
		}
		return r.model.last(t).Messages[0].Content
	}
	ann, bob := say("ann"), say("bob")
	at := -1
	for _, want := range []string{"This is the budget round.", "You keep the minutes.", "Rule of-role.", "Rule in-room."} {
		i := strings.Index(ann, want)
		if i <= at {
			t.Errorf("R-ROM-01 %q stands at %d, after %d:\n%s", want, i, at, ann)
		}
		at = i
	}
	if strings.Contains(bob, "Rule of-role.") || strings.Contains(bob, "minutes") || !strings.Contains(bob, "You ask for reasons.") || !strings.Contains(bob, "Rule in-room.") {
		t.Errorf("R-ROM-12 the other participant's turn:\n%s", bob)
	}
	a := r.post(`{"messages":[{"role":"user","content":"q"}],"promptlab":{"participant_id":"eve"}}`, "X-PromptLab-Session", room.Token())
	if c := r.read(a, 400); c.Error.Details[0].Field != "promptlab.participant_id" {
		t.Errorf("somebody who does not take part: %s", a.body)
	}
}
