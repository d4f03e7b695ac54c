//go:build linux

package pyrun

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/elnor/promptlab/contracts"
)

// adapter gives the configuration of the installed adapter, which must be the one
// of these sources.
func adapter(t *testing.T) Config {
	t.Helper()
	venv, err := filepath.Abs("../../.venv")
	if err != nil {
		t.Fatal(err)
	}
	python := filepath.Join(venv, "bin", "python")
	if _, err := os.Stat(python); err != nil {
		t.Skipf("SKIPPED, THE REAL OPTIMIZER WAS NOT TESTED: %s is not there; run worker/adapter/install.sh", python)
	}
	sources, err := filepath.Glob("../adapter/src/promptlab_adapter/*.py")
	if err != nil || len(sources) == 0 {
		t.Fatalf("no sources of the adapter: %v", err)
	}
	for _, source := range sources {
		want, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		installed, err := filepath.Glob(filepath.Join(venv, "lib", "python*", "site-packages", "promptlab_adapter", filepath.Base(source)))
		if err != nil || len(installed) != 1 {
			t.Fatalf("%s is not installed: %v; run worker/adapter/install.sh", filepath.Base(source), err)
		}
		if got, err := os.ReadFile(installed[0]); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("the installed %s is not the one of the sources (%v); run worker/adapter/install.sh", filepath.Base(source), err)
		}
	}
	return Config{Python: python, Dir: t.TempDir()}
}

// door is a loopback as the adapter knows it, in a world where one sentence helps.
type door struct {
	url string

	mu    sync.Mutex
	calls []string // path and body
	block func()   // called before a measurement is answered
}

const rule = "Name your source."

func openDoor(t *testing.T) *door {
	d := &door{block: func() {}}
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	d.url = server.URL
	return d
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Text       string
		ExampleIDs []string `json:"example_ids"`
		Messages   []struct{ Content string }
	}
	var body bytes.Buffer
	_, _ = body.ReadFrom(r.Body) // a broken body does not parse
	if err := json.Unmarshal(body.Bytes(), &in); err != nil || r.Header.Get("Authorization") != "Bearer "+testToken {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	d.mu.Lock()
	d.calls = append(d.calls, r.URL.Path+" "+body.String())
	n := len(d.calls)
	d.mu.Unlock()
	var out any
	switch r.URL.Path {
	case "/v1/chat/completions":
		_, text, _ := strings.Cut(in.Messages[0].Content, "TEXT\n")
		text = strings.TrimSpace(text) + "\n" + []string{rule, "Be brief. " + strconv.Itoa(n)}[n%2]
		out = map[string]any{"choices": []any{map[string]any{"finish_reason": "stop", "message": map[string]any{"content": "<prompt>" + text + "</prompt>"}}}}
	case "/v1/measure":
		d.block()
		scores := []map[string]any{}
		for _, id := range in.ExampleIDs {
			score := 0.25
			if strings.Contains(in.Text, rule) {
				score = 0.75
			}
			scores = append(scores, map[string]any{"example_id": id, "score": score, "feedback": ""})
		}
		out = map[string]any{"results": scores}
	default:
		out = map[string]any{"violations": []any{}}
	}
	_ = json.NewEncoder(w).Encode(out) // a client that left does not read
}

func searchRequest(t *testing.T, url string) []byte {
	t.Helper()
	ids := make([]string, 16)
	for i := range ids {
		ids[i] = fmt.Sprintf("example-%d", i)
	}
	b, err := json.Marshal(map[string]any{
		"protocol": 1, "job_id": "0b8a3e57-7a3e-4a43-9c2b-6f7d5b0c1a11", "engine": "auto", "seed": 7, "source_text": "You answer questions.\r\n", "goal": "Better answers.",
		"artifact_kind": "overlay_template", "example_ids": ids, "max_candidates": 3, "max_steps": 2, "population": 4,
		"constraints": map[string]any{"banned_phrases": []string{}, "preserve_required_sections": []string{}, "max_growth": 1.3},
		"templates": map[string]any{
			"variation": "<task_desc> TEXT\n<prev_prompt>", "crossover": "<task_desc> <mother> TEXT\n<father>", "mutation": "<task_desc> TEXT\n<instruction>",
			"evoprompt": "<task_desc> <prompt1> TEXT\n<prompt2>", "opro": "<task_desc> <instructions> TEXT\nx", "repair": "<request>\n<problems>", "emphases": []string{"Be explicit.", "Be brief."},
		},
		"base_url": url, "token": testToken, "meta_model": "meta", "meta_max_tokens": 1024, "concurrency": 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheRealOptimizerFindsWhatHelps(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-secret-of-ours")
	t.Setenv("ELNOR_MEMORY", "/secret-of-ours")
	cfg, d := adapter(t), openDoor(t)
	var kinds []string
	var seen string // environment and arguments of the running process
	out, err := Run(t.Context(), cfg, searchRequest(t, d.url), func(e Event) {
		kinds = append(kinds, e.Type)
		if e.Type == "hello" {
			var h hello
			if err := json.Unmarshal(e.Raw, &h); err != nil {
				t.Errorf("hello: %v", err)
			}
			for _, file := range []string{"environ", "cmdline"} {
				b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", h.PID, file))
				if err != nil {
					t.Errorf("read %s: %v", file, err)
				}
				seen += string(b)
			}
		}
	})
	if err != nil {
		t.Fatalf("run: %v; stderr %q", err, out.Stderr)
	}
	r := out.Result
	if r.Status != "completed" || r.EndedBy != "steps" || r.Steps != 2 || r.Promptolution != "2.3.0" || r.Engine != "capo" {
		t.Errorf("result: %+v, want two completed steps of capo by promptolution 2.3.0", r)
	}
	if len(r.Candidates) == 0 || !strings.Contains(r.Candidates[0].Text, rule) || r.Candidates[0].Score != 0.75 || *r.SourceScore != 0.25 {
		t.Errorf("candidates: %+v against %v, want the rule that helps first", r.Candidates, r.SourceScore)
	}
	for _, want := range []string{"hello", "ready", "seeds", "step", "calls", "candidate"} {
		if !slices.Contains(kinds, want) {
			t.Errorf("events: %v, want a %s among them", kinds, want)
		}
	}
	if out.Stderr != "" {
		t.Errorf("stderr: %q, want silence", out.Stderr)
	}
	if !strings.Contains(seen, "HOME="+cfg.Dir) || !strings.Contains(seen, "promptlab_adapter") {
		t.Errorf("environment and arguments: %q, want the adapter's own", seen)
	}
	if traffic := strings.Join(d.calls, "\n"); strings.Contains(seen+traffic, "secret-of-ours") || strings.Contains(seen, testToken) {
		t.Error("R-SYS-04 R-GWB-04 the process, its arguments or its traffic hold something of ours")
	}
	empty(t, cfg)
}

func TestTheRealOptimizerIsCancelledWithinThreeSeconds(t *testing.T) {
	cfg, d := adapter(t), openDoor(t)
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	t.Cleanup(sync.OnceFunc(func() { close(release) }))
	var asked time.Time
	var once sync.Once
	d.block = func() {
		once.Do(func() { asked = time.Now(); cancel() })
		<-release
	}
	out, err := Run(ctx, cfg, searchRequest(t, d.url), ignore)
	if took := time.Since(asked); took > 3*time.Second {
		t.Errorf("the cancel took %v, want at most 3 s", took)
	}
	if !errors.Is(err, context.Canceled) || out.Result == nil || out.Result.Status != "cancelled" {
		t.Errorf("run: %+v, %v; want the cause and a cancelled result", out.Result, err)
	}
	empty(t, cfg)
}

func TestTheRealOptimizersErrorsArrive(t *testing.T) {
	d := openDoor(t)
	for want, request := range map[string][]byte{
		contracts.FailProviderTerminal: bytes.Replace(searchRequest(t, d.url), []byte(testToken), []byte("wrong"), 1),
		"bad_request":                  bytes.Replace(searchRequest(t, d.url), []byte(`"seed":7`), []byte(`"seed":"x"`), 1),
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			out, err := Run(t.Context(), adapter(t), request, ignore)
			var failure *Failure
			if !errors.As(err, &failure) || failure.Code != want || failure.Retryable != contracts.RetryableFailure(want) {
				t.Errorf("run: %v, want %s; stderr %q", err, want, out.Stderr)
			}
		})
	}
}
