package contracts

// Shapes at the seams to the systems beside this one. Their own fields are no
// more here than what is needed; what is added to them is added, nothing of
// theirs changes type or meaning.

// The states of advice.
const (
	AdviceAvailable   OverlayAdviceState = "available"
	AdviceDegraded    OverlayAdviceState = "degraded" // asked for, and could not be had, or not in full
	AdviceUnavailable OverlayAdviceState = "unavailable"
)

// RoomLayer is where an instruction in a room comes from.
type RoomLayer string

// The layers, in order of precedence: what stands earlier wins.
const (
	LayerRoomRole        RoomLayer = "room_role_prompt"
	LayerParticipantRole RoomLayer = "participant_role_overlay"
	LayerRoomOverlay     RoomLayer = "room_overlay"    // defaults of the room and of its moderators
	LayerSessionOverlay  RoomLayer = "session_overlay" // pins, and what a person turned on
)

// Values lists the set.
func (RoomLayer) Values() []string {
	return []string{"room_role_prompt", "participant_role_overlay", "room_overlay", "session_overlay"}
}

// Room is a room as its owner keeps it: the role prompts, and who takes part with
// which overlays. What is on in the room is its session's, and is kept apart.
type Room struct {
	WorkspaceID  string                `json:"workspace_id" server:"true" maxLength:"200"`
	RoomID       string                `json:"room_id" server:"true" maxLength:"200"`
	RolePrompt   string                `json:"role_prompt,omitempty" maxLength:"32768"`
	Participants List[RoomParticipant] `json:"participants" default:"[]" maxItems:"64"`
	UpdatedAt    Time                  `json:"updated_at,omitempty,omitzero" server:"true"` // never set up: left out
	UpdatedBy    string                `json:"updated_by" default:"user" maxLength:"200"`
}

// RoomParticipant is one who takes part in a room, with a role.
type RoomParticipant struct {
	ParticipantID string          `json:"participant_id" minLength:"1" maxLength:"200"`
	RolePrompt    string          `json:"role_prompt,omitempty" maxLength:"32768"`
	OverlayIDs    List[OverlayID] `json:"overlay_ids" default:"[]" maxItems:"16"`
}

// RoomOverlay is one overlay in a room: which layer it came from, and whether
// that layer won.
type RoomOverlay struct {
	OverlayID OverlayID               `json:"overlay_id"`
	Layer     RoomLayer               `json:"layer"`
	Source    OverlayActivationSource `json:"source,omitempty"` // of the room's session; absent for a role's
	In        bool                    `json:"in"`
	Reason    string                  `json:"reason,omitempty"`  // why it is out: a drop reason, duplicate or unknown_overlay
	LostTo    OverlayID               `json:"lost_to,omitempty"` // the overlay of an earlier layer that is in its way
	Title     string                  `json:"title,omitempty"`
	Body      string                  `json:"body,omitempty"` // of a role's overlay; the others' are in the packet
	BodyHash  string                  `json:"body_hash,omitempty"`
	Tokens    int                     `json:"tokens" minimum:"0"`
}

// RoomParticipantState is what one participant's turn is composed with, in order
// of precedence.
type RoomParticipantState struct {
	ParticipantID string            `json:"participant_id"`
	RolePrompt    string            `json:"role_prompt,omitempty"`
	Overlays      List[RoomOverlay] `json:"overlays"`
}

// RoomState is the overlays of a room, and apart from them those of each who
// takes part. Where the rooms' system is away the participants are not known,
// and rooms_state says so.
type RoomState struct {
	SessionKey   OverlaySessionKey          `json:"session_key"`
	Revision     int                        `json:"revision" minimum:"0"`
	RoomsState   OverlayAdviceState         `json:"rooms_state"`
	RolePrompt   string                     `json:"role_prompt,omitempty"`
	Overlays     List[RoomOverlay]          `json:"overlays"`
	Participants List[RoomParticipantState] `json:"participants"`
}

// ModeratorIntervention is what a moderator did in a room or panel. It may say
// which overlays it is about.
type ModeratorIntervention struct {
	InterventionID UUID              `json:"intervention_id"`
	ModeratorID    string            `json:"moderator_id" minLength:"1" maxLength:"200"`
	SessionKey     OverlaySessionKey `json:"session_key"`
	Kind           string            `json:"kind" minLength:"1" maxLength:"100"`
	CreatedAt      Time              `json:"created_at"`
	OverlayIDs     List[OverlayID]   `json:"overlay_ids" default:"[]" maxItems:"64"`
}

// RouteFacts are what a router may know of a session.
type RouteFacts struct {
	SessionKey       OverlaySessionKey           `json:"session_key"`
	SessionRevision  *int                        `json:"session_revision,omitempty" minimum:"0"` // absent: no such session yet
	OverlayState     OverlayAdviceState          `json:"overlay_state" default:"unavailable"`    // degraded: applied is not known
	ActiveOverlayIDs List[OverlayID]             `json:"active_overlay_ids" default:"[]"`
	OverrideMode     OverlayDispatchOverrideMode `json:"override_mode,omitempty"`
	ReanswerPlanID   UUID                        `json:"reanswer_plan_id,omitempty"`
}

// ContextFacts are what recommendations may be made from.
type ContextFacts struct {
	SessionKey         OverlaySessionKey  `json:"session_key"`
	ActiveOverlayIDs   List[OverlayID]    `json:"active_overlay_ids" default:"[]"`
	PromptRecipeID     UUID               `json:"prompt_recipe_id,omitempty"`
	ConfigurationTuple ConfigurationTuple `json:"configuration_tuple"`
}

// ConfigurationTuple names what a turn ran with.
type ConfigurationTuple struct {
	Model       string           `json:"model" default:"unknown" maxLength:"200"`
	TaskType    string           `json:"task_type" default:"unknown" maxLength:"200"`
	WorkspaceID string           `json:"workspace_id" maxLength:"200"`
	SurfaceKind SupportedSurface `json:"surface_kind"`

	ActiveOverlayIDs  List[OverlayID] `json:"active_overlay_ids" default:"[]"`
	PromptRecipeID    UUID            `json:"prompt_recipe_id,omitempty"`
	PromptArtifactIDs List[string]    `json:"prompt_artifact_ids" default:"[]"` // kind:id of every reusable text in the turn
}

// ArtifactRef names a reusable text in a configuration tuple.
func ArtifactRef(kind PromptArtifactKind, id string) string { return string(kind) + ":" + id }

// PromptImprovementHint is one way to make a prompt better.
type PromptImprovementHint struct {
	HintID UUID   `json:"hint_id"`
	Kind   string `json:"kind" enum:"structure,constraint,verification,context,format,overlay,recipe"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
}

// ResolvedOperation is what retrieval says of an operation. Its last five fields
// are ours; one that nobody filled says that advice could not be had.
type ResolvedOperation struct {
	OperationID string `json:"operation_id" minLength:"1" maxLength:"200"`

	SuggestedOverlayIDs         List[OverlayID]             `json:"suggested_overlay_ids" default:"[]"`
	SuggestedPromptRecipeIDs    List[UUID]                  `json:"suggested_prompt_recipe_ids" default:"[]"`
	PromptImprovementHints      List[PromptImprovementHint] `json:"prompt_improvement_hints" default:"[]"`
	OverlayAdviceState          OverlayAdviceState          `json:"overlay_advice_state" default:"unavailable"`
	PromptRecipeSuggestionState OverlayAdviceState          `json:"prompt_recipe_suggestion_state" default:"unavailable"`
}

// Observation is one sign of how a prompt artifact did, for systems that learn or
// repair. It holds no text.
type Observation struct {
	Cursor           uint64             `json:"cursor"`
	ObservationID    UUID               `json:"observation_id"`
	RecordKind       string             `json:"record_kind" enum:"feedback,implicit"`
	ArtifactKind     PromptArtifactKind `json:"artifact_kind"`
	ArtifactID       string             `json:"artifact_id,omitempty"` // absent: of the whole set
	Failure          bool               `json:"failure"`
	FailureCategory  string             `json:"failure_category,omitempty"`
	Signal           string             `json:"signal,omitempty"`
	Confidence       string             `json:"confidence" enum:"high,low"`
	ActiveOverlayIDs List[OverlayID]    `json:"active_overlay_ids" default:"[]"`
	PromptRecipeID   UUID               `json:"prompt_recipe_id,omitempty"`
	Context          SignalContext      `json:"context"`
	CreatedAt        Time               `json:"created_at"`
}

// ObservationFeed is a page of observations in the order they came.
type ObservationFeed struct {
	Items  List[Observation] `json:"items"`
	Next   uint64            `json:"next"`   // ask for what comes after this
	Missed bool              `json:"missed"` // older ones that were asked for are in the stream's file only
}

// RoomList lists the rooms that something is set up for.
type RoomList struct {
	Items List[Room] `json:"items"`
	Total int        `json:"total" minimum:"0"`
}

// SurfaceDefaultsList lists what rooms, panels and tasks start with.
type SurfaceDefaultsList struct {
	Items List[SurfaceDefaults] `json:"items"`
	Total int                   `json:"total" minimum:"0"`
}
