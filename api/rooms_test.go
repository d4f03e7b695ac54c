package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/elnor/promptlab/api"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
)

func roomKey(id string) contracts.OverlaySessionKey {
	k, err := contracts.OverlaySessionKey{WorkspaceID: "w", SurfaceKind: contracts.SurfaceRoom, SurfaceID: id}.Canonical("")
	if err != nil {
		panic(err)
	}
	return k
}

const roomQuery = "?workspace_id=w&surface_kind=room&surface_id=board"

func TestRoomsOverHTTP(t *testing.T) {
	r := liveRig(t)
	for _, id := range []string{"d-role", "d-room"} {
		rec := ectest.Overlay(id, "Rule of "+id+".\n")
		rec.Frontmatter.SupportedSurfaces = contracts.List[contracts.SupportedSurface]{"room"}
		r.env.Must(ec.CreateOverlay{Record: rec})
	}
	surfaces := func(body string) answer { return r.ask(ec.RoleUser, "PUT", "/api/surface-defaults", body) }
	d := read[contracts.SurfaceDefaults](r, "G-037 room defaults", surfaces(`{"workspace_id":"w","surface_kind":"room","surface_id":"board","overlay_ids":["d-room"]}`), 200)
	if d.UpdatedBy != "user" || d.OverlayIDs[0] != "d-room" {
		t.Errorf("saved: %+v", d)
	}
	read[contracts.SurfaceDefaults](r, "task defaults", surfaces(`{"workspace_id":"v","surface_kind":"task"}`), 200)
	r.want("R-HTTP-12 hard pair", surfaces(`{"workspace_id":"w","surface_kind":"room","overlay_ids":["creative-flow","legal-strict"]}`), 409, "hard_conflict")
	r.want("of a chat", surfaces(`{"workspace_id":"w","surface_kind":"chat"}`), 422, "validation_failed")
	list := read[contracts.SurfaceDefaultsList](r, "list", r.ask(ec.RoleAgent, "GET", "/api/surface-defaults?workspace_id=w", ""), 200)
	if list.Total != 1 || list.Items[0].SurfaceID != "board" {
		t.Errorf("list of one workspace: %+v", list)
	}

	path := "/api/rooms/" + roomKey("board").Token()
	if empty := read[contracts.Room](r, "not set up", r.ask(ec.RoleAgent, "GET", path, ""), 200); empty.RoomID != "board" || len(empty.Participants) != 0 {
		t.Errorf("room that nothing is set for: %+v", empty)
	}
	if a := r.ask(ec.RoleAgent, "GET", path, ""); strings.Contains(string(a.body), "updated_at") { // R-CON-04
		t.Errorf("what was never set has a time: %s", a.body)
	}
	room := read[contracts.Room](r, "put", r.ask(ec.RoleUser, "PUT", path, `{"role_prompt":"Board.","participants":[{"participant_id":"ann","overlay_ids":["d-role"]},{"participant_id":"bob"}]}`), 200)
	if room.WorkspaceID != "w" || len(room.Participants) != 2 || room.UpdatedBy != "user" {
		t.Errorf("saved: %+v", room)
	}
	for query, total := range map[string]int{"": 1, "?workspace_id=w": 1, "?workspace_id=other": 0} {
		if list := read[contracts.RoomList](r, "rooms", r.ask(ec.RoleAgent, "GET", "/api/rooms"+query, ""), 200); list.Total != total || len(list.Items) != total {
			t.Errorf("rooms%s: %+v, want %d", query, list, total)
		}
	}
	r.want("not a room", r.ask(ec.RoleUser, "PUT", "/api/rooms/"+sessionKey("t-1").Token(), `{}`), 422, "validation_failed")
	r.want("another room", r.ask(ec.RoleUser, "PUT", path, `{"room_id":"other"}`), 422, "validation_failed")
	r.want("no key", r.ask(ec.RoleUser, "GET", "/api/rooms/xx", ""), 400, "bad_session_key")

	st := read[contracts.RoomState](r, "R-ROM-12 state", r.ask(ec.RoleSeam, "GET", "/internal/doc17/room-state"+roomQuery, ""), 200)
	if len(st.Participants) != 2 || len(st.Participants[0].Overlays) != 2 || len(st.Participants[1].Overlays) != 1 || len(st.Overlays) != 1 || st.Overlays[0].Layer != contracts.LayerRoomOverlay {
		t.Errorf("R-ROM-09 room state: %+v", st)
	}
	r.want("state of a chat", r.ask(ec.RoleSeam, "GET", "/internal/doc17/room-state?"+oneSession, ""), 400, "bad_request")
}

// R-REG-04, R-REG-13: what the systems beside this one are told of a session.
func TestFactsForOtherSystems(t *testing.T) {
	r := liveRig(t)
	facts := func(query string) contracts.RouteFacts {
		return read[contracts.RouteFacts](r, query, r.ask(ec.RoleSeam, "GET", "/internal/doc17/route-facts?"+oneSession+query, ""), 200)
	}
	if f := facts(""); f.SessionRevision != nil || f.OverlayState != contracts.AdviceAvailable || len(f.ActiveOverlayIDs) != 0 {
		t.Errorf("R-REG-04 of a session that is not there: %+v", f)
	}
	r.change("t-1", "activate", on("o-a"))
	plan := read[contracts.OverlayReanswerPlan](r, "plan", r.ask(ec.RoleUser, "POST", at("t-1", "reanswer-plan"), `{"selected_message_ids":["m1"],"override_mode":"one_time_overlay_only","overlay_ids":["o-b"]}`), 201)
	f := facts("&plan_id=" + string(plan.PlanID))
	if f.SessionRevision == nil || *f.SessionRevision != 1 || f.ActiveOverlayIDs[0] != "o-a" || f.OverrideMode != contracts.OverrideOneTime || f.ReanswerPlanID != plan.PlanID {
		t.Errorf("R-REG-04 facts: %+v", f)
	}
	r.want("no such plan", r.ask(ec.RoleSeam, "GET", "/internal/doc17/route-facts?"+oneSession+"&plan_id="+someID, ""), 404, "not_found")
	r.packet("to report on", "&turn_id=1")
	r.env.Must(ec.RecordTruth{Truth: contracts.OverlayRuntimeTruthSummary{
		SessionKey: sessionKey("t-1"), Revision: 1, TurnID: "1", Model: "m-1", TaskType: "drafting",
		RequestedOverlayIDs: contracts.List[contracts.OverlayID]{"o-a"}, AppliedOverlayIDs: contracts.List[contracts.OverlayID]{"o-a"},
	}})
	c := read[contracts.ContextFacts](r, "context", r.ask(ec.RoleSeam, "GET", "/internal/doc17/context-facts?"+oneSession, ""), 200)
	if c.ActiveOverlayIDs[0] != "o-a" || c.ConfigurationTuple.Model != "m-1" || fmt.Sprint(c.ConfigurationTuple.PromptArtifactIDs) != "[overlay_template:o-a]" {
		t.Errorf("R-REG-13 R-REG-07 context facts: %+v", c)
	}
}

// R-FBK-13, R-FBK-14, R-REG-08: opinions and signs reach the systems that learn
// and repair, in order, with what was on, and without a person's words.
func TestObservationsForOtherSystems(t *testing.T) {
	r := liveRig(t)
	const path = "/internal/doc17/observations"
	post := func(path, body string) { r.want(path, r.ask(ec.RoleUser, "POST", path, body), 201, "") }
	bad := func(id string) string {
		return strings.Replace(feedbackBody(id, "o-a"), `"helpful"`, `"not_helpful","failure_category":"wrong_mode","comment":"marker-words"`, 1)
	}
	var ids []string
	for n := range 4 {
		ids = append(ids, string(contracts.DeriveID("observed", "test", n)))
	}
	post("/api/overlay-feedback", feedbackBody(ids[0], "o-a"))
	post("/api/overlay-feedback", bad(ids[1]))
	post("/api/overlay-signals", signalBody(ids[2]))
	post("/api/overlay-signals", strings.Replace(signalBody(ids[3]), "manual_abort", "model_switch", 1))
	page := func(query string) (contracts.ObservationFeed, string) {
		a := r.ask(ec.RoleSeam, "GET", path+query, "")
		return read[contracts.ObservationFeed](r, query, a, 200), string(a.body)
	}
	for range 2 {
		all, raw := page("")
		if len(all.Items) != 4 || all.Missed || strings.Contains(raw, "marker-words") {
			t.Fatalf("R-FBK-14 observations: %s", raw)
		}
		for i, o := range all.Items {
			if string(o.ObservationID) != ids[i] || o.Context.WorkspaceID != "w" {
				t.Errorf("R-FBK-14 number %d: %+v", i, o)
			}
		}
		failed, _ := page("?failures=true")
		if len(failed.Items) != 2 || failed.Items[0].FailureCategory != "wrong_mode" || failed.Items[0].ArtifactID != "o-a" || failed.Items[1].Signal != "manual_abort" || failed.Next != all.Next {
			t.Errorf("R-FBK-13 failures: %+v", failed)
		}
		if rest, _ := page(fmt.Sprintf("?limit=1&after=%d", all.Items[1].Cursor)); len(rest.Items) != 1 || string(rest.Items[0].ObservationID) != ids[2] {
			t.Errorf("a page: %+v", rest)
		}
		r.env.Restart()
	}
}

// R-REG-09, R-REG-10, R-REG-11, R-BND-09: an action is open only while all that
// it rests on is there, and what is closed says why.
func TestGatesFollowTheTruthTable(t *testing.T) {
	var truth, retrieval, evidence bool
	r := liveRig(t, func(c *api.Config) {
		c.TruthInside, c.Retrieval, c.Evidence = func() bool { return truth }, func() bool { return retrieval }, func() bool { return evidence }
	})
	for n := range 16 {
		flag := n&1 > 0
		truth, retrieval, evidence = n&2 > 0, n&4 > 0, n&8 > 0
		r.env.Must(ec.SetFlags{Flags: contracts.Flags{LearnedRecommendations: flag, CandidateApply: flag}})
		st := read[contracts.Status](r, "status", r.ask(ec.RoleUser, "GET", "/api/doc17/status", ""), 200)
		seen := map[string]contracts.Gate{}
		for _, g := range st.Gates {
			if _, twice := seen[g.Name]; twice || g.Open != (g.Reason == "") {
				t.Errorf("gate %+v: once, and closed with a reason", g)
			}
			seen[g.Name] = g
		}
		for name, want := range map[string]bool{
			"runtime_truth": truth, "retrieval": retrieval, "evidence": evidence,
			"learned_recommendations": flag && truth && retrieval, "candidate_apply": flag && truth && evidence,
		} {
			if g, ok := seen[name]; !ok || g.Open != want {
				t.Errorf("R-REG-10 flag %v truth %v retrieval %v evidence %v: gate %s is %+v, want open %v", flag, truth, retrieval, evidence, name, g, want)
			}
		}
		a := r.ask(ec.RoleUser, "POST", at(fmt.Sprint("gate-", n), "activate"), `{"overlay_id":"o-a","source":"recommended"}`)
		if flag && truth && retrieval {
			r.want("R-REG-09 all there", a, http.StatusOK, "")
			continue
		}
		gate := "retrieval"
		if !flag {
			gate = "learned_recommendations"
		} else if !truth {
			gate = "runtime_truth"
		}
		got := r.want("R-REG-09 something is missing", a, http.StatusForbidden, "gate_closed")
		if !strings.Contains(got.Message, gate) || len(got.Details) != 1 || got.Details[0].Field != gate { // R-REG-11
			t.Errorf("R-REG-11 refused with %+v, want the gate %s named", got, gate)
		}
	}
}
