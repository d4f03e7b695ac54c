package conformance_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/elnor/promptlab/gateway"
)

const html = "<html><head><title>502 Bad Gateway</title></head><body>quota context window " + canary + "</body></html>"

// status answers with an error status. In the body, ? stands for the canary.
func status(code int, body string, headers ...string) func(*conn) {
	return func(c *conn) { c.document(code, strings.ReplaceAll(body, "?", canary), headers...) }
}

// refused is a scenario of an error status, which costs nothing.
func refused(id string, class gateway.ErrorClass, script func(*conn), on ...string) scenario {
	return scenario{id: id, class: class, script: script, cost: zero, on: on}
}

// as gives a scenario a profile.
func (s scenario) as(profile string) scenario {
	s.profile = profile
	return s
}

func refusals() []scenario {
	return []scenario{
		refused("status-400", gateway.ClassBadRequest, status(400, `{"error":{"message":"?","type":"invalid_request_error"}}`)),
		refused("status-400-with-text", gateway.ClassBadRequest, status(400, `{"error":"?"}`)),
		refused("status-422-with-a-list", gateway.ClassBadRequest, status(422, `{"detail":[{"loc":["body"],"msg":"?","type":"value_error"}]}`)),
		refused("status-401", gateway.ClassAuth, status(401, `{"type":"error","error":{"type":"authentication_error","message":"invalid key ?"}}`)),
		refused("status-403", gateway.ClassEntitlement, status(403, `{"type":"error","error":{"type":"permission_error","message":"?"}}`)),
		refused("status-404", gateway.ClassModelNotFound, status(404, `{"type":"error","error":{"type":"not_found_error","message":"model: ?"}}`)),
		refused("status-404-of-a-page", gateway.ClassModelNotFound, status(404, html)),
		refused("status-405-without-a-body", gateway.ClassBadRequest, status(405, "")),
		refused("status-408", gateway.ClassServer, status(408, "")),
		refused("status-429", gateway.ClassRateLimit, status(429, `{"error":{"message":"?","type":"rate_limit_error"}}`)),
		refused("status-500", gateway.ClassServer, status(500, `{"error":{"message":"?","type":"api_error"}}`)),
		refused("status-500-of-broken-json", gateway.ClassServer, status(500, `{"error":{"message":"maximum context length ?`)),
		refused("status-502-of-a-page", gateway.ClassServer, status(502, html, "Content-Type: text/html")),
		refused("status-503", gateway.ClassOverloaded, status(503, `{"error":{"message":"?"}}`)),
		refused("status-504-without-a-body", gateway.ClassServer, status(504, "")),
		refused("status-529", gateway.ClassOverloaded, status(529, `{"type":"error","error":{"type":"overloaded_error","message":"?"}}`)),
		refused("redirect-301", gateway.ClassBadRequest, status(301, "", "Location: /elsewhere")),
		refused("redirect-307", gateway.ClassBadRequest, status(307, "", "Location: http://127.0.0.1:1/v1")),

		refused("filter-by-code", gateway.ClassContentFilter, status(400, `{"error":{"code":"content_filter","message":"?","innererror":{"code":"ResponsibleAIPolicyViolation"}}}`)),
		refused("filter-by-words", gateway.ClassContentFilter, status(400, `{"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by content filtering policy ?"}}`), "anthropic"),
		{id: "filter-as-an-end", class: gateway.ClassContentFilter, on: []string{"openai", "responses"}, script: func(c *conn) {
			c.reply(c.d.whole(c.d.text(said), "content_filter", c.d.told()), c.d.open, c.d.piece(said), c.d.end("content_filter", c.d.told()))
		}},

		refused("overflow-by-code", gateway.ClassContextOverflow, status(400, `{"error":{"message":"?","code":"context_length_exceeded"}}`)),
		refused("overflow-by-status", gateway.ClassContextOverflow, status(413, html)),
		refused("overflow-by-words", gateway.ClassContextOverflow, status(400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum ?"}}`)),
		refused("overflow-inside-a-500", gateway.ClassContextOverflow, status(500, `{"error":{"message":"upstream said: This model's maximum context length is 8192 tokens ?"}}`)),
		refused("overflow-of-a-local-server", gateway.ClassContextOverflow, status(400, `{"error":{"code":400,"message":"?","type":"exceed_context_size_error","n_ctx":4096}}`), "openai").as("llamacpp"),
	}
}

// quotas are accounts without money, in the words of those who keep them.
func quotas() []scenario {
	return []scenario{
		refused("quota-behind-429", gateway.ClassProviderQuota, status(429, `{"error":{"message":"You exceeded your current quota ?","type":"insufficient_quota","code":"insufficient_quota"}}`)),
		refused("quota-by-status-402", gateway.ClassProviderQuota, status(402, `{"error":{"message":"Insufficient credits ?","code":402}}`)),
		refused("quota-behind-400", gateway.ClassProviderQuota, status(400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low ?"}}`)),
		refused("quota-of-a-plan", gateway.ClassProviderQuota, status(429, `{"error":{"message":"you've reached your hourly usage limit, please upgrade to continue ?"}}`), "openai").as("ollama"),
		refused("quota-of-a-day", gateway.ClassProviderQuota, status(429, `{"error":{"message":"Rate limit exceeded: free-models-per-day. ?","code":429}}`), "openai").as("openrouter"),
		refused("quota-of-a-minute-passes", gateway.ClassRateLimit, status(429, `[{"error":{"code":429,"message":"You exceeded your current quota: requests per minute ?","status":"RESOURCE_EXHAUSTED"}}]`)),
	}
}

// once answers the first call by a script, and well from then on.
func once(script func(*conn)) func(*conn) {
	return func(c *conn) {
		if c.n == 1 {
			script(c)
			return
		}
		well(c)
	}
}

// waited wants a call that took at least so long.
func waited(least time.Duration) func(*testing.T, outcome) {
	return func(t *testing.T, o outcome) {
		if o.elapsed < least {
			t.Errorf("R-GWR-12 it took %s, want %s at least", o.elapsed, least)
		}
	}
}

// waits are what servers say about when to come again, or whether.
func waits() []scenario {
	busy := func(headers ...string) func(*conn) {
		return status(429, `{"error":{"message":"?","type":"rate_limit_error"}}`, headers...)
	}
	const rate = gateway.ClassRateLimit
	return []scenario{
		{id: "retry-after-seconds", on: []string{"openai"}, script: once(busy("Retry-After: 1")), calls: 2, cost: zero, see: waited(time.Second)},
		{id: "retry-after-milliseconds", script: once(busy("Retry-After-Ms: 100")), calls: 2, cost: zero, see: waited(100 * time.Millisecond)},
		{id: "retry-after-a-date", on: []string{"anthropic"}, calls: 2, cost: zero, see: waited(500 * time.Millisecond), script: once(func(c *conn) {
			busy("Retry-After: " + time.Now().Add(2*time.Second).UTC().Format(http.TimeFormat))(c) // dates have no parts of a second
		})},
		{id: "retry-after-a-day", class: rate, calls: 1, cost: zero, script: busy("Retry-After: 86400"), see: func(t *testing.T, o outcome) {
			if o.err.RetryAfter != 24*time.Hour {
				t.Errorf("R-GWB-12 retry after %s", o.err.RetryAfter)
			}
		}},
		{id: "retry-after-a-date-in-a-year", class: rate, calls: 1, cost: zero, script: func(c *conn) {
			busy("Retry-After: " + time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat))(c)
		}},
		{id: "retry-after-too-large-a-number", class: rate, calls: 1, cost: zero, script: busy("Retry-After: 99999999999999999999")},
		{id: "retry-after-nonsense", class: rate, cost: zero, script: busy("Retry-After: soon"), see: swift},
		{id: "retry-after-below-nothing", class: rate, cost: zero, script: busy("Retry-After: -5"), see: swift},
		{id: "reset-headers-are-no-waits", class: rate, cost: zero, script: busy("X-RateLimit-Reset-Requests: 59s", "Anthropic-RateLimit-Requests-Reset: 2099-01-01T00:00:00Z"), see: swift},
		{id: "should-not-retry", class: gateway.ClassOverloaded, calls: 1, cost: zero, script: status(503, "", "x-should-retry: false")},
		{id: "should-retry-a-mistake", class: gateway.ClassBadRequest, cost: zero, script: status(400, "", "x-should-retry: true")},
	}
}

func swift(t *testing.T, o outcome) {
	if o.elapsed > 30*time.Second {
		t.Errorf("R-GWR-12 it took %s", o.elapsed)
	}
}
