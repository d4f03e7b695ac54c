package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
)

// R-REA-13, R-REA-03: an override of an ordinary turn changes that turn's packet
// and nothing that is stored.
func TestOverrideOfAnOrdinaryTurn(t *testing.T) {
	r := liveRig(t)
	r.change("t-1", "activate", on("o-a"))
	_, own := r.packet("own", "&turn_id=n1")
	seq := r.env.View().Seq()
	for query, want := range map[string]string{
		"&override_mode=one_time_overlay_only&overlay_ids=o-b":            "o-b",
		"&override_mode=use_active_plus_one_time_overlay&overlay_ids=o-b": "o-a,o-b",
		"&override_mode=use_active_overlays":                              "o-a",
	} {
		p, _ := r.packet(query, query+"&turn_id=n2")
		var got []string
		for _, b := range p.OverlayBlocks {
			got = append(got, string(b.OverlayID))
		}
		if strings.Join(got, ",") != want || p.OverrideMode == "" || p.PacketHash != p.Hash() {
			t.Errorf("R-REA-13 %s: got %v as %q, want %s", query, got, p.OverrideMode, want)
		}
	}
	for query, status := range map[string]int{
		"&override_mode=one_time_overlay_only":                                              422,
		"&override_mode=sideways":                                                           400,
		"&override_mode=one_time_overlay_only&overlay_ids=nobody":                           404,
		"&override_mode=use_active_overlays&plan_id=01890a5d-ac96-774b-bcce-b302099a8057":   400,
		"&override_mode=one_time_overlay_only&overlay_ids=" + strings.Repeat("a", 16*65+1):  400,
		"&override_mode=one_time_overlay_only&overlay_ids=o-b,o-b&" + "force_refresh=false": 422,
	} {
		if a := r.ask(ec.RoleSeam, "GET", packetPath+query, ""); a.status != status {
			t.Errorf("%s: got %d %s, want %d", query, a.status, a.body, status)
		}
	}
	if _, again := r.packet("own again", "&turn_id=n1"); string(again.body) != string(own.body) || r.env.View().Seq() != seq {
		t.Errorf("R-REA-03 an override left something behind")
	}
}

// R-REA-11, R-REA-12: the dispatching side reads the plan it was named; a plan
// holds references only.
func TestPlanForDispatch(t *testing.T) {
	r := liveRig(t)
	r.change("t-1", "activate", on("o-a"))
	made := read[contracts.OverlayReanswerPlan](r, "plan", r.ask(ec.RoleUser, "POST", at("t-1", "reanswer-plan"), `{"selected_message_ids":["m1"]}`), 201)
	got := read[contracts.OverlayReanswerPlan](r, "read", r.ask(ec.RoleSeam, "GET", "/internal/doc17/reanswer-plans/"+string(made.PlanID), ""), 200)
	if got.PlanID != made.PlanID || len(got.SelectedMessageIDs) != 1 || got.PromptSeed == "" {
		t.Errorf("R-REA-12 got %+v, want the plan %+v", got, made)
	}
	r.want("unknown", r.ask(ec.RoleSeam, "GET", "/internal/doc17/reanswer-plans/01890a5d-ac96-774b-bcce-b302099a8057", ""), 404, "not_found")
	r.want("of a user", r.ask(ec.RoleUser, "GET", "/internal/doc17/reanswer-plans/"+string(made.PlanID), ""), 403, "forbidden")
}

// R-GWL-01: a row of a conversation is booked once, whoever sends it how often.
func TestUsageOfConversations(t *testing.T) {
	r := liveRig(t)
	row := func(n int) string {
		return fmt.Sprintf(`{"attempt_id":"01890a5d-ac96-774b-bcce-b302099a80%02d","request_id":"r","feature":"chat","target":"t","provider":"p","model":"m","attempt":1,"success":true,
			"usage_known":true,"input_tokens":7,"output_tokens":2,"cost_known":true,"cost":1000,"at":"2026-01-31T09:30:00Z","later_version":1}`, n)
	}
	send := func(rows ...string) contracts.SeamUsageAck {
		return read[contracts.SeamUsageAck](r, "usage", r.ask(ec.RoleSeam, "POST", "/internal/doc17/usage", `{"rows":[`+strings.Join(rows, ",")+`]}`), 200)
	}
	if !send(row(1), row(2)).Recorded || send(row(1)).Recorded || !send(row(2), row(3)).Recorded {
		t.Error("R-GWL-01 rows were not told apart by their attempt")
	}
	total := read[contracts.UsageResponse](r, "usage", r.ask(ec.RoleUser, "GET", "/api/usage", ""), 200).Total
	if total.Calls != 3 || total.InputTokens != 21 {
		t.Errorf("R-GWL-01 booked %+v, want three calls", total)
	}
	r.want("nothing", r.ask(ec.RoleSeam, "POST", "/internal/doc17/usage", `{"rows":[]}`), 422, "validation_failed")
	r.want("of a user", r.ask(ec.RoleUser, "POST", "/internal/doc17/usage", `{"rows":[`+row(4)+`]}`), 403, "forbidden")
}

// Decision 24: whoever asks for notices from time to time learns where it stands and
// whether it missed anything.
func TestNoticesSayWhatWasMissed(t *testing.T) {
	r := liveRig(t)
	ask := func(after uint64) contracts.EventList {
		return read[contracts.EventList](r, "notices", r.ask(ec.RoleSeam, "GET", fmt.Sprintf("/internal/doc17/session-notices?after=%d", after), "", "Accept", "application/json"), 200)
	}
	first := ask(0)
	if first.Next == 0 {
		t.Errorf("a first call: got %+v, want a number", first)
	}
	if quiet := ask(first.Next); quiet.Missed || quiet.Next != first.Next || len(quiet.Items) != 0 {
		t.Errorf("nothing happened: got %+v", quiet)
	}
	r.change("t-1", "activate", on("o-a"))
	next := ask(first.Next)
	if next.Missed || len(next.Items) != 1 || next.Items[0].Session != sessionKey("t-1").Token() || next.Next <= first.Next {
		t.Errorf("after a change: got %+v, want the one session", next)
	}
	if other := ask(next.Next + 1_000_000); !other.Missed {
		t.Errorf("a number of another life: got %+v, want missed", other)
	}
}
