package responses_test

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
	"github.com/elnor/promptlab/gateway/responses"
)

const canary = "CANARY-5e6f-do-not-tell"

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
		StatusCode: s.status, Header: http.Header{"Content-Type": {s.kind}, "X-Request-Id": {"req_011"}},
		Body: io.NopCloser(strings.NewReader(s.answer)), Request: r,
	}, nil
}

func (s *server) adapter() *responses.Adapter {
	return responses.New(responses.Config{Transport: s})
}

func whole(answer string) *server {
	return &server{status: 200, kind: "application/json", answer: answer}
}

func streamed(answer string) *server {
	return &server{status: 200, kind: "text/event-stream", answer: answer}
}

func call(t testing.TB) gateway.Call {
	t.Helper()
	got, err := gateway.Targets([]gateway.ModelConfig{{Name: "one", Protocol: gateway.ProtocolResponses, BaseURL: "http://127.0.0.1:1/v1", Model: "m-20260101", Routes: gateway.Roles()}})
	if err != nil {
		t.Fatal(err)
	}
	return gateway.Call{Target: got[0], Key: "sk-" + canary, Request: gateway.Request{
		MaxTokens: 100, Messages: []gateway.Message{{Role: "user", Content: "hello"}},
		Tools: []gateway.Tool{{Name: "f"}, {Name: "g"}},
	}}
}

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

const (
	told    = `,"usage":{"input_tokens":13,"input_tokens_details":{"cached_tokens":4},"output_tokens":3,"output_tokens_details":{"reasoning_tokens":2}}`
	hi      = `{"type":"message","id":"msg_1","content":[{"type":"output_text","text":"hi"},{"type":"output_text","text":" there"}]}`
	thought = `{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"xx"}`
	kept    = `[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"xx"}]`
)

func answer(status, output, rest string) string {
	return `{"id":"resp_1","object":"response","status":"` + status + `","error":null,"model":"m-20260101","output":[` + output + `]` + rest + `}`
}

// R-GWB-02, R-GWB-19: a small request says what it must, and that nothing is to be
// stored.
func TestTheLeastRequest(t *testing.T) {
	s := whole(answer("completed", hi, told))
	c := call(t)
	c.Request.Tools = nil
	if _, err := s.adapter().Complete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	want := parsed(t, `{"model":"m-20260101","max_output_tokens":100,"store":false,"input":[{"role":"user","content":"hello"}]}`)
	if diff := cmp.Diff(want, s.body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if s.path != "/v1/responses" || s.header.Get("Authorization") != "Bearer sk-"+canary {
		t.Errorf("path %s, the key there: %t", s.path, s.header.Get("Authorization") != "")
	}
}

// R-GWB-02, R-GWT-06: every part has its place; a turn's reasoning goes back in
// front of what came of it, by replay and without a handle.
func TestTheWholeRequest(t *testing.T) {
	s := whole(answer("completed", hi, told))
	c := call(t)
	half, yes := 0.5, true
	c.Request.Temperature, c.Request.TopP, c.Request.ParallelToolCalls, c.Request.Reasoning = &half, &half, &yes, gateway.ReasoningLow
	c.Request.Tools = []gateway.Tool{{Name: "f", Description: "does f", Parameters: json.RawMessage(`{"type":"object"}`), Strict: &yes}, {Name: "g"}}
	c.Request.ToolChoice = "f"
	var err error
	if c.Request.Schema, err = gateway.NewSchema("judge/1", `{"type":"object","properties":{"score":{"type":"number","minimum":0}}}`); err != nil {
		t.Fatal(err)
	}
	c.Request.Messages = []gateway.Message{
		{Role: "system", Content: "be kind"}, {Role: "developer", Content: "be brief"},
		{Role: "user", Parts: []gateway.Part{{Type: "text", Text: "what is this"}, {Type: "image_url", ImageURL: "https://example.com/a.png", Detail: "low"}, {Type: "image_url", ImageURL: "data:image/png;base64,aGk="}}},
		{Role: "assistant", ToolCalls: []gateway.ToolCall{{ID: "c1", Name: "f", Arguments: `{"a":1}`}}, State: json.RawMessage(kept)},
		{Role: "tool", ToolCallID: "c1", Content: "a cat"},
	}
	if _, err := s.adapter().Complete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	want := parsed(t, `{"model":"m-20260101","max_output_tokens":100,"store":false,"temperature":0.5,"top_p":0.5,"parallel_tool_calls":true,
		"reasoning":{"effort":"low"},"include":["reasoning.encrypted_content"],
		"tools":[{"type":"function","name":"f","description":"does f","parameters":{"type":"object"},"strict":true},{"type":"function","name":"g","parameters":{"type":"object","properties":{}},"strict":false}],
		"tool_choice":{"type":"function","name":"f"},
		"text":{"format":{"type":"json_schema","name":"judge_1","strict":true,"schema":{"type":"object","properties":{"score":{"type":"number"}}}}},
		"input":[{"role":"system","content":"be kind"},{"role":"developer","content":"be brief"},
			{"role":"user","content":[{"type":"input_text","text":"what is this"},{"type":"input_image","image_url":"https://example.com/a.png","detail":"low"},{"type":"input_image","image_url":"data:image/png;base64,aGk=","detail":"auto"}]},
			{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"xx"},
			{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":1}"},{"type":"function_call_output","call_id":"c1","output":"a cat"}]}`)
	if diff := cmp.Diff(want, s.body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	c.Request.Schema, c.Request.JSONObject, c.Request.Reasoning, c.Request.ToolChoice = nil, true, gateway.ReasoningOff, gateway.ToolsRequired
	if _, err := s.adapter().Complete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got, _ := json.Marshal([]any{s.body["text"], s.body["reasoning"], s.body["tool_choice"]}); string(got) != `[{"format":{"type":"json_object"}},{"effort":"none"},"required"]` {
		t.Errorf("any JSON, no reasoning, some tool: %s", got)
	}
	c.Request.Messages[3].State = json.RawMessage(`{"mine":1}`)
	calls := s.calls
	if _, err := s.adapter().Complete(t.Context(), c); gateway.ClassOf(err) != gateway.ClassBadRequest || s.calls != calls {
		t.Errorf("somebody else's state: error %v, %d calls", err, s.calls-calls)
	}
}

var usage = gateway.Usage{Known: true, Input: 9, CacheRead: 4, Output: 3, Reasoning: 2}

// outcome is what an answer must come to.
type outcome struct {
	name   string
	in     string
	want   gateway.Reply
	class  gateway.ErrorClass
	reason string
}

func (c outcome) check(t *testing.T, got gateway.Reply, err error) {
	t.Helper()
	e := as(err)
	if gateway.ClassOf(err) != c.class || e != nil && (e.Reason != c.reason || e.RequestID != "req_011" || strings.Contains(fmt.Sprintf("%+v", *e), canary)) {
		t.Fatalf("error %+v, want class %q, reason %q", e, c.class, c.reason)
	}
	if c.class != "" {
		if got.Usage != c.want.Usage {
			t.Errorf("R-GWS-21 failed with usage %+v, want %+v", got.Usage, c.want.Usage)
		}
		return
	}
	c.want.ProviderRequestID, c.want.ServedModel = "req_011", "m-20260101"
	got.Upstream, got.Wire = 0, gateway.WireStats{}
	if diff := cmp.Diff(c.want, got); diff != "" {
		t.Errorf("reply (-want +got):\n%s", diff)
	}
}

// R-GWT-01, R-GWL-01: what an answer is, by its status and its parts.
func TestWholeAnswers(t *testing.T) {
	for _, c := range []outcome{
		{name: "text", in: answer("completed", hi, told), want: gateway.Reply{Text: "hi there", Finish: "stop", Usage: usage}},
		{name: "R-GWT-01 cut", in: answer("incomplete", hi, `,"incomplete_details":{"reason":"max_output_tokens"}`+told), want: gateway.Reply{Text: "hi there", Finish: "length", Usage: usage}},
		{name: "R-GWT-11 cut while reasoning", in: answer("incomplete", thought, `,"incomplete_details":{"reason":"max_output_tokens"}`+told),
			want: gateway.Reply{Reasoning: "hm", Finish: "length", Usage: usage, State: json.RawMessage(kept)}},
		{name: "incomplete for another reason", in: answer("incomplete", hi, told), want: gateway.Reply{Text: "hi there", Finish: "unknown", Usage: usage}},
		{name: "filtered", in: answer("incomplete", hi, `,"incomplete_details":{"reason":"content_filter"}`+told), want: gateway.Reply{Usage: usage}, class: gateway.ClassContentFilter},
		{name: "R-GWT-09 refusal", in: answer("completed", `{"type":"message","content":[{"type":"refusal","refusal":"no"}]}`, told), want: gateway.Reply{Refusal: "no", Finish: "refusal", Usage: usage}},
		{name: "R-GWS-27 reasoning", in: answer("completed", thought+","+hi, told), want: gateway.Reply{Text: "hi there", Reasoning: "hm", Finish: "stop", Usage: usage, State: json.RawMessage(kept)}},
		{name: "R-GWB-03 tools", in: answer("completed", `{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":1}"},{"type":"function_call","call_id":"c2","name":"g","arguments":""}`, told),
			want: gateway.Reply{Finish: "tool_calls", Usage: usage, ToolCalls: []gateway.ToolCall{{ID: "c1", Name: "f", Arguments: `{"a":1}`}, {ID: "c2", Name: "g", Arguments: "{}"}}}},
		{name: "R-GWL-02 no usage", in: answer("completed", hi, ""), want: gateway.Reply{Text: "hi there", Finish: "stop"}},
		{name: "nothing", in: answer("completed", "", told), want: gateway.Reply{Usage: usage}, class: gateway.ClassMalformedResponse, reason: "no_content"},
		{name: "not there yet", in: answer("in_progress", "", ""), class: gateway.ClassMalformedResponse, reason: "status"},
		{name: "failed", in: `{"object":"response","status":"failed","error":{"code":"server_error","message":"` + canary + `"}` + told + `}`, want: gateway.Reply{Usage: usage}, class: gateway.ClassServer},
		{name: "failed by a limit", in: `{"object":"response","status":"failed","error":{"code":"rate_limit_exceeded","message":"x"}}`, class: gateway.ClassRateLimit},
		{name: "failed without a word", in: answer("failed", "", ""), class: gateway.ClassServer},
		{name: "a call without a name", in: answer("completed", `{"type":"function_call","call_id":"c1","arguments":"{}"}`, told), want: gateway.Reply{Usage: usage}, class: gateway.ClassMalformedResponse, reason: "tool_call"},
		{name: "another protocol's answer", in: `{"object":"chat.completion","choices":[]}`, class: gateway.ClassMalformedResponse, reason: "not_a_response"},
		{name: "no document", in: `hello`, class: gateway.ClassMalformedResponse, reason: "not_a_response"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := whole(c.in).adapter().Complete(t.Context(), call(t))
			c.check(t, got, err)
		})
	}
}

// heard is what a consumer got.
type heard struct {
	text, reasoning, refusal string
	tools                    string
	finished                 int
}

func (h *heard) emit(e gateway.Event) error {
	switch e.Kind {
	case gateway.EventDelta:
		h.text += e.Text
	case gateway.EventReasoning:
		h.reasoning += e.Text
	case gateway.EventRefusal:
		h.refusal += e.Text
	case gateway.EventToolCall:
		h.tools += fmt.Sprintf("%d%s%s%s;", e.Tool.Index, e.Tool.ID, e.Tool.Name, e.Tool.Arguments)
	case gateway.EventFinish:
		h.finished++
	}
	return nil
}

func events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		b.WriteString("data: " + d + "\n\n")
	}
	return b.String()
}

const created = `{"type":"response.created","response":{"object":"response","status":"in_progress","model":"m-20260101","output":[]}}`

func added(index int, item string) string {
	return fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,"item":%s}`, index, item)
}

func done(index int, item string) string {
	return fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, index, item)
}

func piece(index int, kind, text string) string {
	v, _ := json.Marshal(text)
	return fmt.Sprintf(`{"type":"response.%s.delta","output_index":%d,"delta":%s}`, kind, index, v)
}

func ended(what, answer string) string {
	return `{"type":"response.` + what + `","response":` + answer + `}`
}

// R-GWS-01, R-GWS-18, R-GWT-02: the pieces make the answer; its last event tells
// what became of it and what it took.
func TestStreams(t *testing.T) {
	whole := ended("completed", answer("completed", hi, told))
	const message = `{"type":"message","content":[]}`
	for _, c := range []outcome{
		{name: "text", in: events(created, added(0, message), piece(0, "output_text", "hi"), piece(0, "output_text", " there"), `{"type":"response.output_text.done","text":"hi there"}`, done(0, hi), whole),
			want: gateway.Reply{Text: "hi there", Finish: "stop", Usage: usage}},
		{name: "R-GWS-02 keep-alives of all kinds", in: events(created, "ping", "", `{"type":"keepalive"}`, piece(0, "audio", "x"), `{"type":"response.future.delta","delta":{"a":1}}`, added(0, message), piece(0, "output_text", "hi there"), whole),
			want: gateway.Reply{Text: "hi there", Finish: "stop", Usage: usage}},
		{name: "a server that sends whole parts only", in: events(created, done(0, thought), done(1, hi), whole),
			want: gateway.Reply{Text: "hi there", Reasoning: "hm", Finish: "stop", Usage: usage, State: json.RawMessage(kept)}},
		{name: "R-GWS-27 reasoning in pieces", in: events(created, added(0, `{"type":"reasoning"}`), piece(0, "reasoning_summary_text", "h"), piece(0, "reasoning_summary_text", "m"), done(0, thought), added(1, message), piece(1, "output_text", "hi there"), done(1, hi), whole),
			want: gateway.Reply{Text: "hi there", Reasoning: "hm", Finish: "stop", Usage: usage, State: json.RawMessage(kept)}},
		{name: "R-GWB-03 tools whose pieces mix", in: events(created, added(0, `{"type":"function_call","call_id":"c1","name":"f","arguments":""}`), added(1, `{"type":"function_call","call_id":"c2","name":"g"}`),
			piece(0, "function_call_arguments", `{"a"`), piece(1, "function_call_arguments", `{}`), piece(0, "function_call_arguments", `:1}`), done(0, `{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":1}"}`), whole),
			want: gateway.Reply{Finish: "tool_calls", Usage: usage, ToolCalls: []gateway.ToolCall{{ID: "c1", Name: "f", Arguments: `{"a":1}`}, {ID: "c2", Name: "g", Arguments: "{}"}}}},
		{name: "R-GWT-09 refusal", in: events(created, added(0, message), piece(0, "refusal", "n"), piece(0, "refusal", "o"), whole), want: gateway.Reply{Refusal: "no", Finish: "refusal", Usage: usage}},
		{name: "R-GWT-01 cut", in: events(created, added(0, message), piece(0, "output_text", "hi there"), ended("incomplete", answer("incomplete", hi, `,"incomplete_details":{"reason":"max_output_tokens"}`+told))),
			want: gateway.Reply{Text: "hi there", Finish: "length", Usage: usage}},
		{name: "failed", in: events(created, added(0, message), piece(0, "output_text", "hi"), ended("failed", `{"status":"failed","error":{"code":"server_error","message":"`+canary+`"}`+told+`}`)), want: gateway.Reply{Usage: usage}, class: gateway.ClassServer},
		{name: "filtered", in: events(created, added(0, message), piece(0, "output_text", "hi"), ended("incomplete", answer("incomplete", hi, `,"incomplete_details":{"reason":"content_filter"}`+told))),
			want: gateway.Reply{Usage: usage}, class: gateway.ClassContentFilter},
		{name: "an error", in: events(created, `{"type":"error","code":"rate_limit_exceeded","message":"`+canary+`","param":null}`), class: gateway.ClassRateLimit},
		{name: "an error in an object", in: events(created, `{"type":"error","error":{"code":"context_length_exceeded","message":"x"}}`), class: gateway.ClassContextOverflow},
		{name: "R-GWS-20 no end", in: events(created, added(0, message), piece(0, "output_text", "hi"), done(0, hi)), class: gateway.ClassStreamTruncated},
		{name: "R-GWS-20 another protocol's end", in: events(created, piece(0, "output_text", "hi"), "[DONE]"), class: gateway.ClassStreamTruncated},
		{name: "half an event", in: events(created, `{"type":"response.output_te`), class: gateway.ClassMalformedResponse, reason: "event"},
		{name: "arguments of no call", in: events(created, piece(0, "function_call_arguments", "{}"), whole), class: gateway.ClassMalformedResponse, reason: "tool_call"},
		{name: "an answer of nothing", in: events(created, ended("completed", answer("completed", "", told))), want: gateway.Reply{Usage: usage}, class: gateway.ClassMalformedResponse, reason: "no_content"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &heard{}
			got, err := streamed(c.in).adapter().Stream(t.Context(), call(t), h.emit)
			c.check(t, got, err)
			if c.class == "" && (h.finished != 1 || h.reasoning != got.Reasoning || h.refusal != got.Refusal || got.Refusal == "" && h.text != got.Text || len(got.ToolCalls) > 0 && h.tools == "") {
				t.Errorf("heard %+v, reply %+v", h, got)
			}
		})
	}
}

// Whatever a server sends: what the consumer heard is what the reply holds, and
// an answer has an end.
func FuzzStream(f *testing.F) {
	f.Add(events(created, piece(0, "output_text", "hi"), ended("completed", answer("completed", hi, told))))
	f.Add(events(added(0, `{"type":"function_call","call_id":"c","name":"f"}`), piece(0, "function_call_arguments", "{}"), ended("incomplete", answer("incomplete", "", told))))
	f.Add("event: error\ndata: 1\n\n")
	f.Fuzz(func(t *testing.T, body string) {
		h := &heard{}
		reply, err := streamed(body).adapter().Stream(t.Context(), call(t), h.emit)
		if err != nil {
			return
		}
		if reply.Finish == "" || h.finished != 1 || h.refusal != reply.Refusal || reply.Refusal == "" && h.text != reply.Text {
			t.Errorf("%q: heard %+v, reply %+v", body, h, reply)
		}
	})
}
