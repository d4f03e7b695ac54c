package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/elnor/promptlab/prompt"
)

// decodeBody reads a body in any dialect: members that are null mean nothing.
func decodeBody[T any](body []byte) (in T, err error) {
	plain, err := withoutNulls(body)
	if err != nil {
		return in, &apiError{status: http.StatusBadRequest, kind: kindRequest, code: "malformed_json", message: "the body is not one JSON object"}
	}
	return contracts.Decode[T](plain, contracts.Client)
}

// parseRequest reads a body. Its error names every bad field.
func parseRequest(body []byte) (*request, error) {
	in, err := decodeBody[completionRequest](body)
	if err != nil {
		return nil, err
	}
	c := &checker{}
	out := &request{
		model: in.Model, stream: in.Stream, usage: in.StreamOptions != nil && in.StreamOptions.IncludeUsage,
		ask: gateway.Request{
			Role: gateway.RoleChat, Feature: "chat",
			Temperature: in.Temperature, TopP: in.TopP, PresencePenalty: in.PresencePenalty, FrequencyPenalty: in.FrequencyPenalty,
			Seed: in.Seed, ParallelToolCalls: in.ParallelToolCalls,
		},
	}
	for i, m := range in.Messages {
		out.messages = append(out.messages, c.message(fmt.Sprintf("messages[%d]", i), m))
	}
	out.ask.Stop = c.stop(in.Stop)
	out.ask.MaxTokens = c.maxTokens(in)
	out.ask.Tools, out.ask.ToolChoice = c.tools(in, body)
	c.format(&out.ask, in.ResponseFormat, body)
	out.ask.Reasoning = effort(in.ReasoningEffort)
	c.require(in.Logprobs == nil || !*in.Logprobs, "logprobs", "unsupported", "cannot be had here")
	c.require(len(in.Modalities) == 0 || len(in.Modalities) == 1 && in.Modalities[0] == "text", "modalities", "unsupported", "can only be text here")
	if in.PromptLab != nil {
		out.ext = *in.PromptLab
	}
	out.ids = out.ext.MessageIDs
	c.require(len(out.ids) == 0 || len(out.ids) == len(out.messages), "promptlab.message_ids", "count", "must name each message, or none")
	c.extension(out)
	if len(c.details) > 0 {
		return nil, badRequest(c.details...)
	}
	out.ignored = given(map[string]any{
		"user": in.User, "store": in.Store, "metadata": in.Metadata, "service_tier": in.ServiceTier, "safety_identifier": in.SafetyIdentifier,
		"prompt_cache_key": in.PromptCacheKey, "prompt_cache_retention": in.PromptCacheRetention, "prompt_cache_options": in.PromptCacheOptions, "verbosity": in.Verbosity,
	})
	return out, nil
}

// extension checks what a client says to Prompt Lab itself.
func (c *checker) extension(out *request) {
	c.require(out.ext.Override == nil || out.ext.PlanID == "", "promptlab.override", "exclusive", "must be left out with plan_id: the plan says it")
	c.require(out.ext.PlanID == "" || len(out.ids) > 0, "promptlab.message_ids", "required", "must name the messages when a plan is dispatched: it refers to them")
}

// given lists, in order, the names of what was given.
func given(values map[string]any) []string {
	var out []string
	for name, v := range values {
		if v != nil {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func effort(s string) gateway.Reasoning {
	switch s {
	case "none":
		return gateway.ReasoningOff
	case "minimal":
		return gateway.ReasoningLow
	case "xhigh", "max": // the most there is; a target may still do less, which its row says
		return gateway.ReasoningHigh
	default:
		return gateway.Reasoning(s)
	}
}

// checker collects what is wrong.
type checker struct{ details []fault.Detail }

func (c *checker) require(ok bool, field, rule, message string) {
	if !ok {
		c.details = append(c.details, fault.Detail{Field: field, Rule: rule, Message: message})
	}
}

func (c *checker) message(at string, m message) gateway.Message {
	out := gateway.Message{Role: m.Role, Name: m.Name, ToolCallID: m.ToolCallID}
	switch content := m.Content.(type) {
	case nil:
		c.require(m.Role == "assistant" && len(m.ToolCalls) > 0, at+".content", "required", "is missing")
	case string:
		out.Content = content
	case []any:
		c.require(len(content) > 0, at+".content", "min_items", "needs at least one part")
		for i, p := range content {
			out.Parts = append(out.Parts, c.part(fmt.Sprintf("%s.content[%d]", at, i), m.Role, p))
		}
	default:
		c.require(false, at+".content", "type", "must be a string or a list of parts")
	}
	c.require((m.Role == "tool") == (m.ToolCallID != ""), at+".tool_call_id", "required", "must be there in a tool's message and nowhere else")
	c.require(m.Role == "assistant" || len(m.ToolCalls) == 0, at+".tool_calls", "role", "can only stand in an assistant's message")
	for _, t := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, gateway.ToolCall{ID: t.ID, Name: t.Function.Name, Arguments: t.Function.Arguments})
	}
	return out
}

// part reads a piece of content. Text and images are all there is.
func (c *checker) part(at, role string, v any) gateway.Part {
	p, _ := v.(map[string]any)
	kind, _ := p["type"].(string)
	switch kind {
	case "text", "refusal":
		text, ok := p[kind].(string)
		c.require(ok, at+"."+kind, "type", "must be a string")
		return gateway.Part{Type: gateway.PartText, Text: text}
	case "image_url":
		image, _ := p["image_url"].(map[string]any)
		address, ok := image["url"].(string)
		detail, _ := image["detail"].(string)
		c.require(ok && role == "user", at+".image_url.url", "type", "must be the address of an image in a user's message")
		return gateway.Part{Type: gateway.PartImage, ImageURL: address, Detail: detail}
	}
	c.require(false, at+".type", "enum", "must be text or image_url; hand documents along in promptlab.documents")
	return gateway.Part{}
}

func (c *checker) stop(v any) []string {
	switch s := v.(type) {
	case nil:
		return nil
	case string:
		return []string{s}
	case []any:
		var out []string
		for i, e := range s {
			text, ok := e.(string)
			c.require(ok, fmt.Sprintf("stop[%d]", i), "type", "must be a string")
			out = append(out, text)
		}
		c.require(len(out) <= 4, "stop", "max_items", "takes at most 4 entries")
		return out
	}
	c.require(false, "stop", "type", "must be a string or a list of strings")
	return nil
}

// maxTokens gives the cap that was asked for, 0 when none was.
func (c *checker) maxTokens(in completionRequest) int {
	switch {
	case in.MaxTokens != nil && in.MaxCompletionTokens != nil:
		c.require(*in.MaxTokens == *in.MaxCompletionTokens, "max_tokens", "exclusive", "and max_completion_tokens say different things; give one")
		return *in.MaxTokens
	case in.MaxTokens != nil:
		return *in.MaxTokens
	case in.MaxCompletionTokens != nil:
		return *in.MaxCompletionTokens
	}
	return 0
}

// asGiven keeps the parts of a body whose order of keys means something.
type asGiven struct {
	Tools []struct {
		Function struct {
			Parameters json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	ResponseFormat struct {
		JSONSchema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

func (c *checker) tools(in completionRequest, body []byte) ([]gateway.Tool, string) {
	var raw asGiven
	if len(in.Tools) > 0 {
		_ = json.Unmarshal(body, &raw) // it has been decoded once already
	}
	var out []gateway.Tool
	for i, t := range in.Tools {
		g := gateway.Tool{Name: t.Function.Name, Description: t.Function.Description, Strict: t.Function.Strict}
		if t.Function.Parameters != nil {
			_, object := t.Function.Parameters.(map[string]any)
			c.require(object, fmt.Sprintf("tools[%d].function.parameters", i), "type", "must be a JSON Schema object")
			if i < len(raw.Tools) {
				g.Parameters = raw.Tools[i].Function.Parameters
			}
		}
		out = append(out, g)
	}
	return out, c.toolChoice(in.ToolChoice, out, "tool_choice.function.name", func(v map[string]any) any {
		f, _ := v["function"].(map[string]any)
		return f["name"]
	})
}

// toolChoice reads a choice: a word, or an object that names one of the tools.
func (c *checker) toolChoice(v any, tools []gateway.Tool, at string, named func(map[string]any) any) (choice string) {
	switch v := v.(type) {
	case nil:
	case string:
		choice = v
		c.require(slices.Contains([]string{gateway.ToolsAuto, gateway.ToolsNone, gateway.ToolsRequired}, v), "tool_choice", "enum", "must be auto, none, required or a function")
	case map[string]any:
		choice, _ = named(v).(string)
		c.require(slices.ContainsFunc(tools, func(t gateway.Tool) bool { return t.Name == choice }), at, "unknown", "must be one of the tools")
	default:
		c.require(false, "tool_choice", "type", "must be a string or an object")
	}
	return choice
}

// shape compiles the schema that an answer is to keep.
func (c *checker) shape(at, name string, given json.RawMessage) *gateway.Schema {
	schema, err := gateway.NewClientSchema(name, harmlessJSON(given))
	c.require(err == nil, at, "schema", "is not a JSON Schema without references to other documents")
	return schema
}

func (c *checker) format(ask *gateway.Request, f *responseFormat, body []byte) {
	if f == nil || f.Type == "text" {
		return
	}
	if f.Type == "json_object" {
		ask.JSONObject = true
		return
	}
	if f.JSONSchema == nil || f.JSONSchema.Schema == nil {
		c.require(false, "response_format.json_schema.schema", "required", "is missing")
		return
	}
	var raw asGiven
	_ = json.Unmarshal(body, &raw) // it has been decoded once already
	ask.Schema = c.shape("response_format.json_schema.schema", f.JSONSchema.Name, raw.ResponseFormat.JSONSchema.Schema)
}

// withoutNulls takes members that are null out of the objects that a client
// fills: there they mean the same as nothing. What a person's own data says,
// such as a tool's parameters, is left as it is.
func withoutNulls(body []byte) ([]byte, error) {
	if !bytes.Contains(body, []byte("null")) {
		return body, nil
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(body, &top); err != nil {
		return nil, err //nolint:wrapcheck // replaced by the caller
	}
	clean(top, fieldsDeep, "messages", "tools", "tool_calls", "function", "stream_options", "response_format", "json_schema", "promptlab", "content", "image_url", "context", "documents", "tool_choice", "source", "input", "text", "format", "reasoning")
	return json.Marshal(top)
}

// fieldsDeep is how deep an object of a client's can stand whose members we know;
// a body that is nested deeper is not read again at each level.
const fieldsDeep = 8

// clean drops null members, and goes into those that are named, so deep.
func clean(m map[string]json.RawMessage, deep int, into ...string) {
	for name, raw := range m {
		raw = bytes.TrimSpace(raw)
		switch {
		case string(raw) == "null":
			delete(m, name)
		case deep == 0 || !slices.Contains(into, name) || len(raw) == 0:
		case raw[0] == '{':
			m[name] = cleanObject(raw, deep-1, into)
		case raw[0] == '[':
			var list []json.RawMessage
			if json.Unmarshal(raw, &list) != nil {
				continue
			}
			for i, e := range list {
				if e = bytes.TrimSpace(e); len(e) > 0 && e[0] == '{' {
					list[i] = cleanObject(e, deep-1, into)
				}
			}
			m[name] = encode(list)
		}
	}
}

func cleanObject(raw json.RawMessage, deep int, into []string) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return raw
	}
	clean(m, deep, into...)
	return encode(m)
}

// encode marshals what was decoded from JSON.
func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic("chat: encode: " + err.Error()) // of decoded JSON only
	}
	return b
}

// native splits the leading instructions of the client's program off; the rest
// is the conversation.
func native(messages []gateway.Message) (string, int) {
	var texts []string
	n := 0
	for _, m := range messages {
		if m.Role != gateway.SpeakerSystem && m.Role != gateway.SpeakerDeveloper {
			break
		}
		texts = append(texts, m.Text())
		n++
	}
	return strings.Join(texts, "\n\n"), n
}

// layers gives the background that a client handed along.
func (r *request) layers(native string) prompt.Background {
	b := prompt.Background{Native: native}
	if c := r.ext.Context; c != nil {
		b.Authority, b.Workspace, b.RoomRole, b.ParticipantRole = c.Authority, c.Workspace, c.RoomRole, c.ParticipantRole
		b.Memory, b.Summary = c.Memory, c.Summary
	}
	return b
}
