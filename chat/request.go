package chat

import (
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/gateway"
)

// completionRequest holds every parameter of a chat completion that is known
// here. What is named and not used is listed in the answer's headers; what would
// change the answer and cannot be had is refused.
type completionRequest struct {
	Model               string                  `json:"model,omitempty" maxLength:"200"`
	Messages            contracts.List[message] `json:"messages" minItems:"1" maxItems:"4000"`
	MaxTokens           *int                    `json:"max_tokens,omitempty" minimum:"1"`
	MaxCompletionTokens *int                    `json:"max_completion_tokens,omitempty" minimum:"1"`
	Temperature         *float64                `json:"temperature,omitempty" minimum:"0" maximum:"2"`
	TopP                *float64                `json:"top_p,omitempty" minimum:"0" maximum:"1"`
	PresencePenalty     *float64                `json:"presence_penalty,omitempty" minimum:"-2" maximum:"2"`
	FrequencyPenalty    *float64                `json:"frequency_penalty,omitempty" minimum:"-2" maximum:"2"`
	Seed                *int64                  `json:"seed,omitempty"`
	Stop                any                     `json:"stop,omitempty"`
	Stream              bool                    `json:"stream" default:"false"`
	StreamOptions       *streamOptions          `json:"stream_options,omitempty"`
	N                   *int                    `json:"n,omitempty" minimum:"1" maximum:"1"`
	Tools               contracts.List[tool]    `json:"tools,omitempty" maxItems:"128"`
	ToolChoice          any                     `json:"tool_choice,omitempty"`
	ParallelToolCalls   *bool                   `json:"parallel_tool_calls,omitempty"`
	ResponseFormat      *responseFormat         `json:"response_format,omitempty"`
	ReasoningEffort     string                  `json:"reasoning_effort,omitempty" enum:"none,minimal,low,medium,high,xhigh,max"`
	Logprobs            *bool                   `json:"logprobs,omitempty"`
	Modalities          contracts.List[string]  `json:"modalities,omitempty"`
	PromptLab           *extension              `json:"promptlab,omitempty"`

	// Not used: they change where and how a provider keeps an answer, or what it
	// costs, and not what it says.
	User                 any `json:"user,omitempty"`
	Store                any `json:"store,omitempty"`
	Metadata             any `json:"metadata,omitempty"`
	ServiceTier          any `json:"service_tier,omitempty"`
	SafetyIdentifier     any `json:"safety_identifier,omitempty"`
	PromptCacheKey       any `json:"prompt_cache_key,omitempty"`
	PromptCacheRetention any `json:"prompt_cache_retention,omitempty"`
	PromptCacheOptions   any `json:"prompt_cache_options,omitempty"`
	Verbosity            any `json:"verbosity,omitempty"`
}

type streamOptions struct {
	IncludeUsage       bool  `json:"include_usage" default:"false"`
	IncludeObfuscation *bool `json:"include_obfuscation,omitempty"`
}

type message struct {
	Role       string                   `json:"role" enum:"system,developer,user,assistant,tool"`
	Content    any                      `json:"content,omitempty"`
	Name       string                   `json:"name,omitempty" maxLength:"64"`
	ToolCalls  contracts.List[toolCall] `json:"tool_calls,omitempty" maxItems:"128"`
	ToolCallID string                   `json:"tool_call_id,omitempty" maxLength:"200"`

	// What clients send back of an earlier answer; nothing of it is used.
	Refusal          any `json:"refusal,omitempty"`
	Annotations      any `json:"annotations,omitempty"`
	Reasoning        any `json:"reasoning,omitempty"`
	ReasoningContent any `json:"reasoning_content,omitempty"`
}

type toolCall struct {
	ID       string       `json:"id" minLength:"1" maxLength:"200"`
	Type     string       `json:"type" default:"function" enum:"function"`
	Function functionCall `json:"function"`
	Index    *int         `json:"index,omitempty"`
}

type functionCall struct {
	Name      string `json:"name" pattern:"^[A-Za-z0-9_-]{1,64}$"`
	Arguments string `json:"arguments"`
}

type tool struct {
	Type     string   `json:"type" enum:"function"`
	Function function `json:"function"`
}

type function struct {
	Name        string `json:"name" pattern:"^[A-Za-z0-9_-]{1,64}$"`
	Description string `json:"description,omitempty"`
	Parameters  any    `json:"parameters,omitempty"`
	Strict      *bool  `json:"strict,omitempty"`
}

type responseFormat struct {
	Type       string      `json:"type" enum:"text,json_object,json_schema"`
	JSONSchema *jsonSchema `json:"json_schema,omitempty"`
}

type jsonSchema struct {
	Name        string `json:"name" pattern:"^[A-Za-z0-9_-]{1,64}$"`
	Description string `json:"description,omitempty"`
	Strict      *bool  `json:"strict,omitempty"`
	Schema      any    `json:"schema,omitempty"`
}

// extension is what a client says to Prompt Lab itself, in the field promptlab.
type extension struct {
	Revision    *int                   `json:"revision,omitempty" minimum:"0"` // of the session, as the client knows it
	PlanID      contracts.UUID         `json:"plan_id,omitempty"`              // of a re-answer
	Override    *override              `json:"override,omitempty"`             // overlays of this turn alone
	MessageIDs  contracts.List[string] `json:"message_ids,omitempty" maxItems:"4000"`
	Participant string                 `json:"participant_id,omitempty" maxLength:"200"` // of a room: whose turn it is
	Compacted   bool                   `json:"compacted" default:"false"`                // the history was shortened since the last turn
	TaskType    string                 `json:"task_type,omitempty" maxLength:"200"`
	Context     *background            `json:"context,omitempty"`
	Documents   contracts.List[doc]    `json:"documents,omitempty" maxItems:"64"`
}

type override struct {
	Mode       contracts.OverlayDispatchOverrideMode `json:"mode"`
	OverlayIDs contracts.List[contracts.OverlayID]   `json:"overlay_ids" default:"[]" maxItems:"16"`
}

type background struct {
	Authority       string `json:"authority_memory,omitempty" maxLength:"200000"`
	Workspace       string `json:"workspace_instructions,omitempty" maxLength:"200000"`
	RoomRole        string `json:"room_role,omitempty" maxLength:"200000"`
	ParticipantRole string `json:"participant_role,omitempty" maxLength:"200000"`
	Memory          string `json:"memory,omitempty" maxLength:"200000"`
	Summary         string `json:"summary,omitempty" maxLength:"200000"`
}

type doc struct {
	Name string `json:"name" minLength:"1" maxLength:"200"`
	Text string `json:"text"`
}

// request is a completion request that has been checked.
type request struct {
	model    string
	stream   bool
	usage    bool // of a stream: told at its end
	ask      gateway.Request
	messages []gateway.Message // as the client sent them
	ids      []string          // of the messages; empty or as many
	ext      extension
	ignored  []string
}
