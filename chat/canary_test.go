package chat_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/anthropic"
	"github.com/elnor/promptlab/gateway/openai"
)

const canary = "CANARY-2b1a-do-not-tell"

// provider speaks a protocol and says the canary: in answers, in pieces, and in
// errors, before a piece and after one.
func provider(t *testing.T, protocol gateway.Protocol, mood *atomic.Value) *httptest.Server {
	t.Helper()
	failure := `{"type":"error","error":{"type":"invalid_request_error","code":"` + canary + `","message":"you said ` + canary + `"}}`
	whole := map[gateway.Protocol]string{
		gateway.ProtocolOpenAI: `{"model":"served-1","choices":[{"message":{"content":"` + canary + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}`,
		gateway.ProtocolAnthropic: `{"type":"message","model":"served-1","content":[{"type":"thinking","thinking":"` + canary + `","signature":"s"},{"type":"text","text":"` + canary +
			`"}],"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":3}}`,
	}
	pieces := map[gateway.Protocol][]string{
		gateway.ProtocolOpenAI: {`{"model":"served-1","choices":[{"index":0,"delta":{"content":"` + canary + `"}}]}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, `[DONE]`},
		gateway.ProtocolAnthropic: {`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"` + canary + `"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":9,"output_tokens":3}}`, `{"type":"message_stop"}`},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), canary) || !strings.Contains(fmt.Sprint(r.Header), "sk-"+canary) {
			t.Error("the question or the key did not reach the provider: nothing would be proved")
		}
		w.Header().Set("X-Request-Id", "req "+canary)
		streamed, how := strings.Contains(string(body), `"stream":true`), mood.Load()
		switch {
		case how == "refuses":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, failure)
		case !streamed:
			_, _ = io.WriteString(w, whole[protocol])
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			events := pieces[protocol]
			if how == "breaks" {
				events = []string{events[0], failure}
			}
			for _, e := range events {
				_, _ = io.WriteString(w, "data: "+e+"\n\n")
			}
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// R-GWV-02, R-GWV-03, R-GWV-05: a chat's questions, answers, a provider's words
// and its key are in no log, no metric, no header, no receipt and no file of EC;
// what a client hears of a failure is ours alone.
func TestNoSinkHoldsACanary(t *testing.T) {
	for protocol, adapter := range map[gateway.Protocol]gateway.Adapter{
		gateway.ProtocolOpenAI: openai.New(openai.Config{}), gateway.ProtocolAnthropic: anthropic.New(anthropic.Config{}),
	} {
		var mood atomic.Value
		up := provider(t, protocol, &mood)
		targets, err := gateway.Targets([]gateway.ModelConfig{{Name: "up", Protocol: protocol, BaseURL: up.URL + "/v1", Model: "m-1", Routes: gateway.Roles()}})
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t)
		r.activate("t", "o-a")
		r.model.says(func(ctx context.Context, c gateway.Call, emit func(gateway.Event) error) (gateway.Reply, error) {
			c.Target, c.Key = targets[0], "sk-"+canary
			if emit == nil {
				return adapter.Complete(ctx, c)
			}
			return adapter.Stream(ctx, c, emit)
		})
		var kept strings.Builder
		for _, path := range []string{"/v1/chat/completions", "/v1/messages"} {
			for _, how := range []string{"answers", "refuses", "breaks"} {
				for _, stream := range []bool{false, true} {
					mood.Store(how)
					a := r.do("POST", path, fmt.Sprintf(`{"model":"fast","max_tokens":50,"stream":%t,"messages":[{"role":"user","content":"hello %s"}]}`, stream, canary),
						"X-PromptLab-Session", key("t").Token())
					good := how == "answers" || how == "breaks" && !stream
					body := string(a.body)
					if good != strings.Contains(body, canary) && (how != "breaks" || !stream) {
						t.Errorf("%s at %s, %s, stream %t: status %d, the answer reached the client: %t, want %t", protocol, path, how, stream, a.status, !good, good)
					}
					if how == "breaks" && stream && strings.Count(body, canary) != 1 {
						t.Errorf("R-GWV-03 %s at %s broke after a piece: the client heard %d canaries, want the piece's alone: %s", protocol, path, strings.Count(body, canary), body)
					}
					fmt.Fprintln(&kept, a.header)
				}
			}
		}
		fmt.Fprintf(&kept, "%+v\n", r.truth("t"))
		r.stop()
		families, err := r.reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			kept.WriteString(f.String())
		}
		log := r.log.String()
		if len(families) == 0 || !strings.Contains(log, "chat") {
			t.Errorf("%d metrics and a log of %d bytes prove nothing", len(families), len(log))
		}
		kept.WriteString(log)
		files := 0
		if err := fs.WalkDir(os.DirFS(r.env.Dir), ".", func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := fs.ReadFile(os.DirFS(r.env.Dir), p)
			files++
			kept.Write(b)
			return err
		}); err != nil || files == 0 {
			t.Fatalf("%d files of EC, %v", files, err)
		}
		if all := strings.ToLower(kept.String()); strings.Contains(all, strings.ToLower(canary)) {
			at := strings.Index(all, strings.ToLower(canary))
			t.Errorf("R-GWV-02 %s: a sink holds the canary: ...%s...", protocol, all[max(0, at-200):min(len(all), at+60)])
		}
	}
}
