package anthropic_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/anthropic"
)

// heard is what a consumer got.
type heard struct {
	text, reasoning string
	tools           map[int]gateway.ToolCall
	finished        int
}

func (h *heard) emit(e gateway.Event) error {
	switch e.Kind {
	case gateway.EventDelta:
		h.text += e.Text
	case gateway.EventReasoning:
		h.reasoning += e.Text
	case gateway.EventToolCall:
		if h.tools == nil {
			h.tools = map[int]gateway.ToolCall{}
		}
		c := h.tools[e.Tool.Index]
		c.ID, c.Name, c.Arguments = c.ID+e.Tool.ID, c.Name+e.Tool.Name, c.Arguments+e.Tool.Arguments
		h.tools[e.Tool.Index] = c
	case gateway.EventFinish:
		h.finished++
	case gateway.EventRefusal:
	}
	return nil
}

// events makes a stream of named events.
func events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		var e struct {
			Type string `json:"type"`
		}
		if json.Unmarshal([]byte(d), &e) == nil && e.Type != "" {
			b.WriteString("event: " + e.Type + "\n")
		}
		b.WriteString("data: " + d + "\n\n")
	}
	return b.String()
}

const (
	begun = `{"type":"message_start","message":{"id":"msg_1","type":"message","model":"claude-test-20260101","content":[],"stop_reason":null,"usage":{"input_tokens":9,"cache_read_input_tokens":4,"cache_creation_input_tokens":2,"output_tokens":1}}}`
	ping  = `{"type":"ping"}`
	stop  = `{"type":"message_stop"}`
)

func open(index int, block string) string {
	return fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, index, block)
}

func piece(index int, kind, field, value string) string {
	v, _ := json.Marshal(value)
	return fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":%q,%q:%s}}`, index, kind, field, v)
}

func text(index int, s string) string { return piece(index, "text_delta", "text", s) }

func ended(reason string) string {
	return `{"type":"message_delta","delta":{"stop_reason":"` + reason + `","stop_sequence":null},"usage":{"output_tokens":3}}`
}

func say(pieces ...string) []string {
	out := []string{begun, open(0, `{"type":"text","text":""}`), ping}
	for _, p := range pieces {
		out = append(out, text(0, p))
	}
	return append(out, `{"type":"content_block_stop","index":0}`)
}

// R-GWS-01, R-GWS-18, R-GWT-02: the pieces make the answer, whose end and usage
// are those that its last events tell.
func TestStreams(t *testing.T) {
	usage := gateway.Usage{Known: true, Input: 9, Output: 3, CacheRead: 4, CacheWrite: 2}
	hi := gateway.Reply{Text: "hi there", Finish: "stop", Usage: usage}
	for _, c := range []struct {
		name   string
		events []string
		want   gateway.Reply
		class  gateway.ErrorClass
		reason string
	}{
		{name: "text", events: append(say("hi", " there"), ended("end_turn"), stop), want: hi},
		{name: "R-GWS-02 keep-alives of all kinds", events: append(say("hi", " there"), "ping", "", ping, `{"type":"new_event","x":1}`, ended("end_turn"), stop), want: hi},
		{name: "the first piece in the beginning of its block", events: []string{begun, open(0, `{"type":"text","text":"hi there"}`), ended("end_turn"), stop}, want: hi},
		{name: "blocks numbered from elsewhere", events: []string{begun, open(7, `{"type":"text"}`), text(7, "hi there"), ended("end_turn"), stop}, want: hi},
		{name: "counts told twice are sums", events: append(say("hi there"), `{"type":"message_delta","delta":{},"usage":{"output_tokens":2}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":20,"output_tokens":5}}`, stop),
			want: gateway.Reply{Text: "hi there", Finish: "stop", Usage: gateway.Usage{Known: true, Input: 20, Output: 5, CacheRead: 4, CacheWrite: 2}}},
		{name: "a count from the middle is none", events: append(append(say("hi"), ended("end_turn"), text(0, " there")), stop), want: gateway.Reply{Text: "hi there", Finish: "stop"}},
		{name: "no count at the end is none", events: append(say("hi there"), `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, stop),
			want: gateway.Reply{Text: "hi there", Finish: "stop"}},
		{name: "R-GWT-01 cut", events: append(say("hi there"), ended("max_tokens"), stop), want: gateway.Reply{Text: "hi there", Finish: "length", Usage: usage}},
		{name: "no reason", events: append(say("hi there"), stop), want: gateway.Reply{Text: "hi there", Finish: "unknown"}},
		{name: "R-GWT-09 refusal", events: append(say("hi"), `{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"explanation":"no"}},"usage":{"output_tokens":3}}`, stop),
			want: gateway.Reply{Refusal: "no", Finish: "refusal", Usage: usage}},
		{name: "R-GWS-27 thinking", events: []string{begun, open(0, `{"type":"thinking","thinking":""}`), piece(0, "thinking_delta", "thinking", "h"), piece(0, "thinking_delta", "thinking", "m"),
			piece(0, "signature_delta", "signature", "sig"), open(1, `{"type":"redacted_thinking","data":"xx"}`), open(2, `{"type":"text","text":""}`), text(2, "hi there"), ended("end_turn"), stop},
			want: gateway.Reply{Text: "hi there", Reasoning: "hm", Finish: "stop", Usage: usage,
				State: json.RawMessage(`[{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"redacted_thinking","data":"xx"}]`)}},
		{name: "R-GWB-03 tools whose pieces mix", events: []string{begun, open(0, `{"type":"tool_use","id":"t1","name":"f","input":{}}`), open(1, `{"type":"tool_use","id":"t2","name":"g","input":{}}`),
			piece(0, "input_json_delta", "partial_json", `{"a"`), piece(1, "input_json_delta", "partial_json", ""), piece(0, "input_json_delta", "partial_json", `:1}`), ended("tool_use"), stop},
			want: gateway.Reply{Finish: "tool_calls", Usage: usage, ToolCalls: []gateway.ToolCall{{ID: "t1", Name: "f", Arguments: `{"a":1}`}, {ID: "t2", Name: "g", Arguments: "{}"}}}},
		{name: "R-GWO-09 a call that was cut is none", events: []string{begun, open(0, `{"type":"tool_use","id":"t1","name":"f"}`), piece(0, "input_json_delta", "partial_json", `{"a"`), ended("max_tokens"), stop},
			want: gateway.Reply{Finish: "length", Usage: usage}},
		{name: "R-GWB-19 what runs at the provider is not ours", events: []string{begun, open(0, `{"type":"server_tool_use","id":"s1","name":"web_search"}`), piece(0, "input_json_delta", "partial_json", `{}`),
			open(1, `{"type":"text"}`), text(1, "hi there"), ended("end_turn"), stop}, want: hi},
		{name: "R-GWS-20 no end", events: append(say("hi"), ended("end_turn")), class: gateway.ClassStreamTruncated},
		{name: "R-GWS-20 nothing", events: nil, class: gateway.ClassStreamTruncated},
		{name: "an error in the middle", events: append(say("hi"), `{"type":"error","error":{"type":"overloaded_error","message":"`+canary+`"}}`), class: gateway.ClassOverloaded},
		{name: "an error before the end", events: append(say("hi"), ended("end_turn"), `{"type":"error","error":{"type":"api_error","message":"x"}}`, stop), class: gateway.ClassServer},
		{name: "an overflow told in the stream", events: []string{begun, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 3 tokens > 2 maximum"}}`}, class: gateway.ClassContextOverflow},
		{name: "a piece of no block", events: []string{begun, text(0, "hi"), stop}, class: gateway.ClassMalformedResponse, reason: "block"},
		{name: "a block twice", events: append(say("hi"), open(0, `{"type":"text"}`), stop), class: gateway.ClassMalformedResponse, reason: "block"},
		{name: "a piece of another kind", events: append(say(), piece(0, "input_json_delta", "partial_json", `{}`), stop), class: gateway.ClassMalformedResponse, reason: "block"},
		{name: "half an event", events: append(say("hi"), `{"type":"content_block_delta","ind`), class: gateway.ClassMalformedResponse, reason: "event"},
		{name: "an answer of nothing", events: []string{begun, ended("end_turn"), stop}, class: gateway.ClassMalformedResponse, reason: "no_content"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := streamed(events(c.events...))
			in := call(t)
			offering(&in)
			h := &heard{}
			got, err := s.adapter().Stream(t.Context(), in, h.emit)
			e := as(err)
			if gateway.ClassOf(err) != c.class || e != nil && (e.Reason != c.reason || e.RequestID != "req_011" || strings.Contains(fmt.Sprintf("%+v", *e), canary)) {
				t.Fatalf("error %+v, want class %q, reason %q", e, c.class, c.reason)
			}
			if c.class != "" {
				if got.Usage.Known && c.reason != "no_content" {
					t.Errorf("R-GWS-21 a failure before the end tells usage %+v", got.Usage)
				}
				return
			}
			c.want.ProviderRequestID, c.want.ServedModel = "req_011", "claude-test-20260101"
			got.Upstream, got.Wire = 0, gateway.WireStats{}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("reply (-want +got):\n%s", diff)
			}
			if h.finished != 1 || h.reasoning != got.Reasoning || got.Refusal == "" && h.text != got.Text {
				t.Errorf("heard %+v, reply %+v", h, got)
			}
			for i, want := range got.ToolCalls {
				heard := h.tools[i]
				if heard.Arguments == "" {
					heard.Arguments = "{}"
				}
				if heard != want {
					t.Errorf("the pieces make %+v, the reply has %+v", heard, want)
				}
			}
		})
	}
}

// An error of the consumer ends the stream and comes back as it is.
func TestAConsumerThatHasEnough(t *testing.T) {
	enough := errors.New("enough")
	n := 0
	s := streamed(events(append(say("a", "b", "c"), ended("end_turn"), stop)...))
	_, err := s.adapter().Stream(t.Context(), call(t), func(gateway.Event) error {
		if n++; n == 2 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || n != 2 {
		t.Errorf("error %v after %d pieces, want the consumer's after 2", err, n)
	}
}

// What is kept of an answer has a bound, shown or not.
func TestAnEndlessAnswer(t *testing.T) {
	big := strings.Repeat("x", 10<<10)
	for name, p := range map[string]string{"text": text(0, big), "signatures": piece(1, "signature_delta", "signature", big)} {
		in := []string{begun, open(0, `{"type":"text"}`), open(1, `{"type":"thinking","thinking":"h"}`)}
		for range 20 {
			in = append(in, p)
		}
		s := streamed(events(append(in, ended("end_turn"), stop)...))
		a := anthropic.New(anthropic.Config{Transport: s, MaxResponse: 100 << 10})
		_, err := a.Stream(t.Context(), call(t), func(gateway.Event) error { return nil })
		if e := as(err); e == nil || e.Reason != "answer_too_large" {
			t.Errorf("%s: error %v, want answer_too_large", name, err)
		}
	}
}

// Whatever a server sends: what the consumer heard is what the reply holds, and
// an answer has an end.
func FuzzStream(f *testing.F) {
	f.Add(events(append(say("hi"), ended("end_turn"), stop)...))
	f.Add(events(begun, open(0, `{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}`), ended("tool_use"), stop))
	f.Add(events(begun, open(0, `{"type":"thinking","thinking":"x","signature":"s"}`), open(1, `{"type":"text","text":"y"}`), ended("max_tokens"), stop))
	f.Add("event: error\ndata: [1]\n\n")
	f.Fuzz(func(t *testing.T, body string) {
		s := streamed(body)
		in := call(t)
		offering(&in)
		h := &heard{}
		reply, err := s.adapter().Stream(t.Context(), in, h.emit)
		if err != nil {
			if h.finished == 0 && reply.Usage.Known {
				t.Errorf("%q failed before its end with usage %+v", body, reply.Usage)
			}
			return
		}
		if reply.Finish == "" || h.finished != 1 || reply.Finish != gateway.FinishRefusal && h.text != reply.Text {
			t.Errorf("%q: heard %+v, reply %+v", body, h, reply)
		}
		for _, c := range reply.ToolCalls {
			if c.ID == "" || c.Name == "" || c.Arguments == "" {
				t.Errorf("%q: tool call %+v", body, c)
			}
		}
	})
}
