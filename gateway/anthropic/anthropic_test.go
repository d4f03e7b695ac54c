package anthropic_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/anthropic"
)

const canary = "CANARY-3c4d-do-not-tell"

// server is a transport with one answer that keeps what it was asked.
type server struct {
	status int
	kind   string
	answer string
	calls  int
	path   string
	header http.Header
	body   map[string]any
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.calls++
	s.path, s.header = r.URL.Path, r.Header.Clone()
	b, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(b, &s.body); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: s.status, Header: http.Header{"Content-Type": {s.kind}, "Request-Id": {"req_011"}},
		Body: io.NopCloser(strings.NewReader(s.answer)), Request: r,
	}, nil
}

func (s *server) adapter() *anthropic.Adapter { return anthropic.New(anthropic.Config{Transport: s}) }

func whole(answer string) *server {
	return &server{status: 200, kind: "application/json", answer: answer}
}

func streamed(answer string) *server {
	return &server{status: 200, kind: "text/event-stream; charset=utf-8", answer: answer}
}

// target gives the target that a configuration makes.
func target(t testing.TB, change func(*gateway.ModelConfig)) gateway.Target {
	t.Helper()
	m := gateway.ModelConfig{Name: "one", Protocol: gateway.ProtocolAnthropic, BaseURL: "http://127.0.0.1:1/v1", Model: "claude-test-20260101", Routes: gateway.Roles()}
	if change != nil {
		change(&m)
	}
	got, err := gateway.Targets([]gateway.ModelConfig{m})
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

func call(t testing.TB) gateway.Call {
	t.Helper()
	return gateway.Call{Target: target(t, nil), Key: "sk-" + canary, Request: gateway.Request{
		MaxTokens: 100, Messages: []gateway.Message{{Role: "user", Content: "hello"}},
	}}
}

func offering(c *gateway.Call) { c.Request.Tools = []gateway.Tool{{Name: "f"}, {Name: "g"}} }

func as(err error) *gateway.Error {
	var e *gateway.Error
	errors.As(err, &e)
	return e
}

func parsed(t *testing.T, s string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

const told = `,"usage":{"input_tokens":9,"cache_read_input_tokens":4,"cache_creation_input_tokens":2,"output_tokens":3}`

func message(content, reason, rest string) string {
	return `{"id":"msg_1","type":"message","role":"assistant","model":"claude-test-20260101","content":[` + content + `],"stop_reason":` + reason + rest + `}`
}

// R-GWB-02, R-GWB-19, R-GWP-03: a small request says what it must and no more.
func TestTheLeastRequest(t *testing.T) {
	s := whole(message(`{"type":"text","text":"hi"}`, `"end_turn"`, told))
	if _, err := s.adapter().Complete(t.Context(), call(t)); err != nil {
		t.Fatal(err)
	}
	want := parsed(t, `{"model":"claude-test-20260101","max_tokens":100,"messages":[{"role":"user","content":[{"type":"text","text":"hello"}]}]}`)
	if diff := cmp.Diff(want, s.body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if h := s.header; s.path != "/v1/messages" || h.Get("X-Api-Key") != "sk-"+canary || h.Get("Anthropic-Version") == "" || h.Get("Authorization") != "" || h.Get("Anthropic-Beta") != "" {
		t.Errorf("path %s, headers with the key in X-Api-Key %t, version %q, authorization %t", s.path, h.Get("X-Api-Key") != "", h.Get("Anthropic-Version"), h.Get("Authorization") != "")
	}
}

// R-GWB-02: every part of a request has its place, in the order that the
// protocol wants.
func TestTheWholeRequest(t *testing.T) {
	s := whole(message(`{"type":"text","text":"hi"}`, `"end_turn"`, told))
	c := call(t)
	half, no := 0.5, false
	c.Request.Temperature, c.Request.TopP, c.Request.Stop = &half, &half, []string{"END"}
	c.Request.Tools = []gateway.Tool{{Name: "f", Description: "does f", Parameters: json.RawMessage(`{"type":"object"}`)}, {Name: "g"}}
	c.Request.ToolChoice, c.Request.ParallelToolCalls = "f", &no
	var err error
	if c.Request.Schema, err = gateway.NewSchema("judge/1", `{"type":"object","properties":{"score":{"type":"number","minimum":0}}}`); err != nil {
		t.Fatal(err)
	}
	c.Request.Messages = []gateway.Message{
		{Role: "system", Content: "be kind"},
		{Role: "user", Name: "kim", Parts: []gateway.Part{{Type: "text", Text: "what is this"}, {Type: "image_url", ImageURL: "https://example.com/a.png"},
			{Type: "image_url", ImageURL: "data:image/png;base64,aGk="}}},
		{Role: "developer", Content: "be brief"},
		{Role: "assistant", Content: "", ToolCalls: []gateway.ToolCall{{ID: "t1", Name: "f", Arguments: `{"a":1}`}, {ID: "t2", Name: "g"}}},
		{Role: "tool", ToolCallID: "t1", Content: "a cat"},
		{Role: "tool", ToolCallID: "t2"},
		{Role: "user", Content: "and now"},
	}
	if _, err := s.adapter().Complete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	want := parsed(t, `{"model":"claude-test-20260101","max_tokens":100,"temperature":0.5,"top_p":0.5,"stop_sequences":["END"],
		"system":[{"type":"text","text":"be kind"},{"type":"text","text":"be brief"}],
		"tools":[{"name":"f","description":"does f","input_schema":{"type":"object"}},{"name":"g","input_schema":{"type":"object","properties":{}}}],
		"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true},
		"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"score":{"type":"number"}}}}},
		"messages":[
			{"role":"user","content":[{"type":"text","text":"what is this"},{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}},
				{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]},
			{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{"a":1}},{"type":"tool_use","id":"t2","name":"g","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"a cat"},{"type":"tool_result","tool_use_id":"t2"},{"type":"text","text":"and now"}]}]}`)
	if diff := cmp.Diff(want, s.body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestChoiceOfTools(t *testing.T) {
	no := false
	for _, c := range []struct {
		choice string
		single bool
		want   string
	}{
		{"", false, ``}, {"", true, `{"type":"auto","disable_parallel_tool_use":true}`}, {"auto", false, `{"type":"auto"}`},
		{"none", true, `{"type":"none"}`}, {"required", false, `{"type":"any"}`}, {"g", false, `{"type":"tool","name":"g"}`},
	} {
		s := whole(message(`{"type":"text","text":"hi"}`, `"end_turn"`, told))
		in := call(t)
		offering(&in)
		if in.Request.ToolChoice = c.choice; c.single {
			in.Request.ParallelToolCalls = &no
		}
		if _, err := s.adapter().Complete(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		got, _ := json.Marshal(s.body["tool_choice"])
		if want := c.want; want == "" && string(got) != "null" || want != "" && cmp.Diff(parsed(t, want), s.body["tool_choice"]) != "" {
			t.Errorf("choice %q, single %t: %s, want %s", c.choice, c.single, got, c.want)
		}
	}
}

// What the protocol has no place for is refused before anything is sent.
func TestWhatCannotBeSaid(t *testing.T) {
	for name, m := range map[string]gateway.Message{
		"arguments that are no object": {Role: "assistant", ToolCalls: []gateway.ToolCall{{ID: "t1", Name: "f", Arguments: `{"a":`}}},
		"an image without base64":      {Role: "user", Parts: []gateway.Part{{Type: "image_url", ImageURL: "data:image/svg+xml,<svg/>"}}},
		"somebody else's state":        {Role: "assistant", Content: "x", State: json.RawMessage(`{"mine":1}`)},
	} {
		s := whole("{}")
		c := call(t)
		c.Request.Messages = []gateway.Message{m}
		_, err := s.adapter().Complete(t.Context(), c)
		if e := as(err); e == nil || e.Class != gateway.ClassBadRequest || !e.NotBilled || s.calls != 0 {
			t.Errorf("%s: error %v after %d calls, want bad_request and none", name, err, s.calls)
		}
	}
}

// R-GWP-06, R-GWP-07: reasoning is said as the model's kind wants it, within the
// declared number of tokens, and not at all where nothing is declared.
func TestReasoningOnTheWire(t *testing.T) {
	tools := []gateway.Message{{Role: "user", Content: "x"}, {Role: "assistant", ToolCalls: []gateway.ToolCall{{ID: "t1", Name: "f"}}}, {Role: "tool", ToolCallID: "t1"}}
	remembered := append([]gateway.Message{}, tools...)
	remembered[1].State = json.RawMessage(`[{"type":"thinking","thinking":"hm","signature":"s"}]`)
	for _, c := range []struct {
		profile  string
		effort   gateway.Reasoning
		cap      int
		messages []gateway.Message
		thinking string
		level    any
	}{
		{"anthropic", "", 9000, nil, "null", nil},
		{"anthropic", gateway.ReasoningOff, 9000, nil, `{"type":"disabled"}`, nil},
		{"anthropic", gateway.ReasoningLow, 9000, nil, `{"type":"adaptive"}`, "low"},
		{"anthropic-budget", gateway.ReasoningHigh, 9000, nil, `{"budget_tokens":2000,"type":"enabled"}`, nil},
		{"anthropic-budget", gateway.ReasoningHigh, 1500, nil, `{"budget_tokens":1499,"type":"enabled"}`, nil},
		{"anthropic-budget", gateway.ReasoningHigh, 900, nil, `{"type":"disabled"}`, nil},
		{"anthropic", gateway.ReasoningHigh, 9000, tools, `{"type":"disabled"}`, nil},
		{"anthropic", gateway.ReasoningHigh, 9000, remembered, `{"type":"adaptive"}`, "high"},
		{"anthropic forced", gateway.ReasoningHigh, 9000, remembered, `{"type":"disabled"}`, nil},
	} {
		s := whole(message(`{"type":"text","text":"hi"}`, `"end_turn"`, told))
		in := call(t)
		in.Target = target(t, func(m *gateway.ModelConfig) {
			m.Profile, m.Limits.MaxOutputTokens = strings.TrimSuffix(c.profile, " forced"), 10000
			m.Reasoning = &gateway.ReasoningConfig{Effort: "high", MaxTokens: 2000, LatencySeconds: 60, MaxCostUSD: 1, Evaluation: "e", EvaluatedModel: m.Model, Evaluated: "high"}
		})
		if in.Request.Reasoning, in.Request.MaxTokens = c.effort, c.cap; c.messages != nil {
			in.Request.Messages = c.messages
			offering(&in)
		}
		if strings.HasSuffix(c.profile, " forced") {
			in.Request.ToolChoice = "f"
		}
		if _, err := s.adapter().Complete(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		got, _ := json.Marshal(s.body["thinking"])
		config, _ := s.body["output_config"].(map[string]any)
		if string(got) != c.thinking || config["effort"] != c.level {
			t.Errorf("%s, effort %q, cap %d: thinking %s, effort %v; want %s, %v", c.profile, c.effort, c.cap, got, config["effort"], c.thinking, c.level)
		}
	}
}

// R-GWT-01, R-GWL-01: why answers end, and what they are then.
func TestWholeAnswers(t *testing.T) {
	usage := gateway.Usage{Known: true, Input: 9, Output: 3, CacheRead: 4, CacheWrite: 2}
	const text = `{"type":"text","text":"hi"},{"type":"text","text":" there"}`
	for _, c := range []struct {
		name, in string
		want     gateway.Reply
		reason   string // of a malformed answer
	}{
		{"end_turn", message(text, `"end_turn"`, told), gateway.Reply{Text: "hi there", Finish: "stop", Usage: usage}, ""},
		{"stop_sequence", message(text, `"stop_sequence"`, told), gateway.Reply{Text: "hi there", Finish: "stop", Usage: usage}, ""},
		{"R-GWT-01 max_tokens", message(text, `"max_tokens"`, told), gateway.Reply{Text: "hi there", Finish: "length", Usage: usage}, ""},
		{"R-GWT-01 model_context_window_exceeded", message(text, `"model_context_window_exceeded"`, told), gateway.Reply{Text: "hi there", Finish: "length", Usage: usage}, ""},
		{"pause_turn", message(text, `"pause_turn"`, told), gateway.Reply{Text: "hi there", Finish: "unknown", Usage: usage}, ""},
		{"no reason", message(text, `null`, told), gateway.Reply{Text: "hi there", Finish: "unknown", Usage: usage}, ""},
		{"R-GWT-09 refusal", message(text, `"refusal"`, `,"stop_details":{"type":"refusal","explanation":"no"}`+told), gateway.Reply{Refusal: "no", Finish: "refusal", Usage: usage}, ""},
		{"R-GWS-27 thinking is no answer", message(`{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"redacted_thinking","data":"xx"},`+text, `"end_turn"`, told),
			gateway.Reply{Text: "hi there", Reasoning: "hm", Finish: "stop", Usage: usage,
				State: json.RawMessage(`[{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"redacted_thinking","data":"xx"}]`)}, ""},
		{"R-GWB-03 tool_use", message(`{"type":"text","text":"hi there"},{"type":"tool_use","id":"t1","name":"f","input":{"a":1}},{"type":"tool_use","id":"t2","name":"g","input":{}}`, `"tool_use"`, told),
			gateway.Reply{Text: "hi there", Finish: "tool_calls", Usage: usage, ToolCalls: []gateway.ToolCall{{ID: "t1", Name: "f", Arguments: `{"a":1}`}, {ID: "t2", Name: "g", Arguments: "{}"}}}, ""},
		{"R-GWL-02 no usage", message(text, `"end_turn"`, ""), gateway.Reply{Text: "hi there", Finish: "stop"}, ""},
		{"half a usage", message(text, `"end_turn"`, `,"usage":{"input_tokens":9}`), gateway.Reply{Text: "hi there", Finish: "stop"}, ""},
		{"a usage of another shape", message(text, `"end_turn"`, `,"usage":{"input_tokens":"9","output_tokens":3}`), gateway.Reply{Text: "hi there", Finish: "stop"}, ""},
		{"words without tokens", message(text, `"end_turn"`, `,"usage":{"input_tokens":9,"output_tokens":0}`), gateway.Reply{Text: "hi there", Finish: "stop"}, ""},
		{"an empty text", message(`{"type":"text","text":""}`, `"end_turn"`, told), gateway.Reply{Finish: "stop", Usage: usage}, ""},
		{"nothing", message(``, `"end_turn"`, told), gateway.Reply{Finish: "stop", Usage: usage}, "no_content"},
		{"tool_use without a tool", message(text, `"tool_use"`, told), gateway.Reply{Text: "hi there", Finish: "tool_calls", Usage: usage}, "tool_call"},
		{"a nameless tool", message(`{"type":"tool_use","id":"t1","input":{}}`, `"tool_use"`, told), gateway.Reply{Usage: usage}, "tool_call"},
		{"another protocol's answer", `{"choices":[{"message":{"content":"hi"}}]}`, gateway.Reply{}, "not_a_message"},
		{"no document", `hello`, gateway.Reply{}, "not_a_message"},
		{"trailing garbage", message(text, `"end_turn"`, told) + "x", gateway.Reply{}, "not_a_message"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := whole(c.in)
			in := call(t)
			offering(&in)
			got, err := s.adapter().Complete(t.Context(), in)
			if e := as(err); c.reason == "" && err != nil || c.reason != "" && (e == nil || e.Class != gateway.ClassMalformedResponse || e.Reason != c.reason || e.RequestID != "req_011") {
				t.Fatalf("error %v, want reason %q", err, c.reason)
			}
			c.want.ProviderRequestID, got.Upstream = "req_011", 0
			if c.reason == "" {
				c.want.ServedModel = "claude-test-20260101"
			} else {
				got.ServedModel = ""
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("reply (-want +got):\n%s", diff)
			}
		})
	}
	s := whole(message(`{"type":"tool_use","id":"t1","name":"f","input":{}}`, `"tool_use"`, told))
	if _, err := s.adapter().Complete(t.Context(), call(t)); gateway.ClassOf(err) != gateway.ClassMalformedResponse {
		t.Errorf("a tool that nobody offered: error %v, want malformed_response", err)
	}
}

// R-GWB-10, R-GWB-11, R-GWV-03: an error has the class of its type, be its status
// 200, and holds nothing of what was said.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		status int
		kind   string
		want   gateway.ErrorClass
	}{
		{200, "overloaded_error", gateway.ClassOverloaded}, {529, "overloaded_error", gateway.ClassOverloaded}, {200, "rate_limit_error", gateway.ClassRateLimit},
		{200, "invalid_request_error", gateway.ClassBadRequest}, {200, "authentication_error", gateway.ClassAuth}, {200, "api_error", gateway.ClassServer},
		{403, "permission_error", gateway.ClassEntitlement}, {404, "not_found_error", gateway.ClassModelNotFound}, {413, "request_too_large", gateway.ClassContextOverflow},
		{402, "billing_error", gateway.ClassProviderQuota}, {504, "timeout_error", gateway.ClassServer},
	} {
		s := &server{status: c.status, kind: "application/json", answer: `{"type":"error","error":{"type":"` + c.kind + `","message":"` + canary + `"},"request_id":"req_012"}`}
		for how, do := range map[string]func() error{
			"whole": func() error { _, err := s.adapter().Complete(t.Context(), call(t)); return err },
			"stream": func() error {
				_, err := s.adapter().Stream(t.Context(), call(t), func(gateway.Event) error { return nil })
				return err
			},
		} {
			s.calls = 0
			err := do()
			e := as(err)
			if gateway.ClassOf(err) != c.want || s.calls != 1 || e.Envelope != (c.status == 200) || e.RequestID != "req_011" || strings.Contains(fmt.Sprintf("%+v", *e), canary) {
				t.Errorf("%s, status %d with %s: %+v after %d calls, want %s", how, c.status, c.kind, e, s.calls, c.want)
			}
		}
	}
}
