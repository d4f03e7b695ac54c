package contracts

// Enum is a closed set of string values, in their declared order.
type Enum interface{ Values() []string }

// PromptArtifactKind is what an optimizer or a reviewer can be asked about.
type PromptArtifactKind string

// The artifact kinds.
const (
	KindOverlay         PromptArtifactKind = "overlay_template"
	KindRecipe          PromptArtifactKind = "prompt_recipe"
	KindRewriteTemplate PromptArtifactKind = "prompt_advisor_rewrite"
	KindRoomRolePrompt  PromptArtifactKind = "room_role_prompt"
)

// Values lists the set.
func (PromptArtifactKind) Values() []string {
	return []string{"overlay_template", "prompt_recipe", "prompt_advisor_rewrite", "room_role_prompt"}
}

// OverlayArtifactClass says how an overlay may be used.
type OverlayArtifactClass string

// The overlay classes.
const (
	ClassLive     OverlayArtifactClass = "live_overlay"
	ClassAdvisor  OverlayArtifactClass = "advisor_protocol"
	ClassPostTask OverlayArtifactClass = "post_task_template"
)

// Values lists the set.
func (OverlayArtifactClass) Values() []string {
	return []string{"live_overlay", "advisor_protocol", "post_task_template"}
}

// OverlayCategory groups overlays by kind of work.
type OverlayCategory string

// Values lists the set.
func (OverlayCategory) Values() []string {
	return []string{"quality", "analysis", "legal", "coding", "creative", "strategy", "architecture", "review", "debrief"}
}

// OverlayVisibilityTier says where the library shows an overlay.
type OverlayVisibilityTier string

// The tiers.
const (
	TierCore     OverlayVisibilityTier = "core"
	TierAdvanced OverlayVisibilityTier = "advanced"
	TierHidden   OverlayVisibilityTier = "hidden"
)

// Values lists the set.
func (OverlayVisibilityTier) Values() []string { return []string{"core", "advanced", "hidden"} }

// SupportedSurface is a place where prompt text can act.
type SupportedSurface string

// The surfaces.
const (
	SurfaceChat     SupportedSurface = "chat"
	SurfaceRoom     SupportedSurface = "room"
	SurfacePanel    SupportedSurface = "panel"
	SurfaceTask     SupportedSurface = "task"
	SurfaceAdvisor  SupportedSurface = "prompt_advisor"
	SurfacePostTask SupportedSurface = "post_task"
)

// Values lists the set.
func (SupportedSurface) Values() []string {
	return []string{"chat", "room", "panel", "task", "prompt_advisor", "post_task"}
}

// ModelClass is a coarse family of models.
type ModelClass string

// Values lists the set.
func (ModelClass) Values() []string {
	return []string{"reasoning_native", "general_chat", "code_specialist", "unknown"}
}

// OverlayPinScope is how far a pin reaches.
type OverlayPinScope string

// The scopes, from the narrowest to the widest.
const (
	PinThread    OverlayPinScope = "thread"    // this session
	PinWorkspace OverlayPinScope = "workspace" // every new session of the workspace
	PinUntilOff  OverlayPinScope = "until_off" // every new session
)

// Values lists the set.
func (OverlayPinScope) Values() []string { return []string{"thread", "workspace", "until_off"} }

// OverlayActivationSource says what put an overlay into a session.
type OverlayActivationSource string

// The sources. A client may name the first two; the others are EC's.
const (
	FromManual       OverlayActivationSource = "manual"
	FromRecommended  OverlayActivationSource = "recommended"
	FromWorkspacePin OverlayActivationSource = "workspace_pin"
	FromGlobalPin    OverlayActivationSource = "global_pin"
	FromRoom         OverlayActivationSource = "room_default"
	FromModerator    OverlayActivationSource = "moderator_default"
	FromTask         OverlayActivationSource = "task_default"
	FromCanary       OverlayActivationSource = "candidate_canary"
)

// Values lists the set.
func (OverlayActivationSource) Values() []string {
	return []string{"manual", "recommended", "workspace_pin", "global_pin", "room_default", "moderator_default", "task_default", "candidate_canary"}
}

// OverlayAdviceState says whether advice could be had.
type OverlayAdviceState string

// Values lists the set.
func (OverlayAdviceState) Values() []string { return []string{"available", "degraded", "unavailable"} }

// OverlayRefreshReason says why a packet was built anew.
type OverlayRefreshReason string

// The reasons.
const (
	RefreshManual       OverlayRefreshReason = "manual"
	RefreshModelSwitch  OverlayRefreshReason = "model_switch"
	RefreshCompaction   OverlayRefreshReason = "compaction"
	RefreshTrim         OverlayRefreshReason = "packet_trim"
	RefreshRehydrate    OverlayRefreshReason = "session_rehydrate"
	RefreshActivation   OverlayRefreshReason = "activation_change"
	RefreshDeactivation OverlayRefreshReason = "deactivation_change"
)

// Values lists the set.
func (OverlayRefreshReason) Values() []string {
	return []string{"manual", "model_switch", "compaction", "packet_trim", "session_rehydrate", "activation_change", "deactivation_change"}
}

// ReanswerContextMode says which history a re-answer takes along.
type ReanswerContextMode string

// The modes.
const (
	ContextClean    ReanswerContextMode = "clean_context"        // the question alone
	ContextSelected ReanswerContextMode = "selected_turns_only"  // the selected messages
	ContextThread   ReanswerContextMode = "thread_plus_selected" // the whole thread
)

// Values lists the set.
func (ReanswerContextMode) Values() []string {
	return []string{"clean_context", "selected_turns_only", "thread_plus_selected"}
}

// OverlayDispatchOverrideMode says which overlays one dispatch uses.
type OverlayDispatchOverrideMode string

// The modes.
const (
	OverrideNone       OverlayDispatchOverrideMode = "none"
	OverrideUseActive  OverlayDispatchOverrideMode = "use_active_overlays"
	OverrideOneTime    OverlayDispatchOverrideMode = "one_time_overlay_only"
	OverrideActivePlus OverlayDispatchOverrideMode = "use_active_plus_one_time_overlay"
)

// Values lists the set.
func (OverlayDispatchOverrideMode) Values() []string {
	return []string{"none", "use_active_overlays", "one_time_overlay_only", "use_active_plus_one_time_overlay"}
}

// OverlayDropReason says why an overlay that was asked for was not applied.
type OverlayDropReason string

// The drop reasons.
const (
	DropHardBudget  OverlayDropReason = "hard_budget"
	DropArchived    OverlayDropReason = "archived"
	DropConflict    OverlayDropReason = "hard_conflict"
	DropSurface     OverlayDropReason = "surface_unsupported"
	DropUnavailable OverlayDropReason = "packet_unavailable"
	DropSeam        OverlayDropReason = "seam_policy"
)

// Values lists the set.
func (OverlayDropReason) Values() []string {
	return []string{"hard_budget", "archived", "hard_conflict", "surface_unsupported", "packet_unavailable", "seam_policy"}
}

// EvidenceLabel is what measurement says about a text.
type EvidenceLabel string

// The labels.
const (
	LabelNone        EvidenceLabel = "no_local_evidence"
	LabelPromising   EvidenceLabel = "promising"
	LabelEstablished EvidenceLabel = "established"
	LabelNeedsTuning EvidenceLabel = "needs_tuning"
)

// Values lists the set.
func (EvidenceLabel) Values() []string {
	return []string{"no_local_evidence", "promising", "established", "needs_tuning"}
}

// PromptOptimizationBackend is an optimizer family.
type PromptOptimizationBackend string

// The backends.
const (
	BackendPromptolution PromptOptimizationBackend = "promptolution"
	BackendDSPy          PromptOptimizationBackend = "dspy"
)

// Values lists the set.
func (PromptOptimizationBackend) Values() []string { return []string{"promptolution", "dspy"} }

// PromptLabJobStatus is where a job stands.
type PromptLabJobStatus string

// The statuses.
const (
	JobQueued    PromptLabJobStatus = "queued"
	JobRunning   PromptLabJobStatus = "running"
	JobCompleted PromptLabJobStatus = "completed"
	JobFailed    PromptLabJobStatus = "failed"
	JobCancelled PromptLabJobStatus = "cancelled"
	JobStale     PromptLabJobStatus = "stale"
)

// Values lists the set.
func (PromptLabJobStatus) Values() []string {
	return []string{"queued", "running", "completed", "failed", "cancelled", "stale"}
}

// Terminal says whether the status never changes again.
func (s PromptLabJobStatus) Terminal() bool { return s != JobQueued && s != JobRunning }

// JobRequestReason says what a job is for.
type JobRequestReason string

// The reasons.
const (
	ReasonManual   JobRequestReason = "manual_test"
	ReasonNightly  JobRequestReason = "nightly_proposal_eval"
	ReasonRetest   JobRequestReason = "candidate_retest"
	ReasonFollowup JobRequestReason = "canary_followup"
)

// Values lists the set.
func (JobRequestReason) Values() []string {
	return []string{"manual_test", "nightly_proposal_eval", "candidate_retest", "canary_followup"}
}

// OverlaySource says who owns an overlay's text.
type OverlaySource string

// The sources.
const (
	SourcePreset OverlaySource = "preset"
	SourceUser   OverlaySource = "user"
)

// Values lists the set.
func (OverlaySource) Values() []string { return []string{"preset", "user"} }

// JobPhase is what a running job does.
type JobPhase string

// The phases.
const (
	PhaseOptimizing JobPhase = "optimizing"
	PhaseMeasuring  JobPhase = "measuring"
)

// Values lists the set.
func (JobPhase) Values() []string { return []string{"optimizing", "measuring"} }

// TaskKind is a kind of work for a worker.
type TaskKind string

// The task kinds.
const (
	TaskOptimize TaskKind = "optimize"
	TaskMeasure  TaskKind = "measure"
	TaskCritique TaskKind = "critique"
)

// Values lists the set.
func (TaskKind) Values() []string { return []string{"optimize", "measure", "critique"} }

// Engine is a search algorithm of the optimizer.
type Engine string

// Values lists the set.
func (Engine) Values() []string { return []string{"auto", "capo", "evoprompt_ga", "opro", "gepa"} }

// CandidateState is where a candidate stands in review.
type CandidateState string

// The candidate states. A candidate is unmeasured until its job has measured it.
const (
	CandidateUnmeasured  CandidateState = "unmeasured"
	CandidatePending     CandidateState = "pending_review"
	CandidateRejected    CandidateState = "rejected"
	CandidateFailedGate  CandidateState = "failed_gate"
	CandidateInvalidated CandidateState = "invalidated"
)

// Values lists the set.
func (CandidateState) Values() []string {
	return []string{"unmeasured", "pending_review", "rejected", "failed_gate", "canary_approved", "canary_running", "promotion_ready", "promoted", "saved_as_version", "invalidated"}
}

// ModelRole is what a call to a model is for.
type ModelRole string

// The roles.
const (
	RoleChat    ModelRole = "chat"
	RoleRewrite ModelRole = "rewrite"
	RoleCritic  ModelRole = "critic"
	RoleJudge   ModelRole = "judge"
	RoleTask    ModelRole = "task"
	RoleMeta    ModelRole = "meta"
)

// Values lists the set.
func (ModelRole) Values() []string {
	return []string{"chat", "rewrite", "critic", "judge", "task", "meta"}
}

// EndedBy says what ended an optimizer's search.
type EndedBy string

// What can end a search.
const (
	EndedBySteps     EndedBy = "steps"
	EndedByBudget    EndedBy = "budget"
	EndedByCancel    EndedBy = "cancel"
	EndedByTimeLimit EndedBy = "time_limit"
	EndedByNoSeeds   EndedBy = "too_few_seeds"
)

// Values lists the set.
func (EndedBy) Values() []string {
	return []string{"steps", "budget", "cancel", "time_limit", "too_few_seeds"}
}

// RegistryEventType is a change that other systems may index.
type RegistryEventType string

// The registry events.
const (
	EventOverlayInstalled RegistryEventType = "overlay.installed"
	EventOverlayUpdated   RegistryEventType = "overlay.updated"
	EventOverlayArchived  RegistryEventType = "overlay.archived"
	EventOverlayRestored  RegistryEventType = "overlay.restored"
)

// Values lists the set.
func (RegistryEventType) Values() []string {
	return []string{"overlay.installed", "overlay.updated", "overlay.archived", "overlay.restored", "prompt_recipe.saved", "prompt_recipe.updated", "prompt_recipe.archived"}
}

// StructureLabels are the labels a classifier may give, in their declared order.
func StructureLabels() []string {
	return []string{"verification_checklist", "decomposition", "step_back", "pre_mortem", "counterargument", "creative_divergence", "legal_framework", "code_security", "spec_execution", "elicitation", "architecture_review", "verification_first", "diverse_sampling"}
}

// Failure codes of jobs. The first four are retried; the others are final, and
// so is any code that is not listed.
const (
	FailWorkerUnavailable  = "worker_unavailable"
	FailRateLimited        = "provider_rate_limited"
	FailTemporary          = "temporary_backend_error"
	FailDatasetLock        = "dataset_lock_contention"
	FailArtifactNotFound   = "artifact_not_found"
	FailUnsupportedKind    = "unsupported_artifact_kind"
	FailInvalidSource      = "invalid_source_text"
	FailSafetyLint         = "safety_lint_failure"
	FailStaleSource        = "stale_source_hash"
	FailTooFewExamples     = "insufficient_replay_examples"
	FailProviderTerminal   = "provider_terminal"
	FailPolicyRefused      = "policy_refused"
	FailSandboxUnavailable = "sandbox_unavailable"
)

// RetryableFailure says whether a job that failed with code is tried again.
func RetryableFailure(code string) bool {
	switch code {
	case FailWorkerUnavailable, FailRateLimited, FailTemporary, FailDatasetLock:
		return true
	default:
		return false
	}
}
