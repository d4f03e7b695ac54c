package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxTools bounds the tools of one request.
const maxTools = 128

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// ReasonNotActive is why a call is refused whose model is configured in a version
// that nobody has activated.
const ReasonNotActive = "model_not_active"

// policy shapes the request for a target, or refuses it before anything is sent.
func (c *call) policy(ctx context.Context, l *lane) (Request, []string, *Error) {
	req := c.req
	req.Messages, req.Tools, req.Stop = slices.Clone(req.Messages), slices.Clone(req.Tools), slices.Clone(req.Stop) // the next attempt's are the caller's again
	refuse := func(reason string) (Request, []string, *Error) {
		return req, nil, &Error{Class: ClassPolicy, Reason: reason}
	}
	if !req.tries(l.Target) && !c.g.active(ctx, l.Name, l.Fingerprint) {
		return refuse(ReasonNotActive)
	}
	size := 0
	for _, m := range req.Messages {
		if reason := badMessage(m); reason != "" {
			return refuse(reason)
		}
		if _, images := m.size(); images > 0 && l.ImageTokens == 0 {
			return refuse("images_not_served") // their cost has no bound
		}
		size += m.weight()
	}
	for _, t := range req.Tools {
		size += t.size()
	}
	switch _, free := c.budget.(unlimited); {
	case c.budget == nil:
		return refuse("no_budget")
	case len(req.Messages) == 0:
		return refuse("no_messages")
	case req.MaxTokens <= 0:
		return refuse("max_tokens_required")
	case size > l.MaxInputBytes:
		return req, nil, &Error{Class: ClassContextOverflow, Reason: "max_input_bytes"}
	case !free && !l.Price.Known:
		return req, nil, &Error{Class: ClassPriceUnknown}
	}
	if reason := badTools(req); reason != "" {
		return refuse(reason)
	}
	if len(req.Tools) > 0 && !l.Sends(ParamTools) {
		return refuse("tools_not_served") // an answer without them would be one to another question
	}
	req, adjusted := c.adjust(l, req)
	if most := l.Reasoning.MaxCost; req.Reasoning.above(ReasoningOff) && most > 0 && l.bound(req) > most {
		return refuse("reasoning_cost")
	}
	return req, adjusted, nil
}

// adjust clamps and removes what the target does not take, and tells what.
func (c *call) adjust(l *lane, req Request) (Request, []string) {
	var adjusted []string
	if req.MaxTokens > l.MaxOutput {
		req.MaxTokens = l.MaxOutput
		adjusted = append(adjusted, "max_tokens")
	}
	for _, p := range l.Drop {
		if req.drop(p) || p == ParamStreamUsage && c.emit != nil {
			adjusted = append(adjusted, string(p))
		}
	}
	switch declared := l.Reasoning.Effort; {
	case declared == "":
		if req.drop(ParamReasoning) {
			adjusted = append(adjusted, string(ParamReasoning))
		}
	case req.Reasoning == "":
		req.Reasoning = declared
	case req.Reasoning.above(declared):
		req.Reasoning = declared
		adjusted = append(adjusted, string(ParamReasoning))
	}
	if l.Profile.ColdReasoning && req.Reasoning.above(ReasoningOff) {
		for _, p := range []Parameter{ParamTemperature, ParamTopP} {
			if req.drop(p) {
				adjusted = append(adjusted, string(p))
			}
		}
	}
	return req, adjusted
}

// badMessage gives the reason why a message cannot be sent, or nothing.
func badMessage(m Message) string {
	speakers := []string{SpeakerSystem, SpeakerDeveloper, SpeakerUser, SpeakerAssistant, SpeakerTool}
	switch {
	case !slices.Contains(speakers, m.Role):
		return "message_role"
	case !utf8.ValidString(m.Content), !utf8.ValidString(m.Name), !utf8.ValidString(m.ToolCallID):
		return "message_not_utf8"
	case m.Content != "" && len(m.Parts) > 0:
		return "message_content_twice"
	case (m.Role == SpeakerTool) != (m.ToolCallID != ""):
		return "message_tool_call_id"
	case len(m.ToolCalls) > 0 && m.Role != SpeakerAssistant:
		return "message_tool_calls"
	case len(m.State) > 0 && (m.Role != SpeakerAssistant || !json.Valid(m.State) || !utf8.Valid(m.State)):
		return "message_state"
	}
	for _, c := range m.ToolCalls {
		if c.ID == "" || !toolName.MatchString(c.Name) || !utf8.ValidString(c.ID) || !utf8.ValidString(c.Arguments) {
			return "message_tool_calls"
		}
	}
	for _, p := range m.Parts {
		if reason := badPart(m.Role, p); reason != "" {
			return reason
		}
	}
	return ""
}

func badPart(role string, p Part) string {
	switch {
	case p.Type == PartText && (!utf8.ValidString(p.Text) || p.ImageURL != "" || p.Detail != ""):
		return "message_part"
	case p.Type == PartText:
		return ""
	case p.Type != PartImage, role != SpeakerUser, p.Text != "":
		return "message_part"
	case !slices.Contains([]string{"", "auto", "low", "high"}, p.Detail):
		return "image_detail"
	case !strings.HasPrefix(p.ImageURL, "https://") && !strings.HasPrefix(p.ImageURL, "data:image/"), !utf8.ValidString(p.ImageURL):
		return "image_url" // a plain address would let the model's server fetch from where we must not
	default:
		return ""
	}
}

// badTools gives the reason why a request's tools cannot be sent, or nothing.
func badTools(r Request) string {
	if len(r.Tools) > maxTools {
		return "too_many_tools"
	}
	seen := map[string]bool{}
	for _, t := range r.Tools {
		shape := bytes.TrimSpace(t.Parameters)
		switch {
		case !toolName.MatchString(t.Name), slices.Contains([]string{ToolsAuto, ToolsNone, ToolsRequired}, t.Name), seen[t.Name]:
			return "tool_name"
		case !utf8.ValidString(t.Description):
			return "tool_not_utf8"
		case len(shape) > 0 && (!bytes.HasPrefix(shape, []byte("{")) || !json.Valid(shape) || !utf8.Valid(shape)):
			return "tool_parameters"
		}
		seen[t.Name] = true
	}
	switch r.ToolChoice {
	case "", ToolsNone:
		return ""
	case ToolsAuto, ToolsRequired:
		if len(r.Tools) == 0 {
			return "tool_choice"
		}
	default:
		if !seen[r.ToolChoice] {
			return "tool_choice"
		}
	}
	return ""
}

// digest names what was asked without holding it: target, surface, every part of
// the request that can change the answer, and the shape that the answer is held
// against, whether the target is told it or not.
func digest(t Target, req Request, shape *Schema) string {
	b, err := json.Marshal([]any{
		t.Provider, t.Protocol, t.Model, req.Messages, req.MaxTokens, req.Temperature, req.TopP, req.PresencePenalty,
		req.FrequencyPenalty, req.Seed, req.Stop, shape.identity(), req.Schema != nil, req.JSONObject, req.Tools, req.ToolChoice,
		req.ParallelToolCalls, req.Reasoning,
	})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
