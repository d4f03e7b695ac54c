package chat

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/gateway"
)

// messages is the dialect of Anthropic's Messages. Whatever model answers, the
// client sees its own protocol.
type messages struct{}

// messagesRequest holds every parameter that is known here.
type messagesRequest struct {
	Model         string                       `json:"model" maxLength:"200"`
	MaxTokens     int                          `json:"max_tokens" minimum:"1"`
	Messages      contracts.List[blockMessage] `json:"messages" minItems:"1" maxItems:"4000"`
	System        any                          `json:"system,omitempty"`
	Temperature   *float64                     `json:"temperature,omitempty" minimum:"0" maximum:"1"`
	TopP          *float64                     `json:"top_p,omitempty" minimum:"0" maximum:"1"`
	StopSequences contracts.List[string]       `json:"stop_sequences,omitempty" maxItems:"4"`
	Stream        bool                         `json:"stream" default:"false"`
	Tools         contracts.List[blockTool]    `json:"tools,omitempty" maxItems:"128"`
	ToolChoice    *blockToolChoice             `json:"tool_choice,omitempty"`
	OutputConfig  *outputConfig                `json:"output_config,omitempty"`
	PromptLab     *extension                   `json:"promptlab,omitempty"`

	// Not used: they change where and how a provider works, not what is asked.
	Metadata    any `json:"metadata,omitempty"`
	ServiceTier any `json:"service_tier,omitempty"`
	Thinking    any `json:"thinking,omitempty"`
	TopK        any `json:"top_k,omitempty"`

	CacheControl  any `json:"cache_control,omitempty"`
	Diagnostics   any `json:"diagnostics,omitempty"`
	Speed         any `json:"speed,omitempty"`
	UserProfileID any `json:"user_profile_id,omitempty"`
	WorkspaceID   any `json:"workspace_id,omitempty"` // of an account at the provider
}

type blockMessage struct {
	Role    string `json:"role" enum:"user,assistant"`
	Content any    `json:"content"`
}

type blockTool struct {
	Type         string `json:"type" default:"custom" enum:"custom"`
	Name         string `json:"name" pattern:"^[A-Za-z0-9_-]{1,64}$"`
	Description  string `json:"description,omitempty"`
	InputSchema  any    `json:"input_schema"`
	CacheControl any    `json:"cache_control,omitempty"`
	Eager        any    `json:"eager_input_streaming,omitempty"` // not used: calls are told when they are whole
	Strict       *bool  `json:"strict,omitempty"`
}

type blockToolChoice struct {
	Type                   string `json:"type" enum:"auto,any,tool,none"`
	Name                   string `json:"name,omitempty"`
	DisableParallelToolUse *bool  `json:"disable_parallel_tool_use,omitempty"`
}

type outputConfig struct {
	Format *outputFormat `json:"format,omitempty"`
	Effort any           `json:"effort,omitempty"` // not used
}

type outputFormat struct {
	Type   string `json:"type" enum:"json_schema"`
	Schema any    `json:"schema"`
}

func (messages) parse(body []byte) (*request, error) {
	in, err := decodeBody[messagesRequest](body)
	if err != nil {
		return nil, err
	}
	c := &checker{}
	out := &request{model: in.Model, stream: in.Stream, ask: gateway.Request{
		Role: gateway.RoleChat, Feature: "chat", MaxTokens: in.MaxTokens, Temperature: in.Temperature, TopP: in.TopP, Stop: in.StopSequences,
	}}
	if text := c.systemText(in.System); text != "" {
		out.messages = append(out.messages, gateway.Message{Role: gateway.SpeakerSystem, Content: text})
	}
	before := len(out.messages)
	var ids []string
	if in.PromptLab != nil {
		out.ext = *in.PromptLab
		c.require(len(out.ext.MessageIDs) == 0 || len(out.ext.MessageIDs) == len(in.Messages), "promptlab.message_ids", "count", "must name each message, or none")
	}
	for i, m := range in.Messages {
		made := c.blocks(fmt.Sprintf("messages[%d]", i), m)
		out.messages = append(out.messages, made...)
		for range made { // the parts of one message have its id
			if i < len(out.ext.MessageIDs) {
				ids = append(ids, out.ext.MessageIDs[i])
			}
		}
	}
	if len(ids) > 0 {
		out.ids = append(make([]string, before), ids...)
	}
	c.extension(out)
	c.blockTools(in, body, &out.ask)
	c.outputFormat(in, body, &out.ask)
	if len(c.details) > 0 {
		return nil, badRequest(c.details...)
	}
	var effort any
	if in.OutputConfig != nil {
		effort = in.OutputConfig.Effort
	}
	out.ignored = given(map[string]any{
		"output_config.effort": effort,
		"metadata":             in.Metadata, "service_tier": in.ServiceTier, "thinking": in.Thinking, "top_k": in.TopK, "cache_control": in.CacheControl,
		"diagnostics": in.Diagnostics, "speed": in.Speed, "user_profile_id": in.UserProfileID, "workspace_id": in.WorkspaceID,
	})
	return out, nil
}

// outputFormat reads the shape that an answer is to have.
func (c *checker) outputFormat(in messagesRequest, body []byte, ask *gateway.Request) {
	if in.OutputConfig == nil || in.OutputConfig.Format == nil {
		return
	}
	var raw struct {
		OutputConfig struct {
			Format struct {
				Schema json.RawMessage `json:"schema"`
			} `json:"format"`
		} `json:"output_config"`
	}
	_ = json.Unmarshal(body, &raw) // it has been decoded once already
	ask.Schema = c.shape("output_config.format.schema", "answer", raw.OutputConfig.Format.Schema)
}

// systemText reads instructions: a text, or a list of texts.
func (c *checker) systemText(v any) string {
	switch s := v.(type) {
	case nil:
		return ""
	case string:
		return s
	case []any:
		var texts []string
		for i, e := range s {
			b, _ := e.(map[string]any)
			text, ok := b["text"].(string)
			c.require(ok && b["type"] == "text", fmt.Sprintf("system[%d]", i), "type", "must be a block of text")
			texts = append(texts, text)
		}
		return strings.Join(texts, "\n\n")
	}
	c.require(false, "system", "type", "must be a string or a list of text blocks")
	return ""
}

// blocks makes our messages of one of theirs: results of tools are messages of
// their own, in the order in which they stand.
func (c *checker) blocks(at string, m blockMessage) []gateway.Message {
	if text, ok := m.Content.(string); ok {
		return []gateway.Message{{Role: m.Role, Content: text}}
	}
	list, ok := m.Content.([]any)
	c.require(ok && len(list) > 0, at+".content", "type", "must be a string or a list of blocks")
	var out []gateway.Message
	own := gateway.Message{Role: m.Role}
	for i, e := range list {
		b, _ := e.(map[string]any)
		here := fmt.Sprintf("%s.content[%d]", at, i)
		kind, _ := b["type"].(string)
		switch {
		case kind == "text":
			text, ok := b["text"].(string)
			c.require(ok, here+".text", "type", "must be a string")
			own.Parts = append(own.Parts, gateway.Part{Type: gateway.PartText, Text: text})
		case kind == "image" && m.Role == "user":
			own.Parts = append(own.Parts, gateway.Part{Type: gateway.PartImage, ImageURL: c.image(here, b)})
		case kind == "tool_use" && m.Role == "assistant":
			id, _ := b["id"].(string)
			name, _ := b["name"].(string)
			args, err := json.Marshal(b["input"])
			c.require(id != "" && name != "" && err == nil, here, "required", "needs id, name and input")
			own.ToolCalls = append(own.ToolCalls, gateway.ToolCall{ID: id, Name: name, Arguments: string(args)})
		case kind == "tool_result" && m.Role == "user":
			id, _ := b["tool_use_id"].(string)
			c.require(id != "", here+".tool_use_id", "required", "is missing")
			text := c.systemTextAt(here+".content", b["content"])
			if failed, _ := b["is_error"].(bool); failed { // other protocols have no word for it
				text = "The tool failed: " + text
			}
			out = append(out, gateway.Message{Role: gateway.SpeakerTool, ToolCallID: id, Content: text})
		case kind == "thinking" || kind == "redacted_thinking": // of an earlier answer; nothing of it is used
		default:
			c.require(false, here+".type", "enum", "must be text, image, tool_use or tool_result, as the role allows; hand documents along in promptlab.documents")
		}
	}
	if len(own.Parts) == 1 && own.Parts[0].Type == gateway.PartText {
		own.Content, own.Parts = own.Parts[0].Text, nil
	}
	if own.Content != "" || len(own.Parts) > 0 || len(own.ToolCalls) > 0 || len(out) == 0 {
		out = append(out, own)
	}
	return out
}

// systemTextAt reads a tool's result, which may be a list of texts.
func (c *checker) systemTextAt(at string, v any) string {
	n := len(c.details)
	text := c.systemText(v)
	for i := n; i < len(c.details); i++ {
		c.details[i].Field = at
	}
	return text
}

func (c *checker) image(at string, b map[string]any) string {
	src, _ := b["source"].(map[string]any)
	switch src["type"] {
	case "base64":
		media, _ := src["media_type"].(string)
		data, _ := src["data"].(string)
		c.require(strings.HasPrefix(media, "image/") && data != "", at+".source", "type", "needs media_type and data")
		return "data:" + media + ";base64," + data
	case "url":
		address, ok := src["url"].(string)
		c.require(ok, at+".source.url", "type", "must be an address")
		return address
	}
	c.require(false, at+".source.type", "enum", "must be base64 or url")
	return ""
}

func (c *checker) blockTools(in messagesRequest, body []byte, ask *gateway.Request) {
	var raw struct {
		Tools []struct {
			InputSchema json.RawMessage `json:"input_schema"`
		} `json:"tools"`
	}
	if len(in.Tools) > 0 {
		_ = json.Unmarshal(body, &raw) // it has been decoded once already
	}
	for i, t := range in.Tools {
		_, object := t.InputSchema.(map[string]any)
		c.require(object, fmt.Sprintf("tools[%d].input_schema", i), "type", "must be a JSON Schema object")
		g := gateway.Tool{Name: t.Name, Description: t.Description, Strict: t.Strict}
		if i < len(raw.Tools) {
			g.Parameters = raw.Tools[i].InputSchema
		}
		ask.Tools = append(ask.Tools, g)
	}
	if ch := in.ToolChoice; ch != nil {
		ask.ToolChoice = map[string]string{"auto": gateway.ToolsAuto, "any": gateway.ToolsRequired, "none": gateway.ToolsNone, "tool": ch.Name}[ch.Type]
		c.require(ch.Type != "tool" || ch.Name != "", "tool_choice.name", "required", "is missing")
		if ch.DisableParallelToolUse != nil {
			parallel := !*ch.DisableParallelToolUse
			ask.ParallelToolCalls = &parallel
		}
	}
}

// failure gives an error as these clients read it.
func (messages) failure(e *apiError, requestID string) any {
	kind := map[int]string{
		http.StatusUnauthorized: "authentication_error", http.StatusForbidden: "permission_error", http.StatusNotFound: "not_found_error",
		http.StatusRequestEntityTooLarge: "request_too_large", http.StatusTooManyRequests: "rate_limit_error", http.StatusServiceUnavailable: "overloaded_error",
	}[e.status]
	if kind == "" {
		kind = "api_error"
		if e.status < http.StatusInternalServerError {
			kind = "invalid_request_error"
		}
	}
	return map[string]any{"type": "error", "request_id": requestID, "error": map[string]any{"type": kind, "message": e.message, "code": e.code, "details": e.details}}
}

// block is one piece of an answer's content.
type block struct {
	Type     string          `json:"type"`
	Text     *string         `json:"text,omitempty"`
	Thinking *string         `json:"thinking,omitempty"`
	ID       string          `json:"id,omitempty"`
	Name     string          `json:"name,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"`
}

type blockAnswer struct {
	ID           string     `json:"id"`
	Type         string     `json:"type"`
	Role         string     `json:"role"`
	Model        string     `json:"model"`
	Content      []block    `json:"content"`
	StopReason   *string    `json:"stop_reason"`
	StopSequence *string    `json:"stop_sequence"`
	Usage        blockUsage `json:"usage"`
	PromptLab    *note      `json:"promptlab,omitempty"`
}

// blockUsage has no way to say that nothing is known: its fields are then 0 and
// promptlab_unknown says so.
type blockUsage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
	Unknown    bool  `json:"promptlab_unknown,omitempty"`
}

func blockUsageOf(u gateway.Usage) blockUsage {
	return blockUsage{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Unknown: !u.Known}
}

func stopReason(r gateway.Response) *string {
	why := "end_turn"
	switch r.Finish {
	case gateway.FinishLength, gateway.FinishUnknown:
		why = "max_tokens"
	case gateway.FinishToolCalls:
		why = "tool_use"
	case gateway.FinishRefusal:
		why = "refusal"
	}
	return &why
}

func (messages) answer(_ *Server, x *exchange, t *turn, r gateway.Response, n *note) any {
	out := blockAnswer{ID: "msg_" + x.id, Type: "message", Role: "assistant", Model: t.target.Name, Content: []block{}, StopReason: stopReason(r), Usage: blockUsageOf(r.Usage), PromptLab: n}
	for _, text := range []string{r.Text, r.Refusal} {
		if text != "" {
			out.Content = append(out.Content, block{Type: "text", Text: &text})
		}
	}
	for _, c := range r.ToolCalls {
		out.Content = append(out.Content, block{Type: "tool_use", ID: c.ID, Name: c.Name, Input: object(c.Arguments)})
	}
	return out
}

// object gives a tool's arguments as the object that these clients expect.
func object(arguments string) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &m) != nil || m == nil {
		if arguments == "" {
			return json.RawMessage("{}")
		}
		return encode(map[string]string{"promptlab_not_an_object": arguments})
	}
	return json.RawMessage(arguments)
}
