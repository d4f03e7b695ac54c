package simserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/openai"
	"github.com/elnor/promptlab/gateway/simulator"
	"github.com/elnor/promptlab/gateway/simulator/simserver"
)

const canary = "CANARY-4e5f-do-not-log"

func start(t *testing.T, c simserver.Config) (*simserver.Server, string) {
	t.Helper()
	w, err := simulator.New(simulator.Helpful, 1)
	if err != nil {
		t.Fatal(err)
	}
	c.World = w
	s := simserver.New(c)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, h.URL + "/v1"
}

func usd(v float64) *float64 { return &v }

// rig is a real gateway with the real adapter in front of the server.
type rig struct {
	*gateway.Gateway
	rows gateway.RowChan
	log  *bytes.Buffer
	reg  *prometheus.Registry
}

func connect(t *testing.T, url string, change ...func(*gateway.ModelConfig)) rig {
	t.Helper()
	r := rig{rows: make(gateway.RowChan, 1000), log: new(bytes.Buffer), reg: prometheus.NewRegistry()}
	m := gateway.ModelConfig{Name: "fake", Protocol: gateway.ProtocolOpenAI, BaseURL: url, Model: "local-model",
		APIKeyEnv: "FAKE_KEY", Routes: gateway.Roles(), Prices: &gateway.Prices{Input: usd(1), Output: usd(4)},
		Limits: gateway.Limits{Concurrency: 64, AttemptTimeoutSeconds: 1}}
	for _, f := range change {
		f(&m)
	}
	g, err := gateway.New(gateway.Config{
		Models:   []gateway.ModelConfig{m},
		Adapters: map[gateway.Protocol]gateway.Adapter{gateway.ProtocolOpenAI: openai.New(openai.Config{})},
		Keys:     func(string) (string, error) { return "sk-" + canary, nil },
		Rows:     r.rows, Metrics: r.reg, Log: slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Rand: func() float64 { return 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Gateway = g
	return r
}

func ask(i int) gateway.Request {
	return gateway.Request{Role: gateway.RoleTask, MaxTokens: 200, JobID: "job-1", Messages: []gateway.Message{
		{Role: "system", Content: "Add a decision line. " + canary}, {Role: "user", Content: fmt.Sprintf("notes for change %d", i)}}}
}

func TestTheServerLooksLikeAnyOther(t *testing.T) {
	s, url := start(t, simserver.Config{Key: "sk-" + canary})
	resp, err := connect(t, url).Do(t.Context(), ask(1), gateway.Unlimited())
	if err != nil {
		t.Fatal(err)
	}
	if resp.Simulated || !resp.Usage.Known || !resp.Complete() || resp.ServedModel != "local-model" || strings.Contains(resp.Text, "simulat") {
		t.Errorf("response %+v, want an unmarked one", resp)
	}
	if got := s.Requests(); len(got) != 1 || !bytes.Contains(got[0].Body, []byte("notes for change 1")) || s.Calls() != 1 {
		t.Errorf("%d requests recorded", len(got))
	}
	res, err := http.Get(url + "/models")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if b, _ := io.ReadAll(res.Body); !json.Valid(b) || !bytes.Contains(b, []byte("local-model")) {
		t.Errorf("models: %s", b)
	}
}

func TestScriptedFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault simserver.Fault
		class gateway.ErrorClass // of a call that meets it every time
		calls int
	}{
		{"401", simserver.Fault{Status: 401}, gateway.ClassAuth, 1},
		{"402", simserver.Fault{Status: 402}, gateway.ClassProviderQuota, 1},
		{"429", simserver.Fault{Status: 429}, gateway.ClassRateLimit, 3},
		{"500", simserver.Fault{Status: 500, Body: "<html>" + canary}, gateway.ClassServer, 3},
		{"bad JSON", simserver.Fault{BadJSON: true}, gateway.ClassMalformedResponse, 3},
		{"error in 200", simserver.Fault{ErrorIn200: true}, gateway.ClassServer, 3},
		{"text with the prompt in it", simserver.Fault{Status: 400, Body: `{"error":"` + canary + `"}`}, gateway.ClassBadRequest, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, url := start(t, simserver.Config{Always: c.fault})
			_, err := connect(t, url).Do(t.Context(), ask(1), gateway.Unlimited())
			if gateway.ClassOf(err) != c.class || s.Calls() != c.calls {
				t.Errorf("class %s after %d calls, want %s after %d", gateway.ClassOf(err), s.Calls(), c.class, c.calls)
			}
			_, url = start(t, simserver.Config{Faults: []simserver.Fault{c.fault}})
			resp, err := connect(t, url).Do(t.Context(), ask(1), gateway.Unlimited())
			if works := c.calls > 1; (err == nil) != works || works && resp.Attempts != 2 {
				t.Errorf("met once: error %v after %d attempts, want success: %t", err, resp.Attempts, works)
			}
		})
	}
}

func TestSlowHangingCutAndUncountedAnswers(t *testing.T) {
	s, url := start(t, simserver.Config{Faults: []simserver.Fault{{Truncate: true}, {NoUsage: true}, {Delay: time.Millisecond}, {Delay: time.Hour}}, Always: simserver.Fault{Hang: true}})
	r := connect(t, url)
	if resp, err := r.Do(t.Context(), ask(1), gateway.Unlimited()); err != nil || resp.Finish != gateway.FinishLength {
		t.Errorf("truncated: %+v, %v", resp, err)
	}
	if resp, err := r.Do(t.Context(), ask(2), gateway.Unlimited()); err != nil || resp.CostKnown || resp.Cost == 0 {
		t.Errorf("no usage: %+v, %v", resp, err)
	}
	if _, err := r.Do(t.Context(), ask(3), gateway.Unlimited()); err != nil {
		t.Errorf("slow: %v", err)
	}
	for i := range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 1)
		go func() {
			_, err := r.Do(ctx, ask(4), gateway.Unlimited())
			got <- err
		}()
		if err := s.Await(t.Context(), 4+i, i); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := <-got; gateway.ClassOf(err) != gateway.ClassCallerGone {
			t.Errorf("hanging: class %s, want caller_gone", gateway.ClassOf(err))
		}
		if err := s.Await(t.Context(), 4+i, i+1); err != nil { // the server saw the client leave
			t.Fatal(err)
		}
	}
}

// purse is a budget of the given size whose lender is the test.
type lender struct {
	mu   sync.Mutex
	left int64
}

func (l *lender) Borrow(_ context.Context, n int64) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = min(n, l.left)
	l.left -= n
	return n, nil
}

func TestACentIsNeverOverrunByConcurrentCalls(t *testing.T) {
	// R-GWL-12 end to end: 0.01 USD against a priced server, 200 calls at once.
	s, url := start(t, simserver.Config{})
	r := connect(t, url)
	budget := gateway.FromUSD(0.01)
	p := gateway.NewPurse(gateway.PurseConfig{Lender: &lender{left: budget}, Slice: budget / 10})
	var wg sync.WaitGroup
	var mu sync.Mutex
	served := 0
	for i := range 200 {
		wg.Go(func() {
			_, err := r.Do(t.Context(), ask(i), p)
			mu.Lock()
			defer mu.Unlock()
			switch gateway.ClassOf(err) {
			case "":
				served++
			case gateway.ClassJobBudget:
			default:
				t.Errorf("call %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	var booked int64
	for len(r.rows) > 0 {
		booked += (<-r.rows).CostNanoUSD
	}
	if st := p.State(); st.Spent != booked || booked > budget || st.Held != 0 || !st.Exhausted {
		t.Errorf("state %+v, rows say %d, budget %d", st, booked, budget)
	}
	if served == 0 || served == 200 || s.Calls() != served {
		t.Errorf("%d served by %d provider calls; want some of 200, and no call for a refused one", served, s.Calls())
	}
}

// R-GWV-02: keys, prompts and a provider's words are in no log line, error, row
// or metric.
func TestNoSinkHoldsACanary(t *testing.T) {
	fault := func(status int) simserver.Fault {
		return simserver.Fault{Status: status, Body: `{"error":{"message":"` + canary + `","code":"` + canary + `","type":"` + canary + `"}}`}
	}
	_, url := start(t, simserver.Config{Faults: []simserver.Fault{fault(400), fault(401), fault(429), fault(500), fault(404), {}}})
	r := connect(t, url)
	var sinks strings.Builder
	for i := range 6 {
		req := ask(i)
		req.Stop = []string{canary}
		_, err := r.Do(t.Context(), req, gateway.Unlimited())
		fmt.Fprintf(&sinks, "%v %+v\n", err, errors.Unwrap(err))
		var e *gateway.Error
		if errors.As(err, &e) {
			fmt.Fprintf(&sinks, "%+v %#v\n", *e, *e)
		}
	}
	rows := 0
	for ; len(r.rows) > 0; rows++ {
		b, err := json.Marshal(<-r.rows)
		if err != nil {
			t.Fatal(err)
		}
		sinks.Write(b)
	}
	families, err := r.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		sinks.WriteString(f.String())
	}
	sinks.WriteString(r.log.String())
	call := gateway.Call{Key: "sk-" + canary}
	fmt.Fprintf(&sinks, "%v %+v %#v", call, call, call.Key)
	if rows < 6 || r.log.Len() == 0 || len(families) < 10 {
		t.Errorf("%d rows, %d bytes of log, %d metrics: too few to prove anything", rows, r.log.Len(), len(families))
	}
	if all := strings.ToLower(sinks.String()); strings.Contains(all, strings.ToLower(canary)) {
		at := strings.Index(all, strings.ToLower(canary))
		t.Errorf("a sink holds the canary: ...%s...", all[max(0, at-200):at+20])
	}
}

// R-GWV-06, R-GWM-11: a served model that is not the pinned one is counted.
func TestAnotherServedModelIsDrift(t *testing.T) {
	for model, want := range map[string]float64{"local-model": 0, "local-model-2": 1} {
		_, url := start(t, simserver.Config{Model: model})
		r := connect(t, url)
		if _, err := r.Do(t.Context(), ask(1), gateway.Unlimited()); err != nil {
			t.Fatal(err)
		}
		families, err := r.reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := 0.0
		for _, f := range families {
			if f.GetName() == "promptlab_gateway_model_drift_total" {
				got += f.GetMetric()[0].GetCounter().GetValue()
			}
		}
		if row := <-r.rows; got != want || row.ServedModel != model || row.Model != "local-model" {
			t.Errorf("served %s: drift %g, want %g; row says %s for %s", model, got, want, row.ServedModel, row.Model)
		}
	}
}

// R-GWV-04: no label takes its values from a request or a provider.
func TestMetricLabelsAreBounded(t *testing.T) {
	_, url := start(t, simserver.Config{Faults: []simserver.Fault{{Status: 500}, {Status: 400}}})
	r := connect(t, url)
	for i := range 5 {
		req := ask(i)
		req.JobID, req.Feature, req.PromptKey = fmt.Sprint("job-", i), canary, canary
		_, _ = r.Do(t.Context(), req, gateway.Unlimited())
	}
	families, err := r.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]bool{"": true, "ok": true, "chat": true, "task": true, "fake": true, "local-model": true, "input": true, "output": true, "none": true, "read": true, "write": true,
		strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/v1"): true}
	for _, c := range gateway.Classes() {
		allowed[string(c)] = true
	}
	names := map[string]bool{}
	for _, f := range families {
		names[f.GetName()] = true
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if !allowed[l.GetValue()] {
					t.Errorf("%s has label %s=%q", f.GetName(), l.GetName(), l.GetValue())
				}
			}
		}
	}
	for _, want := range []string{"gen_ai_client_operation_duration_seconds", "gen_ai_client_token_usage", "promptlab_gateway_attempts_total",
		"promptlab_gateway_retries_total", "promptlab_gateway_cost_usd_total", "promptlab_gateway_inflight", "promptlab_gateway_queue_wait_seconds",
		"promptlab_gateway_breaker_state", "promptlab_gateway_overhead_seconds", "promptlab_gateway_ledger_write_failures_total"} {
		if !names[want] {
			t.Errorf("metric %s is missing from %v", want, names)
		}
	}
}
