package gateway

import "encoding/json"

// The roles of a message. A developer's message goes as the system's to a
// provider that knows no developer.
const (
	SpeakerSystem    = "system"
	SpeakerDeveloper = "developer"
	SpeakerUser      = "user"
	SpeakerAssistant = "assistant"
	SpeakerTool      = "tool"
)

// Message is one turn. Role is system, developer, user, assistant or tool.
type Message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"` // empty when Parts are given
	Name       string     `json:"name,omitempty"`
	Parts      []Part     `json:"parts,omitempty"`        // text and images, in their order
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`   // what an assistant asked for
	ToolCallID string     `json:"tool_call_id,omitempty"` // which of them a tool's message answers

	// State is what the model left for itself with an assistant's turn, such as
	// reasoning that only it can read. It is opaque, goes back to the model that
	// made it, and is never shown or stored.
	State json.RawMessage `json:"state,omitempty"`
}

// Text gives the words of a message, whether they are its content or parts.
func (m Message) Text() string {
	if len(m.Parts) == 0 {
		return m.Content
	}
	text := ""
	for _, p := range m.Parts {
		if p.Type == PartText {
			text += p.Text
		}
	}
	return text
}

// The types of a part.
const (
	PartText  = "text"
	PartImage = "image_url"
)

// Part is one piece of a message's content.
type Part struct {
	Type     string `json:"type"` // PartText or PartImage
	Text     string `json:"text,omitempty"`
	ImageURL string `json:"image_url,omitempty"` // https, or data with a base64 image
	Detail   string `json:"detail,omitempty"`    // low, high, auto or empty
}

// ToolCall is what a model asks its caller to do. Arguments is the JSON text as
// the model wrote it: it may be of another shape than the tool's parameters.
type ToolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Tool is something that the caller can do for a model. Nothing is ever run on
// the provider's side.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"` // a JSON Schema object; empty: no parameters
	Strict      *bool           `json:"strict,omitempty"`
}

// What Request.ToolChoice may be besides a tool's name. Empty is the provider's
// default.
const (
	ToolsAuto     = "auto"
	ToolsNone     = "none"
	ToolsRequired = "required"
)

// size gives the bytes of everything in a message that a provider may count as
// tokens, and the number of its images, which are counted apart.
func (m Message) size() (bytes, images int) {
	bytes = len(m.Role) + len(m.Content) + len(m.Name) + len(m.ToolCallID) + len(m.State)
	for _, p := range m.Parts {
		bytes += perPart + len(p.Text)
		if p.Type == PartImage {
			images++
		}
	}
	for _, c := range m.ToolCalls {
		bytes += perPart + len(c.ID) + len(c.Name) + len(c.Arguments)
	}
	return bytes, images
}

// weight gives the bytes that a message takes on the wire, images included.
func (m Message) weight() int {
	n, _ := m.size()
	for _, p := range m.Parts {
		n += len(p.ImageURL)
	}
	return n
}

// size gives the bytes of a tool that a provider may count as tokens.
func (t Tool) size() int {
	return perPart + len(t.Name) + len(t.Description) + len(t.Parameters)
}
