package chat_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/gateway"
)

// A client of the messages protocol gets overlays, receipts and tools like any
// other, whatever model answers.
func TestMessagesDialect(t *testing.T) {
	r := newRig(t)
	r.activate("t", "o-a")
	body := `{"model":"fast","max_tokens":90,"system":[{"type":"text","text":"S","cache_control":{"type":"ephemeral"}}],"stop_sequences":["END"],"metadata":{"user_id":"u"},"cache_control":{"type":"ephemeral"},"speed":"fast","messages":[
		{"role":"user","content":"first"},
		{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"let me look"},{"type":"tool_use","id":"c1","name":"look","input":{"b":1}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","is_error":true,"content":[{"type":"text","text":"nothing there"}]},{"type":"text","text":"and now?"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}],
		"tools":[{"name":"look","input_schema":{"type":"object","properties":{"z":{},"a":{}}}}],"tool_choice":{"type":"tool","name":"look","disable_parallel_tool_use":true}}`
	r.model.says(func(context.Context, gateway.Call, func(gateway.Event) error) (gateway.Reply, error) {
		return gateway.Reply{Text: "Fine.", ToolCalls: []gateway.ToolCall{{ID: "c2", Name: "look", Arguments: `{"a":1}`}}, Finish: gateway.FinishToolCalls, Usage: gateway.Usage{Known: true, Input: 5, Output: 2, CacheRead: 3}}, nil
	})
	a := r.do("POST", "/v1/messages", body, "Authorization", "", "X-Api-Key", userToken, "X-PromptLab-Session", key("t").Token())
	if a.status != 200 || a.header.Get("X-PromptLab-Applied") != "o-a" || a.header.Get("X-PromptLab-Ignored") != "cache_control,metadata,speed" {
		t.Fatalf("got %d %v %s", a.status, a.header, a.body)
	}
	sent := r.model.last(t)
	if got := roles(sent.Messages); got != "system user assistant tool user" {
		t.Errorf("roles %q", got)
	}
	if m := sent.Messages; !strings.HasPrefix(m[0].Content, "S\n\n") || m[2].ToolCalls[0].Arguments != `{"b":1}` || m[3].Content != "The tool failed: nothing there" || m[3].ToolCallID != "c1" || m[4].Parts[1].ImageURL != "data:image/png;base64,AAAA" {
		t.Errorf("messages %+v", m)
	}
	if sent.ToolChoice != "look" || *sent.ParallelToolCalls || string(sent.Tools[0].Parameters) != `{"type":"object","properties":{"z":{},"a":{}}}` || sent.MaxTokens != 90 || sent.Stop[0] != "END" {
		t.Errorf("parameters %+v", sent)
	}
	var out struct {
		Type       string
		Role       string
		StopReason string `json:"stop_reason"`
		Content    []struct {
			Type, Text, ID, Name string
			Input                map[string]int
		}
		Usage map[string]int
	}
	if err := json.Unmarshal(a.body, &out); err != nil {
		t.Fatal(err)
	}
	if out.Type != "message" || out.StopReason != "tool_use" || len(out.Content) != 2 || out.Content[0].Text != "Fine." || out.Content[1].Input["a"] != 1 || out.Usage["cache_read_input_tokens"] != 3 || out.Usage["input_tokens"] != 5 {
		t.Errorf("answer %s", a.body)
	}
	if got := r.truth("t"); len(got.AppliedOverlayIDs) != 1 {
		t.Errorf("receipt %+v", got)
	}
	for body, want := range map[string]string{
		`{"messages":[]}`: "messages model max_tokens",
		`{"model":"fast","max_tokens":1,"messages":[{"role":"system","content":"x"}]}`:                                                                                   "messages[0].role",
		`{"model":"fast","max_tokens":1,"messages":[{"role":"user","content":[{"type":"document"}]}],"system":5}`:                                                        "system messages[0].content[0].type",
		`{"model":"fast","max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"image"}]}]}`:                                                                 "messages[0].content[0].type",
		`{"model":"fast","max_tokens":1,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"file"}}]}]}`:                                             "messages[0].content[0].source.type",
		`{"model":"fast","max_tokens":1,"messages":[{"role":"user","content":"q"}],"tools":[{"name":"x","input_schema":1}]}`:                                             "tools[0].input_schema",
		`{"model":"fast","max_tokens":1,"messages":[{"role":"user","content":"q"}],"output_config":{"format":{"type":"json_schema","schema":{"$ref":"http://evil/x"}}}}`: "output_config.format.schema",
		`{"model":"fast","max_tokens":1,"messages":[{"role":"user","content":"q"}],"promptlab":{"message_ids":["a","b"]}}`:                                               "promptlab.message_ids",
		`{"model":"fast","max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"image"}]}]}]}`:                                   "messages[0].content[0].tool_use_id messages[0].content[0].content",
	} {
		a := r.do("POST", "/v1/messages", body)
		var e struct {
			Type  string
			Error struct {
				Type    string
				Details []struct{ Field string }
			}
		}
		if err := json.Unmarshal(a.body, &e); err != nil || a.status != 400 || e.Type != "error" || e.Error.Type != "invalid_request_error" {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
		var fields []string
		for _, d := range e.Error.Details {
			fields = append(fields, d.Field)
		}
		if got := strings.Join(fields, " "); got != want {
			t.Errorf("%s\nnamed %q, want %q", body, got, want)
		}
	}
}

func TestMessagesStream(t *testing.T) {
	r := newRig(t)
	r.model.says(func(_ context.Context, _ gateway.Call, emit func(gateway.Event) error) (gateway.Reply, error) {
		for _, e := range []gateway.Event{
			{Kind: gateway.EventReasoning, Text: "hm"}, {Kind: gateway.EventDelta, Text: "Fi"}, {Kind: gateway.EventDelta, Text: "ne."},
			{Kind: gateway.EventToolCall, Tool: &gateway.ToolDelta{Index: 0, ID: "c1", Name: "a"}}, {Kind: gateway.EventToolCall, Tool: &gateway.ToolDelta{Index: 1, ID: "c2", Name: "b"}},
			{Kind: gateway.EventToolCall, Tool: &gateway.ToolDelta{Index: 0, Arguments: `{"x":1}`}}, {Kind: gateway.EventFinish},
		} {
			if err := emit(e); err != nil {
				return gateway.Reply{}, err
			}
		}
		return gateway.Reply{Text: "Fine.", ToolCalls: []gateway.ToolCall{{ID: "c1", Name: "a", Arguments: `{"x":1}`}, {ID: "c2", Name: "b"}}, Finish: gateway.FinishToolCalls, Usage: gateway.Usage{Known: true, Input: 5, Output: 2}}, nil
	})
	a := r.do("POST", "/v1/messages", `{"model":"fast","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"q"}],"tools":[{"name":"a","input_schema":{}},{"name":"b","input_schema":{}}]}`)
	var got []string
	for _, d := range events(a.body) {
		var e struct {
			Type         string
			Index        int
			ContentBlock *struct{ Type, ID string } `json:"content_block"`
			Delta        map[string]any
		}
		if err := json.Unmarshal([]byte(d), &e); err != nil {
			t.Fatal(err)
		}
		line := strings.TrimPrefix(e.Type, "content_block_")
		switch {
		case e.ContentBlock != nil:
			line += fmt.Sprint(" ", e.Index, " ", e.ContentBlock.Type, e.ContentBlock.ID)
		case e.Type == "content_block_delta":
			line += fmt.Sprintf(" %d %v%v%v", e.Index, e.Delta["text"], e.Delta["thinking"], e.Delta["partial_json"])
		case e.Type == "message_delta":
			line += fmt.Sprint(" ", e.Delta["stop_reason"])
		}
		got = append(got, line)
	}
	want := []string{
		"message_start", "start 0 thinking", "delta 0 <nil>hm<nil>", "stop", "start 1 text", "delta 1 Fi<nil><nil>", "delta 1 ne.<nil><nil>", "stop",
		"start 2 tool_usec1", `delta 2 <nil><nil>{"x":1}`, "stop", "start 3 tool_usec2", "delta 3 <nil><nil>{}", "stop", "message_delta tool_use", "message_stop",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stream (-want +got):\n%s", diff)
	}
	if first := events(a.body)[0]; !strings.Contains(first, `"promptlab":{"receipt":"`) {
		t.Errorf("the first event %s has no receipt; clients keep only known fields of later ones", first)
	}
	r.model.says(func(_ context.Context, _ gateway.Call, emit func(gateway.Event) error) (gateway.Reply, error) {
		if err := emit(gateway.Event{Kind: gateway.EventDelta, Text: "ha"}); err != nil {
			return gateway.Reply{}, err
		}
		return gateway.Reply{}, &gateway.Error{Class: gateway.ClassStreamTruncated}
	})
	a = r.do("POST", "/v1/messages", `{"model":"fast","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"q"}]}`)
	if list := events(a.body); !strings.Contains(list[len(list)-1], `"type":"error"`) || strings.Contains(string(a.body), "message_stop") {
		t.Errorf("R-GWS-20 a stream that broke off: %s", a.body)
	}
}
