package ec_test

import (
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/internal/fault"
)

const wireKey = `{"workspace_id":"w","surface_kind":"chat","surface_id":"t","thread_id":"t"}`

// commandDocs is a good document of each public command that there is.
func commandDocs() map[string]string {
	const id = "0198a0c6-0000-7000-8000-000000000001"
	record := `{"frontmatter":{"id":"some-id","title":"T","artifact_class":"live_overlay","category":"quality","description":"D","supported_surfaces":["chat"],"live_token_target":200},"body":"Text.\n"}`
	session := `"session_key":` + wireKey + `,"overlay_id":"some-id"`
	return map[string]string{
		"overlay.install_presets":      ``,
		"overlay.create":               `"payload":` + record,
		"overlay.update":               `"overlay_id":"some-id","payload":` + record,
		"overlay.archive":              `"overlay_id":"some-id"`,
		"overlay.restore":              `"overlay_id":"some-id"`,
		"overlay.activate":             session + `,"source":"manual"`,
		"overlay.deactivate":           session,
		"overlay.pin":                  session + `,"pin_scope":"thread"`,
		"overlay.unpin":                session + `,"pin_scope":"thread"`,
		"overlay.request_refresh":      `"session_key":` + wireKey,
		"overlay.record_runtime_truth": `"session_key":` + wireKey + `,"runtime_truth":{"session_key":` + wireKey + `,"revision":0}`,
		"overlay.submit_feedback":      `"payload":{"feedback_id":"` + id + `","overlay_id":"some-id","workspace_id":"w","session_key":` + wireKey + `}`,
		"prompt_lab.create_job":        `"payload":{"artifact_kind":"overlay_template","artifact_id":"some-id"}`,
		"prompt_lab.cancel_job":        `"job_id":"` + id + `"`,
	}
}

func commandDoc(kind, fields string) []byte {
	return []byte(strings.TrimSuffix(`{"command_type":"`+kind+`",`+fields, ",") + "}")
}

// R-CMD-01, R-CMD-03, R-CMD-07: the public commands by their documents.
func TestCommandsByTheirDocuments(t *testing.T) {
	for kind, fields := range commandDocs() {
		body, err := ec.ParseCommand(commandDoc(kind, fields), ec.Pack{ID: "pack"})
		if err != nil || body.Type() != kind {
			t.Errorf("R-CMD-01 %s: got %v, %v", kind, body, err)
		}
		refused := func(what, fields, field string) {
			t.Helper()
			_, err := ec.ParseCommand(commandDoc(kind, fields), ec.Pack{})
			if fault.Of(err) != fault.Invalid || !strings.Contains(err.Error(), field) {
				t.Errorf("R-CMD-01 %s with %s: got %v, want %s named", kind, what, err, field)
			}
		}
		refused("an unknown field", strings.TrimPrefix(fields+`,"zz_unknown":1`, ","), "zz_unknown")
		refused("null for a payload", `"payload":null`, "payload")
		if fields != "" {
			refused("nothing", "", "is missing")
		} else {
			refused("a payload", `"payload":{}`, "payload") // R-CMD-03
		}
	}
	body, err := ec.ParseCommand(commandDoc("overlay.request_refresh", commandDocs()["overlay.request_refresh"]), ec.Pack{})
	if r, ok := body.(ec.RequestRefresh); err != nil || !ok || r.Reason != "manual" {
		t.Errorf("R-CMD-01 refresh without a reason: got %+v, %v, want manual", body, err)
	}
	for _, kind := range []string{
		"", "x", "Overlay.create", "overlay.create ", "prompt_recipe.create", "prompt_recipe.update", "prompt_recipe.archive", "prompt_recipe.submit_feedback", "prompt_advisor.rewrite_feedback", // not there yet
		// R-CMD-07: EC's own
		ec.FinishTask{}.Type(), ec.EnsureKeys{}.Type(), ec.ExternalEdit{}.Type(), ec.DispatchTask{}.Type(), ec.BootstrapSession{}.Type(), ec.BuildPacket{}.Type(), ec.SetFlags{}.Type(), ec.PruneSessions{}.Type(),
	} {
		if b, err := ec.ParseCommand(commandDoc(kind, ""), ec.Pack{}); fault.Of(err) != fault.Invalid || !strings.Contains(err.Error(), "command_type") {
			t.Errorf("R-CMD-07 command_type %q: got %v, %v, want it refused", kind, b, err)
		}
	}
	if _, err := ec.ParseCommand([]byte(`{"command_type":`), ec.Pack{}); fault.Of(err) != fault.Malformed {
		t.Errorf("R-CMD-01 half a document: got %v", err)
	}
}

// R-CON-14: what EC offers covers the operations that others are promised.
var (
	_ interface { // OverlayRepository: list and get of the view; the changes are commands
		Overlays(ec.OverlayFilter) contracts.OverlayListResponse
		Overlay(contracts.OverlayID) (contracts.OverlayDetail, string, error)
	} = (*ec.View)(nil)
	_ interface { // OverlaySessionStore: get, getRuntimeTruth
		Session(contracts.OverlaySessionKey, bool) (contracts.OverlaySessionResponse, string, error)
		Truth(contracts.OverlaySessionKey, bool) (contracts.OverlayRuntimeTruthSummary, error)
	} = (*ec.View)(nil)
	_ interface { // OverlayPacketService, OverlayReanswerService
		Packet(contracts.OverlaySessionKey, ec.PacketQuery) (ec.PacketBytes, bool, error)
		Plan(contracts.UUID) (contracts.OverlayReanswerPlan, error)
	} = (*ec.View)(nil)
)

// R-CON-14: the changing operations of the same interfaces, each a command that
// the service takes.
func TestServiceHasTheNamedOperations(t *testing.T) {
	var service ec.Service = ectest.New(t)
	k := contracts.OverlaySessionKey{WorkspaceID: "w", SurfaceKind: contracts.SurfaceChat, SurfaceID: "t", ThreadID: "t"}
	record := ectest.Overlay("some-id", "Text.\n")
	changed := record
	changed.Body = "Text, changed.\n"
	user, seam := ectest.User, ec.Actor{Role: ec.RoleSeam, Name: "seam"}
	for _, step := range []struct {
		operation string
		actor     ec.Actor
		body      ec.Body
	}{
		{"OverlayRepository.create", user, ec.CreateOverlay{Record: record}},
		{"OverlayRepository.update", user, ec.UpdateOverlay{OverlayID: "some-id", Record: changed}},
		{"OverlayRepository.archive", user, ec.ArchiveOverlay{OverlayID: "some-id"}},
		{"OverlayRepository.restore", user, ec.RestoreOverlay{OverlayID: "some-id"}},
		{"OverlaySessionStore.activate", user, ec.ActivateOverlay{Key: k, OverlayID: "some-id", Source: contracts.FromManual, PinScope: contracts.PinThread}},
		{"OverlaySessionStore.pin", user, ec.PinOverlay{Key: k, OverlayID: "some-id", Scope: contracts.PinWorkspace}},
		{"OverlaySessionStore.requestRefresh", user, ec.RequestRefresh{Key: k, Reason: contracts.RefreshManual}},
		{"OverlayPacketService.buildPacket", seam, ec.BuildPacket{Key: k, Force: true}},
		{"OverlaySessionStore.recordRuntimeTruth", seam, ec.RecordTruth{Truth: contracts.OverlayRuntimeTruthSummary{SessionKey: k}}},
		{"OverlaySessionStore.unpin", user, ec.UnpinOverlay{Key: k, OverlayID: "some-id", Scope: contracts.PinWorkspace}},
		{"OverlaySessionStore.deactivate", user, ec.DeactivateOverlay{Key: k, OverlayID: "some-id"}},
		{"OverlayReanswerService.preparePlan", user, ec.PreparePlan{Key: k, Request: contracts.OverlayReanswerPlanRequest{
			SelectedMessageIDs: contracts.List[string]{"m"}, ContextMode: "selected_turns_only", OverrideMode: contracts.OverrideUseActive,
		}}},
	} {
		if _, err := service.Do(t.Context(), ec.Command{ID: step.operation, Actor: step.actor, Body: step.body}); err != nil {
			t.Errorf("R-CON-14 %s: %v", step.operation, err)
		}
	}
	if _, _, err := service.View().Overlay("nobody"); fault.Of(err) != fault.NotFound {
		t.Errorf("R-CON-14 OverlayRepository.get of nothing: got %v, want not found", err)
	}
}
