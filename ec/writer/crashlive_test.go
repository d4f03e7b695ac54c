package writer_test

import (
	"fmt"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
)

func surfaceKey(kind contracts.SupportedSurface, id string) contracts.OverlaySessionKey {
	k, err := contracts.OverlaySessionKey{WorkspaceID: "w", SurfaceKind: kind, SurfaceID: id}.Canonical("")
	if err != nil {
		panic(err)
	}
	return k
}

// livePicture is everything that a reader can see of live sessions: sets, pins,
// packets, receipts, plans, defaults, rooms, what was said.
func livePicture(v *ec.View) []any {
	parts := []any{v.SurfaceDefaults(), v.Pins(contracts.PinWorkspace, "w"), v.Pins(contracts.PinUntilOff, ""), v.Observations(0, 0, false), v.RegistryEvents(0, 0), v.Status()}
	for _, k := range []contracts.OverlaySessionKey{surfaceKey(contracts.SurfaceChat, "one"), surfaceKey(contracts.SurfaceChat, "two"), surfaceKey(contracts.SurfaceRoom, "board")} {
		st, _, _ := v.Session(k, true)
		why, _ := v.Explain(k)
		p, due, _ := v.Packet(k, ec.PacketQuery{TurnID: "1"})
		parts = append(parts, st, why, string(p.Body), due, v.TruthHistory(k))
	}
	m, _ := v.Moderator("m")
	room, _ := v.Room(surfaceKey(contracts.SurfaceRoom, "board"))
	plan, _ := v.Plan(livePlan())
	return append(parts, m, room, plan)
}

// prepares is the place of the step that prepares a plan.
const prepares = 14

// livePlan is the plan that is prepared: its id follows from its command's,
// which the test numbers.
func livePlan() contracts.UUID {
	return contracts.DeriveID(fmt.Sprintf("cmd-%d", len(script())+prepares), "reanswer-plan", 0)
}

// liveScript goes through every command of live sessions.
func liveScript() []func(*ec.View) ec.Body {
	always := func(b ec.Body) func(*ec.View) ec.Body { return func(*ec.View) ec.Body { return b } }
	one, two, board := surfaceKey(contracts.SurfaceChat, "one"), surfaceKey(contracts.SurfaceChat, "two"), surfaceKey(contracts.SurfaceRoom, "board")
	ids := contracts.List[contracts.OverlayID]{"note-style"}
	on := func(k contracts.OverlaySessionKey, id contracts.OverlayID) ec.Body {
		return ec.ActivateOverlay{Key: k, OverlayID: id, Source: contracts.FromManual}
	}
	truth := func(v *ec.View) ec.Body {
		st, _, err := v.Session(one, true)
		if err != nil {
			panic(err)
		}
		return ec.RecordTruth{Truth: contracts.OverlayRuntimeTruthSummary{
			SessionKey: one, Revision: st.SessionState.Revision, TurnID: "1", PacketHash: st.SessionState.PromptPacketHash, RequestedOverlayIDs: ids, AppliedOverlayIDs: ids,
		}}
	}
	consume := func(*ec.View) ec.Body { return ec.BuildPacket{Key: one, TurnID: "re", PlanID: livePlan()} }
	return []func(*ec.View) ec.Body{
		always(ec.PutModeratorDefaults{Defaults: contracts.ModeratorDefaults{ModeratorID: "m", AppliesTo: "both", UpdatedBy: "user", OverlayIDs: ids}}),
		always(ec.PutSurfaceDefaults{Defaults: contracts.SurfaceDefaults{WorkspaceID: "w", SurfaceKind: contracts.SurfaceRoom, UpdatedBy: "user", ModeratorIDs: contracts.List[string]{"m"}}}),
		always(ec.PutRoom{Key: board, Room: contracts.Room{UpdatedBy: "user", Participants: contracts.List[contracts.RoomParticipant]{{ParticipantID: "ann", RolePrompt: "Counsel.", OverlayIDs: ids}}}}),
		always(ec.BootstrapSession{Key: board}),
		always(on(one, "note-style")),
		always(ec.BuildPacket{Key: one, TurnID: "1"}),
		truth,
		always(ec.PinOverlay{Key: one, OverlayID: "note-style", Scope: contracts.PinWorkspace}),
		always(ec.PinOverlay{Key: one, OverlayID: "other", Scope: contracts.PinUntilOff}),
		always(ec.BootstrapSession{Key: two}),
		always(ec.ReportSessionEvent{Event: contracts.OverlaySessionEvent{SessionKey: one, EventKind: contracts.RefreshCompaction}}),
		always(ec.RequestRefresh{Key: two, Reason: contracts.RefreshManual}),
		always(ec.ArchiveOverlay{OverlayID: "other"}), // reaches both sessions
		always(ec.RestoreOverlay{OverlayID: "other"}),
		always(ec.PreparePlan{Key: one, Request: contracts.OverlayReanswerPlanRequest{
			SelectedMessageIDs: contracts.List[string]{"m1"}, ContextMode: "clean_context", OverrideMode: contracts.OverrideOneTime, OverlayIDs: ids,
		}}),
		consume,
		always(ec.UnpinOverlay{Key: one, OverlayID: "note-style", Scope: contracts.PinWorkspace}),
		always(ec.DeactivateOverlay{Key: one, OverlayID: "note-style"}),
		always(ec.ClearSession{Key: two}),
		always(ec.SubmitFeedback{Feedback: contracts.OverlayFeedback{FeedbackID: contracts.DeriveID("f", "f", 0), OverlayID: "other", WorkspaceID: "w", SessionKey: one, ResponseRating: "negative"}}),
		always(ec.AppendSignal{Signal: contracts.OverlaySignal{SignalID: contracts.DeriveID("s", "s", 0), Kind: "manual_abort", Confidence: "high", SessionKey: one}}),
		always(ec.PruneSessions{}),
	}
}
