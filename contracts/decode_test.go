package contracts

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/elnor/promptlab/internal/fault"
	"github.com/google/go-cmp/cmp"
)

const minimalFrontmatter = `{"id":"a","title":"t","artifact_class":"live_overlay","category":"quality","description":"d","supported_surfaces":["chat"],"live_token_target":40}`

// rulesOfError gives the rule at each field of a validation fault.
func rulesOfError(t *testing.T, err error) map[string]string {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) {
		t.Fatalf("got error %v, want a fault", err)
	}
	out := map[string]string{}
	for _, d := range f.Details {
		out[d.Field] = d.Rule
	}
	return out
}

// with replaces or adds one top-level field of a JSON object.
func with(t *testing.T, doc, field, value string) []byte {
	t.Helper()
	m := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(doc), &m); err != nil {
		t.Fatal(err)
	}
	if value == "" {
		delete(m, field)
	} else {
		m[field] = json.RawMessage(value)
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDefaultsApplyOnInputAndAppearOnOutput(t *testing.T) {
	t.Run("R-CON-03 front matter", func(t *testing.T) {
		fm, err := Decode[OverlayTemplateFrontmatter]([]byte(minimalFrontmatter), Client)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]any{}
		b, _ := json.Marshal(fm)
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"id": "a", "title": "t", "artifact_class": "live_overlay", "category": "quality", "description": "d",
			"supported_surfaces": []any{"chat"}, "live_token_target": 40.0, "visibility_tier": "advanced",
			"recommended_model_classes": []any{"unknown"}, "conflicts_with": []any{}, "warns_with": []any{},
			"compatible_categories": []any{}, "requires_explicit_invocation": false, "suggested_use_cases": []any{},
			"avoid_when": []any{}, "structure_labels": []any{}, "research_tags": []any{}, "preset": false,
			"deprecated_aliases": []any{}, "version": "1.0.0",
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("decoded and encoded a minimal header (-want +got):\n%s", d)
		}
	})
	t.Run("R-CON-03 a given false beats a default of true", func(t *testing.T) {
		m, err := Decode[OverlayMetadata]([]byte(`{"overlay_id":"a","classifier_version":"1","recommendation_eligible":false}`), Stored)
		if err != nil || m.RecommendationEligible {
			t.Errorf("decoded recommendation_eligible=false: got %v, %v", m.RecommendationEligible, err)
		}
		m, err = Decode[OverlayMetadata]([]byte(`{"overlay_id":"a","classifier_version":"1"}`), Stored)
		if err != nil || !m.RecommendationEligible || m.EvidenceLabel != LabelNone {
			t.Errorf("decoded a minimal record: got %+v, %v", m, err)
		}
	})
	t.Run("R-LAB-12 a job asks for 20 examples unless it says otherwise", func(t *testing.T) {
		j, err := Decode[PromptLabJob]([]byte(`{"artifact_kind":"overlay_template","artifact_id":"x"}`), Client)
		if err != nil {
			t.Fatal(err)
		}
		if j.MinReplayExamples != 20 || j.Backend != BackendPromptolution || j.RequestReason != ReasonManual {
			t.Errorf("decoded the smallest job: got %+v", j)
		}
	})
}

// R-CON-04: lists and maps are never null, optional fields are left out.
func TestNothingSerialisesAsNull(t *testing.T) {
	for name, typ := range Published() {
		b, err := json.Marshal(reflect.New(typ).Elem().Interface())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "null") {
			t.Errorf("R-CON-04 zero %s serialises with null: %s", name, b)
		}
	}
}

func TestEnumsAreClosed(t *testing.T) {
	// R-CON-01: exactly these values, in this order.
	enums := map[Enum][]string{
		PromptArtifactKind(""):          {"overlay_template", "prompt_recipe", "prompt_advisor_rewrite", "room_role_prompt"},
		OverlayArtifactClass(""):        {"live_overlay", "advisor_protocol", "post_task_template"},
		OverlayCategory(""):             {"quality", "analysis", "legal", "coding", "creative", "strategy", "architecture", "review", "debrief"},
		OverlayVisibilityTier(""):       {"core", "advanced", "hidden"},
		SupportedSurface(""):            {"chat", "room", "panel", "task", "prompt_advisor", "post_task"},
		ModelClass(""):                  {"reasoning_native", "general_chat", "code_specialist", "unknown"},
		OverlayPinScope(""):             {"thread", "workspace", "until_off"},
		OverlayActivationSource(""):     {"manual", "recommended", "workspace_pin", "global_pin", "room_default", "moderator_default", "task_default", "candidate_canary"},
		OverlayAdviceState(""):          {"available", "degraded", "unavailable"},
		OverlayRefreshReason(""):        {"manual", "model_switch", "compaction", "packet_trim", "session_rehydrate", "activation_change", "deactivation_change"},
		ReanswerContextMode(""):         {"clean_context", "selected_turns_only", "thread_plus_selected"},
		OverlayDispatchOverrideMode(""): {"none", "use_active_overlays", "one_time_overlay_only", "use_active_plus_one_time_overlay"},
		OverlayDropReason(""):           {"hard_budget", "archived", "hard_conflict", "surface_unsupported", "packet_unavailable", "seam_policy"}, // R-TRU-09
		EvidenceLabel(""):               {"no_local_evidence", "promising", "established", "needs_tuning"},
		PromptOptimizationBackend(""):   {"promptolution", "dspy"},
		PromptLabJobStatus(""):          {"queued", "running", "completed", "failed", "cancelled", "stale"},
		JobRequestReason(""):            {"manual_test", "nightly_proposal_eval", "candidate_retest", "canary_followup"},
	}
	for e, want := range enums {
		if d := cmp.Diff(want, e.Values()); d != "" {
			t.Errorf("R-CON-01 values of %T (-want +got):\n%s", e, d)
		}
	}
	t.Run("R-CON-01 an unknown value is refused at its field", func(t *testing.T) {
		for _, field := range []string{"artifact_class", "category", "visibility_tier"} {
			_, err := Decode[OverlayTemplateFrontmatter](with(t, minimalFrontmatter, field, `"nonsense"`), Client)
			if got := rulesOfError(t, err)[field]; got != "enum" {
				t.Errorf("%s=nonsense: got rule %q, want enum", field, got)
			}
		}
		_, err := Decode[OverlayTemplateFrontmatter](with(t, minimalFrontmatter, "supported_surfaces", `["chat","moon"]`), Client)
		if got := rulesOfError(t, err)["supported_surfaces[1]"]; got != "enum" {
			t.Errorf("a bad surface: got %v", err)
		}
	})
	t.Run("R-CLS-03 thirteen structure labels", func(t *testing.T) {
		if n := len(StructureLabels()); n != 13 {
			t.Errorf("got %d labels, want 13", n)
		}
	})
}

func TestBoundsHoldAtBothEdges(t *testing.T) {
	job := `{"artifact_kind":"overlay_template","artifact_id":"x"}`
	lcb := `{"examples_run":1,"examples_succeeded":1,"evidence_label":"promising"}`
	cases := []struct {
		name   string
		decode func(value string) error
		good   []string
		bad    []string
	}{
		{"R-CON-08 live_token_target", decodeField[OverlayTemplateFrontmatter](t, minimalFrontmatter, "live_token_target"), []string{"40", "450", "40.0"}, []string{"39", "451", "40.5", `"40"`, "true"}},
		{"R-CON-08 min_replay_examples", decodeField[PromptLabJob](t, job, "min_replay_examples"), []string{"1", "20"}, []string{"0", "-1"}},
		{"R-CON-08 max_candidates", decodeField[PromptLabJob](t, job, "options"), []string{`{"max_candidates":1}`, `{"max_candidates":8}`}, []string{`{"max_candidates":0}`, `{"max_candidates":9}`}},
		{"R-CON-08 budget", decodeField[PromptLabJob](t, job, "options"), []string{`{"per_job_budget_usd":0}`}, []string{`{"per_job_budget_usd":-0.01}`, `{"per_job_budget_usd":1e400}`}},
		{"R-CON-08 lower_confidence_bound", decodeField[PromptLabReplaySummary](t, lcb, "lower_confidence_bound"), []string{"0", "1", "0.5"}, []string{"-0.001", "1.001"}},
		{"R-CON-06 overlay id", decodeField[OverlayTemplateFrontmatter](t, minimalFrontmatter, "id"), []string{`"a"`, `"` + strings.Repeat("a", 64) + `"`, `"a-1"`}, []string{`"a\n"`, `".."`, `"A"`, `"` + strings.Repeat("a", 65) + `"`, `""`, `"a/b"`, `"a.b"`, `"ä"`}},
		{"R-CON-07 job id", decodeField[PromptLabJob](t, job, "job_id"), []string{`"0190a0a0-0000-7000-8000-000000000000"`}, []string{`"x"`, `"0190a0a000007000800000000000000"`, `"0190a0a0-0000-7000-8000-000000000000\n"`}},
		{"R-CON-05 time", decodeField[PromptLabJob](t, job, "created_at"), []string{`"2026-01-02T03:04:05Z"`, `"2026-01-02T03:04:05.678Z"`}, []string{`"2026-01-02T03:04:05+02:00"`, `"2026-01-02T03:04:05"`, `"2026-01-02"`, "5"}},
		{"R-HTTP-09 title length", decodeField[OverlayTemplateFrontmatter](t, minimalFrontmatter, "title"), []string{`"` + strings.Repeat("é", 200) + `"`}, []string{`"` + strings.Repeat("é", 201) + `"`, `""`}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, v := range c.good {
				if err := c.decode(v); err != nil {
					t.Errorf("value %s: got %v, want accepted", v, err)
				}
			}
			for _, v := range c.bad {
				if err := c.decode(v); fault.Of(err) != fault.Invalid {
					t.Errorf("value %s: got %v, want a validation fault", v, err)
				}
			}
		})
	}
}

func decodeField[T any](t *testing.T, doc, field string) func(string) error {
	return func(value string) error {
		_, err := Decode[T](with(t, doc, field, value), Client)
		return err
	}
}

// G-012: a worker may say completed or failed and nothing else.
func TestATagNarrowsAnEnum(t *testing.T) {
	doc := `{"job_id":"0190a0a0-0000-7000-8000-000000000000","status":"completed","source_hash":"x"}`
	for status, ok := range map[string]bool{"completed": true, "failed": true, "running": false, "queued": false, "stale": false} {
		_, err := Decode[PromptLabJobResult](with(t, doc, "status", `"`+status+`"`), Peer)
		if (err == nil) != ok {
			t.Errorf("R-LAB-07 a result that is %s: got %v, want accepted %v", status, err, ok)
		}
	}
}

func TestTimesAreUTC(t *testing.T) {
	j, err := Decode[PromptLabJob]([]byte(`{"artifact_kind":"overlay_template","artifact_id":"x","created_at":"2026-01-02T03:04:05.678912Z"}`), Client)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := json.Marshal(j.CreatedAt)
	if got, want := string(b), `"2026-01-02T03:04:05.678Z"`; got != want {
		t.Errorf("R-CON-05 wrote %s, want %s", got, want)
	}
}

func TestEveryBadFieldIsNamedAtOnce(t *testing.T) {
	doc := `{"id":"A","title":"","artifact_class":"x","category":"quality","supported_surfaces":[],"live_token_target":1,"foo":1,"foo":2,"warns_with":null,"version":7,"conflicts_with":["ok","NO"]}`
	_, err := Decode[OverlayTemplateFrontmatter]([]byte(doc), Client)
	want := map[string]string{
		"id": "invalid_id", "title": "min_length", "artifact_class": "enum", "supported_surfaces": "min_items", "live_token_target": "minimum",
		"foo": "duplicate_key", "warns_with": "null", "version": "type", "conflicts_with[1]": "invalid_id", "description": "required",
	}
	if d := cmp.Diff(want, rulesOfError(t, err)); d != "" {
		t.Errorf("R-SRC-18 problems of one bad document (-want +got):\n%s", d)
	}
}

func TestModes(t *testing.T) {
	extra := []byte(`{"dispatch":1,"token":"` + strings.Repeat("x", 32) + `","worker":"w","new_field":{"a":1}}`)
	if _, err := Decode[TaskClaim](extra, Peer); err != nil {
		t.Errorf("R-WRK-02 a peer's unknown field: got %v, want ignored", err)
	}
	if _, err := Decode[TaskClaim](extra, Client); fault.Of(err) != fault.Invalid {
		t.Errorf("R-HTTP-08 a client's unknown field: got %v, want refused", err)
	}
	if _, err := Decode[TaskClaim]([]byte(`{"dispatch":1,"worker":"w"}`), Peer); fault.Of(err) != fault.Invalid {
		t.Errorf("R-WRK-02 a peer's missing field: got %v, want refused", err)
	}
	if _, err := Decode[PromptLabJob]([]byte(`{"artifact_kind":"overlay_template","artifact_id":"x"}`), Stored); fault.Of(err) != fault.Invalid {
		t.Errorf("a stored document without server-owned fields: got %v, want refused", err)
	}
}

func TestWhatIsNotJSONIsMalformed(t *testing.T) {
	deep := strings.Repeat(`{"metadata":`, 40) + "1" + strings.Repeat("}", 40)
	for _, doc := range []string{"", "{", "nul", `{"a":1} x`, `{"a":1}{"b":2}`, "\xff", `{"a":"` + "\xff" + `"}`, deep, `{"a":01}`, "[1,]"} {
		if _, err := Decode[TaskClaim]([]byte(doc), Client); fault.Of(err) != fault.Malformed {
			t.Errorf("document %.20q: got %v, want malformed", doc, err)
		}
	}
	if _, err := Decode[TaskClaim]([]byte("[]"), Client); fault.Of(err) != fault.Invalid {
		t.Errorf("a list instead of an object: got %v, want a validation fault", err)
	}
}

// R-HTTP-15: an error never repeats the value that it refuses.
func TestErrorsDoNotEchoValues(t *testing.T) {
	const secret = "hunter2hunter2"
	doc := fmt.Sprintf(`{"id":"%s!","title":{"x":"%s"},"artifact_class":"%s"}`, secret, secret, secret)
	_, err := Decode[OverlayTemplateFrontmatter]([]byte(doc), Client)
	if err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("R-HTTP-15 error %v repeats the value", err)
	}
}

// A document that decodes encodes to one that decodes to the same.
func FuzzDecodeJob(f *testing.F) {
	f.Add([]byte(`{"artifact_kind":"overlay_template","artifact_id":"x","options":{"seed":3}}`))
	f.Add([]byte(`{"artifact_kind":"prompt_recipe","artifact_id":"\u0000","min_replay_examples":1e0}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		j, err := Decode[PromptLabJob](doc, Client)
		if err != nil {
			return
		}
		// what the server sets before anything is stored
		j.JobID, j.Status, j.Detail = "0190a0a0-0000-7000-8000-000000000000", JobQueued, nil
		b, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode[PromptLabJob](b, Client)
		if err != nil {
			t.Fatalf("decoded, encoded and refused: %v\n%s", err, b)
		}
		if d := cmp.Diff(j, again); d != "" {
			t.Errorf("round trip (-first +second):\n%s", d)
		}
	})
}
