package chat

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/gateway"
)

// responses is the dialect of OpenAI's Responses. Nothing is kept between turns:
// a client sends its conversation whole, and store is never true.
type responses struct{}

// responsesRequest holds every parameter that is known here.
type responsesRequest struct {
	Model             string                   `json:"model,omitempty" maxLength:"200"`
	Input             any                      `json:"input"`
	Instructions      string                   `json:"instructions,omitempty"`
	MaxOutputTokens   *int                     `json:"max_output_tokens,omitempty" minimum:"1"`
	Temperature       *float64                 `json:"temperature,omitempty" minimum:"0" maximum:"2"`
	TopP              *float64                 `json:"top_p,omitempty" minimum:"0" maximum:"1"`
	Stream            bool                     `json:"stream" default:"false"`
	Tools             contracts.List[flatTool] `json:"tools,omitempty" maxItems:"128"`
	ToolChoice        any                      `json:"tool_choice,omitempty"`
	ParallelToolCalls *bool                    `json:"parallel_tool_calls,omitempty"`
	Text              *textOptions             `json:"text,omitempty"`
	Reasoning         *reasoningOptions        `json:"reasoning,omitempty"`
	PromptLab         *extension               `json:"promptlab,omitempty"`

	// Not used, or true here anyway.
	Store            any `json:"store,omitempty"`
	Metadata         any `json:"metadata,omitempty"`
	User             any `json:"user,omitempty"`
	ServiceTier      any `json:"service_tier,omitempty"`
	Truncation       any `json:"truncation,omitempty"`
	Include          any `json:"include,omitempty"`
	SafetyIdentifier any `json:"safety_identifier,omitempty"`
	PromptCacheKey   any `json:"prompt_cache_key,omitempty"`
	StreamOptions    any `json:"stream_options,omitempty"`
}

type flatTool struct {
	Type        string `json:"type" enum:"function"`
	Name        string `json:"name" pattern:"^[A-Za-z0-9_-]{1,64}$"`
	Description string `json:"description,omitempty"`
	Parameters  any    `json:"parameters,omitempty"`
	Strict      *bool  `json:"strict,omitempty"`
}

type textOptions struct {
	Format    *flatFormat `json:"format,omitempty"`
	Verbosity any         `json:"verbosity,omitempty"`
}

type flatFormat struct {
	Type        string `json:"type" enum:"text,json_object,json_schema"`
	Name        string `json:"name,omitempty" pattern:"^[A-Za-z0-9_-]{1,64}$"`
	Description string `json:"description,omitempty"`
	Strict      *bool  `json:"strict,omitempty"`
	Schema      any    `json:"schema,omitempty"`
}

type reasoningOptions struct {
	Effort  string `json:"effort,omitempty" enum:"none,minimal,low,medium,high,xhigh,max"`
	Summary any    `json:"summary,omitempty"`
}

func (responses) failure(e *apiError, requestID string) any { return e.body(requestID) }

func (responses) parse(body []byte) (*request, error) {
	in, err := decodeBody[responsesRequest](body)
	if err != nil {
		return nil, err
	}
	c := &checker{}
	out := &request{model: in.Model, stream: in.Stream, ask: gateway.Request{
		Role: gateway.RoleChat, Feature: "chat", Temperature: in.Temperature, TopP: in.TopP, ParallelToolCalls: in.ParallelToolCalls,
	}}
	if in.MaxOutputTokens != nil {
		out.ask.MaxTokens = *in.MaxOutputTokens
	}
	if in.Reasoning != nil {
		out.ask.Reasoning = effort(in.Reasoning.Effort)
	}
	if in.Instructions != "" {
		out.messages = append(out.messages, gateway.Message{Role: gateway.SpeakerSystem, Content: in.Instructions})
	}
	before := len(out.messages)
	if in.PromptLab != nil {
		out.ext = *in.PromptLab
	}
	made, ids := c.items(in.Input, out.ext.MessageIDs)
	out.messages = append(out.messages, made...)
	if len(ids) > 0 {
		out.ids = append(make([]string, before), ids...)
	}
	c.extension(out)
	c.flatTools(in, body, &out.ask)
	c.flatFormat(in, body, &out.ask)
	c.require(in.Store != true, "store", "unsupported", "must be false: nothing is kept between turns")
	if len(c.details) > 0 {
		return nil, badRequest(c.details...)
	}
	out.ignored = given(map[string]any{
		"metadata": in.Metadata, "user": in.User, "service_tier": in.ServiceTier, "truncation": in.Truncation, "include": in.Include,
		"safety_identifier": in.SafetyIdentifier, "prompt_cache_key": in.PromptCacheKey, "stream_options": in.StreamOptions,
	})
	return out, nil
}

// items makes our messages of the input, a text or a list of items, and gives
// their ids where the items have some. Calls belong to the assistant's message
// before them, as in other protocols: it has the id of its first item.
func (c *checker) items(input any, ids []string) (out []gateway.Message, of []string) {
	list, ok := input.([]any)
	if text, is := input.(string); is {
		list, ok = []any{map[string]any{"role": "user", "content": text}}, true
	}
	c.require(ok && len(list) > 0, "input", "type", "must be a string or a list of items")
	named := len(ids) > 0 && len(ids) == len(list)
	c.require(len(ids) == 0 || named, "promptlab.message_ids", "count", "must name each item of input, or none")
	for i, e := range list {
		item, _ := e.(map[string]any)
		m, ok := c.item(fmt.Sprintf("input[%d]", i), item)
		last := len(out) - 1
		switch {
		case !ok:
		case len(m.ToolCalls) > 0 && last >= 0 && out[last].Role == gateway.SpeakerAssistant:
			out[last].ToolCalls = append(out[last].ToolCalls, m.ToolCalls...)
		default:
			out = append(out, m)
			if named {
				of = append(of, ids[i])
			}
		}
	}
	return out, of
}

func (c *checker) item(at string, item map[string]any) (gateway.Message, bool) {
	kind, _ := item["type"].(string)
	str := func(name string) string { s, _ := item[name].(string); return s }
	switch kind {
	case "", "message":
		role := str("role")
		c.require(slices.Contains([]string{"system", "developer", "user", "assistant"}, role), at+".role", "enum", "must be one of system, developer, user, assistant")
		m := gateway.Message{Role: role}
		switch content := item["content"].(type) {
		case string:
			m.Content = content
		case []any:
			for i, p := range content {
				m.Parts = append(m.Parts, c.inputPart(fmt.Sprintf("%s.content[%d]", at, i), role, p))
			}
			c.require(len(content) > 0, at+".content", "min_items", "needs at least one part")
		default:
			c.require(false, at+".content", "type", "must be a string or a list of parts")
		}
		return m, true
	case "function_call":
		c.require(str("call_id") != "" && str("name") != "", at, "required", "needs call_id, name and arguments")
		return gateway.Message{Role: gateway.SpeakerAssistant, ToolCalls: []gateway.ToolCall{{ID: str("call_id"), Name: str("name"), Arguments: str("arguments")}}}, true
	case "function_call_output":
		text, ok := item["output"].(string)
		c.require(str("call_id") != "" && ok, at, "required", "needs call_id and output, a string")
		return gateway.Message{Role: gateway.SpeakerTool, ToolCallID: str("call_id"), Content: text}, true
	case "reasoning": // of an earlier answer; nothing of it is used
		return gateway.Message{}, false
	}
	c.require(false, at+".type", "enum", "must be message, function_call or function_call_output")
	return gateway.Message{}, false
}

func (c *checker) inputPart(at, role string, v any) gateway.Part {
	p, _ := v.(map[string]any)
	switch p["type"] {
	case "input_text", "output_text", "refusal":
		name := "text"
		if p["type"] == "refusal" {
			name = "refusal"
		}
		text, ok := p[name].(string)
		c.require(ok, at+"."+name, "type", "must be a string")
		return gateway.Part{Type: gateway.PartText, Text: text}
	case "input_image":
		address, ok := p["image_url"].(string)
		detail, _ := p["detail"].(string)
		c.require(ok && role == "user", at+".image_url", "type", "must be the address of an image in a user's message")
		return gateway.Part{Type: gateway.PartImage, ImageURL: address, Detail: detail}
	}
	c.require(false, at+".type", "enum", "must be input_text or input_image; hand documents along in promptlab.documents")
	return gateway.Part{}
}

func (c *checker) flatTools(in responsesRequest, body []byte, ask *gateway.Request) {
	var raw struct {
		Tools []struct {
			Parameters json.RawMessage `json:"parameters"`
		} `json:"tools"`
	}
	if len(in.Tools) > 0 {
		_ = json.Unmarshal(body, &raw) // it has been decoded once already
	}
	for i, t := range in.Tools {
		g := gateway.Tool{Name: t.Name, Description: t.Description, Strict: t.Strict}
		if t.Parameters != nil {
			_, object := t.Parameters.(map[string]any)
			c.require(object, fmt.Sprintf("tools[%d].parameters", i), "type", "must be a JSON Schema object")
			if i < len(raw.Tools) {
				g.Parameters = raw.Tools[i].Parameters
			}
		}
		ask.Tools = append(ask.Tools, g)
	}
	ask.ToolChoice = c.toolChoice(in.ToolChoice, ask.Tools, "tool_choice.name", func(v map[string]any) any { return v["name"] })
}

func (c *checker) flatFormat(in responsesRequest, body []byte, ask *gateway.Request) {
	if in.Text == nil || in.Text.Format == nil {
		return
	}
	f := in.Text.Format
	switch {
	case f.Type == "json_object":
		ask.JSONObject = true
	case f.Type == "json_schema" && (f.Schema == nil || f.Name == ""):
		c.require(false, "text.format.schema", "required", "and name must be given")
	case f.Type == "json_schema":
		var raw struct {
			Text struct {
				Format struct {
					Schema json.RawMessage `json:"schema"`
				} `json:"format"`
			} `json:"text"`
		}
		_ = json.Unmarshal(body, &raw) // it has been decoded once already
		ask.Schema = c.shape("text.format.schema", f.Name, raw.Text.Format.Schema)
	}
}
