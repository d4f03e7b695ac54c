package openai_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/openai"
)

func offering(c *gateway.Call) {
	c.Request.Tools = []gateway.Tool{{Name: "f"}, {Name: "g"}}
}

// piece is a delta of one tool call as most servers write it; empty parts are
// left out.
func piece(index int, id, name, arguments string) string {
	call := map[string]any{"index": index, "function": map[string]any{"arguments": arguments}}
	if id != "" {
		call["id"], call["type"] = id, "function"
	}
	if name != "" {
		call["function"] = map[string]any{"name": name, "arguments": arguments}
	}
	b, _ := json.Marshal(map[string]any{"tool_calls": []any{call}})
	return delta(string(b))
}

// R-GWB-03, R-GWS-01: tool calls are put together by their index, however a
// server numbers, interleaves or names them; the pieces that the consumer got
// make the same calls.
func TestToolCallsOfStreams(t *testing.T) {
	two := []gateway.ToolCall{{ID: "c1", Name: "f", Arguments: `{"a":1}`}, {ID: "c2", Name: "g", Arguments: `{"b":2}`}}
	one := two[:1]
	for _, c := range []struct {
		name   string
		chunks []string
		finish gateway.Finish
		want   []gateway.ToolCall
		class  gateway.ErrorClass
		reason string
	}{
		{name: "one after the other", chunks: []string{piece(0, "c1", "f", ""), piece(0, "", "", `{"a"`), piece(0, "", "", `:1}`),
			piece(1, "c2", "g", ""), piece(1, "", "", `{"b":2}`), ended("tool_calls")}, finish: gateway.FinishToolCalls, want: two},
		{name: "interleaved", chunks: []string{piece(0, "c1", "f", ""), piece(1, "c2", "g", ""), piece(0, "", "", `{"a"`), piece(1, "", "", `{"b"`),
			piece(0, "", "", `:1}`), piece(1, "", "", `:2}`), ended("tool_calls")}, finish: gateway.FinishToolCalls, want: two},
		{name: "every call has index 0", chunks: []string{piece(0, "c1", "f", `{"a"`), piece(0, "", "", `:1}`), piece(0, "c2", "g", `{"b"`), piece(0, "", "", `:2}`),
			ended("tool_calls")}, finish: gateway.FinishToolCalls, want: two},
		{name: "the id in every piece", chunks: []string{piece(0, "c1", "f", `{"a"`), piece(0, "c1", "f", `:1}`), ended("tool_calls")},
			finish: gateway.FinishToolCalls, want: one},
		{name: "indices that begin elsewhere", chunks: []string{piece(3, "c1", "f", `{"a":1}`), piece(7, "c2", "g", `{"b":2}`), ended("tool_calls")},
			finish: gateway.FinishToolCalls, want: two},
		{name: "no index, but ids", chunks: []string{delta(`{"tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{\"a\""}},{"id":"c2","function":{"name":"g","arguments":"{\"b\""}}]}`),
			delta(`{"tool_calls":[{"id":"c1","function":{"arguments":":1}"}},{"id":"c2","function":{"arguments":":2}"}}]}`), ended("tool_calls")},
			finish: gateway.FinishToolCalls, want: two},
		{name: "neither index nor id", chunks: []string{delta(`{"tool_calls":[{"function":{"name":"f","arguments":"{\"a\""}}]}`),
			delta(`{"tool_calls":[{"function":{"arguments":":1}"}}]}`), ended("tool_calls")}, finish: gateway.FinishToolCalls,
			want: []gateway.ToolCall{{ID: "call_0", Name: "f", Arguments: `{"a":1}`}}},
		{name: "bare arguments", chunks: []string{delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":{"a":1}}}]}`), ended("tool_calls")},
			finish: gateway.FinishToolCalls, want: one},
		{name: "no arguments", chunks: []string{piece(0, "c1", "f", ""), ended("tool_calls")}, finish: gateway.FinishToolCalls,
			want: []gateway.ToolCall{{ID: "c1", Name: "f", Arguments: "{}"}}},
		{name: "a server that says stop", chunks: []string{piece(0, "c1", "f", `{"a":1}`), ended("stop")}, finish: gateway.FinishToolCalls, want: one},
		{name: "R-GWO-09 a call that was cut is none", chunks: []string{piece(0, "c1", "f", `{"a":1}`), piece(1, "c2", "g", `{"b"`), ended("length")},
			finish: gateway.FinishLength, want: one},
		{name: "a reason without calls", chunks: []string{said2("x"), ended("tool_calls")}, class: gateway.ClassMalformedResponse, reason: "tool_call"},
		{name: "a call of nothing", chunks: []string{piece(0, "c1", "", `{}`), ended("tool_calls")}, class: gateway.ClassMalformedResponse, reason: "tool_call"},
		{name: "more calls than anybody makes", chunks: []string{many(200), ended("tool_calls")},
			class: gateway.ClassMalformedResponse, reason: "too_many_tool_calls"},
	} {
		t.Run(c.name, func(t *testing.T) {
			reply, h, _, err := streamed(t, events(append(c.chunks, spent, done)...), offering)
			e := as(err)
			if gateway.ClassOf(err) != c.class || e != nil && e.Reason != c.reason {
				t.Fatalf("error %v, want class %q, reason %q", err, c.class, c.reason)
			}
			if c.class != "" {
				return
			}
			if diff := cmp.Diff(c.want, reply.ToolCalls); diff != "" || reply.Finish != c.finish || !reply.Usage.Known {
				t.Errorf("finish %s, usage %+v, tool calls (-want +got):\n%s", reply.Finish, reply.Usage, diff)
			}
			heard := make([]gateway.ToolCall, 0, 2)
			for _, d := range h.tools {
				if d.Index == len(heard) {
					heard = append(heard, gateway.ToolCall{ID: d.ID, Name: d.Name})
				}
				heard[d.Index].Arguments += d.Arguments
			}
			for i, want := range c.want {
				if want.Arguments == "{}" {
					want.Arguments = ""
				}
				if i >= len(heard) || heard[i] != want {
					t.Errorf("the pieces make %+v, want %+v first", heard, want)
				}
			}
		})
	}
}

func many(n int) string {
	calls := make([]any, n)
	for i := range calls {
		calls[i] = map[string]any{"index": i, "id": "c", "function": map[string]any{"name": "f", "arguments": "{}"}}
	}
	b, _ := json.Marshal(map[string]any{"tool_calls": calls})
	return delta(string(b))
}

// R-GWB-03: a whole answer may ask for tools as well.
func TestToolCallsOfWholeAnswers(t *testing.T) {
	const calls = `"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{\"b\":2}"}}]`
	want := []gateway.ToolCall{{ID: "c1", Name: "f", Arguments: `{"a":1}`}, {ID: "c2", Name: "g", Arguments: `{"b":2}`}}
	for _, finish := range []string{`"tool_calls"`, `"stop"`} {
		f := serve(t, 200, completion(`{"content":null,`+calls+`}`, finish, `,"usage":{"prompt_tokens":9,"completion_tokens":3}`))
		c := call(f)
		offering(&c)
		reply, err := openai.New(openai.Config{}).Complete(t.Context(), c)
		if diff := cmp.Diff(want, reply.ToolCalls); err != nil || diff != "" || reply.Finish != gateway.FinishToolCalls || !reply.Usage.Known {
			t.Errorf("reason %s: reply %+v, error %v; calls (-want +got):\n%s", finish, reply, err, diff)
		}
	}
	f := serve(t, 200, completion(`{"content":"hm",`+calls+`}`, `"tool_calls"`, ""))
	if _, err := openai.New(openai.Config{}).Complete(t.Context(), call(f)); gateway.ClassOf(err) != gateway.ClassMalformedResponse {
		t.Errorf("calls that nobody offered tools for: error %v, want malformed_response", err)
	}
}

// R-GWB-02, R-GWP-01, R-GWC-02: every part of a request has its place on the wire, and
// what was not asked for has none: neither a cache's key nor a mark that a part
// may be shared.
func TestWholeRequestOnTheWire(t *testing.T) {
	yes := true
	half := 0.5
	f := serve(t, 200, completion(said, `"stop"`, ""))
	c := call(f)
	c.Request.TopP, c.Request.PresencePenalty, c.Request.FrequencyPenalty, c.Request.ParallelToolCalls = &half, &half, &half, &yes
	c.Request.Reasoning, c.Request.JSONObject = gateway.ReasoningLow, true
	c.Request.Tools = []gateway.Tool{{Name: "f", Description: "does f", Parameters: json.RawMessage(`{"type":"object"}`), Strict: &yes}, {Name: "g"}}
	c.Request.ToolChoice = "f"
	c.Request.Messages = []gateway.Message{
		{Role: "developer", Content: "be kind"},
		{Role: "user", Name: "kim", Parts: []gateway.Part{{Type: "text", Text: "what is this"}, {Type: "image_url", ImageURL: "https://example.com/a.png", Detail: "low"}}},
		{Role: "assistant", ToolCalls: []gateway.ToolCall{{ID: "c1", Name: "f", Arguments: "{}"}}},
		{Role: "tool", ToolCallID: "c1", Content: "a cat"},
	}
	if _, err := openai.New(openai.Config{}).Complete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := json.Unmarshal([]byte(`{"model":"m1","max_tokens":100,"top_p":0.5,"presence_penalty":0.5,"frequency_penalty":0.5,"parallel_tool_calls":true,
		"reasoning_effort":"low","response_format":{"type":"json_object"},
		"tools":[{"type":"function","function":{"name":"f","description":"does f","parameters":{"type":"object"},"strict":true}},{"type":"function","function":{"name":"g"}}],
		"tool_choice":{"type":"function","function":{"name":"f"}},
		"messages":[{"role":"system","content":"be kind"},
			{"role":"user","name":"kim","content":[{"type":"text","text":"what is this"},{"type":"image_url","image_url":{"url":"https://example.com/a.png","detail":"low"}}]},
			{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"c1","content":"a cat"}]}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, f.last.Load().body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	c.Target.Profile.Developer = true
	c.Request.Reasoning, c.Request.ToolChoice = gateway.ReasoningOff, gateway.ToolsRequired
	if _, err := openai.New(openai.Config{}).Complete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	got := f.last.Load().body
	if first, _ := got["messages"].([]any)[0].(map[string]any); first["role"] != "developer" || got["reasoning_effort"] != "none" || got["tool_choice"] != "required" {
		t.Errorf("a server that knows developers: %v, effort %v, choice %v", first, got["reasoning_effort"], got["tool_choice"])
	}
}
