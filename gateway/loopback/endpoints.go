package loopback

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/elnor/promptlab/gateway"
)

// chatRequest holds every parameter that is known here. The raw ones are read
// to be refused unless they say nothing.
type chatRequest struct {
	Model               string          `json:"model"`
	Messages            []chatMessage   `json:"messages"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	Temperature         *float64        `json:"temperature"`
	Seed                *int64          `json:"seed"`
	Stop                json.RawMessage `json:"stop"`
	N                   *int            `json:"n"`
	Stream              *bool           `json:"stream"`
	Tools               json.RawMessage `json:"tools"`
	ToolChoice          json.RawMessage `json:"tool_choice"`
	Functions           json.RawMessage `json:"functions"`
}

type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// turn waits for one of the job's slots, as long as the client does.
func (s *Server) turn(ctx context.Context) (release func(), p *problem) {
	if s.slots.Acquire(ctx, 1) != nil {
		return nil, s.fault(&gateway.Error{Class: gateway.ClassSaturated})
	}
	if l, latched := s.Latch(); latched { // something ended while we waited
		s.slots.Release(1)
		return nil, latchProblem(l)
	}
	return func() { s.slots.Release(1) }, nil
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request) *problem {
	b, p := body(w, r)
	if p != nil {
		return p
	}
	req, p := s.request(b)
	if p != nil {
		return p
	}
	release, p := s.turn(r.Context())
	if p != nil {
		return p
	}
	defer release()
	resp, err := s.c.Gateway.Do(r.Context(), req, s.c.Budget)
	if err != nil {
		return s.fault(err)
	}
	s.chats.Add(1)
	finish := "stop"
	switch resp.Finish {
	case gateway.FinishLength, gateway.FinishUnknown: // not certainly whole: the caller must not trust it
		finish = "length"
		s.truncated.Add(1)
	case gateway.FinishRefusal:
		finish = "content_filter"
	}
	write(w, http.StatusOK, completion(s.c.Model, resp, finish))
	return nil
}

// completion always has a content string: a null would break the client's step.
func completion(model string, resp gateway.Response, finish string) map[string]any {
	var refusal, usage any
	if resp.Refusal != "" {
		refusal = resp.Refusal
	}
	if u := resp.Usage; u.Known {
		in := u.Input + u.CacheRead + u.CacheWrite
		usage = map[string]any{"prompt_tokens": in, "completion_tokens": u.Output, "total_tokens": in + u.Output}
	}
	return map[string]any{
		"id": "chatcmpl-" + resp.RequestID, "object": "chat.completion", "created": time.Now().Unix(), "model": model,
		"choices": []any{map[string]any{
			"index": 0, "finish_reason": finish,
			"message": map[string]any{"role": "assistant", "content": resp.Text, "refusal": refusal},
		}},
		"usage": usage,
	}
}

// request checks a chat request and makes it the gateway's.
func (s *Server) request(b []byte) (gateway.Request, *problem) {
	var in chatRequest
	if p := parse(b, &in); p != nil {
		return gateway.Request{}, p
	}
	out := gateway.Request{
		Role: gateway.RoleMeta, Model: s.c.Route, JobID: s.c.JobID, Feature: "optimize",
		PromptKey: s.c.PromptKey, PromptVersion: s.c.PromptVersion, Temperature: in.Temperature, Seed: in.Seed,
	}
	if p := s.refuse(in); p != nil {
		return out, p
	}
	switch {
	case in.MaxTokens != nil && in.MaxCompletionTokens != nil:
		return out, bad("max_tokens", "give max_tokens or max_completion_tokens, not both")
	case in.MaxTokens != nil:
		out.MaxTokens = *in.MaxTokens
	case in.MaxCompletionTokens != nil:
		out.MaxTokens = *in.MaxCompletionTokens
	}
	if out.MaxTokens <= 0 {
		return out, bad("max_tokens", "must be given and positive")
	}
	if t := in.Temperature; t != nil && !(*t >= 0 && *t <= 2) {
		return out, bad("temperature", "must lie between 0 and 2")
	}
	stop, ok := stops(in.Stop)
	if !ok {
		return out, bad("stop", "must be a string or a list of at most four strings")
	}
	out.Stop = stop
	for i, m := range in.Messages {
		at := fmt.Sprintf("messages[%d]", i)
		if m.Role != "system" && m.Role != "user" && m.Role != "assistant" {
			return out, bad(at+".role", "must be system, user or assistant")
		}
		text, ok := content(m.Content)
		if !ok {
			return out, bad(at+".content", "must be text")
		}
		out.Messages = append(out.Messages, gateway.Message{Role: m.Role, Content: text})
	}
	if len(out.Messages) == 0 {
		return out, bad("messages", "must hold at least one message")
	}
	return out, nil
}

// refuse names the parameters that are understood and not served.
func (s *Server) refuse(in chatRequest) *problem {
	switch {
	case in.Model != s.c.Model:
		return &problem{http.StatusBadRequest, "model_not_found", "the job has no such model", "model"}
	case in.Stream != nil && *in.Stream:
		return bad("stream", "answers are not streamed here")
	case in.N != nil && *in.N != 1:
		return bad("n", "must be 1")
	case says(in.Tools):
		return bad("tools", "no tools are served here")
	case says(in.ToolChoice):
		return bad("tool_choice", "no tools are served here")
	case says(in.Functions):
		return bad("functions", "no tools are served here")
	default:
		return nil
	}
}

// says tells whether a raw value is more than null or an empty list.
func says(raw json.RawMessage) bool {
	s := strings.Join(strings.Fields(string(raw)), "")
	return s != "" && s != "null" && s != "[]"
}

func stops(raw json.RawMessage) ([]string, bool) {
	if !says(raw) {
		return nil, true
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}, one != ""
	}
	var many []string
	if json.Unmarshal(raw, &many) != nil || len(many) > 4 {
		return nil, false
	}
	return many, true
}

// content reads a string or a list of text parts.
func content(raw json.RawMessage) (string, bool) {
	var s *string
	if json.Unmarshal(raw, &s) == nil {
		if s == nil {
			return "", false
		}
		return *s, true
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return "", false
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Type != "text" {
			return "", false
		}
		b.WriteString(p.Text)
	}
	return b.String(), len(parts) > 0
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) *problem {
	write(w, http.StatusOK, map[string]any{"object": "list", "data": []any{
		map[string]any{"id": s.c.Model, "object": "model", "created": 0, "owned_by": "promptlab"},
	}})
	return nil
}

// text checks the text of a measure or check request.
func text(s string) *problem {
	switch {
	case strings.TrimSpace(s) == "":
		return bad("text", "must not be empty")
	case len(s) > MaxText:
		return &problem{http.StatusRequestEntityTooLarge, "too_large", "the text is larger than 64 KiB", "text"}
	default:
		return nil
	}
}

func (s *Server) measure(w http.ResponseWriter, r *http.Request) *problem {
	b, p := body(w, r)
	if p != nil {
		return p
	}
	var in struct {
		Text       string   `json:"text"`
		ExampleIDs []string `json:"example_ids"`
	}
	if p := parse(b, &in); p != nil {
		return p
	}
	if p := text(in.Text); p != nil {
		return p
	}
	if p := s.examples(in.ExampleIDs); p != nil {
		return p
	}
	release, p := s.turn(r.Context())
	if p != nil {
		return p
	}
	defer release()
	scores, err := s.c.Measure(r.Context(), in.Text, in.ExampleIDs)
	if err == nil {
		err = matches(scores, in.ExampleIDs)
	}
	if err != nil {
		return s.fault(err)
	}
	s.measured.Add(int64(len(scores)))
	write(w, http.StatusOK, map[string]any{"results": scores})
	return nil
}

// examples checks that ids are the job's own, each once.
func (s *Server) examples(ids []string) *problem {
	if len(ids) == 0 {
		return bad("example_ids", "must name at least one example")
	}
	seen := map[string]bool{}
	for i, id := range ids {
		switch at := fmt.Sprintf("example_ids[%d]", i); {
		case !s.ids[id]:
			return bad(at, "is not an example of this job")
		case seen[id]:
			return bad(at, "is named twice")
		}
		seen[id] = true
	}
	return nil
}

// matches holds our own side to the promise: one score per id, in order of the
// question, each unscored or in [0,1].
func matches(scores []Score, ids []string) error {
	if len(scores) != len(ids) {
		return fmt.Errorf("measure gave %d scores for %d examples", len(scores), len(ids))
	}
	for i, sc := range scores {
		if sc.ExampleID != ids[i] {
			return fmt.Errorf("measure score %d is of another example", i)
		}
		if v := sc.Score; v != nil && (math.IsNaN(*v) || *v < 0 || *v > 1) {
			return fmt.Errorf("measure score %d is outside 0 to 1", i)
		}
	}
	return nil
}

func (s *Server) check(w http.ResponseWriter, r *http.Request) *problem {
	b, p := body(w, r)
	if p != nil {
		return p
	}
	var in struct {
		Text string `json:"text"`
	}
	if p := parse(b, &in); p != nil {
		return p
	}
	if p := text(in.Text); p != nil {
		return p
	}
	release, p := s.turn(r.Context())
	if p != nil {
		return p
	}
	defer release()
	violations := s.c.Check(r.Context(), in.Text)
	if violations == nil {
		violations = []Violation{}
	}
	s.checked.Add(1)
	write(w, http.StatusOK, map[string]any{"violations": violations})
	return nil
}
