package gateway

import (
	"context"
	"encoding/json"
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

// Truncation is what becomes of an answer that was cut at its cap.
type Truncation string

// TruncationSurface gives the cut answer to the caller, marked by
// [FinishLength]: it is neither asked for again with a higher cap nor continued.
const TruncationSurface Truncation = "surface"

// Truncation declares what a role does about cut answers. A person sees that an
// answer is cut and may ask for more; a cut verdict or example is unscored, and
// a cut text is no child. To pay for a second, longer try is their callers'
// decision, not the gateway's.
func (r Role) Truncation() Truncation {
	switch r {
	case RoleChat, RoleRewrite, RoleCritic, RoleJudge, RoleTask, RoleMeta:
		return TruncationSurface
	default:
		return "" // no role of ours
	}
}

// Request is one logical call.
type Request struct {
	Role              Role
	Model             string // name of a configured model; empty: the role's first one
	Messages          []Message
	MaxTokens         int      // required; clamped to the target's cap
	Temperature       *float64 // nil: the provider's default
	TopP              *float64
	PresencePenalty   *float64
	FrequencyPenalty  *float64
	Seed              *int64
	Stop              []string
	Schema            *Schema // shape of a structured answer; nil: free text
	JSONObject        bool    // any JSON object as the answer, of no particular shape
	Tools             []Tool
	ToolChoice        string    // ToolsAuto, ToolsNone, ToolsRequired or a tool's name; empty: the provider's default
	ParallelToolCalls *bool     // nil: the provider's default
	Reasoning         Reasoning // empty: what the target declares
	JobID             string
	Trial             string // name of a model that the job tries although nobody has activated it
	Workspace         string
	Feature           string // free for the row; metrics use Role
	PromptKey         string
	PromptVersion     string
	RequestID         string // made when empty
}

// Finish says why an answer ended.
type Finish string

// The reasons. Only FinishStop is a complete text; FinishToolCalls is complete
// too, and asks for something. An answer that a provider's filter took away is
// an error of class content_filter.
const (
	FinishStop      Finish = "stop"
	FinishLength    Finish = "length"     // cut at the token cap
	FinishRefusal   Finish = "refusal"    // the model declined; see Response.Refusal
	FinishToolCalls Finish = "tool_calls" // see Response.ToolCalls
	FinishUnknown   Finish = "unknown"    // the provider did not say
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
	ToolCalls         []ToolCall
	State             json.RawMessage // for Message.State when the answer is sent back; may be empty
	Finish            Finish
	Malformed         bool   // the answer is not JSON of the shape that was asked for, or a tool's arguments are not JSON
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
	ToolCalls         []ToolCall
	State             json.RawMessage
	Finish            Finish
	Usage             Usage // may be known although the call failed
	ServedModel       string
	ProviderRequestID string
	Upstream          time.Duration // time spent waiting for the provider
	Wire              WireStats     // of a stream
}

// WireStats tells whether a stream was alive, which is not the same as getting
// on: a provider may send comments for hours.
type WireStats struct {
	Bytes     int64     // read of the body
	LastByte  time.Time // zero: none came
	Malformed int       // events that were not understood and passed over
}

// Call is one attempt as an adapter sees it: a request that the policy already
// shaped for its target.
type Call struct {
	Target  Target
	Key     Secret // empty when the target needs none
	Request Request
}

// Adapter speaks one wire protocol. Each method makes exactly one HTTP call,
// retries nothing, follows no redirect and returns soon after ctx ends, with
// everything it opened closed. A failure is an [*Error], or any other error for
// "outcome unknown".
type Adapter interface {
	Complete(ctx context.Context, call Call) (Reply, error)

	// Stream gives an answer piece by piece, and the whole of it at the end.
	//
	// emit gets every piece that is progress, in order, from the calling
	// goroutine: no empty text, no keep-alive. When the provider's own end of the
	// answer was read, and before anything that may still follow it (usage), emit
	// gets one EventFinish; from then on the answer stands, and trouble with the
	// rest of the stream is no failure. An error of emit ends the stream at once
	// and is returned as it is. The end of a stream without its terminal event is
	// an Error of class stream_truncated. Usage is told once, and only when the
	// end was reached: a count from the middle is not what the call cost.
	Stream(ctx context.Context, call Call, emit func(Event) error) (Reply, error)
}

// KeyFunc gives the provider key that is stored under name (the model's
// api_key_env). It is asked for every attempt, so a changed key needs no
// restart.
type KeyFunc func(name string) (string, error)
