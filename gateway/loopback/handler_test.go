package loopback

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/elnor/promptlab/gateway"
)

type doer func(context.Context) (gateway.Response, error)

func (d doer) Do(ctx context.Context, _ gateway.Request, _ gateway.Budget) (gateway.Response, error) {
	return d(ctx)
}

// opened gives a server whose handler is called without its port.
func opened(t *testing.T, d doer) (*Server, func(method, path, body string) *httptest.ResponseRecorder) {
	t.Helper()
	s, door, err := Open(Config{
		Gateway: d, Budget: gateway.Unlimited(),
		Measure: func(context.Context, string, []string) ([]Score, error) { return nil, nil },
		Check:   func(context.Context, string) []Violation { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.ln.Close() })
	return s, func(method, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, door.BaseURL+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+door.Token)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		return w
	}
}

// R-GWB-14: after the job the token is worth nothing, even on a connection that
// is still open.
func TestTheTokenDiesWithTheJob(t *testing.T) {
	s, do := opened(t, func(context.Context) (gateway.Response, error) { return gateway.Response{}, nil })
	status := func() int { return do(http.MethodGet, "/models", "").Code }
	if got := status(); got != http.StatusOK {
		t.Fatalf("while the job runs: status %d", got)
	}
	s.end()
	if got := status(); got != http.StatusUnauthorized {
		t.Errorf("after the job: status %d, want 401", got)
	}
}

func TestSixteenCallsOfAJobAreWorkedOnAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now atomic.Int64
		release := make(chan struct{})
		s, do := opened(t, func(context.Context) (gateway.Response, error) {
			now.Add(1)
			<-release
			return gateway.Response{Finish: gateway.FinishStop}, nil
		})
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() {
				w := do(http.MethodPost, "/chat/completions", `{"model":"meta","max_tokens":5,"messages":[{"role":"user","content":"x"}]}`)
				if w.Code != http.StatusOK {
					t.Errorf("status %d: %s", w.Code, w.Body)
				}
			})
		}
		synctest.Wait()
		if now.Load() != 16 {
			t.Errorf("%d at once, want 16", now.Load())
		}
		close(release)
		wg.Wait()
		if got := s.Stats().Chats; got != 40 {
			t.Errorf("%d answered, want 40", got)
		}
	})
}
