package contracts

// PositionHint is where overlay blocks go in a prompt.
const PositionHint = "after_workspace_before_heuristic"

// OverlayPromptBlock is one overlay's text with what it needs to be placed.
type OverlayPromptBlock struct {
	OverlayID     OverlayID               `json:"overlay_id"`
	Title         string                  `json:"title"`
	Body          string                  `json:"body"`
	BodyHash      string                  `json:"body_hash"`
	ArtifactClass OverlayArtifactClass    `json:"artifact_class"`
	PriorityRank  int                     `json:"priority_rank" minimum:"1" maximum:"20"`
	TokenEstimate int                     `json:"token_estimate" minimum:"1"`
	PositionHint  string                  `json:"position_hint" enum:"after_workspace_before_heuristic"`
	Source        OverlayActivationSource `json:"source"`
	CandidateID   UUID                    `json:"candidate_id,omitempty"`
}

// OverlayPromptPacket is what a turn is to be composed with. It is data, never
// a prompt.
type OverlayPromptPacket struct {
	SessionKey           OverlaySessionKey        `json:"session_key"`
	Revision             int                      `json:"revision" minimum:"0"`
	RequestedOverlayIDs  List[OverlayID]          `json:"requested_overlay_ids"`
	OverlayBlocks        List[OverlayPromptBlock] `json:"overlay_blocks" default:"[]"`
	Warnings             List[string]             `json:"warnings" default:"[]"`
	EstimatedTotalTokens int                      `json:"estimated_total_tokens" default:"0" minimum:"0"`
	SoftBudget           int                      `json:"soft_budget" default:"800" minimum:"1"`
	HardBudget           int                      `json:"hard_budget" default:"1200" minimum:"1"`
	PacketHash           string                   `json:"packet_hash"`
	RefreshReason        OverlayRefreshReason     `json:"refresh_reason,omitempty"`
	GeneratedAt          Time                     `json:"generated_at"`
	// Dropped names what was asked for and is in no block, with its reason.
	Dropped Map[OverlayDropReason] `json:"dropped,omitempty"`
	// OverrideMode and ReanswerPlanID mark a packet that is for one dispatch only.
	OverrideMode   OverlayDispatchOverrideMode `json:"override_mode,omitempty"`
	ReanswerPlanID UUID                        `json:"reanswer_plan_id,omitempty"`
}

// Hash computes packet_hash: of the session's identity, the blocks in order and
// the budgets. What does not reach the prompt (revision, times, reasons,
// warnings) is left out.
func (p OverlayPromptPacket) Hash() string {
	type block struct {
		OverlayID     OverlayID               `json:"overlay_id"`
		BodyHash      string                  `json:"body_hash"`
		Title         string                  `json:"title"`
		ArtifactClass OverlayArtifactClass    `json:"artifact_class"`
		PriorityRank  int                     `json:"priority_rank"`
		Source        OverlayActivationSource `json:"source"`
		PositionHint  string                  `json:"position_hint"`
	}
	blocks := List[block]{}
	for _, b := range p.OverlayBlocks {
		blocks = append(blocks, block{b.OverlayID, b.BodyHash, b.Title, b.ArtifactClass, b.PriorityRank, b.Source, b.PositionHint})
	}
	return HashBytes(canonicalJSON(map[string]any{
		"workspace_id": p.SessionKey.WorkspaceID, "surface_kind": p.SessionKey.SurfaceKind, "surface_id": p.SessionKey.SurfaceID,
		"overlay_blocks": blocks, "soft_budget": p.SoftBudget, "hard_budget": p.HardBudget,
	}))
}

// OverlayDispatchOverride says which overlays one dispatch uses instead of the
// session's.
type OverlayDispatchOverride struct {
	Mode               OverlayDispatchOverrideMode `json:"mode" default:"none"`
	OverlayIDs         List[OverlayID]             `json:"overlay_ids" default:"[]" maxItems:"16"`
	ClearAfterDispatch bool                        `json:"clear_after_dispatch" default:"true"`
	RefreshReason      OverlayRefreshReason        `json:"refresh_reason,omitempty"`
}

// OverlayReanswerPlan is a prepared second answer to selected turns. It names
// messages; it holds none.
type OverlayReanswerPlan struct {
	PlanID                         UUID                    `json:"plan_id"`
	SessionKey                     OverlaySessionKey       `json:"session_key"`
	SelectedMessageIDs             List[string]            `json:"selected_message_ids" minItems:"1" maxItems:"8" itemMaxLength:"200"`
	ContextMode                    ReanswerContextMode     `json:"context_mode" default:"selected_turns_only"`
	OverlayOverride                OverlayDispatchOverride `json:"overlay_override"`
	KeepOverlayActiveAfterDispatch bool                    `json:"keep_overlay_active_after_dispatch" default:"false"`
	PromptSeed                     string                  `json:"prompt_seed" default:"Re-answer the selected turns using the selected overlay constraints."`
	CreatedAt                      Time                    `json:"created_at"`
	ExpiresAt                      Time                    `json:"expires_at"`
}

// OverlayReanswerPlanRequest asks for a plan.
type OverlayReanswerPlanRequest struct {
	SelectedMessageIDs             List[string]                `json:"selected_message_ids" minItems:"1" maxItems:"8" itemMaxLength:"200"`
	ContextMode                    ReanswerContextMode         `json:"context_mode" default:"selected_turns_only"`
	OverrideMode                   OverlayDispatchOverrideMode `json:"override_mode" default:"use_active_overlays"`
	OverlayIDs                     List[OverlayID]             `json:"overlay_ids" default:"[]" maxItems:"16"`
	KeepOverlayActiveAfterDispatch bool                        `json:"keep_overlay_active_after_dispatch" default:"false"`
}
