package openai

import (
	"encoding/json"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/internal/wire"
)

// chatRequest is the wire form of a request. The field of the token cap differs
// by target, so it is set apart.
type chatRequest struct {
	Model               string          `json:"model"`
	Messages            []chatMessage   `json:"messages"`
	MaxTokens           int             `json:"max_tokens,omitempty"`
	MaxCompletionTokens int             `json:"max_completion_tokens,omitempty"`
	Temperature         *float64        `json:"temperature,omitempty"`
	TopP                *float64        `json:"top_p,omitempty"`
	PresencePenalty     *float64        `json:"presence_penalty,omitempty"`
	FrequencyPenalty    *float64        `json:"frequency_penalty,omitempty"`
	Seed                *int64          `json:"seed,omitempty"`
	Stop                []string        `json:"stop,omitempty"`
	ResponseFormat      *responseFormat `json:"response_format,omitempty"`
	Tools               []chatTool      `json:"tools,omitempty"`
	ToolChoice          any             `json:"tool_choice,omitempty"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls,omitempty"`
	ReasoningEffort     string          `json:"reasoning_effort,omitempty"`
	Stream              bool            `json:"stream,omitempty"`
	StreamOptions       *streamOptions  `json:"stream_options,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type chatMessage struct {
	Role       string     `json:"role"`
	Content    any        `json:"content"` // a string, a list of parts, or null beside tool calls
	Name       string     `json:"name,omitempty"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type chatPart struct {
	Type     string    `json:"type"`
	Text     *string   `json:"text,omitempty"`
	ImageURL *imageURL `json:"image_url,omitempty"`
}

type imageURL struct {
	URL    string `json:"url"`
	Detail string `json:"detail,omitempty"`
}

type toolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function functionCall `json:"function"`
}

type functionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type chatTool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Strict      *bool           `json:"strict,omitempty"`
}

// responseFormat asks for JSON; only servers whose profile takes it see it.
type responseFormat struct {
	Type   string      `json:"type"`
	Schema *jsonSchema `json:"json_schema,omitempty"`
}

type jsonSchema struct {
	Name   string          `json:"name"`
	Strict bool            `json:"strict"`
	Schema json.RawMessage `json:"schema"`
}

func encode(call gateway.Call, stream bool) ([]byte, error) {
	r := call.Request
	w := chatRequest{
		Model: call.Target.Model, Messages: messages(call), Temperature: r.Temperature, TopP: r.TopP,
		PresencePenalty: r.PresencePenalty, FrequencyPenalty: r.FrequencyPenalty, Seed: r.Seed, Stop: r.Stop,
		ResponseFormat: format(r), Stream: stream, ReasoningEffort: effort(r.Reasoning),
	}
	if call.Target.MaxTokensField == "max_completion_tokens" {
		w.MaxCompletionTokens = r.MaxTokens
	} else {
		w.MaxTokens = r.MaxTokens
	}
	if stream && call.Target.Sends(gateway.ParamStreamUsage) {
		w.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	if len(r.Tools) > 0 {
		w.Tools, w.ToolChoice, w.ParallelToolCalls = tools(r.Tools), choiceOf(r.ToolChoice), r.ParallelToolCalls
	}
	return json.Marshal(w)
}

// effort is what the protocol calls an effort; no effort at all is "none" there.
func effort(r gateway.Reasoning) string {
	if r == gateway.ReasoningOff {
		return "none"
	}
	return string(r)
}

func messages(call gateway.Call) []chatMessage {
	out := make([]chatMessage, 0, len(call.Request.Messages))
	for _, m := range call.Request.Messages {
		w := chatMessage{Role: m.Role, Content: m.Content, Name: m.Name, ToolCallID: m.ToolCallID}
		if m.Role == gateway.SpeakerDeveloper && !call.Target.Profile.Developer {
			w.Role = gateway.SpeakerSystem
		}
		if len(m.Parts) > 0 {
			w.Content = parts(m.Parts)
		}
		for _, c := range m.ToolCalls {
			w.ToolCalls = append(w.ToolCalls, toolCall{ID: c.ID, Type: "function", Function: functionCall{Name: c.Name, Arguments: c.Arguments}})
		}
		if len(w.ToolCalls) > 0 && m.Content == "" && len(m.Parts) == 0 {
			w.Content = nil
		}
		out = append(out, w)
	}
	return out
}

func parts(ps []gateway.Part) []chatPart {
	out := make([]chatPart, 0, len(ps))
	for _, p := range ps {
		if p.Type == gateway.PartImage {
			out = append(out, chatPart{Type: gateway.PartImage, ImageURL: &imageURL{URL: p.ImageURL, Detail: p.Detail}})
			continue
		}
		out = append(out, chatPart{Type: gateway.PartText, Text: &p.Text})
	}
	return out
}

func tools(ts []gateway.Tool) []chatTool {
	out := make([]chatTool, 0, len(ts))
	for _, t := range ts {
		out = append(out, chatTool{Type: "function", Function: function(t)})
	}
	return out
}

func choiceOf(choice string) any {
	switch choice {
	case "":
		return nil
	case gateway.ToolsAuto, gateway.ToolsNone, gateway.ToolsRequired:
		return choice
	default:
		return map[string]any{"type": "function", "function": map[string]any{"name": choice}}
	}
}

func format(r gateway.Request) *responseFormat {
	switch s := r.Schema; {
	case s != nil:
		return &responseFormat{Type: "json_schema", Schema: &jsonSchema{Name: wire.SchemaName(s.ID()), Strict: true, Schema: s.Wire()}}
	case r.JSONObject:
		return &responseFormat{Type: "json_object"}
	default:
		return nil
	}
}
