package contracts

// OverlayRuntimeTruthSummary is what the prompt plan's side did with a packet in
// one turn.
type OverlayRuntimeTruthSummary struct {
	SessionKey           OverlaySessionKey      `json:"session_key"`
	Revision             int                    `json:"revision" minimum:"0"`
	RequestedOverlayIDs  List[OverlayID]        `json:"requested_overlay_ids" default:"[]" maxItems:"256"`
	AppliedOverlayIDs    List[OverlayID]        `json:"applied_overlay_ids" default:"[]" maxItems:"256"`
	DroppedOverlayIDs    List[OverlayID]        `json:"dropped_overlay_ids" default:"[]" maxItems:"256"`
	DropReasonsByOverlay Map[OverlayDropReason] `json:"drop_reasons_by_overlay" default:"{}"`
	PacketHash           string                 `json:"packet_hash,omitempty" maxLength:"64"` // as issued
	RefreshReason        OverlayRefreshReason   `json:"refresh_reason,omitempty"`
	GeneratedAt          *Time                  `json:"generated_at,omitempty"`
	AppliedAt            *Time                  `json:"applied_at,omitempty"`

	TotalOverlayTokens int                         `json:"total_overlay_tokens,omitempty" minimum:"0"`
	TotalPromptTokens  int                         `json:"total_prompt_tokens,omitempty" minimum:"0"`    // of the whole prompt, estimated
	AppliedPacketHash  string                      `json:"applied_packet_hash,omitempty" maxLength:"64"` // after trimming
	OverrideMode       OverlayDispatchOverrideMode `json:"override_mode,omitempty"`
	ReanswerPlanID     UUID                        `json:"reanswer_plan_id,omitempty"`
	TurnID             string                      `json:"turn_id,omitempty" maxLength:"200"`
	CandidateIDs       List[UUID]                  `json:"candidate_ids,omitempty" maxItems:"256"`
	PathID             string                      `json:"path_id,omitempty" maxLength:"64"` // which way of composing
	SourcesByOverlay   Map[string]                 `json:"sources_by_overlay,omitempty"`     // the layer each one came from
	TokensByOverlay    Map[int]                    `json:"tokens_by_overlay,omitempty"`      // of each text that was there to be applied
	BodyHashByOverlay  Map[string]                 `json:"body_hash_by_overlay,omitempty"`   // likewise
	DroppedBy          Map[string]                 `json:"dropped_by,omitempty"`             // ec, before the packet; prompt_plan, when the prompt was composed
	Model              string                      `json:"model,omitempty" maxLength:"200"`
	TaskType           string                      `json:"task_type,omitempty" maxLength:"200"`
}

// Who dropped an overlay from a turn.
const (
	DroppedByEC   = "ec"
	DroppedByPlan = "prompt_plan"
)

// OverlayExplanation says in a sentence why an overlay is in the next packet or
// out of it.
type OverlayExplanation struct {
	OverlayID OverlayID               `json:"overlay_id"`
	Title     string                  `json:"title"`
	In        bool                    `json:"in"` // the next packet will hold it
	Code      string                  `json:"code"`
	Sentence  string                  `json:"sentence"`
	Source    OverlayActivationSource `json:"source,omitempty"`
	PinScopes List[OverlayPinScope]   `json:"pin_scopes" default:"[]"`
	Tokens    int                     `json:"tokens" minimum:"0"`
	BodyHash  string                  `json:"body_hash,omitempty"`
	LastTurn  string                  `json:"last_turn,omitempty" enum:"applied,dropped"` // what the last receipt says
}

// OverlayExplanations explain a session.
type OverlayExplanations struct {
	SessionKey  OverlaySessionKey        `json:"session_key"`
	Revision    int                      `json:"revision" minimum:"0"`
	PacketHash  string                   `json:"packet_hash,omitempty"`
	TotalTokens int                      `json:"total_tokens" minimum:"0"`
	SoftBudget  int                      `json:"soft_budget"`
	HardBudget  int                      `json:"hard_budget"`
	Items       List[OverlayExplanation] `json:"items"`
	Warnings    List[string]             `json:"warnings"`
}

// OverlayBriefFacts is what a running brief or a handoff says of a session.
type OverlayBriefFacts struct {
	SessionKey       OverlaySessionKey  `json:"session_key"`
	Revision         int                `json:"revision" minimum:"0"`
	ActiveOverlayIDs List[OverlayID]    `json:"active_overlay_ids"`
	PromptRecipeID   UUID               `json:"prompt_recipe_id,omitempty"`
	CandidateIDs     List[UUID]         `json:"candidate_ids"`
	EvidenceLabels   Map[EvidenceLabel] `json:"evidence_labels"` // of overlays that came from the lab
}

// RegistryFeed is a page of registry events in the order they happened.
type RegistryFeed struct {
	Events List[RegistryEntry] `json:"events"`
	Next   uint64              `json:"next"` // ask for what comes after this
}

// RegistryEntry is one event with its place in the feed.
type RegistryEntry struct {
	Cursor uint64               `json:"cursor"`
	Event  OverlayRegistryEvent `json:"event"`
}

// OverlayFeedback is what a person thinks of an overlay's work.
type OverlayFeedback struct {
	FeedbackID               UUID              `json:"feedback_id"`
	OverlayID                OverlayID         `json:"overlay_id"`
	WorkspaceID              string            `json:"workspace_id" minLength:"1" maxLength:"200"`
	SessionKey               OverlaySessionKey `json:"session_key"`
	ThreadID                 string            `json:"thread_id,omitempty" maxLength:"200"`
	ActiveOverlayIDs         List[OverlayID]   `json:"active_overlay_ids" default:"[]" maxItems:"64"`
	ResponseRating           string            `json:"response_rating,omitempty" enum:"positive,negative,neutral"`
	OverlayHelpfulnessRating string            `json:"overlay_helpfulness_rating,omitempty" enum:"helpful,not_helpful"`
	FailureCategory          string            `json:"failure_category,omitempty" enum:"ignored_instructions,missed_context,hallucination_or_format_error,too_verbose,wrong_mode,other"`
	Comment                  string            `json:"comment,omitempty" maxLength:"4000"`
	CreatedAt                Time              `json:"created_at" server:"true"`
	GroupID                  UUID              `json:"group_id,omitempty"` // one opinion on several overlays
}

// OverlaySignal is something that a person did from which an opinion may follow.
type OverlaySignal struct {
	SignalID         UUID              `json:"signal_id"`
	Kind             string            `json:"kind" enum:"correction_followup,manual_abort,apply_with_edits,retry_other_overlays,model_switch,zero_copy"`
	Confidence       string            `json:"confidence" server:"true" enum:"high,low"`
	SessionKey       OverlaySessionKey `json:"session_key"`
	TurnID           string            `json:"turn_id,omitempty" maxLength:"200"`
	ActiveOverlayIDs List[OverlayID]   `json:"active_overlay_ids" default:"[]" maxItems:"64"`
	Measure          *float64          `json:"measure,omitempty" minimum:"0"` // such as an edit distance
	ApplyMetrics     bool              `json:"apply_metrics" default:"false"` // the surface measures what is applied
	CreatedAt        Time              `json:"created_at" server:"true"`
}

// SignalAck says what became of feedback or a signal.
type SignalAck struct {
	ID       UUID `json:"id"`
	Recorded bool `json:"recorded"` // false: it was there already
}

// SignalContext holds the facts by which signals are matched. Unknown facts say
// so; such rows join no stratum.
type SignalContext struct {
	TaskType         string           `json:"task_type" default:"unknown"`
	Model            string           `json:"model" default:"unknown"`
	SurfaceKind      SupportedSurface `json:"surface_kind"`
	WorkspaceID      string           `json:"workspace_id"`
	ActiveOverlayIDs List[OverlayID]  `json:"active_overlay_ids" default:"[]"`
	PromptRecipeID   string           `json:"prompt_recipe_id" default:"unknown"`
	Baseline         string           `json:"baseline" default:"unknown" enum:"yes,no,unknown"` // no overlay was applied
	Revision         *int             `json:"revision,omitempty" minimum:"0"`
	TurnID           string           `json:"turn_id,omitempty"`
}
