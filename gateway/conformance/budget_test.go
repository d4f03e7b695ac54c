package conformance_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/elnor/promptlab/gateway"
)

// bank lends what there is, and remembers it over restarts.
type bank struct {
	mu   sync.Mutex
	left int64
}

func (b *bank) Borrow(_ context.Context, wish int64) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(wish, b.left)
	b.left -= n
	return n, nil
}

// R-GWL-12, R-GWL-13, R-GWL-06: of 200 calls side by side on a budget for 100,
// whole or streamed, 100 reach the provider and no more, and a process that
// starts anew on the same budget finds nothing left of it. The answers do not say
// what they took, so each costs its bound.
func TestABudgetFor100Of200Calls(t *testing.T) {
	for _, d := range dialects() {
		for how, stream := range map[string]bool{"whole": false, "stream": true} {
			t.Run(d.name+"/"+how, func(t *testing.T) {
				var calls atomic.Int64
				document, parts := d.ended(gateway.FinishStop, "")
				kind := "application/json"
				if stream {
					document, kind = strings.Join(parts, ""), "text/event-stream"
				}
				srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					calls.Add(1)
					w.Header().Set("Content-Type", kind)
					_, _ = io.WriteString(w, document)
				}))
				defer srv.Close()
				rows := make(gateway.RowChan, 500)
				in, out := 1.0, 2.0
				g, err := gateway.New(gateway.Config{
					Models: []gateway.ModelConfig{{Name: "one", Protocol: d.protocol, BaseURL: srv.URL + "/v1", Model: "m1-0001", Routes: gateway.Roles(),
						Prices: &gateway.Prices{Input: &in, Output: &out}, Limits: gateway.Limits{Concurrency: 32}}},
					Adapters: map[gateway.Protocol]gateway.Adapter{d.protocol: d.adapter(0)}, Rows: rows, Log: slog.New(slog.DiscardHandler),
				})
				if err != nil {
					t.Fatal(err)
				}
				ask := func(p *gateway.Purse) error {
					req := gateway.Request{Role: gateway.RoleTask, MaxTokens: 100, Messages: []gateway.Message{{Role: "user", Content: "hello"}}}
					if stream {
						_, err := g.Stream(t.Context(), req, p, nil)
						return err
					}
					_, err := g.Do(t.Context(), req, p)
					return err
				}
				rich := gateway.NewPurse(gateway.PurseConfig{Lender: deep{}})
				if err := ask(rich); err != nil {
					t.Fatal(err)
				}
				price := (<-rows).CostNanoUSD
				calls.Store(0)
				lender := &bank{left: 100 * price}
				purse := gateway.NewPurse(gateway.PurseConfig{Lender: lender, Slice: 7 * price})
				var served, refused atomic.Int64
				var wg sync.WaitGroup
				for range 200 {
					wg.Go(func() {
						switch err := ask(purse); gateway.ClassOf(err) {
						case "":
							served.Add(1)
						case gateway.ClassJobBudget:
							refused.Add(1)
						default:
							t.Errorf("R-GWL-12 error %v, want job_budget", err)
						}
					})
				}
				wg.Wait()
				if served.Load() != 100 || refused.Load() != 100 || calls.Load() != 100 || len(rows) != 100 {
					t.Errorf("R-GWL-12 served %d, refused %d, %d calls reached the provider, %d rows; want 100 of each", served.Load(), refused.Load(), calls.Load(), len(rows))
				}
				if s := purse.State(); s.Spent != 100*price || s.Held != 0 || !s.Exhausted {
					t.Errorf("R-GWL-12 the purse is %+v, want %d spent", s, 100*price)
				}
				again := gateway.NewPurse(gateway.PurseConfig{Lender: lender, Slice: 7 * price})
				if err := ask(again); gateway.ClassOf(err) != gateway.ClassJobBudget || calls.Load() != 100 {
					t.Errorf("R-GWL-13 after a restart: error %v, %d calls, want job_budget and 100", err, calls.Load())
				}
			})
		}
	}
}
