package loopback_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/loopback"
)

const canary = "CANARY-9d8e-do-not-log"

// doer is a gateway by function.
type doer func(ctx context.Context, req gateway.Request) (gateway.Response, error)

func (d doer) Do(ctx context.Context, req gateway.Request, b gateway.Budget) (gateway.Response, error) {
	return d(ctx, req)
}

func half(context.Context, gateway.Request) (gateway.Response, error) {
	return gateway.Response{Text: "child", Finish: gateway.FinishStop, Target: "one", RequestID: "req-7",
		Usage: gateway.Usage{Known: true, Input: 7, CacheRead: 2, Output: 3}}, nil
}

func fails(class gateway.ErrorClass) doer {
	return func(context.Context, gateway.Request) (gateway.Response, error) {
		return gateway.Response{}, &gateway.Error{Class: class}
	}
}

// rig is a running door.
type rig struct {
	*loopback.Server
	door loopback.Door
	stop func() // ends the job and waits
	log  *bytes.Buffer
}

func open(t *testing.T, d doer, change func(*loopback.Config)) rig {
	t.Helper()
	r := rig{log: new(bytes.Buffer)}
	c := loopback.Config{
		JobID: "job-1", Gateway: d, Budget: gateway.Unlimited(), ExampleIDs: []string{"a", "b", "c"},
		Measure: func(_ context.Context, _ string, ids []string) ([]loopback.Score, error) {
			var out []loopback.Score
			for i, id := range ids {
				s := loopback.Score{ExampleID: id, Feedback: "fine"}
				if v := 0.5; i > 0 {
					s.Score = &v
				}
				out = append(out, s)
			}
			return out, nil
		},
		Check: func(_ context.Context, text string) []loopback.Violation {
			if strings.Contains(text, "bad") {
				return []loopback.Violation{{Rule: "banned_phrase", Message: "holds a banned phrase"}}
			}
			return nil
		},
		Log: slog.New(slog.NewJSONHandler(r.log, nil)),
	}
	if change != nil {
		change(&c)
	}
	var err error
	if r.Server, r.door, err = loopback.Open(c); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("run: %v", err)
			}
		})
	}
	t.Cleanup(r.stop)
	return r
}

func client() *http.Client { return &http.Client{Timeout: 20 * time.Second} }

type answer struct {
	status int
	header http.Header
	body   map[string]any
}

// code gives the code of an error in the OpenAI shape.
func (a answer) code() string {
	e, _ := a.body["error"].(map[string]any)
	code, _ := e["code"].(string)
	return code
}

func (a answer) param() string {
	e, _ := a.body["error"].(map[string]any)
	p, _ := e["param"].(string)
	return p
}

func (r rig) do(t *testing.T, method, path, body string, change func(*http.Request)) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.door.BaseURL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.door.Token)
	req.Header.Set("Content-Type", "application/json")
	if change != nil {
		change(req)
	}
	res, err := client().Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{status: res.StatusCode, header: res.Header}
	if err := json.Unmarshal(b, &a.body); err != nil {
		t.Fatalf("%s %s: status %d, body %q is not JSON", method, path, res.StatusCode, b)
	}
	if a.status >= 400 && (a.header.Get("X-Should-Retry") != "false" || a.code() == "") {
		t.Errorf("%s %s: status %d, x-should-retry %q, body %v", method, path, a.status, a.header.Get("X-Should-Retry"), a.body)
	}
	return a
}

const chat = `{"model":"meta","messages":[{"role":"system","content":"s"},{"role":"user","content":"hello"}],"max_tokens":50}`

func TestChat(t *testing.T) {
	var got gateway.Request
	r := open(t, func(ctx context.Context, req gateway.Request) (gateway.Response, error) {
		got = req
		return half(ctx, req)
	}, func(c *loopback.Config) { c.Route, c.PromptKey, c.PromptVersion = "big", "optimizer.edit", "v1" })
	body := `{"model":"meta","messages":[{"role":"user","content":[{"type":"text","text":"hel"},{"type":"text","text":"lo"}]}],
		"max_completion_tokens":50,"temperature":0.7,"seed":3,"stop":"X","n":1,"stream":false,"tools":null}`
	a := r.do(t, "POST", "/chat/completions", body, nil)
	temp, seed := 0.7, int64(3)
	want := gateway.Request{Role: gateway.RoleMeta, Model: "big", Messages: []gateway.Message{{Role: "user", Content: "hello"}}, MaxTokens: 50,
		Temperature: &temp, Seed: &seed, Stop: []string{"X"}, JobID: "job-1", Feature: "optimize", PromptKey: "optimizer.edit", PromptVersion: "v1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request at the gateway (-want +got):\n%s", diff)
	}
	delete(a.body, "created")
	wantBody := map[string]any{"id": "chatcmpl-req-7", "object": "chat.completion", "model": "meta",
		"choices": []any{map[string]any{"index": 0.0, "finish_reason": "stop",
			"message": map[string]any{"role": "assistant", "content": "child", "refusal": nil}}},
		"usage": map[string]any{"prompt_tokens": 9.0, "completion_tokens": 3.0, "total_tokens": 12.0}}
	if diff := cmp.Diff(wantBody, a.body); diff != "" || a.status != 200 {
		t.Errorf("status %d, body (-want +got):\n%s", a.status, diff)
	}
	if models := r.do(t, "GET", "/models", "", nil); models.status != 200 {
		t.Errorf("models: status %d", models.status)
	}
}

func TestAnswersThatAreNotWhole(t *testing.T) {
	for finish, want := range map[gateway.Finish]string{
		gateway.FinishLength: "length", gateway.FinishUnknown: "length", gateway.FinishRefusal: "content_filter",
	} {
		r := open(t, func(context.Context, gateway.Request) (gateway.Response, error) {
			return gateway.Response{Finish: finish, Refusal: "no"}, nil
		}, nil)
		a := r.do(t, "POST", "/chat/completions", chat, nil)
		c := a.body["choices"].([]any)[0].(map[string]any)
		if content := c["message"].(map[string]any)["content"]; c["finish_reason"] != want || content != "" {
			t.Errorf("R-GWT-03 %s arrives as %v with content %v, want %s and an empty string", finish, c["finish_reason"], content, want)
		}
		if n := r.Stats().Truncated; (n == 1) != (want == "length") {
			t.Errorf("R-GWT-14 %s: %d truncated answers are counted", finish, n)
		}
	}
}

func TestBadChatRequests(t *testing.T) {
	var calls atomic.Int64
	r := open(t, func(ctx context.Context, req gateway.Request) (gateway.Response, error) {
		calls.Add(1)
		return half(ctx, req)
	}, nil)
	with := func(field string) string { return strings.TrimSuffix(chat, "}") + "," + field + "}" }
	for _, c := range []struct {
		name, body, param string
		status            int
	}{
		{"stream", with(`"stream":true`), "stream", 400},
		{"n", with(`"n":2`), "n", 400},
		{"R-GWB-19 tools", with(`"tools":[{"type":"web_search"}]`), "tools", 400},
		{"tool choice", with(`"tool_choice":"auto"`), "tool_choice", 400},
		{"unknown parameter", with(`"logprobs":true`), "", 400},
		{"both caps", with(`"max_completion_tokens":5`), "max_tokens", 400},
		{"temperature", with(`"temperature":9`), "temperature", 400},
		{"temperature of another type", with(`"temperature":"hot"`), "temperature", 400},
		{"stop", with(`"stop":5`), "stop", 400},
		{"no cap", `{"model":"meta","messages":[{"role":"user","content":"x"}]}`, "max_tokens", 400},
		{"negative cap", `{"model":"meta","messages":[{"role":"user","content":"x"}],"max_tokens":-1}`, "max_tokens", 400},
		{"R-GWB-14 another model", strings.Replace(chat, "meta", "gpt", 1), "model", 400},
		{"no messages", `{"model":"meta","messages":[],"max_tokens":5}`, "messages", 400},
		{"a picture", `{"model":"meta","max_tokens":5,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]}`, "messages[0].content", 400},
		{"null content", `{"model":"meta","max_tokens":5,"messages":[{"role":"user","content":null}]}`, "messages[0].content", 400},
		{"a tool's message", `{"model":"meta","max_tokens":5,"messages":[{"role":"tool","content":"x"}]}`, "messages[0].role", 400},
		{"two values", chat + chat, "", 400},
		{"no JSON", `hello`, "", 400},
		{"empty", ``, "", 400},
		{"not UTF-8", "{\"model\":\"meta\",\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}", "", 400},
		{"too large", `{"model":"` + strings.Repeat("x", loopback.MaxBody) + `"}`, "", 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := r.do(t, "POST", "/chat/completions", c.body, nil)
			if a.status != c.status || a.param() != c.param {
				t.Errorf("status %d for parameter %q, want %d for %q: %v", a.status, a.param(), c.status, c.param, a.body)
			}
		})
	}
	if calls.Load() != 0 {
		t.Errorf("%d bad requests reached the gateway", calls.Load())
	}
	if _, latched := r.Latch(); latched {
		t.Error("a bad request latched the door")
	}
}

func TestOnlyTheJobComesIn(t *testing.T) {
	var calls atomic.Int64
	r := open(t, func(ctx context.Context, req gateway.Request) (gateway.Response, error) {
		calls.Add(1)
		return half(ctx, req)
	}, nil)
	other := open(t, half, nil)
	if !strings.HasPrefix(r.door.BaseURL, "http://127.0.0.1:") || !strings.HasPrefix(r.door.Token, "pl-job-") || len(r.door.Token) != 50 {
		t.Errorf("door %s with a token of %d characters", r.door.BaseURL, len(r.door.Token))
	}
	port := r.door.BaseURL[len("http://127.0.0.1") : len(r.door.BaseURL)-len("/v1")]
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		status int
	}{
		{"R-GWB-13 no token", func(q *http.Request) { q.Header.Del("Authorization") }, 401},
		{"R-GWB-13 wrong token", func(q *http.Request) { q.Header.Set("Authorization", "Bearer pl-job-x") }, 401},
		{"R-GWB-14 token of another job", func(q *http.Request) { q.Header.Set("Authorization", "Bearer "+other.door.Token) }, 401},
		{"token without Bearer", func(q *http.Request) { q.Header.Set("Authorization", r.door.Token) }, 401},
		{"rebound host", func(q *http.Request) { q.Host = "evil.example" + port }, 421},
		{"localhost", func(q *http.Request) { q.Host = "localhost" + port }, 421},
		{"host without port", func(q *http.Request) { q.Host = "127.0.0.1" }, 421},
		{"a page of a browser", func(q *http.Request) { q.Header.Set("Origin", "null") }, 403},
		{"an image of a browser", func(q *http.Request) { q.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		{"a form", func(q *http.Request) { q.Header.Set("Content-Type", "text/plain") }, 415},
		{"token in the query", func(q *http.Request) { q.URL.RawQuery = "token=" + r.door.Token }, 400},
		{"another path", func(q *http.Request) { q.URL.Path = "/v1/embeddings" }, 404},
		{"a path below", func(q *http.Request) { q.URL.Path = "/v1/chat/completions/x" }, 404},
		{"another method", func(q *http.Request) { q.Method = "PUT" }, 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			if a := r.do(t, "POST", "/chat/completions", chat, c.change); a.status != c.status {
				t.Errorf("status %d, want %d", a.status, c.status)
			}
		})
	}
	if calls.Load() != 0 {
		t.Errorf("%d strangers reached the gateway", calls.Load())
	}
	r.stop()
	if _, err := http.Get(r.door.BaseURL + "/models"); err == nil {
		t.Error("R-GWB-14 after the job the port still answers")
	}
}

func TestMeasureAndCheck(t *testing.T) {
	r := open(t, half, nil)
	a := r.do(t, "POST", "/measure", `{"text":"be kind","example_ids":["b","a"]}`, nil)
	want := map[string]any{"results": []any{
		map[string]any{"example_id": "b", "score": nil, "feedback": "fine"},
		map[string]any{"example_id": "a", "score": 0.5, "feedback": "fine"}}}
	if diff := cmp.Diff(want, a.body); diff != "" {
		t.Errorf("measure (-want +got):\n%s", diff)
	}
	for text, want := range map[string]any{
		"good": []any{},
		"bad":  []any{map[string]any{"rule": "banned_phrase", "message": "holds a banned phrase"}},
	} {
		a := r.do(t, "POST", "/check", `{"text":"`+text+`"}`, nil)
		if diff := cmp.Diff(want, a.body["violations"]); diff != "" {
			t.Errorf("check of %q (-want +got):\n%s", text, diff)
		}
	}
	long := strings.Repeat("x", loopback.MaxText+1)
	for _, c := range []struct {
		name, path, body, param string
		status                  int
	}{
		{"R-GWA-01 an id of no example of the job", "/measure", `{"text":"x","example_ids":["a","holdout-1"]}`, "example_ids[1]", 400},
		{"an id twice", "/measure", `{"text":"x","example_ids":["a","b","a"]}`, "example_ids[2]", 400},
		{"no ids", "/measure", `{"text":"x","example_ids":[]}`, "example_ids", 400},
		{"no text", "/measure", `{"text":" ","example_ids":["a"]}`, "text", 400},
		{"a long text", "/measure", `{"text":"` + long + `","example_ids":["a"]}`, "text", 413},
		{"an unknown field", "/measure", `{"text":"x","example_ids":["a"],"scorer":"x"}`, "", 400},
		{"nothing to check", "/check", `{"text":""}`, "text", 400},
		{"a long text to check", "/check", `{"text":"` + long + `"}`, "text", 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			if a := r.do(t, "POST", c.path, c.body, nil); a.status != c.status || a.param() != c.param {
				t.Errorf("status %d for %q, want %d for %q", a.status, a.param(), c.status, c.param)
			}
		})
	}
}

func TestABrokenMeasureIsNotPassedOn(t *testing.T) {
	nan, big, fine := math.NaN(), 1.5, 0.5
	for name, scores := range map[string][]loopback.Score{
		"not a number":    {{ExampleID: "a", Score: &nan}},
		"beyond 1":        {{ExampleID: "a", Score: &big}},
		"another example": {{ExampleID: "b", Score: &fine}},
		"one too few":     {},
	} {
		r := open(t, half, func(c *loopback.Config) {
			c.Measure = func(context.Context, string, []string) ([]loopback.Score, error) { return scores, nil }
		})
		if a := r.do(t, "POST", "/measure", `{"text":"x","example_ids":["a"]}`, nil); a.status != 500 {
			t.Errorf("%s: status %d, want 500", name, a.status)
		}
	}
}

func TestNothingSecretIsLogged(t *testing.T) {
	r := open(t, fails(gateway.ClassAuth), nil)
	r.do(t, "POST", "/chat/completions", strings.Replace(chat, "hello", canary, 1), nil)
	r.do(t, "POST", "/check", `{"text":"`+canary+`"`, nil)
	r.stop()
	if log := r.log.String(); !strings.Contains(log, "loopback latched") || strings.Contains(log, canary) || strings.Contains(log, r.door.Token) {
		t.Errorf("R-GWV-02, R-GWV-05 log:\n%s", log)
	}
}

func TestOpenNamesWhatIsMissing(t *testing.T) {
	if _, _, err := loopback.Open(loopback.Config{}); err == nil {
		t.Error("a door without a gateway opens")
	}
}
