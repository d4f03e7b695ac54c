package contracts

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/elnor/promptlab/internal/fault"
	"github.com/google/go-cmp/cmp"
)

// R-CON-10, R-CON-12, R-REG-04, R-REG-05, R-REG-14, R-ROM-10: what is added to
// the shapes of the systems beside this one comes after their own fields, and a
// message of before is still good.
func TestCompanionShapesGrowOnly(t *testing.T) {
	const key = `{"workspace_id":"w","surface_kind":"room","surface_id":"r"}`
	for _, c := range []struct {
		typ    reflect.Type
		theirs string // their own fields, in order
		ours   string // what is added, with defaults
		before string // a message without what is added
		decode func([]byte) (any, error)
	}{
		{reflect.TypeFor[ResolvedOperation](), "operation_id",
			`suggested_overlay_ids=[] suggested_prompt_recipe_ids=[] prompt_improvement_hints=[] overlay_advice_state="unavailable" prompt_recipe_suggestion_state="unavailable"`,
			`{"operation_id":"op"}`, decodeAny[ResolvedOperation]},
		{reflect.TypeFor[ConfigurationTuple](), `model="unknown" task_type="unknown" workspace_id surface_kind`,
			`active_overlay_ids=[] prompt_recipe_id? prompt_artifact_ids=[]`,
			`{"model":"m","task_type":"t","workspace_id":"w","surface_kind":"chat"}`, decodeAny[ConfigurationTuple]},
		{reflect.TypeFor[ModeratorIntervention](), "intervention_id moderator_id session_key kind created_at", "overlay_ids=[]",
			`{"intervention_id":"0190a0a0-0000-7000-8000-000000000000","moderator_id":"m","session_key":` + key + `,"kind":"pause","created_at":"2026-01-01T00:00:00Z"}`, decodeAny[ModeratorIntervention]},
		{reflect.TypeFor[RouteFacts](), "session_key", `session_revision?:0.. overlay_state="unavailable" active_overlay_ids=[] override_mode? reanswer_plan_id?`,
			`{"session_key":` + key + `}`, decodeAny[RouteFacts]},
	} {
		t.Run(c.typ.Name(), func(t *testing.T) {
			var got []string
			for _, f := range fieldsOf(c.typ).ordered {
				got = append(got, describeField(c.typ, f))
			}
			if d := cmp.Diff(append(strings.Fields(c.theirs), strings.Fields(c.ours)...), got); d != "" {
				t.Errorf("R-CON-12 fields (-want +got):\n%s", d)
			}
			v, err := c.decode([]byte(c.before))
			if err != nil {
				t.Fatalf("R-CON-12 a message of before: %v", err)
			}
			b, err := json.Marshal(v)
			if err != nil || strings.Contains(string(b), "null") {
				t.Errorf("written again: %s, %v", b, err)
			}
		})
	}
	op, err := Decode[ResolvedOperation]([]byte(`{"operation_id":"op"}`), Peer)
	if err != nil || op.OverlayAdviceState != AdviceUnavailable || op.PromptRecipeSuggestionState != AdviceUnavailable { // R-REG-05
		t.Errorf("R-REG-05 advice that nobody filled in: %+v, %v", op, err)
	}
	if _, err := Decode[ResolvedOperation]([]byte(`{"operation_id":"op","overlay_advice_state":"fine"}`), Peer); fault.Of(err) != fault.Invalid {
		t.Errorf("R-REG-05 a state that there is not: %v", err)
	}
}

func decodeAny[T any](b []byte) (any, error) { return Decode[T](b, Peer) }

// R-REG-07, R-REG-14: a configuration tuple comes back as it went out.
func TestConfigurationTupleRoundTrip(t *testing.T) {
	for _, want := range []ConfigurationTuple{
		{Model: "m", TaskType: "t", WorkspaceID: "w", SurfaceKind: SurfaceRoom, ActiveOverlayIDs: List[OverlayID]{}, PromptArtifactIDs: List[string]{}},
		{Model: "m", TaskType: "t", WorkspaceID: "w", SurfaceKind: SurfaceChat, ActiveOverlayIDs: List[OverlayID]{"a", "b"}, PromptRecipeID: "0190a0a0-0000-7000-8000-000000000000",
			PromptArtifactIDs: List[string]{ArtifactRef(KindOverlay, "a"), ArtifactRef(KindRecipe, "0190a0a0-0000-7000-8000-000000000000")}},
	} {
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode[ConfigurationTuple](b, Stored)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("R-REG-07 %s: %v (-want +got):\n%s", b, err, d)
		}
	}
}

// R-CON-11: one set of artifact kinds is what jobs, candidates and observations
// speak of, with recipes and role prompts in it.
func TestArtifactKindsAreShared(t *testing.T) {
	want := reflect.TypeFor[PromptArtifactKind]()
	for _, typ := range []reflect.Type{reflect.TypeFor[PromptLabJob](), reflect.TypeFor[PromptLabJobRequest](), reflect.TypeFor[PromptCandidate](), reflect.TypeFor[Observation]()} {
		f, ok := fieldsOf(typ).byName["artifact_kind"]
		if !ok || typ.FieldByIndex(f.index).Type != want {
			t.Errorf("R-CON-11 %s does not say its artifact kind by the shared type", typ.Name())
		}
	}
	for _, kind := range []string{"prompt_recipe", "room_role_prompt"} {
		_, err := Decode[Observation]([]byte(`{"cursor":1,"observation_id":"0190a0a0-0000-7000-8000-000000000000","record_kind":"feedback","artifact_kind":"`+kind+
			`","failure":true,"confidence":"high","context":{"surface_kind":"chat","workspace_id":"w"},"created_at":"2026-01-01T00:00:00Z"}`), Peer)
		if err != nil {
			t.Errorf("R-CON-11 an observation of a %s: %v", kind, err)
		}
	}
}
