package loopback_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/loopback"
)

// What the gateway's failures become, and which of them end all later calls
// without asking anybody again.
func TestFailuresAndTheLatch(t *testing.T) {
	type want struct {
		status int
		code   string
		latch  bool
	}
	special := map[gateway.ErrorClass]want{
		gateway.ClassJobBudget:       {402, "budget_exhausted", true},
		gateway.ClassAuth:            {403, "provider_terminal", true},
		gateway.ClassProviderQuota:   {403, "provider_terminal", true},
		gateway.ClassEntitlement:     {403, "provider_terminal", true},
		gateway.ClassModelNotFound:   {403, "provider_terminal", true},
		gateway.ClassPriceUnknown:    {403, "policy_refused", true},
		gateway.ClassContextOverflow: {400, "context_length_exceeded", false},
		gateway.ClassContentFilter:   {400, "content_filter", false},
		gateway.ClassPolicy:          {400, "policy_refused", false},
		gateway.ClassBadRequest:      {400, "provider_terminal", false},
		gateway.ClassUnknown:         {400, "provider_terminal", false},
		gateway.ClassRateLimit:       {503, "provider_rate_limited", false},
		gateway.ClassSaturated:       {503, "worker_unavailable", false},
	}
	for _, class := range gateway.Classes() {
		t.Run(string(class), func(t *testing.T) {
			w, ok := special[class]
			if !ok {
				w = want{503, "temporary_backend_error", false}
			}
			var calls atomic.Int64
			r := open(t, func(ctx context.Context, req gateway.Request) (gateway.Response, error) {
				calls.Add(1)
				return fails(class)(ctx, req)
			}, nil)
			for range 3 {
				if a := r.do(t, "POST", "/chat/completions", chat, nil); a.status != w.status || a.code() != w.code {
					t.Errorf("status %d, code %s, want %d, %s", a.status, a.code(), w.status, w.code)
				}
			}
			l, latched := r.Latch()
			if latched != w.latch || latched && (l.Class != class || l.FailureCode != class.FailureCode()) {
				t.Errorf("latch %+v (%t), wanted: %t", l, latched, w.latch)
			}
			wantCalls := int64(3)
			if w.latch {
				wantCalls = 1
				<-r.Latched()
				for path, body := range map[string]string{"/measure": `{"text":"x","example_ids":["a"]}`, "/check": `{"text":"x"}`, "/chat/completions": "no JSON"} {
					if a := r.do(t, "POST", path, body, nil); a.status != w.status {
						t.Errorf("%s behind the latch: status %d, want %d", path, a.status, w.status)
					}
				}
			}
			if calls.Load() != wantCalls {
				t.Errorf("%d gateway calls, want %d", calls.Load(), wantCalls)
			}
		})
	}
}

func TestMeasureLatchesToo(t *testing.T) {
	r := open(t, half, func(c *loopback.Config) {
		c.Measure = func(context.Context, string, []string) ([]loopback.Score, error) {
			return nil, errors.Join(errors.New("example 3"), &gateway.Error{Class: gateway.ClassJobBudget})
		}
	})
	if a := r.do(t, "POST", "/measure", `{"text":"x","example_ids":["a"]}`, nil); a.status != 402 {
		t.Errorf("status %d, want 402", a.status)
	}
	if a := r.do(t, "POST", "/chat/completions", chat, nil); a.status != 402 || a.code() != "budget_exhausted" {
		t.Errorf("chat after it: status %d, code %s", a.status, a.code())
	}
}

func TestCancelEndsCallsInFlightAndLatches(t *testing.T) {
	arrived := make(chan struct{})
	r := open(t, func(ctx context.Context, _ gateway.Request) (gateway.Response, error) {
		close(arrived)
		<-ctx.Done()
		return gateway.Response{}, &gateway.Error{Class: gateway.ClassCallerGone}
	}, nil)
	go func() {
		<-arrived
		r.Cancel()
	}()
	for range 2 {
		if a := r.do(t, "POST", "/chat/completions", chat, nil); a.status != 409 || a.code() != "cancelled" {
			t.Errorf("status %d, code %s, want 409 cancelled", a.status, a.code())
		}
	}
}

func TestAClientThatLeavesDoesNotLatch(t *testing.T) {
	arrived, left := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r := open(t, func(ctx context.Context, req gateway.Request) (gateway.Response, error) {
		first := false
		once.Do(func() { first = true })
		if !first {
			return half(ctx, req)
		}
		close(arrived)
		<-ctx.Done()
		close(left)
		return gateway.Response{}, &gateway.Error{Class: gateway.ClassCallerGone}
	}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.door.BaseURL+"/chat/completions", strings.NewReader(chat))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.door.Token)
	req.Header.Set("Content-Type", "application/json")
	if _, err := client().Do(req); err == nil {
		t.Fatal("a cancelled request got an answer")
	}
	<-left // R-GWS-19: the disconnect reached the call
	if a := r.do(t, "POST", "/chat/completions", chat, nil); a.status != 200 {
		t.Errorf("the next call: status %d, want 200", a.status)
	}
}
