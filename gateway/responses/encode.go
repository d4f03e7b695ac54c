package responses

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/internal/wire"
)

// createRequest is the wire form of a request.
type createRequest struct {
	Model             string     `json:"model"`
	Input             []any      `json:"input"`
	MaxOutputTokens   int        `json:"max_output_tokens"`
	Store             bool       `json:"store"` // never: it says so
	Temperature       *float64   `json:"temperature,omitempty"`
	TopP              *float64   `json:"top_p,omitempty"`
	Tools             []tool     `json:"tools,omitempty"`
	ToolChoice        any        `json:"tool_choice,omitempty"`
	ParallelToolCalls *bool      `json:"parallel_tool_calls,omitempty"`
	Text              *textShape `json:"text,omitempty"`
	Reasoning         *effort    `json:"reasoning,omitempty"`
	Include           []string   `json:"include,omitempty"`
	Stream            bool       `json:"stream,omitempty"`
}

type inputMessage struct {
	Role    string `json:"role"`
	Content any    `json:"content"` // a string or a list of parts
}

type inputPart struct {
	Type     string  `json:"type"`
	Text     *string `json:"text,omitempty"`
	ImageURL string  `json:"image_url,omitempty"`
	Detail   string  `json:"detail,omitempty"`
}

type functionCall struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type functionOutput struct {
	Type   string `json:"type"`
	CallID string `json:"call_id"`
	Output string `json:"output"`
}

type reasoningItem struct {
	Type      string    `json:"type"`
	ID        string    `json:"id,omitempty"`
	Summary   []summary `json:"summary"`
	Encrypted string    `json:"encrypted_content"`
}

type summary struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type tool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"` // said always: silence means true to this protocol alone
}

type textShape struct {
	Format format `json:"format"`
}

type format struct {
	Type   string          `json:"type"`
	Name   string          `json:"name,omitempty"`
	Strict bool            `json:"strict,omitempty"`
	Schema json.RawMessage `json:"schema,omitempty"`
}

type effort struct {
	Effort string `json:"effort"`
}

var errShape = errors.New("the protocol has no place for it")

func encode(call gateway.Call, stream bool) ([]byte, error) {
	r := call.Request
	w := createRequest{
		Model: call.Target.Model, Input: []any{}, MaxOutputTokens: r.MaxTokens, Temperature: r.Temperature, TopP: r.TopP, Stream: stream,
	}
	for _, m := range r.Messages {
		if err := w.add(m); err != nil {
			return nil, err
		}
	}
	if len(r.Tools) > 0 {
		w.Tools, w.ToolChoice, w.ParallelToolCalls = tools(r.Tools), choice(r.ToolChoice), r.ParallelToolCalls
	}
	switch {
	case r.Schema != nil:
		w.Text = &textShape{format{Type: "json_schema", Name: wire.SchemaName(r.Schema.ID()), Strict: true, Schema: r.Schema.Wire()}}
	case r.JSONObject:
		w.Text = &textShape{format{Type: "json_object"}}
	}
	switch r.Reasoning {
	case "":
	case gateway.ReasoningOff:
		w.Reasoning = &effort{"none"}
	default: // nothing is stored there, so it comes here
		w.Reasoning, w.Include = &effort{string(r.Reasoning)}, []string{"reasoning.encrypted_content"}
	}
	return json.Marshal(w)
}

// add puts a message in: a turn's reasoning before its words, and those before
// what it asks for.
func (w *createRequest) add(m gateway.Message) error {
	if m.Role == gateway.SpeakerTool {
		w.Input = append(w.Input, functionOutput{Type: "function_call_output", CallID: m.ToolCallID, Output: m.Text()})
		return nil
	}
	if len(m.State) > 0 {
		var items []reasoningItem
		if json.Unmarshal(m.State, &items) != nil {
			return errShape
		}
		for _, it := range items {
			if it.Summary == nil {
				it.Summary = []summary{}
			}
			w.Input = append(w.Input, it)
		}
	}
	switch {
	case m.Role == gateway.SpeakerUser && len(m.Parts) > 0:
		w.Input = append(w.Input, inputMessage{Role: m.Role, Content: parts(m.Parts)})
	case m.Text() != "" || len(m.ToolCalls) == 0:
		w.Input = append(w.Input, inputMessage{Role: m.Role, Content: m.Text()})
	}
	for _, c := range m.ToolCalls {
		w.Input = append(w.Input, functionCall{Type: "function_call", CallID: c.ID, Name: c.Name, Arguments: c.Arguments})
	}
	return nil
}

func parts(ps []gateway.Part) []inputPart {
	out := make([]inputPart, 0, len(ps))
	for _, p := range ps {
		if p.Type == gateway.PartImage {
			detail := p.Detail
			if detail == "" {
				detail = "auto"
			}
			out = append(out, inputPart{Type: "input_image", ImageURL: p.ImageURL, Detail: detail})
			continue
		}
		out = append(out, inputPart{Type: "input_text", Text: &p.Text})
	}
	return out
}

func tools(ts []gateway.Tool) []tool {
	var out []tool
	for _, t := range ts {
		shape := t.Parameters
		if len(bytes.TrimSpace(shape)) == 0 {
			shape = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		out = append(out, tool{Type: "function", Name: t.Name, Description: t.Description, Parameters: shape, Strict: t.Strict != nil && *t.Strict})
	}
	return out
}

func choice(c string) any {
	switch c {
	case "":
		return nil
	case gateway.ToolsAuto, gateway.ToolsNone, gateway.ToolsRequired:
		return c
	default:
		return map[string]string{"type": "function", "name": c}
	}
}
