package chat

import (
	"encoding/json"
	"slices"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/gateway"
)

// harmless gives a message whose name and tool calls cannot pose as a frame of
// ours. Its texts are composed and need no more.
func harmless(m gateway.Message) gateway.Message {
	m.Name, m.ToolCallID = contracts.EscapeMarkers(m.Name), contracts.EscapeMarkers(m.ToolCallID)
	m.ToolCalls = slices.Clone(m.ToolCalls)
	for i, c := range m.ToolCalls {
		m.ToolCalls[i] = gateway.ToolCall{
			ID: contracts.EscapeMarkers(c.ID), Name: contracts.EscapeMarkers(c.Name), Arguments: contracts.EscapeMarkersJSON(c.Arguments),
		}
	}
	return m
}

// harmlessTools does the same for what a client says of its tools.
func harmlessTools(tools []gateway.Tool) []gateway.Tool {
	tools = slices.Clone(tools)
	for i, t := range tools {
		tools[i].Description = contracts.EscapeMarkers(t.Description)
		if t.Parameters != nil {
			tools[i].Parameters = harmlessJSON(t.Parameters)
		}
	}
	return tools
}

// harmlessJSON does the same for a schema.
func harmlessJSON(raw json.RawMessage) json.RawMessage {
	return json.RawMessage(contracts.EscapeMarkersJSON(string(raw)))
}
