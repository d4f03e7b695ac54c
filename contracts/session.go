package contracts

// The rules of live sets.
const (
	SoftBudget          = 800  // estimated tokens of all live overlays of a session: more gives a warning
	HardBudget          = 1200 // more is refused
	RecommendedOverlays = 2    // more gives a notice
	MaxOverlays         = 3    // more needs an explicit override
)

// OverlayPair names two overlays that exclude each other.
type OverlayPair []OverlayID

// HardPairs are the pairs that the presets must declare as excluding each other.
func HardPairs() []OverlayPair {
	return []OverlayPair{
		{"creative-flow", "guided-verification"}, {"creative-flow", "dont-make-mistakes"}, {"creative-flow", "legal-strict"},
		{"creative-flow", "legal-research"}, {"spec-architect", "concise-executive"},
	}
}

// ActiveOverlay is one overlay of a session.
type ActiveOverlay struct {
	ActivationID     UUID                    `json:"activation_id"`
	OverlayID        OverlayID               `json:"overlay_id"`
	Source           OverlayActivationSource `json:"source"`
	ArtifactClass    OverlayArtifactClass    `json:"artifact_class" default:"live_overlay"`
	RequestedScope   OverlayPinScope         `json:"requested_scope,omitempty"`         // the widest of PinScopes
	ActiveForSurface bool                    `json:"active_for_surface" default:"true"` // false: in no packet, budget or count
	PriorityRank     int                     `json:"priority_rank" default:"10" minimum:"1" maximum:"20"`
	ActivatedAt      Time                    `json:"activated_at"`
	ActivatedBy      string                  `json:"activated_by" default:"user"`
	OverlayBodyHash  string                  `json:"overlay_body_hash"`
	CandidateID      UUID                    `json:"candidate_id,omitempty"`
	Note             string                  `json:"note,omitempty"`
	PinScopes        List[OverlayPinScope]   `json:"pin_scopes" default:"[]"`
	InertReason      string                  `json:"inert_reason,omitempty" enum:"surface_unsupported,hard_conflict,hard_budget,overlay_limit"`
	OneDispatch      bool                    `json:"one_dispatch,omitempty"` // leaves the session after the next dispatch
}

// OverlaySessionState is the live set of one session and where it stands.
type OverlaySessionState struct {
	SessionKey            OverlaySessionKey    `json:"session_key"`
	Revision              int                  `json:"revision" minimum:"0"`
	ActiveOverlays        List[ActiveOverlay]  `json:"active_overlays" default:"[]"`
	HardBlockedPairs      List[OverlayPair]    `json:"hard_blocked_pairs" default:"[]"`
	Warnings              List[string]         `json:"warnings" default:"[]"` // "code: text"
	PromptPacketHash      string               `json:"prompt_packet_hash,omitempty"`
	ForceRefreshNextTurn  bool                 `json:"force_refresh_next_turn" default:"false"`
	PendingRefreshReason  OverlayRefreshReason `json:"pending_refresh_reason,omitempty"`
	LastAppliedRevision   *int                 `json:"last_applied_revision,omitempty" minimum:"0"`
	LastAppliedPacketHash string               `json:"last_applied_packet_hash,omitempty"`
	LastAppliedAt         *Time                `json:"last_applied_at,omitempty"`
	LastRefreshAt         *Time                `json:"last_refresh_at,omitempty"`
	LastRefreshReason     OverlayRefreshReason `json:"last_refresh_reason,omitempty"`
	LastTrimmedOverlayIDs List[OverlayID]      `json:"last_trimmed_overlay_ids" default:"[]"`
	UpdatedAt             Time                 `json:"updated_at"`
	UpdatedBy             string               `json:"updated_by" default:"system"`
}

// PinnedOverlayStore holds the pins of a workspace or of all of them.
type PinnedOverlayStore struct {
	Scope       OverlayPinScope `json:"scope" enum:"workspace,until_off"`
	WorkspaceID string          `json:"workspace_id,omitempty"`
	OverlayIDs  List[OverlayID] `json:"overlay_ids" default:"[]"`
	UpdatedAt   Time            `json:"updated_at"`
	UpdatedBy   string          `json:"updated_by" default:"user"`
}

// OverlaySessionResponse is the answer to a read or a change of a session.
type OverlaySessionResponse struct {
	SessionState         OverlaySessionState         `json:"session_state"`
	PromptTruthAvailable bool                        `json:"prompt_truth_available" default:"false"`
	RuntimeTruth         *OverlayRuntimeTruthSummary `json:"runtime_truth,omitempty"`
	PostTaskOffers       List[PostTaskOffer]         `json:"post_task_offers" default:"[]"` // empty while a task runs
}

// PostTaskTrigger says why a post-task template is offered.
type PostTaskTrigger string

// The triggers.
const (
	OfferCompleted PostTaskTrigger = "completed"
	OfferFailed    PostTaskTrigger = "failed"
	OfferRequested PostTaskTrigger = "requested" // a person asks for a debrief
)

// Values lists every trigger.
func (PostTaskTrigger) Values() []string { return []string{"completed", "failed", "requested"} }

// PostTaskOffer is a post-task template that may be used now. It is never on in
// a session: whoever runs the debrief sends its text once.
type PostTaskOffer struct {
	OverlayID OverlayID       `json:"overlay_id"`
	Title     string          `json:"title"`
	Trigger   PostTaskTrigger `json:"trigger"`
}

// TaskStatus is where the task of a session stands.
type TaskStatus string

// The statuses.
const (
	TaskStarted   TaskStatus = "started"
	TaskCompleted TaskStatus = "completed"
	TaskFailed    TaskStatus = "failed"
)

// Values lists every status.
func (TaskStatus) Values() []string { return []string{"started", "completed", "failed"} }

// TaskReport says where the task of a session stands, from who runs it.
type TaskReport struct {
	SessionKey OverlaySessionKey `json:"session_key"`
	Status     TaskStatus        `json:"status"`
}

// OverlayActivateRequest turns an overlay on.
type OverlayActivateRequest struct {
	OverlayID     OverlayID               `json:"overlay_id"`
	PinScope      OverlayPinScope         `json:"pin_scope,omitempty"`
	Source        OverlayActivationSource `json:"source" default:"manual"`
	OverrideLimit bool                    `json:"override_limit" default:"false"` // more than MaxOverlays, on purpose
}

// OverlayDeactivateRequest turns an overlay off.
type OverlayDeactivateRequest struct {
	OverlayID OverlayID `json:"overlay_id"`
}

// OverlayPinRequest sets or removes a pin.
type OverlayPinRequest struct {
	OverlayID OverlayID       `json:"overlay_id"`
	PinScope  OverlayPinScope `json:"pin_scope"`
}

// OverlayRefreshRequest asks for a new packet at the next turn.
type OverlayRefreshRequest struct {
	Reason OverlayRefreshReason `json:"reason" default:"manual"`
}

// OverlayBootstrapRequest starts a session and may carry overlays over from the
// session immediately before.
type OverlayBootstrapRequest struct {
	CarryFrom       *OverlaySessionKey `json:"carry_from,omitempty"`
	CarryOverlayIDs List[OverlayID]    `json:"carry_overlay_ids" default:"[]" maxItems:"64"`
}

// OverlaySessionEvent is what the prompt plan's side saw happen to a session.
type OverlaySessionEvent struct {
	SessionKey OverlaySessionKey    `json:"session_key"`
	EventKind  OverlayRefreshReason `json:"event_kind" enum:"compaction,packet_trim,model_switch"`
	TurnID     string               `json:"turn_id,omitempty" maxLength:"200"`
}

// ModeratorDefaults are the overlays that a moderator brings along.
type ModeratorDefaults struct {
	ModeratorID string          `json:"moderator_id" minLength:"1" maxLength:"200"`
	OverlayIDs  List[OverlayID] `json:"overlay_ids" default:"[]" maxItems:"64"`
	AppliesTo   string          `json:"applies_to" default:"both" enum:"rooms,panels,both"`
	UpdatedAt   Time            `json:"updated_at,omitempty,omitzero" server:"true"` // never set: left out
	UpdatedBy   string          `json:"updated_by" default:"user" maxLength:"200"`
}

// SurfaceDefaults are the overlays that a room or task starts with, and the
// moderators whose defaults a room or panel has adopted. Without a surface_id
// they hold for every such surface of the workspace that has none of its own.
type SurfaceDefaults struct {
	WorkspaceID  string           `json:"workspace_id" minLength:"1" maxLength:"200"`
	SurfaceKind  SupportedSurface `json:"surface_kind" enum:"room,panel,task"`
	SurfaceID    string           `json:"surface_id,omitempty" maxLength:"200"`
	OverlayIDs   List[OverlayID]  `json:"overlay_ids" default:"[]" maxItems:"64"`
	ModeratorIDs List[string]     `json:"moderator_ids" default:"[]" maxItems:"16" itemMaxLength:"200"`
	UpdatedAt    Time             `json:"updated_at" server:"true"`
	UpdatedBy    string           `json:"updated_by" default:"user" maxLength:"200"`
}
