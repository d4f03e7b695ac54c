package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/elnor/promptlab/api"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/presets"
)

func TestOpinionsAndDefaults(t *testing.T) {
	r := liveRig(t)
	post := func(path, body string) answer {
		return r.ask(ec.RoleUser, "POST", path, body, "Idempotency-Key", "k")
	}
	keyless := func(path, body string) answer { return r.ask(ec.RoleUser, "POST", path, body) }
	for path, body := range map[string]func(string) string{
		"/api/overlay-feedback": func(id string) string { return feedbackBody(id, "o-a") },
		"/api/overlay-signals":  signalBody,
	} {
		id1, id2 := contracts.DeriveID(path, "test", 1), contracts.DeriveID(path, "test", 2)
		if ack := read[contracts.SignalAck](r, path, post(path, body(string(id1))), 201); !ack.Recorded || ack.ID != id1 {
			t.Errorf("%s: %+v", path, ack)
		}
		for _, key := range []string{"k", "other"} { // decision 29: by its own id, whatever the key
			if ack := read[contracts.SignalAck](r, "again "+path, r.ask(ec.RoleUser, "POST", path, body(string(id1)), "Idempotency-Key", key), 200); ack.Recorded || ack.ID != id1 {
				t.Errorf("%s again: %+v", path, ack)
			}
		}
		r.want("the key of another opinion "+path, post(path, body(string(id2))), 422, "idempotency_key_reused")
		read[contracts.SignalAck](r, "a key of its own "+path, r.ask(ec.RoleUser, "POST", path, body(string(id2)), "Idempotency-Key", "k2"), 201)
	}
	r.want("feedback on nothing", keyless("/api/overlay-feedback", feedbackBody(someID, "nobody")), 404, "not_found")
	got := r.want("bad feedback", keyless("/api/overlay-feedback", strings.Replace(feedbackBody("x", "O"), `"helpful"`, `"great"`, 1)), 422, "validation_failed")
	for _, field := range []string{"feedback_id", "overlay_id", "overlay_helpfulness_rating"} {
		if !strings.Contains(fmt.Sprint(got.Details), "{"+field+" ") {
			t.Errorf("bad feedback: details %+v do not name %s", got.Details, field)
		}
	}
	r.want("another workspace", keyless("/api/overlay-feedback", strings.Replace(feedbackBody(someID, "o-a"), `"workspace_id":"w"`, `"workspace_id":"v"`, 1)), 422, "validation_failed")
	r.want("bad signal", keyless("/api/overlay-signals", strings.Replace(signalBody(someID), "manual_abort", "x", 1)), 422, "validation_failed")

	const path = "/api/moderator-defaults/"
	if none := read[contracts.ModeratorDefaults](r, "none yet", r.ask(ec.RoleAgent, "GET", path+"mod-1", ""), 200); len(none.OverlayIDs) != 0 || none.ModeratorID != "mod-1" {
		t.Errorf("moderator without defaults: %+v", none)
	}
	put := func(id, body string) answer { return r.ask(ec.RoleUser, "PUT", path+id, body) }
	saved := read[contracts.ModeratorDefaults](r, "put", put("mod-1", `{"moderator_id":"mod-1","overlay_ids":["o-b"],"applies_to":"rooms"}`), 200)
	if saved.OverlayIDs[0] != "o-b" || saved.UpdatedBy != "user" || saved.UpdatedAt.IsZero() {
		t.Errorf("saved: %+v", saved)
	}
	r.want("another moderator", put("mod-1", `{"moderator_id":"mod-2","overlay_ids":[]}`), 422, "validation_failed")
	r.want("unknown overlay", put("mod-1", `{"moderator_id":"mod-1","overlay_ids":["nobody"]}`), 422, "validation_failed")
	r.want("R-HTTP-12 hard pair", put("mod-1", `{"moderator_id":"mod-1","overlay_ids":["creative-flow","legal-strict"]}`), 409, "hard_conflict")
	r.want("odd use", put("mod-1", `{"moderator_id":"mod-1","applies_to":"x"}`), 422, "validation_failed")
	read[contracts.ModeratorDefaults](r, "an id of somebody else's kind", put("R%C3%A4t%20in", "{\"moderator_id\":\"R\u00e4t in\"}"), 200)
	r.want("no id of anybody's", r.ask(ec.RoleUser, "GET", path+"%07", ""), 404, "not_found")
	if now := read[contracts.ModeratorDefaults](r, "read", r.ask(ec.RoleUser, "GET", path+"mod-1", ""), 200); now.OverlayIDs[0] != "o-b" {
		t.Errorf("after refusals: %+v", now)
	}
}

// TestEveryPresetOverHTTP: each preset goes on where it may, alone, and is
// refused elsewhere with a reason.
func TestEveryPresetOverHTTP(t *testing.T) {
	r := liveRig(t)
	p, err := presets.Load()
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for _, o := range p.Overlays {
		wait.Go(func() {
			fm := o.Frontmatter
			for _, kind := range []contracts.SupportedSurface{contracts.SurfaceChat, contracts.SurfaceRoom, contracts.SurfacePanel, contracts.SurfaceTask} {
				key, err := contracts.OverlaySessionKey{WorkspaceID: "w", SurfaceKind: kind, SurfaceID: string(fm.ID)}.Canonical("")
				if err != nil {
					t.Error(err)
					return
				}
				want := http.StatusUnprocessableEntity
				for _, s := range fm.SupportedSurfaces {
					if s == kind && fm.ArtifactClass == contracts.ClassLive {
						want = http.StatusOK
					}
				}
				if fm.ArtifactClass == contracts.ClassAdvisor && kind == contracts.SurfaceTask {
					continue // asked for explicitly, for one dispatch
				}
				a := r.ask(ec.RoleUser, "POST", "/api/overlay-sessions/"+key.Token()+"/activate", on(string(fm.ID)))
				if a.status != want {
					t.Errorf("%s on %s: got %d %s, want %d", fm.ID, kind, a.status, a.body, want)
				}
			}
		})
	}
	wait.Wait()
}

// A recommendation is let in while its flag is on and what it rests on is there.
func TestRecommendationsNeedTheirCompanions(t *testing.T) { // R-HTTP-13
	truth, retrieval := true, true
	r := liveRig(t, func(c *api.Config) {
		c.TruthInside, c.Retrieval = func() bool { return truth }, func() bool { return retrieval }
	})
	const body = `{"overlay_id":"o-a","source":"recommended"}`
	ask := func() answer { return r.ask(ec.RoleUser, "POST", at("t-1", "activate"), body) }
	got := r.want("flag off", ask(), 403, "gate_closed")
	if !strings.Contains(got.Message, "learned_recommendations") {
		t.Errorf("the gate is not named: %s", got.Message)
	}
	r.env.Must(ec.SetFlags{Flags: contracts.Flags{LearnedRecommendations: true}})
	truth = false
	r.want("no truth", ask(), 403, "gate_closed")
	truth, retrieval = true, false
	r.want("no retrieval", ask(), 403, "gate_closed")
	retrieval = true
	r.want("all there", ask(), 200, "")
}

// Both sides of a hard conflict are written by one save, or neither: G-003.
func TestBothSidesOfAConflict(t *testing.T) {
	r := liveRig(t)
	body := strings.Replace(overlayBody("o-x", "Rule x.\n"), `"category"`, `"conflicts_with":["o-a"],"category"`, 1)
	r.want("one side alone", r.ask(ec.RoleUser, "POST", "/api/overlays", body), 422, "validation_failed")
	r.want("no switch", r.ask(ec.RoleUser, "POST", "/api/overlays?declare_reciprocal=yes", body), 400, "bad_request")
	read[contracts.OverlayDetail](r, "both sides", r.ask(ec.RoleUser, "POST", "/api/overlays?declare_reciprocal=true", body), 201)
	other := read[contracts.OverlayDetail](r, "the other", r.ask(ec.RoleUser, "GET", "/api/overlays/o-a", ""), 200)
	if c := other.Record.Frontmatter.ConflictsWith; len(c) != 1 || c[0] != "o-x" {
		t.Errorf("the other side conflicts with %v, want o-x", c)
	}
	free := overlayBody("o-x", "Rule x.\n")
	r.want("one side taken back", r.ask(ec.RoleUser, "PUT", "/api/overlays/o-x", free), 422, "validation_failed")
	read[contracts.OverlayDetail](r, "both taken back", r.ask(ec.RoleUser, "PUT", "/api/overlays/o-x?declare_reciprocal=true", free), 200)
}
