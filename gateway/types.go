package gateway

import (
	"context"
	"log/slog"
	"time"
)

// Role says what a call is for. It selects the route, the method timeout and
// whether a fallback is allowed.
type Role string

// The roles, as models[].routes spells them.
const (
	RoleChat    Role = "chat"
	RoleRewrite Role = "rewrite"
	RoleCritic  Role = "critic"
	RoleJudge   Role = "judge"
	RoleTask    Role = "task" // answers to replay examples
	RoleMeta    Role = "meta" // the optimizer's requests for new texts
)

// Roles gives every role.
func Roles() []Role {
	return []Role{RoleChat, RoleRewrite, RoleCritic, RoleJudge, RoleTask, RoleMeta}
}

// Message is one turn. Role is system, user or assistant.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Request is one logical call.
type Request struct {
	Role          Role
	Model         string // name of a configured model; empty: the role's first one
	Messages      []Message
	MaxTokens     int      // required; clamped to the target's cap
	Temperature   *float64 // nil: the provider's default
	Seed          *int64
	Stop          []string
	Schema        *Schema // shape of a structured answer; nil: free text
	JobID         string
	Workspace     string
	Feature       string // free for the row; metrics use Role
	PromptKey     string
	PromptVersion string
	RequestID     string // made when empty
}

// drop takes an optional parameter out, and tells whether it was there.
func (r *Request) drop(p Parameter) (was bool) {
	switch p {
	case ParamTemperature:
		was, r.Temperature = r.Temperature != nil, nil
	case ParamSeed:
		was, r.Seed = r.Seed != nil, nil
	case ParamStop:
		was, r.Stop = r.Stop != nil, nil
	case ParamResponseFormat:
		was, r.Schema = r.Schema != nil, nil
	}
	return was
}

// Finish says why an answer ended.
type Finish string

// The reasons. Only FinishStop is a complete answer.
const (
	FinishStop    Finish = "stop"
	FinishLength  Finish = "length"  // cut at the token cap
	FinishRefusal Finish = "refusal" // the model declined; see Response.Refusal
	FinishUnknown Finish = "unknown" // the provider did not say
)

// Usage counts tokens by kind. Known false means that the provider did not say,
// which is not zero. The kinds do not overlap, except that Reasoning is a part
// of Output.
type Usage struct {
	Known      bool  `json:"known"`
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	Reasoning  int64 `json:"reasoning"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
}

// Response is the answer to a Request.
type Response struct {
	Text              string
	Reasoning         string // told apart from the text; never an answer, never stored
	Refusal           string
	Finish            Finish
	Malformed         bool   // a schema was asked for and the answer does not keep it
	Usage             Usage  // of the attempt that answered
	RequestID         string // ours
	Target            string
	Provider          string
	Model             string // pinned
	ServedModel       string
	ProviderRequestID string
	Simulated         bool
	Attempts          int   // attempts that were made, this one included
	Cost              int64 // nanoUSD booked for all attempts
	CostKnown         bool  // false when any attempt had to be booked by its bound or has no price
}

// Complete tells whether the text is a whole answer: neither cut, refused, of
// unknown end, nor of another shape than was asked for.
func (r Response) Complete() bool { return r.Finish == FinishStop && !r.Malformed }

// Reply is what an adapter got from one HTTP call.
type Reply struct {
	Text              string
	Reasoning         string
	Refusal           string
	Finish            Finish
	Usage             Usage // may be known although the call failed
	ServedModel       string
	ProviderRequestID string
	Upstream          time.Duration // time spent waiting for the provider
}

// Call is one attempt as an adapter sees it: a request that the policy already
// shaped for its target.
type Call struct {
	Target  Target
	Key     Secret // empty when the target needs none
	Request Request
}

// Adapter speaks one wire protocol. Complete makes exactly one HTTP call,
// retries nothing, follows no redirect and returns soon after ctx ends. A
// failure is an [*Error], or any other error for "outcome unknown". A streaming
// method will stand beside Complete when a caller needs one.
type Adapter interface {
	Complete(ctx context.Context, call Call) (Reply, error)
}

// KeyFunc gives the provider key that is stored under name (the model's
// api_key_env). It is asked for every attempt, so a changed key needs no
// restart.
type KeyFunc func(name string) (string, error)

// Secret is a string that no formatter or logger prints.
type Secret string

// String hides the secret.
func (Secret) String() string { return "[redacted]" }

// GoString hides the secret from %#v.
func (Secret) GoString() string { return "[redacted]" }

// LogValue hides the secret from slog.
func (Secret) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// MarshalText hides the secret from encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte("[redacted]"), nil }

// Reveal gives the secret itself, for the one header that needs it.
func (s Secret) Reveal() string { return string(s) }

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
	ServedModel       string        `json:"served_model,omitempty"`
	ProviderRequestID string        `json:"provider_request_id,omitempty"`
	Simulated         bool          `json:"simulated"`
	Class             ErrorClass    `json:"class,omitempty"` // empty: answered
	Status            int           `json:"status,omitempty"`
	ProviderCode      string        `json:"provider_code,omitempty"`
	Finish            Finish        `json:"finish,omitempty"`
	Malformed         bool          `json:"malformed,omitempty"` // answered in another shape than was asked for
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
