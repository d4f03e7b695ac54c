package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/openai"
)

const canary = "CANARY-1b2c-do-not-tell"

// fake serves one fixed answer and counts.
type fake struct {
	*httptest.Server
	calls atomic.Int64
	last  atomic.Pointer[recorded]
}

type recorded struct {
	header http.Header
	path   string
	body   map[string]any
}

func serve(t *testing.T, status int, body string, headers ...string) *fake {
	t.Helper()
	f := &fake{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.calls.Add(1)
		rec := &recorded{header: r.Header.Clone(), path: r.URL.Path}
		b, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(b, &rec.body); err != nil {
			t.Errorf("the request is not JSON: %v", err)
		}
		f.last.Store(rec)
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(f.Close)
	return f
}

func as(err error) *gateway.Error {
	var e *gateway.Error
	errors.As(err, &e)
	return e
}

func call(f *fake) gateway.Call {
	return gateway.Call{
		Target:  gateway.Target{Name: "one", BaseURL: f.URL + "/v1", Model: "m1", MaxTokensField: "max_tokens"},
		Key:     "sk-" + canary,
		Request: gateway.Request{MaxTokens: 100, Messages: []gateway.Message{{Role: "user", Content: "hello"}}},
	}
}

func completion(message, finish, rest string) string {
	return `{"id":"c1","model":"m1-0001","choices":[{"index":0,"message":` + message + `,"finish_reason":` + finish + `}]` + rest + `}`
}

const said = `{"role":"assistant","content":"hi there"}`

// R-GWB-19, R-GWP-01: nothing goes out that was not asked for, neither tools nor
// options of streams.
func TestRequestOnTheWire(t *testing.T) {
	f := serve(t, 200, completion(said, `"stop"`, ""))
	c := call(f)
	temp, seed := 0.0, int64(7)
	c.Request.Temperature, c.Request.Seed, c.Request.Stop = &temp, &seed, []string{"END"}
	if _, err := openai.New(openai.Config{}).Complete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	got := f.last.Load()
	want := map[string]any{"model": "m1", "max_tokens": 100.0, "temperature": 0.0, "seed": 7.0, "stop": []any{"END"},
		"messages": []any{map[string]any{"role": "user", "content": "hello"}}}
	if diff := cmp.Diff(want, got.body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if got.path != "/v1/chat/completions" || got.header.Get("Authorization") != "Bearer sk-"+canary {
		t.Errorf("path %s, authorization of %d bytes", got.path, len(got.header.Get("Authorization")))
	}
	c.Target.MaxTokensField, c.Key = "max_completion_tokens", ""
	if _, err := openai.New(openai.Config{}).Complete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	got = f.last.Load()
	if got.body["max_completion_tokens"] != 100.0 || got.body["max_tokens"] != nil || got.header.Get("Authorization") != "" {
		t.Errorf("with the other field and no key: body %v, authorization %q", got.body, got.header.Get("Authorization"))
	}
}

func TestAnswers(t *testing.T) {
	usage := func(in, out int64) gateway.Usage { return gateway.Usage{Known: true, Input: in, Output: out} }
	for _, c := range []struct {
		name, body string
		text       string
		refusal    string
		finish     gateway.Finish
		usage      gateway.Usage
		class      gateway.ErrorClass
	}{
		{name: "complete", body: completion(said, `"stop"`, `,"usage":{"prompt_tokens":9,"completion_tokens":3}`),
			text: "hi there", finish: gateway.FinishStop, usage: usage(9, 3)},
		{name: "R-GWC-04 cached and reasoning tokens", body: completion(said, `"stop"`,
			`,"usage":{"prompt_tokens":9,"completion_tokens":8,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":5}}`),
			text: "hi there", finish: gateway.FinishStop, usage: gateway.Usage{Known: true, Input: 5, CacheRead: 4, Output: 8, Reasoning: 5}},
		{name: "R-GWL-07 usage missing", body: completion(said, `"stop"`, ""), text: "hi there", finish: gateway.FinishStop},
		{name: "R-GWL-07 usage null", body: completion(said, `"stop"`, `,"usage":null`), text: "hi there", finish: gateway.FinishStop},
		{name: "R-GWL-07 usage of zeros", body: completion(said, `"stop"`, `,"usage":{"prompt_tokens":0,"completion_tokens":0}`), text: "hi there", finish: gateway.FinishStop},
		{name: "R-GWL-07 a prompt of no tokens", body: completion(said, `"stop"`, `,"usage":{"prompt_tokens":0,"completion_tokens":3}`), text: "hi there", finish: gateway.FinishStop},
		{name: "R-GWL-07 words without tokens", body: completion(said, `"stop"`, `,"usage":{"prompt_tokens":9,"completion_tokens":0}`), text: "hi there", finish: gateway.FinishStop},
		{name: "R-GWL-07 half of the usage", body: completion(said, `"stop"`, `,"usage":{"prompt_tokens":9}`), text: "hi there", finish: gateway.FinishStop},
		{name: "negative usage", body: completion(said, `"stop"`, `,"usage":{"prompt_tokens":-9,"completion_tokens":1}`), text: "hi there", finish: gateway.FinishStop},
		{name: "usage of another type", body: completion(said, `"stop"`, `,"usage":{"prompt_tokens":"9","completion_tokens":1}`), text: "hi there", finish: gateway.FinishStop},
		{name: "R-GWT-01 truncated", body: completion(said, `"length"`, ""), text: "hi there", finish: gateway.FinishLength},
		{name: "R-GWT-11 cap reached while reasoning", body: completion(`{"content":null}`, `"length"`, ""), finish: gateway.FinishLength},
		{name: "R-GWT-09 refusal", body: completion(`{"content":null,"refusal":"no"}`, `"stop"`, ""), refusal: "no", finish: gateway.FinishRefusal},
		{name: "no reason, below the cap", body: completion(said, `null`, `,"usage":{"prompt_tokens":9,"completion_tokens":99}`), text: "hi there", finish: gateway.FinishStop, usage: usage(9, 99)},
		{name: "no reason, at the cap", body: completion(said, `null`, `,"usage":{"prompt_tokens":9,"completion_tokens":100}`), text: "hi there", finish: gateway.FinishLength, usage: usage(9, 100)},
		{name: "no reason, no usage", body: completion(said, `null`, ""), text: "hi there", finish: gateway.FinishUnknown},
		{name: "R-GWT-03 an end that the model did not choose", body: completion(said, `"abort"`, `,"usage":{"prompt_tokens":9,"completion_tokens":3}`), text: "hi there", finish: gateway.FinishUnknown, usage: usage(9, 3)},
		{name: "content in parts", body: completion(`{"content":[{"type":"text","text":"hi "},{"type":"text","text":"you"}]}`, `"stop"`, ""), text: "hi you", finish: gateway.FinishStop},
		{name: "R-GWP-09 reasoning left in the text", body: completion(`{"content":"<think>hm\n</think>\n\nyes"}`, `"stop"`, ""), text: "yes", finish: gateway.FinishStop},
		{name: "reasoning that was cut", body: completion(`{"content":"<think>hm"}`, `"length"`, ""), finish: gateway.FinishLength},
		{name: "filtered answer is paid", body: completion(`{"content":""}`, `"content_filter"`, `,"usage":{"prompt_tokens":9,"completion_tokens":3}`), usage: usage(9, 3), class: gateway.ClassContentFilter},
		{name: "null content", body: completion(`{"content":null}`, `"stop"`, ""), class: gateway.ClassMalformedResponse},
		{name: "a tool call that nobody asked for", body: completion(`{"content":null}`, `"tool_calls"`, ""), class: gateway.ClassMalformedResponse},
		{name: "no choices", body: `{"choices":[]}`, class: gateway.ClassMalformedResponse},
		{name: "another document", body: `{"detail":"hello"}`, class: gateway.ClassMalformedResponse},
		{name: "a page", body: `<html>hello</html>`, class: gateway.ClassMalformedResponse},
		{name: "nothing", body: ``, class: gateway.ClassMalformedResponse},
		{name: "cut JSON", body: completion(said, `"stop"`, "")[:40], class: gateway.ClassMalformedResponse},
		{name: "R-GWB-11 error inside a 200", body: `{"error":{"message":"` + canary + `"}}`, class: gateway.ClassServer},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := serve(t, 200, c.body, "X-Request-Id", "r-1")
			got, err := openai.New(openai.Config{}).Complete(t.Context(), call(f))
			if gateway.ClassOf(err) != c.class {
				t.Fatalf("class %q (%v), want %q", gateway.ClassOf(err), err, c.class)
			}
			if got.Usage != c.usage {
				t.Errorf("usage %+v, want %+v", got.Usage, c.usage)
			}
			if c.class == "" && (got.Text != c.text || got.Refusal != c.refusal || got.Finish != c.finish || got.ServedModel != "m1-0001" || got.ProviderRequestID != "r-1") {
				t.Errorf("answer %+v, want text %q, refusal %q, finish %s", got, c.text, c.refusal, c.finish)
			}
			if f.calls.Load() != 1 {
				t.Errorf("R-GWB-10 %d HTTP calls", f.calls.Load())
			}
			if err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("R-GWV-03 %v holds provider text", err)
			}
		})
	}
}

// R-GWP-09, R-GWB-03: reasoning arrives apart from the answer, wherever a server
// puts it.
func TestReasoningIsApart(t *testing.T) {
	for _, message := range []string{
		`{"content":"yes","reasoning_content":"hm"}`, `{"content":"yes","reasoning":"hm"}`, `{"content":"<think>hm</think>yes"}`,
	} {
		f := serve(t, 200, completion(message, `"stop"`, ""))
		got, err := openai.New(openai.Config{}).Complete(t.Context(), call(f))
		if err != nil || got.Text != "yes" || got.Reasoning != "hm" {
			t.Errorf("%s: text %q, reasoning %q, error %v; want yes and hm", message, got.Text, got.Reasoning, err)
		}
	}
}

func TestErrorStatusesAreOneCallEach(t *testing.T) {
	for status, want := range map[int]gateway.ErrorClass{
		400: gateway.ClassBadRequest, 401: gateway.ClassAuth, 402: gateway.ClassProviderQuota, 403: gateway.ClassEntitlement,
		404: gateway.ClassModelNotFound, 413: gateway.ClassContextOverflow, 429: gateway.ClassRateLimit,
		500: gateway.ClassServer, 503: gateway.ClassOverloaded, 529: gateway.ClassOverloaded,
	} {
		f := serve(t, status, `{"error":"`+canary+`"}`, "Retry-After", "3")
		_, err := openai.New(openai.Config{}).Complete(t.Context(), call(f))
		e := as(err)
		if e == nil || e.Class != want || e.Status != status || !e.NotBilled || e.RetryAfter != 3*time.Second {
			t.Errorf("status %d: %#v, want class %s", status, e, want)
			continue
		}
		if f.calls.Load() != 1 || strings.Contains(e.Error(), canary) {
			t.Errorf("status %d: %d calls, error %v", status, f.calls.Load(), e)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	other := serve(t, 200, completion(said, `"stop"`, ""))
	for _, status := range []int{302, 303, 307, 308} {
		f := serve(t, status, "", "Location", other.URL+"/v1/chat/completions")
		_, err := openai.New(openai.Config{}).Complete(t.Context(), call(f))
		if gateway.ClassOf(err) != gateway.ClassBadRequest || other.calls.Load() != 0 {
			t.Errorf("status %d: error %v, %d calls at the other host", status, err, other.calls.Load())
		}
	}
}

// The standard library reads the proxy variables once per process, so the
// question is put to a fresh one.
func TestProxiesOfTheEnvironmentAreNotUsed(t *testing.T) {
	if slices.Contains(os.Environ(), "OPENAI_TEST_CHILD=1") {
		c := call(&fake{Server: &httptest.Server{URL: "http://model.invalid"}})
		_, err := openai.New(openai.Config{}).Complete(t.Context(), c)
		if gateway.ClassOf(err) != gateway.ClassTransport {
			t.Errorf("error %v, want transport: nobody has that name", err)
		}
		return
	}
	proxy := serve(t, 200, completion(said, `"stop"`, ""))
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProxiesOfTheEnvironmentAreNotUsed$")
	child.Env = []string{"OPENAI_TEST_CHILD=1", "HTTP_PROXY=" + proxy.URL, "http_proxy=" + proxy.URL}
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("the child: %v\n%s", err, out)
	}
	if n := proxy.calls.Load(); n != 0 {
		t.Errorf("%d calls at the proxy", n)
	}
}

func TestAnAnswerThatIsTooLargeIsNotRead(t *testing.T) {
	f := serve(t, 200, completion(`{"content":"`+strings.Repeat("x", 5000)+`"}`, `"stop"`, ""))
	_, err := openai.New(openai.Config{MaxResponse: 1000}).Complete(t.Context(), call(f))
	if gateway.ClassOf(err) != gateway.ClassMalformedResponse {
		t.Errorf("error %v, want malformed_response", err)
	}
}

func TestTransportFailuresTellWhetherAnythingWasSent(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	_ = ln.Close()
	c := call(&fake{Server: &httptest.Server{URL: "http://" + addr}})
	_, err = openai.New(openai.Config{}).Complete(t.Context(), c)
	if e := as(err); e == nil || e.Class != gateway.ClassTransport || !e.NotBilled || strings.Contains(e.Error(), addr) {
		t.Errorf("nobody listens: %#v, want transport, not billed, no address", err)
	}
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(cut.Close)
	c.Target.BaseURL = cut.URL
	_, err = openai.New(openai.Config{}).Complete(t.Context(), c)
	if e := as(err); e == nil || e.Class != gateway.ClassTransport || e.NotBilled {
		t.Errorf("connection cut after the request: %#v, want transport, possibly billed", err)
	}
	half := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"choices":[`)
	}))
	t.Cleanup(half.Close)
	c.Target.BaseURL = half.URL
	_, err = openai.New(openai.Config{}).Complete(t.Context(), c)
	if e := as(err); e == nil || e.Class != gateway.ClassTransport || e.NotBilled {
		t.Errorf("answer cut in the middle: %#v, want transport, possibly billed", err)
	}
}

// R-GWS-19.
func TestACancelReachesTheServer(t *testing.T) {
	arrived, left := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		close(arrived)
		<-r.Context().Done()
		close(left)
	}))
	t.Cleanup(s.Close)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	c := call(&fake{Server: s})
	if _, err := openai.New(openai.Config{}).Complete(ctx, c); gateway.ClassOf(err) != gateway.ClassTransport {
		t.Errorf("error %v, want transport; the chain knows whose cancel it was", err)
	}
	<-left
}

func TestARequestThatCannotBeEncodedIsNotSent(t *testing.T) {
	f := serve(t, 200, completion(said, `"stop"`, ""))
	c := call(f)
	nan := math.NaN()
	c.Request.Temperature = &nan
	if _, err := openai.New(openai.Config{}).Complete(t.Context(), c); gateway.ClassOf(err) != gateway.ClassBadRequest || f.calls.Load() != 0 {
		t.Errorf("error %v after %d calls", err, f.calls.Load())
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(completion(said, `"stop"`, `,"usage":{"prompt_tokens":9,"completion_tokens":3}`)))
	f.Add([]byte(`{"error":[]}`))
	f.Add([]byte(`{"choices":[{"message":{"content":[{}]}}],"usage":{"prompt_tokens":1e30}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		a := openai.New(openai.Config{Transport: answering(body)})
		reply, err := a.Complete(t.Context(), call(&fake{Server: &httptest.Server{URL: "http://x"}}))
		if u := reply.Usage; u.Input < 0 || u.Output < 0 || u.CacheRead < 0 || !u.Known && u != (gateway.Usage{}) {
			t.Errorf("%q gives usage %+v", body, u)
		}
		if err == nil && reply.Finish == "" {
			t.Errorf("%q gives an answer without an end", body)
		}
	})
}

// answering is a transport that gives one body.
type answering []byte

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(a)))}, nil
}
