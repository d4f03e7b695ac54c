package contracts

// PromptLabJob is a request to search for a better text of one saved artifact,
// and what became of it.
type PromptLabJob struct {
	JobID             UUID                      `json:"job_id" format:"uuid" server:"true"`
	ArtifactKind      PromptArtifactKind        `json:"artifact_kind"`
	ArtifactID        string                    `json:"artifact_id" minLength:"1" maxLength:"200"`
	Backend           PromptOptimizationBackend `json:"backend" client:"promptolution"`
	RequestReason     JobRequestReason          `json:"request_reason" client:"manual_test"`
	RequestedBy       string                    `json:"requested_by" default:"user" maxLength:"200"`
	DatasetRef        string                    `json:"dataset_ref,omitempty" maxLength:"200"`
	MinReplayExamples int                       `json:"min_replay_examples" default:"20" minimum:"1" maximum:"100000"`
	Status            PromptLabJobStatus        `json:"status" server:"true"`
	CreatedAt         Time                      `json:"created_at" server:"true"`
	UpdatedAt         Time                      `json:"updated_at" server:"true"`
	Options           *JobOptions               `json:"options,omitempty"`
	ProposalID        UUID                      `json:"proposal_id,omitempty" format:"uuid" server:"true"`
	Detail            *JobDetail                `json:"detail,omitempty" server:"true"`
}

// JobOptions are the choices a client has about a job.
type JobOptions struct {
	OptimizationGoal         string       `json:"optimization_goal,omitempty" maxLength:"4000"`
	MaxCandidates            int          `json:"max_candidates" default:"3" minimum:"1" maximum:"8"`
	PerJobBudgetUSD          float64      `json:"per_job_budget_usd" default:"0" minimum:"0" maximum:"10000"`
	BannedPhrases            List[string] `json:"banned_phrases" default:"[]" maxItems:"64" itemMaxLength:"1000"`
	PreserveRequiredSections List[string] `json:"preserve_required_sections" default:"[]" maxItems:"64" itemMaxLength:"1000"`
	Engine                   Engine       `json:"engine" default:"auto"`
	Seed                     int64        `json:"seed" default:"42" minimum:"0" maximum:"4294967295"`
	ModelRoute               string       `json:"model_route,omitempty" maxLength:"100"`
	MaxSteps                 int          `json:"max_steps" default:"4" minimum:"1" maximum:"50"`
}

// JobDetail is what EC knows about a job beyond the request.
type JobDetail struct {
	Phase          JobPhase            `json:"phase,omitempty"`
	SourceHash     string              `json:"source_hash"`
	ArtifactTitle  string              `json:"artifact_title"`
	Attempts       int                 `json:"attempts"`   // tries that ran: 1 + retries
	Deliveries     int                 `json:"deliveries"` // times a task was handed out, crashes included
	FailureCode    string              `json:"failure_code,omitempty"`
	FailureMessage string              `json:"failure_message,omitempty"`
	EndedBy        EndedBy             `json:"ended_by,omitempty"`
	Split          SplitInfo           `json:"split"`
	CriteriaHash   string              `json:"criteria_hash"`
	Optimizer      *OptimizerInfo      `json:"optimizer,omitempty"`
	Simulated      bool                `json:"simulated"`
	Usage          List[RoleUsage]     `json:"usage"`
	BudgetUSD      float64             `json:"budget_usd"`
	SpentUSD       float64             `json:"spent_usd"`
	Warnings       List[Warning]       `json:"warnings"`
	CandidateIDs   List[UUID]          `json:"candidate_ids"`
	FailedOutcomes List[FailedOutcome] `json:"failed_outcomes"`
	Control        *EvidenceBlock      `json:"control,omitempty"` // source against its own second run
	Notes          List[JobNote]       `json:"notes"`
	StartedAt      *Time               `json:"started_at,omitempty"`
	CompletedAt    *Time               `json:"completed_at,omitempty"`
}

// SplitInfo counts how a dataset was divided for a job.
type SplitInfo struct {
	Dev      int    `json:"dev"`
	Holdout  int    `json:"holdout"`
	Distinct int    `json:"distinct"`
	Hash     string `json:"hash"`
	Uses     int    `json:"uses"` // how often this holdout has been used, this job included
}

// OptimizerInfo says which optimizer really ran.
type OptimizerInfo struct {
	Name    string `json:"name" maxLength:"100"`
	Version string `json:"version" maxLength:"100"`
	Python  string `json:"python" maxLength:"100"`
	Engine  string `json:"engine" maxLength:"100"`
	Steps   int    `json:"steps"`
	Tried   int    `json:"tried" default:"0"` // distinct texts that were scored
}

// RoleUsage sums model calls by role.
type RoleUsage struct {
	Role         ModelRole `json:"role"`
	Calls        int       `json:"calls"`
	InputTokens  int64     `json:"input_tokens"`
	OutputTokens int64     `json:"output_tokens"`
	USD          float64   `json:"usd"`
	Unknown      int       `json:"unknown"` // calls whose usage nobody reported
}

// FailedOutcome is a candidate that was refused at ingest, kept without its text.
type FailedOutcome struct {
	CandidateHash string            `json:"candidate_hash"`
	Findings      List[GateFinding] `json:"findings"`
}

// GateFinding is one reason for or against a candidate.
type GateFinding struct {
	Rule     string `json:"rule"`
	Severity string `json:"severity" enum:"block,review,note"`
	Message  string `json:"message"`
}

// JobNote is an audit remark: a late result, a superseded delivery, a stale text.
type JobNote struct {
	At   Time   `json:"at"`
	Code string `json:"code"`
	Text string `json:"text"`
}

// PromptLabJobList is a list of jobs, newest first.
type PromptLabJobList struct {
	Items List[PromptLabJob] `json:"items"`
	Total int                `json:"total" minimum:"0"`
}

// ReplayExample is one example as an optimizer's worker sees it.
type ReplayExample struct {
	ExampleID      string   `json:"example_id" minLength:"1" maxLength:"200"`
	InputText      string   `json:"input_text" minLength:"1" maxLength:"65536"`
	ExpectedSignal string   `json:"expected_signal,omitempty" maxLength:"4096"`
	RubricRef      string   `json:"rubric_ref,omitempty" maxLength:"200"`
	Metadata       Map[any] `json:"metadata" default:"{}"`
}

// JobConstraints bind every candidate of a job.
type JobConstraints struct {
	MaxCandidates            int          `json:"max_candidates" default:"3" minimum:"1" maximum:"8"`
	PerJobBudgetUSD          float64      `json:"per_job_budget_usd" default:"0" minimum:"0"`
	BannedPhrases            List[string] `json:"banned_phrases" default:"[]"`
	PreserveRequiredSections List[string] `json:"preserve_required_sections" default:"[]"`
}

// PromptLabJobRequest is what EC asks a worker to do. Its examples are the
// development rows only.
type PromptLabJobRequest struct {
	JobID            UUID                      `json:"job_id" format:"uuid"`
	Backend          PromptOptimizationBackend `json:"backend"`
	ArtifactKind     PromptArtifactKind        `json:"artifact_kind"`
	ArtifactID       string                    `json:"artifact_id"`
	ArtifactTitle    string                    `json:"artifact_title"`
	SourceText       string                    `json:"source_text"`
	SourceHash       string                    `json:"source_hash"`
	WorkspaceID      string                    `json:"workspace_id"`
	RequestReason    JobRequestReason          `json:"request_reason"`
	OptimizationGoal string                    `json:"optimization_goal"`
	ReplayExamples   List[ReplayExample]       `json:"replay_examples" default:"[]"`
	Constraints      JobConstraints            `json:"constraints"`
	CreatedAt        Time                      `json:"created_at"`
	Engine           Engine                    `json:"engine,omitempty"`
	Seed             int64                     `json:"seed,omitempty"`
	MaxSteps         int                       `json:"max_steps,omitempty"`
	ModelRoute       string                    `json:"model_route,omitempty"`
	Rubric           string                    `json:"rubric,omitempty"`
	LiveOverlay      bool                      `json:"live_overlay,omitempty"` // the limit of live texts holds for candidates
}

// PromptLabCandidatePayload is a candidate as a worker claims it. EC recomputes
// hashes and ids.
type PromptLabCandidatePayload struct {
	CandidateID   UUID         `json:"candidate_id" format:"uuid"`
	CandidateText string       `json:"candidate_text" maxLength:"65536"`
	DeltaSummary  List[string] `json:"delta_summary" default:"[]" maxItems:"64" itemMaxLength:"1000"`
	SourceHash    string       `json:"source_hash" maxLength:"64"`
	CandidateHash string       `json:"candidate_hash" maxLength:"64"`
	BackendNotes  List[string] `json:"backend_notes" default:"[]" maxItems:"64" itemMaxLength:"1000"`
	SearchScore   *float64     `json:"search_score,omitempty" minimum:"0" maximum:"1"` // mean on development rows
}

// PromptLabReplaySummary is the short form of a measurement.
type PromptLabReplaySummary struct {
	ExamplesRun          int           `json:"examples_run" minimum:"0"`
	ExamplesSucceeded    int           `json:"examples_succeeded" minimum:"0"`
	EvidenceLabel        EvidenceLabel `json:"evidence_label"`
	LowerConfidenceBound *float64      `json:"lower_confidence_bound,omitempty" minimum:"0" maximum:"1"`
	JudgeNotes           List[string]  `json:"judge_notes" default:"[]" maxItems:"256" itemMaxLength:"1000"`
}

// PromptLabJobResult is what a worker returns for an optimize task.
type PromptLabJobResult struct {
	JobID          UUID                            `json:"job_id" format:"uuid"`
	Status         PromptLabJobStatus              `json:"status" enum:"completed,failed"`
	SourceHash     string                          `json:"source_hash" maxLength:"64"`
	Candidates     List[PromptLabCandidatePayload] `json:"candidates" default:"[]" maxItems:"64"`
	ReplaySummary  *PromptLabReplaySummary         `json:"replay_summary,omitempty"`
	FailureCode    string                          `json:"failure_code,omitempty" maxLength:"100"`
	FailureMessage string                          `json:"failure_message,omitempty" maxLength:"2000"`
	StartedAt      *Time                           `json:"started_at,omitempty"`
	CompletedAt    *Time                           `json:"completed_at,omitempty"`
	Optimizer      *OptimizerInfo                  `json:"optimizer,omitempty"`
	EndedBy        EndedBy                         `json:"ended_by,omitempty"`
	Warnings       List[Warning]                   `json:"warnings" default:"[]" maxItems:"64"`
	Simulated      bool                            `json:"simulated" default:"false"`
	SourceScore    *float64                        `json:"source_score,omitempty" minimum:"0" maximum:"1"`
}

// PromptCandidate is a proposed text that waits for a person.
type PromptCandidate struct {
	CandidateID        UUID                      `json:"candidate_id" format:"uuid"`
	ArtifactKind       PromptArtifactKind        `json:"artifact_kind"`
	ArtifactID         string                    `json:"artifact_id"`
	CandidateText      string                    `json:"candidate_text"`
	Backend            PromptOptimizationBackend `json:"backend"`
	EvidenceLabel      EvidenceLabel             `json:"evidence_label" default:"no_local_evidence"`
	ReplaySummaryRef   string                    `json:"replay_summary_ref,omitempty"`
	CanarySummaryRef   string                    `json:"canary_summary_ref,omitempty"`
	SourceJobID        UUID                      `json:"source_job_id" format:"uuid"`
	SourceArtifactHash string                    `json:"source_artifact_hash"`
	CreatedAt          Time                      `json:"created_at"`
	CandidateHash      string                    `json:"candidate_hash"`
	State              CandidateState            `json:"state"`
	StateReason        string                    `json:"state_reason,omitempty"`
	Reviewable         bool                      `json:"reviewable"`
	DeltaSummary       List[string]              `json:"delta_summary"`
	BackendNotes       List[string]              `json:"backend_notes"`
	Gates              List[GateFinding]         `json:"gates"`
	Evidence           *EvidenceBlock            `json:"evidence,omitempty"`
	LabelReasons       List[string]              `json:"label_reasons"`
	SearchScore        *float64                  `json:"search_score,omitempty"`
	Simulated          bool                      `json:"simulated"`
}

// PromptCandidateList is a list of candidates, newest first.
type PromptCandidateList struct {
	Items List[PromptCandidate] `json:"items"`
	Total int                   `json:"total" minimum:"0"`
}

// PromptCandidateDetail is a candidate beside the text it would replace.
type PromptCandidateDetail struct {
	Candidate     PromptCandidate         `json:"candidate"`
	SourceText    string                  `json:"source_text"`
	ReplaySummary *PromptLabReplaySummary `json:"replay_summary,omitempty"`
}

// EvidenceBlock is one paired comparison: difference is arm minus against;
// bounds are one-sided 95 % each.
type EvidenceBlock struct {
	Slice       string  `json:"slice,omitempty"`
	N           int     `json:"n"`
	MeanArm     float64 `json:"mean_arm"`
	MeanAgainst float64 `json:"mean_against"`
	Difference  float64 `json:"difference"`
	LowerBound  float64 `json:"lower_bound"`
	UpperBound  float64 `json:"upper_bound"`
	Verdict     string  `json:"verdict" enum:"improves,inconclusive,regresses"`
	Unscored    int     `json:"unscored"`
	Wins        int     `json:"wins"`
	Losses      int     `json:"losses"`
}

// Dataset is an immutable, versioned set of replay examples.
type Dataset struct {
	Name        string           `json:"name" maxLength:"64" pattern:"^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$"`
	Rows        List[DatasetRow] `json:"rows" minItems:"1" maxItems:"20000"`
	Rubric      string           `json:"rubric,omitempty" maxLength:"8000"`
	Version     int              `json:"version" server:"true"`
	DatasetRef  string           `json:"dataset_ref" server:"true"`
	ContentHash string           `json:"content_hash" server:"true"`
	CreatedAt   Time             `json:"created_at" server:"true"`
}

// DatasetRow is one example of a dataset. EC numbers rows that come without an id.
type DatasetRow struct {
	ExampleID      string   `json:"example_id,omitempty" maxLength:"200"`
	InputText      string   `json:"input_text" minLength:"1" maxLength:"65536"`
	ExpectedSignal string   `json:"expected_signal,omitempty" maxLength:"4096"`
	RubricRef      string   `json:"rubric_ref,omitempty" maxLength:"200"`
	Slice          string   `json:"slice,omitempty" maxLength:"100"`
	Metadata       Map[any] `json:"metadata" default:"{}"`
}

// DatasetSummary is a dataset without its rows.
type DatasetSummary struct {
	Name        string        `json:"name"`
	Version     int           `json:"version"`
	DatasetRef  string        `json:"dataset_ref"`
	Rows        int           `json:"rows"`
	Distinct    int           `json:"distinct"`
	ContentHash string        `json:"content_hash"`
	CreatedAt   Time          `json:"created_at"`
	Warnings    List[Warning] `json:"warnings"` // what is missing for a label
}

// DatasetList lists dataset versions.
type DatasetList struct {
	Items List[DatasetSummary] `json:"items"`
	Total int                  `json:"total" minimum:"0"`
}

// Flags are the lab's switches; all off on a fresh home.
type Flags struct {
	PromptLab              bool `json:"prompt_lab" default:"false"`
	Promptolution          bool `json:"promptolution" default:"false"`
	DSPy                   bool `json:"dspy" default:"false"`
	CandidateApply         bool `json:"candidate_apply" default:"false"`
	LearnedRecommendations bool `json:"learned_recommendations" default:"false"`
	NightlyCritic          bool `json:"nightly_critic" default:"false"`
}
