package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/conformance"
)

// The limits that a scenario may shorten. The configured ones differ, so that
// they can be told apart.
const (
	attempt = 59 * time.Second
	first   = 58 * time.Second
	idle    = 57 * time.Second
	short   = 400 * time.Millisecond
)

// TestMain lets the scenarios wait side by side: they are silent for most of
// their time.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// money is what an attempt must have cost.
type money int

const (
	told   money = iota // what its usage says: 9 tokens at 1,000 nanoUSD and 3 at 2,000
	bound               // the most it could have cost, because nobody knows
	zero                // nothing: it was refused, or never sent
	either              // nothing or the bound: how far it came is TCP's secret
	guess               // what was told or the bound: how far it was understood is the protocol's
)

const toldCost = 9*1000 + 3*2000

// scenario is a way in which a case of the list is played.
type scenario struct {
	id       string
	on       []string // dialects; empty: all
	only     mode
	script   func(*conn) // after the request was read
	raw      bool        // the script reads the request itself, or does not
	profile  string
	short    time.Duration // the limit that is made short
	within   time.Duration // how short, if not as usual: something has to arrive before
	change   func(*gateway.Request)
	budget   gateway.Budget
	most     int64 // bytes of an answer; 0: the adapter's own bound
	unserved bool  // nobody listens

	class  gateway.ErrorClass // empty: answered
	reason string
	calls  int            // that reach the server; 0: three when the class is retried, else one
	none   bool           // no call reaches it
	cost   money          // of the attempts that failed; of the answer, if there are none
	text   string         // of the answer; empty: said
	finish gateway.Finish // empty: stop
	see    func(*testing.T, outcome)
}

type mode int

const (
	both mode = iota
	wholeOnly
	streamOnly
)

// outcome is what a played scenario left.
type outcome struct {
	resp    gateway.Response
	err     *gateway.Error
	rows    []gateway.Attempt
	heard   string
	asked   []request
	elapsed time.Duration
}

// deep is a lender with more than anything here costs.
type deep struct{}

func (deep) Borrow(_ context.Context, wish int64) (int64, error) { return wish, nil }

// TestCases plays everything, side by side.
// R-GWR-05, R-GWB-10, R-GWS-20, R-GWL-02: each case ends in its class, after its
// number of calls, with its money booked; nothing fails in silence.
func TestCases(t *testing.T) {
	for _, s := range scenarios() {
		for _, d := range dialects() {
			if len(s.on) > 0 && !slices.Contains(s.on, d.name) {
				continue
			}
			for _, stream := range []bool{false, true} {
				if stream && s.only == wholeOnly || !stream && s.only == streamOnly {
					continue
				}
				how := map[bool]string{false: "whole", true: "stream"}[stream]
				t.Run(s.id+"/"+d.name+"/"+how, func(t *testing.T) {
					t.Parallel()
					play(t, s, d, stream)
				})
			}
		}
	}
}

// R-GWB-22: what is played is what is listed, and the other way round.
func TestTheListIsWhatIsPlayed(t *testing.T) {
	cases, err := conformance.Cases()
	if err != nil {
		t.Fatal(err)
	}
	listed, played := map[string]bool{}, map[string]bool{}
	for _, c := range cases {
		if c.Meaning == "" || listed[c.ID] {
			t.Errorf("case %s: meaning %q, listed before: %t", c.ID, c.Meaning, listed[c.ID])
		}
		listed[c.ID] = true
	}
	for _, s := range scenarios() {
		if played[s.id] = true; !listed[s.id] {
			t.Errorf("R-GWB-22 %s is played and not listed", s.id)
		}
	}
	for id := range listed {
		if !played[id] {
			t.Errorf("R-GWB-22 %s is listed and not played", id)
		}
	}
	if len(listed) < 60 {
		t.Errorf("%d cases are listed, want 60 at least", len(listed))
	}
}

// play sends one call through the whole chain and looks at everything it left.
func play(t *testing.T, s scenario, d dialect, stream bool) {
	taken := make(chan struct{})
	srv := serve(t, func(c *conn) {
		c.d, c.stream, c.taken = d, stream, taken
		if s.raw || c.read() {
			s.script(c)
		}
	})
	url := srv.url()
	if s.unserved {
		srv.stop()
	}
	var log bytes.Buffer
	registry := prometheus.NewRegistry()
	rows := make(gateway.RowChan, 20)
	g := chain(t, s, d, url, rows, registry, &log)
	purse := gateway.NewPurse(gateway.PurseConfig{Lender: deep{}})
	var budget gateway.Budget = purse
	if s.budget != nil {
		budget = s.budget
	}
	req := gateway.Request{Role: gateway.RoleTask, MaxTokens: 100, JobID: "job-1", Messages: []gateway.Message{{Role: "user", Content: "hello " + canary}}}
	if s.change != nil {
		s.change(&req)
	}
	var o outcome
	var err error
	began := time.Now()
	if stream {
		o.resp, err = g.Stream(t.Context(), req, budget, func(e gateway.Event) error {
			if e.Kind == gateway.EventDelta {
				if o.heard == "" {
					close(taken)
				}
				o.heard += e.Text
			}
			return nil
		})
	} else {
		o.resp, err = g.Do(t.Context(), req, budget)
	}
	o.elapsed = time.Since(began)
	srv.stop()
	for len(rows) > 0 {
		o.rows = append(o.rows, <-rows)
	}
	o.asked = srv.requests()
	if err != nil && !errors.As(err, &o.err) {
		t.Fatalf("the error %v is not of the chain", err)
	}
	s.judge(t, d, o, srv.conns, stream)
	if state := purse.State(); s.budget == nil && (state.Held != 0 || state.Spent != spent(o.rows) || state.Exhausted) {
		t.Errorf("R-GWL-06 the purse is %+v after rows of %d nanoUSD: want nothing held", state, spent(o.rows))
	}
	secret(t, o, registry, &log)
}

func chain(t *testing.T, s scenario, d dialect, url string, rows gateway.Rows, registry prometheus.Registerer, log *bytes.Buffer) *gateway.Gateway {
	t.Helper()
	in, out := 1.0, 2.0
	g, err := gateway.New(gateway.Config{
		Models: []gateway.ModelConfig{{Name: "one", Protocol: d.protocol, BaseURL: url, Model: "m1-0001", Profile: s.profile, APIKeyEnv: "KEY",
			Routes: gateway.Roles(), Prices: &gateway.Prices{Input: &in, Output: &out},
			Limits: gateway.Limits{AttemptTimeoutSeconds: int(attempt / time.Second), StreamLimits: gateway.StreamLimits{
				FirstTokenTimeoutSeconds: int(first / time.Second), IdleTimeoutSeconds: int(idle / time.Second)}}}},
		Adapters: map[gateway.Protocol]gateway.Adapter{d.protocol: d.adapter(s.most)},
		Keys:     func(string) (string, error) { return "sk-" + canary, nil },
		Rows:     rows, Metrics: registry, Log: slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Rand: func() float64 { return 0 },
		Patience: func(limit time.Duration) time.Duration {
			if limit == s.short || s.short == attempt && limit == first {
				return max(short, s.within)
			}
			return limit
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func spent(rows []gateway.Attempt) (sum int64) {
	for _, r := range rows {
		sum += r.CostNanoUSD
	}
	return sum
}

// judge holds an outcome against what the scenario wants.
func (s scenario) judge(t *testing.T, d dialect, o outcome, conns int, stream bool) {
	t.Helper()
	calls := s.calls
	if calls == 0 {
		if calls = 1; s.class.Retryable() {
			calls = 3
		}
	}
	reached := calls
	if s.none || s.unserved {
		reached = 0
	}
	if s.none {
		calls = 0
	}
	if conns != reached {
		t.Errorf("R-GWB-10 %d calls reached the server, want %d", conns, reached)
	}
	if len(o.rows) != calls {
		t.Fatalf("R-GWL-01 %d rows %+v, want %d", len(o.rows), o.rows, calls)
	}
	switch {
	case s.class == "" && o.err != nil:
		t.Fatalf("failed: %v (%+v)", o.err, *o.err)
	case s.class != "" && o.err == nil:
		t.Fatalf("R-GWS-20 a silent success: %+v, want %s", o.resp, s.class)
	case s.class != "" && (o.err.Class != s.class || o.err.Attempts != calls || s.reason != "" && o.err.Reason != s.reason):
		t.Errorf("error %v (%+v), want %s (%s) after %d attempts", o.err, *o.err, s.class, s.reason, calls)
	case s.class == "":
		s.answered(t, o, stream)
	}
	for i, r := range o.rows {
		last := i == calls-1
		if r.Number != i+1 || r.Streamed != stream || r.Protocol != d.protocol || r.Model != "m1-0001" || r.Provider == "" || r.JobID != "job-1" ||
			r.HoldNanoUSD <= toldCost || len(r.RequestDigest) != 64 || r.Duration <= 0 || last && r.Class != s.class || !last && r.Class == "" {
			t.Errorf("R-GWL-01 row %d: %+v", i+1, r)
		}
		want := s.cost
		if s.class == "" && last && calls > 1 {
			want = told
		}
		if !want.paid(r) {
			t.Errorf("R-GWL-02 attempt %d cost %d (known %t) of a bound of %d, want %s", i+1, r.CostNanoUSD, r.CostKnown, r.HoldNanoUSD,
				[]string{"what was told", "the bound", "nothing", "nothing or the bound", "what was told or the bound"}[want])
		}
	}
	if s.see != nil {
		s.see(t, o)
	}
}

func (m money) paid(r gateway.Attempt) bool {
	switch m {
	case told:
		return r.CostNanoUSD == toldCost && r.CostKnown && r.Usage.Known
	case bound:
		return r.CostNanoUSD == r.HoldNanoUSD && !r.CostKnown && !r.Usage.Known
	case zero:
		return r.CostNanoUSD == 0 && r.CostKnown
	case either:
		return bound.paid(r) || zero.paid(r)
	default:
		return bound.paid(r) || told.paid(r)
	}
}

func (s scenario) answered(t *testing.T, o outcome, stream bool) {
	t.Helper()
	text, finish := s.text, s.finish
	if finish == "" {
		finish = gateway.FinishStop
	}
	if text == "" && (finish == gateway.FinishStop || finish == gateway.FinishLength) {
		text = said
	}
	r := o.resp
	if r.Text != text || r.Finish != finish || r.Cost != spent(o.rows) || r.Model != "m1-0001" || r.Complete() != (finish == gateway.FinishStop && !r.Malformed) {
		t.Errorf("answer %+v, want %q, finish %s, cost %d", r, text, finish, spent(o.rows))
	}
	if stream && o.heard != text && finish != gateway.FinishRefusal {
		t.Errorf("R-GWS-01 the consumer heard %q of %q", o.heard, text)
	}
}

// secret looks for the canary in everything that is kept: it was in the key, the
// question, the answer and the words of errors.
// R-GWV-03, R-GWB-04.
func secret(t *testing.T, o outcome, registry *prometheus.Registry, log *bytes.Buffer) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string]string{"log": log.String()}
	for _, f := range families {
		kept["metrics"] += f.String()
	}
	rows, err := json.Marshal(o.rows)
	if err != nil {
		t.Fatal(err)
	}
	kept["rows"] = string(rows)
	if o.err != nil {
		all, _ := json.Marshal(o.err)
		kept["error"] = o.err.Error() + string(all)
	}
	for where, s := range kept {
		if strings.Contains(strings.ToLower(s), strings.ToLower(canary)) {
			t.Errorf("R-GWV-03 the canary is in the %s: %s", where, s)
		}
	}
	if log.Len() == 0 || len(families) == 0 {
		t.Errorf("R-GWV-03 %d bytes of log and %d metrics were looked at, want some", log.Len(), len(families))
	}
}
