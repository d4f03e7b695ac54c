package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/elnor/promptlab/gateway"
)

// messagesRequest is the wire form of a request.
type messagesRequest struct {
	Model         string        `json:"model"`
	MaxTokens     int           `json:"max_tokens"`
	System        []wireBlock   `json:"system,omitempty"`
	Messages      []turn        `json:"messages"`
	Temperature   *float64      `json:"temperature,omitempty"`
	TopP          *float64      `json:"top_p,omitempty"`
	StopSequences []string      `json:"stop_sequences,omitempty"`
	Tools         []tool        `json:"tools,omitempty"`
	ToolChoice    *toolChoice   `json:"tool_choice,omitempty"`
	Thinking      *thinking     `json:"thinking,omitempty"`
	OutputConfig  *outputConfig `json:"output_config,omitempty"`
	Stream        bool          `json:"stream,omitempty"`
}

type turn struct {
	Role    string      `json:"role"`
	Content []wireBlock `json:"content"`
}

type wireBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	Source    *source         `json:"source,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   string          `json:"content,omitempty"`
	Thinking  *string         `json:"thinking,omitempty"`
	Signature string          `json:"signature,omitempty"`
	Data      string          `json:"data,omitempty"`
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
	Strict      *bool           `json:"strict,omitempty"`
}

type toolChoice struct {
	Type    string `json:"type"`
	Name    string `json:"name,omitempty"`
	OnlyOne bool   `json:"disable_parallel_tool_use,omitempty"`
}

type thinking struct {
	Type   string `json:"type"`
	Budget int    `json:"budget_tokens,omitempty"`
}

type outputConfig struct {
	Effort string        `json:"effort,omitempty"`
	Format *outputFormat `json:"format,omitempty"`
}

type outputFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

// leastBudget is the smallest number of tokens that may be thought with.
const leastBudget = 1024

var errShape = errors.New("the protocol has no place for it")

func encode(call gateway.Call, stream bool) ([]byte, error) {
	r := call.Request
	w := messagesRequest{
		Model: call.Target.Model, MaxTokens: r.MaxTokens, Temperature: r.Temperature, TopP: r.TopP,
		StopSequences: r.Stop, Tools: tools(r.Tools), ToolChoice: choice(r), Stream: stream,
	}
	for _, m := range r.Messages {
		if err := w.add(m); err != nil {
			return nil, err
		}
	}
	var out outputConfig
	w.Thinking, out.Effort = think(call)
	if r.Schema != nil {
		out.Format = &outputFormat{Type: "json_schema", Schema: r.Schema.Wire()}
	}
	if out != (outputConfig{}) {
		w.OutputConfig = &out
	}
	return json.Marshal(w)
}

// add puts a message in its place: the words of systems and developers stand
// before everything, tools are answered by the user, and one side's messages in
// a row are one turn. Empty text is nothing the protocol knows.
func (w *messagesRequest) add(m gateway.Message) error {
	blocks, err := content(m)
	if err != nil || len(blocks) == 0 {
		return err
	}
	role := m.Role
	switch role {
	case gateway.SpeakerSystem, gateway.SpeakerDeveloper:
		w.System = append(w.System, blocks...)
		return nil
	case gateway.SpeakerTool:
		role = gateway.SpeakerUser
	}
	if n := len(w.Messages); n > 0 && w.Messages[n-1].Role == role {
		w.Messages[n-1].Content = append(w.Messages[n-1].Content, blocks...)
		return nil
	}
	w.Messages = append(w.Messages, turn{Role: role, Content: blocks})
	return nil
}

func content(m gateway.Message) ([]wireBlock, error) {
	if m.Role == gateway.SpeakerTool {
		return []wireBlock{{Type: "tool_result", ToolUseID: m.ToolCallID, Content: m.Text()}}, nil
	}
	var out []wireBlock
	if len(m.State) > 0 { // thinking stands before what came of it
		if json.Unmarshal(m.State, &out) != nil {
			return nil, errShape
		}
	}
	parts := m.Parts
	if len(parts) == 0 {
		parts = []gateway.Part{{Type: gateway.PartText, Text: m.Content}}
	}
	for _, p := range parts {
		switch {
		case p.Type == gateway.PartImage:
			src, err := image(p.ImageURL)
			if err != nil {
				return nil, err
			}
			out = append(out, wireBlock{Type: "image", Source: src})
		case p.Text != "":
			out = append(out, wireBlock{Type: "text", Text: p.Text})
		}
	}
	for _, c := range m.ToolCalls {
		input := json.RawMessage(strings.TrimSpace(c.Arguments))
		if len(input) == 0 {
			input = json.RawMessage("{}")
		}
		if !bytes.HasPrefix(input, []byte("{")) || !json.Valid(input) {
			return nil, errShape // what a model once wrote wrong cannot be said here
		}
		out = append(out, wireBlock{Type: "tool_use", ID: c.ID, Name: c.Name, Input: input})
	}
	return out, nil
}

// image reads an https address, or base64 data as a browser writes it.
func image(address string) (*source, error) {
	data, inline := strings.CutPrefix(address, "data:")
	if !inline {
		return &source{Type: "url", URL: address}, nil
	}
	media, data, found := strings.Cut(data, ";base64,")
	if !found || media == "" || data == "" || strings.Contains(media, ";") {
		return nil, errShape
	}
	return &source{Type: "base64", MediaType: media, Data: data}, nil
}

func tools(ts []gateway.Tool) []tool {
	var out []tool
	for _, t := range ts {
		shape := t.Parameters
		if len(bytes.TrimSpace(shape)) == 0 {
			shape = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		out = append(out, tool{Name: t.Name, Description: t.Description, InputSchema: shape, Strict: t.Strict})
	}
	return out
}

func choice(r gateway.Request) *toolChoice {
	if len(r.Tools) == 0 {
		return nil
	}
	single := r.ParallelToolCalls != nil && !*r.ParallelToolCalls
	switch c := r.ToolChoice; {
	case c == gateway.ToolsNone:
		return &toolChoice{Type: "none"}
	case c == gateway.ToolsRequired:
		return &toolChoice{Type: "any", OnlyOne: single}
	case c != "" && c != gateway.ToolsAuto:
		return &toolChoice{Type: "tool", Name: c, OnlyOne: single}
	case c != "" || single:
		return &toolChoice{Type: "auto", OnlyOne: single}
	default:
		return nil
	}
}

// think gives how a request says how much to reason. One that answers tools
// without the thinking that asked for them would be refused with thinking on, and
// so would one that must call a tool.
func think(call gateway.Call) (*thinking, string) {
	r, t := call.Request, call.Target
	switch {
	case r.Reasoning == "":
		return nil, ""
	case r.Reasoning == gateway.ReasoningOff, forgot(r.Messages), forced(r):
		return &thinking{Type: "disabled"}, ""
	case !t.Profile.ThinkingBudget:
		return &thinking{Type: "adaptive"}, string(r.Reasoning)
	}
	budget := min(t.Reasoning.MaxTokens, r.MaxTokens-1) // the answer's cap counts both
	if budget < leastBudget {
		return &thinking{Type: "disabled"}, ""
	}
	return &thinking{Type: "enabled", Budget: budget}, ""
}

func forced(r gateway.Request) bool {
	return len(r.Tools) > 0 && !slices.Contains([]string{"", gateway.ToolsAuto, gateway.ToolsNone}, r.ToolChoice)
}

func forgot(messages []gateway.Message) bool {
	for i := len(messages) - 1; i >= 0; i-- {
		switch m := messages[i]; {
		case m.Role == gateway.SpeakerAssistant:
			return len(m.ToolCalls) > 0 && len(m.State) == 0
		case m.Role != gateway.SpeakerTool:
			return false
		}
	}
	return false
}
