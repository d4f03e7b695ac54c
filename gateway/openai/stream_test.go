package openai_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/openai"
)

// heard is what a consumer got of a stream.
type heard struct {
	text, reasoning, refusal string
	tools                    []gateway.ToolDelta
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
		h.tools = append(h.tools, *e.Tool)
	case gateway.EventFinish:
		h.finished++
	}
	return nil
}

// events makes a stream of data events.
func events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		b.WriteString("data: " + d + "\n\n")
	}
	return b.String()
}

func delta(d string) string { return `{"model":"m1-0001","choices":[{"index":0,"delta":` + d + `}]}` }

func said2(text string) string { return delta(fmt.Sprintf(`{"content":%q}`, text)) }

func ended(reason string) string {
	return `{"model":"m1-0001","choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

const (
	done  = "[DONE]"
	spent = `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3}}`
)

func streamed(t *testing.T, body string, change func(*gateway.Call)) (gateway.Reply, *heard, *fake, error) {
	t.Helper()
	f := serve(t, 200, body, "Content-Type", "text/event-stream; charset=utf-8", "X-Request-Id", "r-1")
	c := call(f)
	if change != nil {
		change(&c)
	}
	h := &heard{}
	reply, err := openai.New(openai.Config{}).Stream(t.Context(), c, h.emit)
	return reply, h, f, err
}

// R-GWS-01, R-GWS-02, R-GWS-18, R-GWS-20, R-GWS-27, R-GWT-02: what each stream
// is to its consumer, and what it costs.
func TestStreams(t *testing.T) {
	usage := gateway.Usage{Known: true, Input: 9, Output: 3}
	for _, c := range []struct {
		name, body               string
		text, reasoning, refusal string
		finish                   gateway.Finish
		usage                    gateway.Usage
		class                    gateway.ErrorClass
		reason                   string
		malformed                int
	}{
		{name: "complete", body: events(delta(`{"role":"assistant","content":""}`), said2("hi "), said2("there"), ended("stop"), spent, done),
			text: "hi there", finish: gateway.FinishStop, usage: usage},
		{name: "R-GWS-18 usage in a chunk with choices", body: events(said2("hi"),
			`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}`, done),
			text: "hi", finish: gateway.FinishStop, usage: usage},
		{name: "R-GWS-18 usage told twice is the last one", body: events(said2("hi"),
			`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2}}`, spent, done),
			text: "hi", finish: gateway.FinishStop, usage: usage},
		{name: "R-GWL-07 usage from the middle is not the whole's", body: events(
			`{"choices":[{"index":0,"delta":{"content":"h"}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}`, said2("i"), ended("stop"), done),
			text: "hi", finish: gateway.FinishStop},
		{name: "R-GWL-07 no usage", body: events(said2("hi"), ended("stop"), done), text: "hi", finish: gateway.FinishStop},
		{name: "no closing mark after the reason", body: events(said2("hi"), ended("stop"), spent), text: "hi", finish: gateway.FinishStop, usage: usage},
		{name: "the mark without a reason", body: events(said2("hi"), spent, done), text: "hi", finish: gateway.FinishStop, usage: usage},
		{name: "R-GWT-03 the mark without a reason and usage", body: events(said2("hi"), done), text: "hi", finish: gateway.FinishUnknown},
		{name: "R-GWS-20 an end without a terminal event", body: events(said2("hi")), text: "hi", class: gateway.ClassStreamTruncated},
		{name: "R-GWS-20 nothing at all", body: "", class: gateway.ClassStreamTruncated},
		{name: "R-GWS-20 the last event was cut", body: events(said2("hi")) + "data: " + ended("stop"), text: "hi", class: gateway.ClassStreamTruncated},
		{name: "R-GWS-21 usage before a cut is not the whole's", body: events(spent, said2("hi")), text: "hi", class: gateway.ClassStreamTruncated},
		{name: "R-GWT-02 cut at the cap", body: events(said2("hi"), ended("length"), spent, done), text: "hi", finish: gateway.FinishLength, usage: usage},
		{name: "R-GWT-02 words about a cap are words", body: events(said2("finish_reason: length"), ended("stop"), done), text: "finish_reason: length", finish: gateway.FinishStop},
		{name: "R-GWT-09 refusal", body: events(delta(`{"refusal":"I "}`), delta(`{"refusal":"won't"}`), ended("stop"), spent, done),
			refusal: "I won't", finish: gateway.FinishRefusal, usage: usage},
		{name: "R-GWT-09 a refusal without a reason", body: events(delta(`{"refusal":"no"}`), done), refusal: "no", finish: gateway.FinishRefusal},
		{name: "R-GWT-09 a refusal at the cap", body: events(said2("well "), delta(`{"refusal":"no"}`), ended("length"), done), text: "well ", refusal: "no", finish: gateway.FinishRefusal},
		{name: "a filtered answer is paid", body: events(said2("h"), ended("content_filter"), spent, done), text: "h", class: gateway.ClassContentFilter, usage: usage},
		{name: "an end that the model did not choose", body: events(said2("hi"), ended("abort"), done), text: "hi", finish: gateway.FinishUnknown},
		{name: "R-GWS-02 comments, empty lines and keep-alives", body: ": hello\n\n\n\n" + events(said2("hi")) + ": ping\n\n" + events("ping", `"pong"`, "[]", "") + events(ended("stop"), done),
			text: "hi", finish: gateway.FinishStop, malformed: 3},
		{name: "a chunk that cannot be read would be a hole", body: events(said2("hi"), `{"choices":[{"delta":{"cont`, ended("stop"), done),
			text: "hi", class: gateway.ClassMalformedResponse, reason: "chunk", malformed: 1},
		{name: "content that cannot be read would be a hole", body: events(said2("hi"), delta(`{"content":{"text":"there"}}`), ended("stop"), done),
			text: "hi", class: gateway.ClassMalformedResponse, reason: "content"},
		{name: "content in parts", body: events(delta(`{"content":[{"type":"text","text":"h"},{"type":"thinking"}]}`), delta(`{"content":[]}`), said2("i"), ended("stop"), done),
			text: "hi", finish: gateway.FinishStop},
		{name: "CRLF", body: strings.ReplaceAll(events(said2("hi"), ended("stop"), done), "\n", "\r\n"), text: "hi", finish: gateway.FinishStop},
		{name: "CR", body: strings.ReplaceAll(events(said2("hi"), ended("stop"), done), "\n", "\r"), text: "hi", finish: gateway.FinishStop},
		{name: "data in several lines", body: "data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"hi\"}}]}\n\n" + events(ended("stop"), done), text: "hi", finish: gateway.FinishStop},
		{name: "a byte order mark", body: "\ufeff" + events(said2("hi"), ended("stop"), done), text: "hi", finish: gateway.FinishStop},
		{name: "other fields of events", body: "id: 7\nretry: 10\nevent: message\n" + events(said2("hi"), ended("stop"), done), text: "hi", finish: gateway.FinishStop},
		{name: "other answers are not asked for", body: events(`{"choices":[{"index":1,"delta":{"content":"no"},"finish_reason":"stop"}]}`, said2("hi"), ended("stop"), done),
			text: "hi", finish: gateway.FinishStop},
		{name: "what follows the end is not the answer", body: events(said2("hi"), ended("stop"), said2(" more"), spent, done), text: "hi", finish: gateway.FinishStop, usage: usage},
		{name: "R-GWS-08 trouble after the end is not the answer's", body: events(said2("hi"), ended("stop"), `{"error":{"code":503}}`, spent, done), text: "hi", finish: gateway.FinishStop, usage: usage},
		{name: "R-GWB-11 an error inside", body: events(said2("hi"), `{"error":{"message":"`+canary+`","code":503}}`), text: "hi", class: gateway.ClassOverloaded},
		{name: "R-GWB-11 an error of a named event", body: events(said2("hi")) + "event: error\n" + events(`{"message":"rate limit","code":"rate_limit_exceeded"}`), text: "hi", class: gateway.ClassRateLimit},
		{name: "an error in a choice", body: events(`{"choices":[{"index":0,"delta":{"content":""},"error":{"code":502,"message":"x"},"finish_reason":"error"}]}`), class: gateway.ClassServer},
		{name: "R-GWR-06 an overflow inside", body: events(`{"error":{"code":"context_length_exceeded"}}`), class: gateway.ClassContextOverflow},
		{name: "no content", body: events(delta(`{"role":"assistant"}`), ended("stop"), done), class: gateway.ClassMalformedResponse, reason: "no_content"},
		{name: "R-GWT-11 a cap reached while reasoning", body: events(delta(`{"reasoning_content":"hm"}`), ended("length"), done), reasoning: "hm", finish: gateway.FinishLength},
		{name: "R-GWS-27 reasoning_content", body: events(delta(`{"reasoning_content":"h"}`), delta(`{"reasoning_content":"m"}`), said2("yes"), ended("stop"), done),
			reasoning: "hm", text: "yes", finish: gateway.FinishStop},
		{name: "R-GWS-27 reasoning, said twice", body: events(delta(`{"reasoning":"hm","reasoning_content":"hm"}`), said2("yes"), ended("stop"), done),
			reasoning: "hm", text: "yes", finish: gateway.FinishStop},
		{name: "R-GWS-27 a block in the text", body: events(said2("<think>"), said2("hm"), said2("</think>"), said2("\n\n"), said2("yes"), ended("stop"), done),
			reasoning: "hm", text: "yes", finish: gateway.FinishStop},
		{name: "R-GWS-28 a block that never ends", body: events(said2("<think>hm"), ended("stop"), done), reasoning: "hm", class: gateway.ClassMalformedResponse, reason: "reasoning_unclosed"},
		{name: "a tool call that nobody asked for", body: events(delta(`{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]}`), ended("tool_calls"), done),
			class: gateway.ClassMalformedResponse, reason: "tool_call"},
		{name: "an event of more than a MiB", body: events(said2(strings.Repeat("x", 1<<20)), ended("stop"), done), class: gateway.ClassMalformedResponse, reason: "event_too_large"},
		{name: "words in other letters", body: events(said2("h\u00e9"), said2("\u4e16\U0001f600"), ended("stop"), done), text: "h\u00e9\u4e16\U0001f600", finish: gateway.FinishStop},
	} {
		t.Run(c.name, func(t *testing.T) {
			reply, h, f, err := streamed(t, c.body, nil)
			e := as(err)
			if gateway.ClassOf(err) != c.class || e != nil && c.reason != "" && e.Reason != c.reason {
				t.Fatalf("error %v, want class %q, reason %q", err, c.class, c.reason)
			}
			if h.text != c.text || h.reasoning != c.reasoning || h.refusal != c.refusal {
				t.Errorf("heard %+v, want text %q, reasoning %q, refusal %q", h, c.text, c.reasoning, c.refusal)
			}
			if c.class == "" && (reply.Text != c.text && c.refusal == "" || reply.Reasoning != c.reasoning || reply.Refusal != c.refusal || reply.Finish != c.finish || h.finished != 1) {
				t.Errorf("R-GWL-03 reply %+v after %d ends, want what was heard and finish %s", reply, h.finished, c.finish)
			}
			if reply.Usage != c.usage || reply.Wire.Malformed != c.malformed {
				t.Errorf("usage %+v, wire %+v; want %+v, %d malformed", reply.Usage, reply.Wire, c.usage, c.malformed)
			}
			if f.calls.Load() != 1 || reply.ProviderRequestID != "r-1" {
				t.Errorf("R-GWB-10 %d HTTP calls, request id %q", f.calls.Load(), reply.ProviderRequestID)
			}
			if err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("R-GWV-03 %v holds provider text", err)
			}
		})
	}
}

// Whatever the sizes in which the bytes arrive, the answer is the same: letters
// are not broken, lines not lost.
func TestAStreamMayArriveInAnyPieces(t *testing.T) {
	body := events(said2("<think>h\u00e9</think>"), said2("w\u00f6rld \U0001f600"), ended("stop"), spent, done)
	for size := 1; size <= 40; size++ {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			for rest := []byte(body); len(rest) > 0; {
				n := min(size, len(rest))
				_, _ = w.Write(rest[:n])
				_ = http.NewResponseController(w).Flush()
				rest = rest[n:]
			}
		}))
		h := &heard{}
		reply, err := openai.New(openai.Config{}).Stream(t.Context(), call(&fake{Server: s}), h.emit)
		s.Close()
		if err != nil || h.text != "w\u00f6rld \U0001f600" || h.reasoning != "h\u00e9" || !reply.Usage.Known || reply.Wire.Bytes != int64(len(body)) {
			t.Fatalf("in pieces of %d bytes: heard %+v, wire %+v, error %v", size, h, reply.Wire, err)
		}
	}
}

// R-GWB-10, R-GWS-19: one call each, and its cancel reaches the server in the
// middle of an answer.
func TestACancelReachesAStreamingServer(t *testing.T) {
	left := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, events(said2("hi")))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	}))
	t.Cleanup(s.Close)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := openai.New(openai.Config{}).Stream(ctx, call(&fake{Server: s}), func(gateway.Event) error {
		cancel()
		return nil
	})
	if gateway.ClassOf(err) != gateway.ClassTransport {
		t.Errorf("error %v, want transport; the chain knows whose cancel it was", err)
	}
	<-left
}

func TestAConsumerThatFailsEndsTheStream(t *testing.T) {
	left := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, events(said2("hi"), said2("again")))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	}))
	t.Cleanup(s.Close)
	n := 0
	_, err := openai.New(openai.Config{}).Stream(t.Context(), call(&fake{Server: s}), func(gateway.Event) error {
		n++
		return io.ErrClosedPipe
	})
	if !errors.Is(err, io.ErrClosedPipe) || n != 1 {
		t.Errorf("error %v after %d pieces, want the consumer's own after one", err, n)
	}
	<-left
}

// A server that does not stream fails the call, and an error in place of a
// stream is that error.
func TestWhatIsNoStreamIsNotRead(t *testing.T) {
	for _, c := range []struct {
		name, kind, body string
		status           int
		class            gateway.ErrorClass
	}{
		{"a whole answer", "application/json", completion(said, `"stop"`, ""), 200, gateway.ClassMalformedResponse},
		{"a page", "text/html", "<html>", 200, gateway.ClassMalformedResponse},
		{"R-GWB-11 an error", "application/json", `{"error":{"code":"insufficient_quota"}}`, 200, gateway.ClassProviderQuota},
		{"a status", "application/json", `{"error":{}}`, 503, gateway.ClassOverloaded},
		{"a status with the stream's type", "text/event-stream", events(`{"error":{}}`), 401, gateway.ClassAuth},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := serve(t, c.status, c.body, "Content-Type", c.kind)
			h := &heard{}
			_, err := openai.New(openai.Config{}).Stream(t.Context(), call(f), h.emit)
			if e := as(err); e == nil || e.Class != c.class || e.Status != c.status || e.NotBilled != (c.status != 200) || h.text+h.reasoning+h.refusal != "" {
				t.Errorf("error %#v after %+v, want %s", as(err), h, c.class)
			}
		})
	}
}

// R-GWP-01: the wish for usage goes out with streams only, and only to servers
// that take it.
func TestStreamRequestOnTheWire(t *testing.T) {
	_, _, f, err := streamed(t, events(said2("hi"), ended("stop"), done), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"model": "m1", "max_tokens": 100.0, "stream": true, "stream_options": map[string]any{"include_usage": true},
		"messages": []any{map[string]any{"role": "user", "content": "hello"}}}
	if diff := cmp.Diff(want, f.last.Load().body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if h := f.last.Load().header; h.Get("Accept") != "text/event-stream" || h.Get("Accept-Encoding") != "identity" {
		t.Errorf("headers %v", h)
	}
	_, _, f, err = streamed(t, events(said2("hi"), ended("stop"), done), func(c *gateway.Call) {
		c.Target.Drop = []gateway.Parameter{gateway.ParamStreamUsage}
	})
	if _, there := f.last.Load().body["stream_options"]; there || err != nil {
		t.Errorf("stream_options were sent to a server that does not take them, error %v", err)
	}
}

// Whatever a server sends: what the consumer heard is what the reply holds, an
// answer has an end, and a failure before the end has no usage.
func FuzzStream(f *testing.F) {
	f.Add(events(said2("<think>h</think>i"), ended("stop"), spent, done))
	f.Add(events(piece(0, "c1", "f", "{"), piece(0, "c2", "g", "}"), ended("tool_calls")))
	f.Add("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":[{}],\"tool_calls\":[{\"function\":{\"arguments\":[]}}]}}]}\n\ndata: [DONE]\n\n")
	f.Fuzz(func(t *testing.T, body string) {
		a := openai.New(openai.Config{Transport: answering(body)})
		c := call(&fake{Server: &httptest.Server{URL: "http://x"}})
		offering(&c)
		h := &heard{}
		reply, err := a.Stream(t.Context(), c, h.emit)
		if err != nil {
			if h.finished == 0 && reply.Usage.Known {
				t.Errorf("%q failed before its end with usage %+v", body, reply.Usage)
			}
			return
		}
		if reply.Finish == "" || h.finished != 1 || h.refusal != reply.Refusal || reply.Refusal == "" && h.text != reply.Text {
			t.Errorf("%q: heard %+v, reply %+v", body, h, reply)
		}
		for _, call := range reply.ToolCalls {
			if call.ID == "" || call.Name == "" || call.Arguments == "" {
				t.Errorf("%q: tool call %+v", body, call)
			}
		}
	})
}
