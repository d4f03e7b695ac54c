package simserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/simulator/simserver"
)

// The same answer comes whole and in words, at the same price.
func TestTheServerStreams(t *testing.T) {
	s, url := start(t, simserver.Config{Key: "sk-" + canary})
	r := connect(t, url)
	whole, err := r.Do(t.Context(), ask(1), gateway.Unlimited())
	if err != nil {
		t.Fatal(err)
	}
	var heard []string
	resp, err := r.Stream(t.Context(), ask(1), gateway.Unlimited(), func(e gateway.Event) error {
		heard = append(heard, e.Text)
		return nil
	})
	if err != nil || resp.Text != whole.Text || strings.Join(heard, "") != whole.Text || len(heard) < 5 || resp.Simulated {
		t.Errorf("streamed %q in %d pieces, error %v; whole it was %q", resp.Text, len(heard), err, whole.Text)
	}
	if resp.Usage != whole.Usage || resp.Cost != whole.Cost || s.Calls() != 2 {
		t.Errorf("streamed usage %+v, cost %d; whole %+v, %d; %d calls", resp.Usage, resp.Cost, whole.Usage, whole.Cost, s.Calls())
	}
}

func TestScriptedFaultsOfStreams(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault simserver.Fault
		class gateway.ErrorClass
		calls int
		known bool
	}{
		{"an error after the first words", simserver.Fault{ErrorIn200: true}, gateway.ClassServer, 1, false},
		{"R-GWS-20 cut in the middle", simserver.Fault{BadJSON: true}, gateway.ClassStreamTruncated, 1, false},
		{"silence after the first words", simserver.Fault{Stall: true}, gateway.ClassStreamIdle, 1, false},
		{"an error before", simserver.Fault{Status: 503}, "", 2, true},
		{"no usage", simserver.Fault{NoUsage: true}, "", 1, false},
		{"cut at the cap", simserver.Fault{Truncate: true}, "", 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, url := start(t, simserver.Config{Faults: []simserver.Fault{c.fault}})
			r := connect(t, url, func(m *gateway.ModelConfig) { m.Limits.IdleTimeoutSeconds = 1 })
			n := 0
			resp, err := r.Stream(t.Context(), ask(1), gateway.Unlimited(), func(gateway.Event) error { n++; return nil })
			if gateway.ClassOf(err) != c.class || s.Calls() != c.calls || n == 0 {
				t.Fatalf("error %v after %d calls and %d pieces, want %q after %d", err, s.Calls(), n, c.class, c.calls)
			}
			if err == nil && (resp.CostKnown != c.known || (resp.Finish == gateway.FinishLength) != c.fault.Truncate) {
				t.Errorf("response %+v", resp)
			}
			if c.fault.Stall {
				if err := s.Await(t.Context(), 1, 1); err != nil {
					t.Errorf("R-GWS-19 the client did not leave: %v", err)
				}
			}
		})
	}
}

// R-GWV-02, R-GWV-04: streams tell no sink what was said or thought either, and
// their metrics have the same few labels.
func TestNoSinkHoldsWhatWasStreamed(t *testing.T) {
	body := `{"error":{"message":"` + canary + `","code":"` + canary + `"}}`
	_, url := start(t, simserver.Config{Model: "local-model", Faults: []simserver.Fault{{Status: 500, Body: body}, {}, {ErrorIn200: true}, {BadJSON: true}}})
	r := connect(t, url)
	var sinks strings.Builder
	for i := range 3 {
		_, err := r.Stream(t.Context(), ask(i), gateway.Unlimited(), func(e gateway.Event) error { return nil })
		fmt.Fprintf(&sinks, "%v\n", err)
	}
	rows := 0
	for ; len(r.rows) > 0; rows++ {
		row := <-r.rows
		if !row.Streamed || row.Duration > time.Minute {
			t.Errorf("row %+v", row)
		}
		b, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		sinks.Write(b)
	}
	families, err := r.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range families {
		names[f.GetName()] = true
		sinks.WriteString(f.String())
	}
	sinks.WriteString(r.log.String())
	for _, want := range []string{"gen_ai_client_operation_time_to_first_chunk_seconds", "gen_ai_client_operation_time_per_output_chunk_seconds",
		"promptlab_gateway_stream_malformed_chunks_total", "promptlab_gateway_stream_truncated_total"} {
		if !names[want] {
			t.Errorf("R-GWV-07 metric %s is missing", want)
		}
	}
	if all := strings.ToLower(sinks.String()); rows != 4 || strings.Contains(all, strings.ToLower(canary)) || strings.Contains(all, "ready to be announced") {
		t.Errorf("R-GWV-02 after %d rows a sink holds what was said", rows)
	}
}
