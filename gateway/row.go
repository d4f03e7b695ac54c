package gateway

import "time"

// Attempt is the row of one attempt: everything needed to explain a bill, no
// prompt, no answer, no words of a provider.
type Attempt struct {
	AttemptID         string        `json:"attempt_id"` // request id + "." + number
	RequestID         string        `json:"request_id"`
	Number            int           `json:"number"`
	StartedAt         time.Time     `json:"started_at"`
	JobID             string        `json:"job_id,omitempty"`
	Workspace         string        `json:"workspace,omitempty"`
	Role              Role          `json:"role"`
	Feature           string        `json:"feature,omitempty"`
	PromptKey         string        `json:"prompt_key,omitempty"`
	PromptVersion     string        `json:"prompt_version,omitempty"`
	SchemaID          string        `json:"schema_id,omitempty"`
	RequestDigest     string        `json:"request_digest"` // SHA-256 of model, messages and parameters
	Target            string        `json:"target"`
	Provider          string        `json:"provider"`
	Protocol          Protocol      `json:"protocol"`
	Model             string        `json:"model"`
	Fingerprint       string        `json:"fingerprint"` // of the target: model and parameters
	ServedModel       string        `json:"served_model,omitempty"`
	ProviderRequestID string        `json:"provider_request_id,omitempty"`
	Simulated         bool          `json:"simulated"`
	Class             ErrorClass    `json:"class,omitempty"`  // empty: answered
	Reason            string        `json:"reason,omitempty"` // our own constant, such as total_timeout
	Status            int           `json:"status,omitempty"`
	ProviderCode      string        `json:"provider_code,omitempty"`
	Finish            Finish        `json:"finish,omitempty"`
	Malformed         bool          `json:"malformed,omitempty"`  // answered in another shape than was asked for
	ToolCalls         int           `json:"tool_calls,omitempty"` // that the answer asks for
	Reasoning         Reasoning     `json:"reasoning,omitempty"`  // effort that was asked of the provider
	Streamed          bool          `json:"streamed,omitempty"`
	Committed         bool          `json:"committed,omitempty"`        // a piece of this attempt went to the consumer
	Chunks            int           `json:"chunks,omitempty"`           // pieces that were progress
	FirstChunk        time.Duration `json:"first_chunk_ns,omitempty"`   // from the start to the first of them
	Silence           time.Duration `json:"silence_ns,omitempty"`       // from the last of them to the end
	WireBytes         int64         `json:"wire_bytes,omitempty"`       // of the body, whether it said anything or not
	WireSilence       time.Duration `json:"wire_silence_ns,omitempty"`  // from the last byte to the end
	MalformedChunks   int           `json:"malformed_chunks,omitempty"` // passed over
	Usage             Usage         `json:"usage"`
	CostNanoUSD       int64         `json:"cost_nano_usd"`
	CostKnown         bool          `json:"cost_known"`
	HoldNanoUSD       int64         `json:"hold_nano_usd"`
	OverrunNanoUSD    int64         `json:"overrun_nano_usd,omitempty"`
	Adjusted          []string      `json:"adjusted,omitempty"` // parameters removed or clamped
	FallbackFrom      string        `json:"fallback_from,omitempty"`
	FallbackClass     ErrorClass    `json:"fallback_class,omitempty"`
	QueueWait         time.Duration `json:"queue_wait_ns"`
	Duration          time.Duration `json:"duration_ns"`       // this attempt
	TotalDuration     time.Duration `json:"total_duration_ns"` // since the call began, retries and waits included
}

// Rows takes attempt rows. Offer must not block; false means that the row was
// not taken, which is counted and changes nothing for the caller.
type Rows interface {
	Offer(row Attempt) bool
}

// RowChan is a Rows with room for the channel's capacity.
type RowChan chan Attempt

// Offer sends the row if there is room.
func (c RowChan) Offer(row Attempt) bool {
	select {
	case c <- row:
		return true
	default:
		return false
	}
}

// RowFunc is a Rows that is a function; it must not block.
type RowFunc func(row Attempt) bool

// Offer calls the function.
func (f RowFunc) Offer(row Attempt) bool { return f(row) }
