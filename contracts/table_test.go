package contracts

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// fieldTable lists a type's fields as they are specified: name, kind, presence,
// default, bounds. Fields that we added beyond the specification follow a "+".
func TestFieldsAreAsSpecified(t *testing.T) {
	want := map[reflect.Type]string{
		reflect.TypeFor[OverlayTemplateFrontmatter](): `id title artifact_class category description visibility_tier="advanced" supported_surfaces>=1
			recommended_model_classes=["unknown"] reasoning_model_caution? conflicts_with=[] warns_with=[] compatible_categories=[] live_token_target:40..450
			estimated_tokens?:1.. requires_explicit_invocation=false suggested_use_cases=[] avoid_when=[] structure_labels=[] research_tags=[] preset=false
			deprecated_aliases=[] version="1.0.0"`,
		reflect.TypeFor[OverlayTemplateRecord](): `frontmatter body body_hash created_at updated_at archived_at? source`,
		reflect.TypeFor[OverlayIndexEntry](): `overlay_id title artifact_class category visibility_tier supported_surfaces estimated_tokens:1.. conflicts_with
			warns_with preset archived=false updated_at`,
		reflect.TypeFor[OverlayMetadata](): `overlay_id structure_labels=[] classifier_version risk_flags=[] evidence_label="no_local_evidence" last_feedback_at?
			last_lab_tested_at? recommendation_eligible=true prompt_lab_eligible=false degraded_reason?`,
		reflect.TypeFor[OverlayListResponse](): `items total:0.. evidence_state="available"`,
		reflect.TypeFor[PromptLabJob](): `job_id artifact_kind artifact_id backend request_reason requested_by="user" dataset_ref? min_replay_examples=20:1..100000
			status created_at updated_at`,
		reflect.TypeFor[PromptLabJobRequest](): `job_id backend artifact_kind artifact_id artifact_title source_text source_hash workspace_id request_reason
			optimization_goal replay_examples=[] constraints created_at`,
		reflect.TypeFor[ReplayExample]():             `example_id input_text expected_signal? rubric_ref? metadata={}`,
		reflect.TypeFor[JobConstraints]():            `max_candidates=3:1..8 per_job_budget_usd=0:0.. banned_phrases=[] preserve_required_sections=[]`,
		reflect.TypeFor[PromptLabCandidatePayload](): `candidate_id candidate_text delta_summary=[] source_hash candidate_hash backend_notes=[]`,
		reflect.TypeFor[PromptLabReplaySummary]():    `examples_run:0.. examples_succeeded:0.. evidence_label lower_confidence_bound?:0..1 judge_notes=[]`,
		reflect.TypeFor[PromptLabJobResult]():        `job_id status source_hash candidates=[] replay_summary? failure_code? failure_message? started_at? completed_at?`,
		reflect.TypeFor[PromptCandidate](): `candidate_id artifact_kind artifact_id candidate_text backend evidence_label="no_local_evidence" replay_summary_ref?
			canary_summary_ref? source_job_id source_artifact_hash created_at`,
		reflect.TypeFor[OverlaySessionKey](): `workspace_id surface_kind surface_id thread_id? room_id? task_id?`,
		reflect.TypeFor[ActiveOverlay](): `activation_id overlay_id source artifact_class="live_overlay" requested_scope? active_for_surface=true priority_rank=10:1..20
			activated_at activated_by="user" overlay_body_hash candidate_id? note?`,
		reflect.TypeFor[OverlaySessionState](): `session_key revision:0.. active_overlays=[] hard_blocked_pairs=[] warnings=[] prompt_packet_hash?
			force_refresh_next_turn=false pending_refresh_reason? last_applied_revision?:0.. last_applied_packet_hash? last_applied_at? last_refresh_at?
			last_refresh_reason? last_trimmed_overlay_ids=[] updated_at updated_by="system"`,
		reflect.TypeFor[PinnedOverlayStore](): `scope workspace_id? overlay_ids=[] updated_at updated_by="user"`,
		reflect.TypeFor[OverlayRuntimeTruthSummary](): `session_key revision:0.. requested_overlay_ids=[] applied_overlay_ids=[] dropped_overlay_ids=[]
			drop_reasons_by_overlay={} packet_hash? refresh_reason? generated_at? applied_at?`,
		reflect.TypeFor[OverlayDispatchOverride](): `mode="none" overlay_ids=[] clear_after_dispatch=true refresh_reason?`,
		reflect.TypeFor[OverlayReanswerPlan](): `plan_id session_key selected_message_ids>=1 context_mode="selected_turns_only" overlay_override
			keep_overlay_active_after_dispatch=false prompt_seed="Re-answertheselectedturnsusingtheselectedoverlayconstraints." created_at expires_at`,
		reflect.TypeFor[OverlaySessionResponse](): `session_state prompt_truth_available=false runtime_truth?`,
		reflect.TypeFor[OverlayPromptBlock]():     `overlay_id title body body_hash artifact_class priority_rank:1..20 token_estimate:1.. position_hint source`,
		reflect.TypeFor[OverlayPromptPacket](): `session_key revision:0.. requested_overlay_ids overlay_blocks=[] warnings=[] estimated_total_tokens=0:0.. soft_budget=800:1..
			hard_budget=1200:1.. packet_hash refresh_reason? generated_at`,
		reflect.TypeFor[OverlayActivateRequest]():     `overlay_id pin_scope? source="manual"`,
		reflect.TypeFor[OverlayRefreshRequest]():      `reason="manual"`,
		reflect.TypeFor[OverlayReanswerPlanRequest](): `selected_message_ids>=1 context_mode="selected_turns_only" override_mode="use_active_overlays" overlay_ids=[] keep_overlay_active_after_dispatch=false`,
		reflect.TypeFor[OverlayFeedback](): `feedback_id overlay_id workspace_id session_key thread_id? active_overlay_ids=[] response_rating? overlay_helpfulness_rating?
			failure_category? comment? created_at`,
		reflect.TypeFor[OverlayRegistryEvent](): `event_type overlay_id? prompt_recipe_id? body_hash? created_at`,
	}
	for typ, spec := range want {
		specified := strings.Fields(spec)
		fields := fieldsOf(typ).ordered
		if len(fields) < len(specified) {
			t.Errorf("R-CON-02 %s has %d fields, %d are specified", typ.Name(), len(fields), len(specified))
			continue
		}
		for i, s := range specified { // additions come after the specified fields
			if got := describeField(typ, fields[i]); got != s {
				t.Errorf("R-CON-02 %s field %d: got %s, want %s", typ.Name(), i+1, got, s)
			}
		}
		for _, f := range fields[len(specified):] {
			if !f.rules.optional && !f.rules.hasDefault && !f.rules.server && typ != reflect.TypeFor[PromptCandidate]() {
				t.Errorf("R-CON-12 %s.%s was added and is required", typ.Name(), f.name)
			}
		}
	}
}

func describeField(typ reflect.Type, f field) string {
	s := f.name
	if f.rules.optional {
		s += "?"
	}
	if f.rules.hasDefault {
		s += "=" + strings.ReplaceAll(f.rules.defaultJSON, " ", "")
	}
	if f.rules.minItems != nil && *f.rules.minItems > 0 {
		s += fmt.Sprintf(">=%d", *f.rules.minItems)
	}
	if f.rules.minimum != nil {
		s += ":" + trim(*f.rules.minimum) + ".."
		if f.rules.maximum != nil {
			s += trim(*f.rules.maximum)
		}
	}
	return s
}
