package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/elnor/promptlab/gateway"
)

const canary = "CANARY-7f3a-do-not-log"

// R-GWR-04, R-GWR-05: the mapping is locked by the answers that are seen in use.
func TestClassifyWireShapes(t *testing.T) {
	html := "<html><head><title>502 Bad Gateway</title></head><body>context window quota</body></html>"
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   gateway.ErrorClass
	}{
		{"R-GWR-06 overflow by status 413", 413, html, gateway.ClassContextOverflow},
		{"R-GWR-06 overflow by code", 400, `{"error":{"message":"x","code":"context_length_exceeded"}}`, gateway.ClassContextOverflow},
		{"R-GWR-06 overflow by text", 400, `{"error":{"message":"This model's maximum context length is 8192 tokens. However, you requested 9000."}}`, gateway.ClassContextOverflow},
		{"R-GWR-06 overflow wrapped in a 500", 500, `{"error":{"message":"upstream said: prompt is too long: 210000 tokens > 200000 maximum"}}`, gateway.ClassContextOverflow},
		{"R-GWR-06 overflow of a local server", 400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`, gateway.ClassContextOverflow},
		{"R-GWR-06 overflow as plain text", 400, `Input is too long for this model`, gateway.ClassContextOverflow},
		{"R-GWR-07 quota by status 402", 402, `{"error":{"message":"Payment required"}}`, gateway.ClassProviderQuota},
		{"R-GWR-07 quota behind 429", 429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}`, gateway.ClassProviderQuota},
		{"R-GWR-07 quota behind 400", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}`, gateway.ClassProviderQuota},
		{"quota of a minute is a rate limit", 429, `[{"error":{"code":429,"message":"You exceeded your current quota: requests per minute","status":"RESOURCE_EXHAUSTED"}}]`, gateway.ClassRateLimit},
		{"rate limit", 429, `{"error":{"message":"Rate limit reached for requests","type":"requests","code":"rate_limit_exceeded"}}`, gateway.ClassRateLimit},
		{"rate limit that speaks of context is not an overflow", 429, `{"error":{"message":"Too large for the context window on tokens per min"}}`, gateway.ClassRateLimit},
		{"rate limit without a body", 429, ``, gateway.ClassRateLimit},
		{"content filter", 400, `{"error":{"code":"content_filter","message":"x","innererror":{"code":"ResponsibleAIPolicyViolation"}}}`, gateway.ClassContentFilter},
		{"auth", 401, `{"error":{"message":"Incorrect API key provided: sk-...","code":"invalid_api_key"}}`, gateway.ClassAuth},
		{"auth as text", 401, `{"error":"unauthorized"}`, gateway.ClassAuth},
		{"auth wrapped in a 500", 500, `{"error":{"type":"authentication_error","message":"x"}}`, gateway.ClassAuth},
		{"model by 404", 404, `{"error":{"message":"The model does not exist","code":"model_not_found"}}`, gateway.ClassModelNotFound},
		{"model by 400 and text", 400, `{"error":"model not found, try pulling it first"}`, gateway.ClassModelNotFound},
		{"R-GWR-08 entitlement", 403, `{"error":{"message":"Country not supported","code":"unsupported_country_region_territory"}}`, gateway.ClassEntitlement},
		{"overloaded 503", 503, `{"error":{"message":"The engine is currently overloaded"}}`, gateway.ClassOverloaded},
		{"overloaded 529", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, gateway.ClassOverloaded},
		{"server", 500, `{"error":{"message":"oops","type":"server_error"}}`, gateway.ClassServer},
		{"a page from a proxy in between says nothing by its words", 502, html, gateway.ClassServer},
		{"server without a body", 504, ``, gateway.ClassServer},
		{"bad request with text", 400, `{"error":"invalid parameter"}`, gateway.ClassBadRequest},
		{"R-GWR-10 bad request as a list", 422, `{"detail":[{"loc":["body","messages"],"msg":"field required","type":"value_error.missing"}]}`, gateway.ClassBadRequest},
		{"detail as text", 422, `{"detail":"nope"}`, gateway.ClassBadRequest},
		{"a redirect is a wrong address", 302, ``, gateway.ClassBadRequest},
		{"R-GWB-11 error inside a 200", 200, `{"error":{"message":"something"}}`, gateway.ClassServer},
		{"error inside a 200 with a status as code", 200, `{"error":{"code":503,"message":"busy"}}`, gateway.ClassOverloaded},
		{"quota inside a 200", 200, `{"error":{"code":"insufficient_quota","message":"x"}}`, gateway.ClassProviderQuota},
		{"broken JSON", 500, `{"error":{"message":"maximum context length`, gateway.ClassServer},
		{"hostile nesting", 400, strings.Repeat(`{"error":`, 200) + `"x"` + strings.Repeat(`}`, 200), gateway.ClassBadRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := gateway.Classify(c.status, http.Header{}, []byte(c.body), time.Now())
			if e.Class != c.want {
				t.Errorf("status %d with %s: class %s, want %s", c.status, c.body, e.Class, c.want)
			}
			if inside := c.status < 300; e.Envelope != inside || e.NotBilled == inside {
				t.Errorf("status %d: envelope %t, not billed %t", c.status, e.Envelope, e.NotBilled)
			}
		})
	}
}

// R-GWV-03: nothing a provider writes reaches an error's text or fields that travel.
func TestErrorsHoldNoProviderText(t *testing.T) {
	h := http.Header{"X-Request-Id": {"req 1 " + canary + "!"}}
	for _, body := range []string{
		`{"error":{"message":"` + canary + `","code":"` + canary + `","type":"` + canary + `"}}`,
		`{"error":"` + canary + `"}`, canary, `<html>` + canary, `{"detail":[{"msg":"` + canary + `"}]}`,
	} {
		e := gateway.Classify(400, h, []byte(body), time.Now())
		if all := e.Error() + e.ProviderCode + e.RequestID + e.Reason; strings.Contains(strings.ToLower(all), strings.ToLower(canary)) {
			t.Errorf("error for %s holds provider text: %s", body, all)
		}
	}
	e := gateway.Classify(429, http.Header{"X-Request-Id": {"req-12_a"}}, []byte(`{"error":{"code":"rate_limit_exceeded"}}`), time.Now())
	if e.ProviderCode != "rate_limit_exceeded" || e.RequestID != "req-12_a" || e.Status != 429 {
		t.Errorf("R-GWB-12: code %q, request id %q, status %d are not kept", e.ProviderCode, e.RequestID, e.Status)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		header, value string
		want          time.Duration
	}{
		{"Retry-After", "7", 7 * time.Second},
		{"Retry-After", "Sun, 01 Mar 2026 12:00:09 GMT", 9 * time.Second},
		{"Retry-After", "Sun, 01 Mar 2026 11:00:00 GMT", 0},
		{"Retry-After", "-4", 0},
		{"Retry-After", "1e300", 24 * time.Hour},
		{"Retry-After", "soon", 0},
		{"Retry-After-Ms", "250", 250 * time.Millisecond},
		{"X-Ratelimit-Reset-Requests", "30", 0}, // the end of a window is not a wait
	} {
		h := http.Header{}
		h.Set(c.header, c.value)
		if got := gateway.RetryAfter(h, now); got != c.want {
			t.Errorf("%s: %s: wait %s, want %s", c.header, c.value, got, c.want)
		}
	}
}

// The taxonomy is closed and every class maps to what the worker contract knows.
func TestTaxonomy(t *testing.T) {
	classes := gateway.Classes()
	if len(classes) != 22 {
		t.Fatalf("%d classes, want 22", len(classes))
	}
	want := map[gateway.ErrorClass]string{
		gateway.ClassRateLimit: "provider_rate_limited", gateway.ClassSaturated: "worker_unavailable",
		gateway.ClassTransport: "temporary_backend_error", gateway.ClassAttemptTimeout: "temporary_backend_error",
		gateway.ClassBreakerOpen: "temporary_backend_error", gateway.ClassServer: "temporary_backend_error",
		gateway.ClassOverloaded: "temporary_backend_error", gateway.ClassMalformedResponse: "temporary_backend_error",
		gateway.ClassStreamIdle: "temporary_backend_error", gateway.ClassStreamTruncated: "temporary_backend_error",
		gateway.ClassContentFilter: "policy_refused", gateway.ClassPolicy: "policy_refused", gateway.ClassPriceUnknown: "policy_refused",
		gateway.ClassJobBudget: "", gateway.ClassCallerGone: "", // not failures
	}
	for _, c := range classes {
		code, ok := want[c]
		if !ok {
			code = "provider_terminal"
		}
		if c.FailureCode() != code {
			t.Errorf("%s maps to %q, want %q", c, c.FailureCode(), code)
		}
		if c.Trips() && !c.Retryable() {
			t.Errorf("R-GWR-17 %s counts for the breaker but is no passing trouble", c)
		}
	}
	for _, c := range []gateway.ErrorClass{gateway.ClassAuth, gateway.ClassBadRequest, gateway.ClassContextOverflow,
		gateway.ClassProviderQuota, gateway.ClassEntitlement, gateway.ClassCallerGone, gateway.ClassJobBudget, gateway.ClassUnknown} {
		if c.Retryable() {
			t.Errorf("R-GWR-03 %s is retried", c)
		}
	}
}

func FuzzClassify(f *testing.F) {
	f.Add(400, []byte(`{"error":{"message":"x","code":1e400}}`))
	f.Add(200, []byte(`[[[{"error":[]}]]]`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		e := gateway.Classify(status, http.Header{}, body, time.Now())
		if e.Class == "" || strings.Contains(e.ProviderCode, " ") {
			t.Errorf("status %d, body %q: class %q, code %q", status, body, e.Class, e.ProviderCode)
		}
	})
}
