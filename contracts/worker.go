package contracts

// TaskMessage is everything Redis ever carries: ids and a token, no text.
type TaskMessage struct {
	TaskID   UUID   `json:"task_id" format:"uuid"`
	Dispatch int    `json:"dispatch" minimum:"1"`
	Token    string `json:"token" minLength:"32" maxLength:"128"`
}

// TaskClaim asks for the work behind a message. A worker repeats it after a
// lost answer without harm.
type TaskClaim struct {
	Dispatch int    `json:"dispatch" minimum:"1"`
	Token    string `json:"token" minLength:"32" maxLength:"128"`
	Worker   string `json:"worker" maxLength:"200"`
}

// Task is the work that a claim hands out.
type Task struct {
	TaskID       UUID                `json:"task_id" format:"uuid"`
	JobID        UUID                `json:"job_id" format:"uuid"`
	Kind         TaskKind            `json:"kind"`
	Dispatch     int                 `json:"dispatch"`
	LeaseSeconds int                 `json:"lease_seconds"`
	LimitSeconds int                 `json:"limit_seconds"`
	Request      PromptLabJobRequest `json:"request"`
	Measure      *MeasurePlan        `json:"measure,omitempty"`
	Budget       TaskBudget          `json:"budget"`
	// Models says which models may answer; absent from an EC that keeps no registry.
	Models *ActiveModels `json:"models,omitempty"`
}

// TaskBudget is what the task may still borrow, in billionths of a dollar.
// PaidCalls false means price-0 targets only.
type TaskBudget struct {
	PaidCalls bool    `json:"paid_calls"`
	Left      NanoUSD `json:"left"`
}

// MeasurePlan says which texts are to be run on which sealed examples.
type MeasurePlan struct {
	Arms         List[MeasureArm]     `json:"arms"`
	Examples     List[ReplayExample]  `json:"examples"`
	Done         List[MeasurementKey] `json:"done"` // rows that EC already has
	CriteriaHash string               `json:"criteria_hash"`
}

// MeasureArm is one text under measurement. Source runs twice: runs 0 and 1 of
// arm "source"; run 1 is its own control.
type MeasureArm struct {
	Arm  string `json:"arm"` // "source" or a candidate's hash
	Text string `json:"text"`
	Runs int    `json:"runs"`
}

// MeasurementKey names one cell of a measurement.
type MeasurementKey struct {
	Arm       string `json:"arm" minLength:"1" maxLength:"64"`
	ExampleID string `json:"example_id" minLength:"1" maxLength:"200"`
	Run       int    `json:"run" minimum:"0" maximum:"16"`
}

// MeasurementRow is one scored (or unscored) answer. It holds no answer text.
type MeasurementRow struct {
	Arm        string   `json:"arm" minLength:"1" maxLength:"64"`
	ExampleID  string   `json:"example_id" minLength:"1" maxLength:"200"`
	Run        int      `json:"run" default:"0" minimum:"0" maximum:"16"`
	Score      *float64 `json:"score,omitempty" minimum:"0" maximum:"1"` // absent = unscored
	Reason     string   `json:"reason,omitempty" maxLength:"200"`        // why it is unscored
	MustFailed bool     `json:"must_failed" default:"false"`
	Model      string   `json:"model" default:"" maxLength:"200"`
	Simulated  bool     `json:"simulated" default:"false"`
}

// Key gives the row's cell.
func (r MeasurementRow) Key() MeasurementKey {
	return MeasurementKey{Arm: r.Arm, ExampleID: r.ExampleID, Run: r.Run}
}

// TaskHeartbeat keeps a lease and tells progress. It waits up to 10 s for news.
type TaskHeartbeat struct {
	Dispatch    int           `json:"dispatch" minimum:"1"`
	Token       string        `json:"token" minLength:"32" maxLength:"128"`
	Progress    *TaskProgress `json:"progress,omitempty"`
	WaitSeconds int           `json:"wait_seconds" default:"0" minimum:"0" maximum:"10"`
}

// TaskProgress is how far a task has come. It is not durable.
type TaskProgress struct {
	Phase   JobPhase `json:"phase"`
	Step    int      `json:"step" default:"0" minimum:"0"`
	Steps   int      `json:"steps" default:"0" minimum:"0"`
	Best    *float64 `json:"best,omitempty" minimum:"0" maximum:"1"`
	Mean    *float64 `json:"mean,omitempty" minimum:"0" maximum:"1"`
	Calls   int      `json:"calls" default:"0" minimum:"0"`
	Done    int      `json:"done" default:"0" minimum:"0"` // measured cells
	Total   int      `json:"total" default:"0" minimum:"0"`
	USD     float64  `json:"usd" default:"0" minimum:"0"`
	Message string   `json:"message,omitempty" maxLength:"200"`
}

// Task states in a TaskHeartbeatReply.
const (
	TaskRun    = "run"    // go on
	TaskCancel = "cancel" // stop at once; whatever comes later is a note
)

// TaskHeartbeatReply tells the worker whether to go on.
type TaskHeartbeatReply struct {
	State        string `json:"state" enum:"run,cancel"`
	LeaseSeconds int    `json:"lease_seconds"`
}

// TaskRows delivers measured rows. Rows that EC has already are ignored.
type TaskRows struct {
	Dispatch int                  `json:"dispatch" minimum:"1"`
	Token    string               `json:"token" minLength:"32" maxLength:"128"`
	Rows     List[MeasurementRow] `json:"rows" minItems:"1" maxItems:"1000"`
}

// TaskUsage delivers usage rows and borrows budget. Rows are deduplicated by
// attempt id; a borrow is deduplicated by its id.
type TaskUsage struct {
	Dispatch int            `json:"dispatch" minimum:"1"`
	Token    string         `json:"token" minLength:"32" maxLength:"128"`
	Rows     List[UsageRow] `json:"rows" default:"[]" maxItems:"1000"`
	Borrow   NanoUSD        `json:"borrow" default:"0" minimum:"0"`
	BorrowID UUID           `json:"borrow_id,omitempty" format:"uuid"`
}

// TaskUsageReply grants at most what was asked for.
type TaskUsageReply struct {
	Granted NanoUSD `json:"granted"`
	Left    NanoUSD `json:"left"`
}

// TaskFinish ends a task. Unspent is borrowed money that was not used; what is
// not returned counts as spent.
type TaskFinish struct {
	Dispatch int                `json:"dispatch" minimum:"1"`
	Token    string             `json:"token" minLength:"32" maxLength:"128"`
	Result   PromptLabJobResult `json:"result"`
	Unspent  NanoUSD            `json:"unspent" default:"0" minimum:"0"`
}

// TaskAck answers rows and finish: what EC made of them.
type TaskAck struct {
	Accepted bool               `json:"accepted"`
	Note     string             `json:"note,omitempty"`
	Status   PromptLabJobStatus `json:"status,omitempty"`
}

// UsageRow is one attempt at a model call: exactly one row an attempt.
type UsageRow struct {
	AttemptID         UUID      `json:"attempt_id" format:"uuid"`
	RequestID         string    `json:"request_id" maxLength:"100"`
	ProviderRequestID string    `json:"provider_request_id,omitempty" maxLength:"200"`
	JobID             UUID      `json:"job_id,omitempty" format:"uuid"`
	Feature           ModelRole `json:"feature"`
	Target            string    `json:"target" maxLength:"100"`
	Provider          string    `json:"provider" maxLength:"50"`
	Model             string    `json:"model" maxLength:"200"`
	Fingerprint       string    `json:"fingerprint,omitempty" maxLength:"64"` // of the model with its parameters
	ServedModel       string    `json:"served_model,omitempty" maxLength:"200"`
	PromptKey         string    `json:"prompt_key,omitempty" maxLength:"200"`
	PromptVersion     string    `json:"prompt_version,omitempty" maxLength:"100"`
	RequestDigest     string    `json:"request_digest,omitempty" maxLength:"64"`
	Attempt           int       `json:"attempt" minimum:"1" maximum:"100"`
	Success           bool      `json:"success"`
	Class             string    `json:"class,omitempty" maxLength:"50"` // error class, absent on success
	Finish            string    `json:"finish,omitempty" maxLength:"50"`
	UsageKnown        bool      `json:"usage_known"`
	InputTokens       int64     `json:"input_tokens" default:"0" minimum:"0"`
	OutputTokens      int64     `json:"output_tokens" default:"0" minimum:"0"`
	ReasoningTokens   int64     `json:"reasoning_tokens" default:"0" minimum:"0"`
	CacheReadTokens   int64     `json:"cache_read_tokens" default:"0" minimum:"0"`
	CacheWriteTokens  int64     `json:"cache_write_tokens" default:"0" minimum:"0"`
	CostKnown         bool      `json:"cost_known"`
	Cost              NanoUSD   `json:"cost" default:"0" minimum:"0"`
	LatencyMS         int64     `json:"latency_ms" default:"0" minimum:"0"`
	Simulated         bool      `json:"simulated" default:"false"`
	At                Time      `json:"at"`
}

// SeamUsage hands over the model calls of conversations.
type SeamUsage struct {
	Rows List[UsageRow] `json:"rows" minItems:"1" maxItems:"500"`
}

// SeamUsageAck answers SeamUsage.
type SeamUsageAck struct {
	Recorded bool `json:"recorded"` // false: every row was booked already
}

// UsageResponse answers GET /api/usage.
type UsageResponse struct {
	Rows  List[UsageSum] `json:"rows"`
	Total UsageTotal     `json:"total"`
}

// UsageSum is usage by day, feature, model and job.
type UsageSum struct {
	Day          string    `json:"day"`
	Feature      ModelRole `json:"feature"`
	Model        string    `json:"model"`
	JobID        UUID      `json:"job_id,omitempty"`
	Calls        int       `json:"calls"`
	InputTokens  int64     `json:"input_tokens"`
	OutputTokens int64     `json:"output_tokens"`
	USD          float64   `json:"usd"`
	Unknown      int       `json:"unknown"`
}

// UsageTotal sums all rows of a usage answer.
type UsageTotal struct {
	Calls        int     `json:"calls"`
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	USD          float64 `json:"usd"`
}
