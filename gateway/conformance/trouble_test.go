package conformance_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/elnor/promptlab/gateway"
)

// inside are errors under a status of success: nobody knows what they cost.
func inside() []scenario {
	in200 := func(body string) func(*conn) {
		body = strings.ReplaceAll(body, "?", canary)
		return func(c *conn) { c.reply(body, data(body)) }
	}
	// later sends an error after a piece of the answer.
	later := func(body string) func(*conn) {
		return func(c *conn) { c.events(c.d.open, c.d.piece("hi"), data(strings.ReplaceAll(body, "?", canary))) }
	}
	seen := func(t *testing.T, o outcome) {
		if !o.err.Envelope || o.err.Status != 200 || o.rows[0].Status != 200 || o.err.NotBilled {
			t.Errorf("R-GWB-11 error %+v", *o.err)
		}
	}
	committed := func(t *testing.T, o outcome) {
		seen(t, o)
		if !o.rows[0].Committed || o.rows[0].Chunks != 1 || o.heard != "hi" {
			t.Errorf("R-GWS-14 row %+v, heard %q", o.rows[0], o.heard)
		}
	}
	return []scenario{
		{id: "error-in-200", script: in200(`{"error":{"message":"?"}}`), class: gateway.ClassServer, cost: bound, see: seen},
		{id: "error-in-200-as-text", script: in200(`{"error":"?"}`), class: gateway.ClassServer, cost: bound, see: seen},
		{id: "error-in-200-with-a-status", script: in200(`{"error":{"code":503,"message":"?"}}`), class: gateway.ClassOverloaded, cost: bound, see: seen},
		{id: "error-in-200-of-quota", script: in200(`{"error":{"code":"insufficient_quota","message":"?"}}`), class: gateway.ClassProviderQuota, cost: bound, see: seen},
		{id: "error-in-200-by-type", script: in200(`{"type":"error","error":{"type":"overloaded_error","message":"?"}}`), class: gateway.ClassOverloaded, cost: bound, see: seen},
		{id: "error-in-200-of-a-mistake", script: in200(`{"type":"error","error":{"type":"invalid_request_error","message":"?"}}`), class: gateway.ClassBadRequest, cost: bound, see: seen},
		{id: "error-document-for-a-stream", only: streamOnly, class: gateway.ClassOverloaded, cost: bound, see: seen, script: func(c *conn) {
			c.document(200, `{"error":{"type":"overloaded_error","message":"`+canary+`"}}`)
		}},
		{id: "error-by-the-name-of-its-event", only: streamOnly, class: gateway.ClassServer, cost: bound, see: seen, script: func(c *conn) {
			c.events(c.d.open, "event: error\ndata: {\"message\":\""+canary+"\"}\n\n")
		}},
		{id: "error-after-a-piece", only: streamOnly, calls: 1, class: gateway.ClassOverloaded, cost: bound, see: committed,
			script: later(`{"type":"error","error":{"type":"overloaded_error","message":"?"}}`)},
		{id: "error-after-a-piece-with-a-status", only: streamOnly, calls: 1, class: gateway.ClassOverloaded, cost: bound, see: committed,
			script: later(`{"error":{"code":503,"message":"?"}}`)},
		{id: "error-inside-of-the-answer", on: []string{"openai", "responses"}, class: gateway.ClassRateLimit, cost: guess, script: func(c *conn) {
			if c.d.name == "openai" {
				broken := `{"index":0,"error":{"code":429,"message":"` + canary + `"}}`
				c.reply(`{"choices":[`+broken+`]`+c.d.told()+`}`, data(`{"choices":[`+broken+`]}`))
				return
			}
			failed := `{"status":"failed","error":{"code":"rate_limit_exceeded","message":"` + canary + `"}` + c.d.told() + `}`
			c.reply(failed, c.d.open, data(`{"type":"response.failed","response":`+failed+`}`))
		}},
	}
}

// shapes are answers that are none.
func shapes() []scenario {
	const malformed = gateway.ClassMalformedResponse
	body := func(kind, text string) func(*conn) {
		return func(c *conn) {
			c.head(200, "Content-Type: "+kind, fmt.Sprintf("Content-Length: %d", len(text)))
			c.write(text)
		}
	}
	const kind = "application/json"
	foreign := func(c *conn) { // a protocol later in the list
		other := dialects()[(map[string]int{"openai": 0, "anthropic": 1, "responses": 2}[c.d.name]+1)%3]
		document, stream := other.good()
		c.reply(document, stream...)
	}
	return []scenario{
		{id: "shape-a-list", only: wholeOnly, class: malformed, cost: bound, script: body(kind, "[]")},
		{id: "shape-nothing", only: wholeOnly, class: malformed, cost: bound, script: body(kind, "")},
		{id: "shape-null", only: wholeOnly, class: malformed, cost: bound, script: body(kind, "null")},
		{id: "shape-an-empty-object", only: wholeOnly, class: malformed, cost: bound, script: body(kind, "{}")},
		{id: "shape-a-page", class: malformed, cost: bound, script: body("text/html", html)},
		{id: "shape-another-protocol", only: wholeOnly, class: malformed, cost: guess, script: foreign},
		{id: "shape-another-protocols-stream", only: streamOnly, class: gateway.ClassStreamTruncated, cost: bound, script: func(c *conn) {
			if c.d.name == "openai" { // every other stream ends without a mark that it knows
				c.events(dialects()[1].open, dialects()[1].end("end_turn", dialects()[1].told()))
				return
			}
			c.events(dialects()[0].open, dialects()[0].piece("hi"), dialects()[0].end("stop", dialects()[0].told()))
		}},
		{id: "shape-no-content", class: malformed, cost: told, script: func(c *conn) {
			how := c.d.ends[gateway.FinishStop]
			nothing := map[string]string{"openai": `{"content":null}`}[c.d.name]
			open := map[string]string{"anthropic": data(`{"type":"message_start","message":{"usage":{"input_tokens":9}}}`)}[c.d.name]
			c.reply(c.d.whole(nothing, how, c.d.told()), open, c.d.end(how, c.d.told()))
		}},
		{id: "shape-garbage-behind", only: wholeOnly, class: malformed, cost: bound, script: func(c *conn) {
			document, _ := c.d.good()
			c.document(200, document+"}garbage")
		}},
		{id: "shape-half-a-document", only: wholeOnly, class: malformed, cost: bound, script: func(c *conn) {
			document, _ := c.d.good()
			c.document(200, document[:len(document)/2])
		}},
		{id: "shape-a-document-for-a-stream", only: streamOnly, class: malformed, reason: "not_a_stream", cost: bound, script: func(c *conn) {
			document, _ := c.d.good()
			c.document(200, document)
		}},
		{id: "shape-a-broken-event", only: streamOnly, class: malformed, cost: bound, script: func(c *conn) {
			c.events(c.d.open, "data: {\"choices\":[{\"delta\n\n", c.d.end(c.d.ends[gateway.FinishStop], c.d.told()))
		}},
		{id: "shape-a-document-too-large", only: wholeOnly, most: 1 << 16, class: malformed, reason: "answer_too_large", cost: bound, script: saying(strings.Repeat("x", 1<<17))},
		{id: "shape-an-answer-too-large", only: streamOnly, most: 1 << 16, calls: 1, class: malformed, reason: "answer_too_large", cost: bound, script: func(c *conn) {
			c.events(c.d.open)
			for range 40 {
				if !c.write(c.d.piece(strings.Repeat("x", 4<<10))) {
					return
				}
			}
			c.wait()
		}},
		{id: "shape-an-event-of-2-MiB", only: streamOnly, class: malformed, reason: "event_too_large", cost: bound, script: func(c *conn) {
			c.events(c.d.open, c.d.piece(strings.Repeat("x", 2<<20)))
			c.wait()
		}},
		{id: "shape-headers-without-end", class: gateway.ClassTransport, cost: bound, script: func(c *conn) {
			c.write("HTTP/1.1 200 OK\r\n")
			for c.write("X-Filler: " + strings.Repeat("x", 4000) + "\r\n") {
			}
		}},
		{id: "shape-no-http", class: gateway.ClassTransport, cost: bound, script: func(c *conn) { c.write("SSH-2.0-OpenSSH_9.6\r\n") }},
		{id: "shape-no-such-status", class: gateway.ClassTransport, cost: bound, script: func(c *conn) { c.write("HTTP/1.1 abc OK\r\n\r\n") }},
		{id: "shape-two-lengths", class: gateway.ClassTransport, cost: bound, script: func(c *conn) {
			c.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello")
		}},
	}
}

// silences are servers that stay on the line and say nothing. Each must be hung
// up on, or the server's own wait fails the test.
func silences() []scenario {
	const timeout, quiet = gateway.ClassAttemptTimeout, gateway.ClassStreamIdle
	committed := func(t *testing.T, o outcome) {
		if r := o.rows[0]; !r.Committed || r.Chunks != 1 || o.heard != "hi" {
			t.Errorf("R-GWS-14 row %+v, heard %q", r, o.heard)
		}
	}
	return []scenario{
		{id: "stall-before-the-head", short: attempt, class: timeout, cost: bound, script: (*conn).wait},
		{id: "stall-after-the-head", short: attempt, class: timeout, cost: bound, script: func(c *conn) {
			if c.stream {
				c.events()
			} else {
				c.head(200, "Content-Type: application/json", "Content-Length: 1000")
			}
			c.wait()
		}},
		{id: "stall-in-the-document", only: wholeOnly, short: attempt, class: timeout, cost: bound, script: func(c *conn) {
			document, _ := c.d.good()
			c.head(200, "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(document)))
			c.write(document[:20])
			c.wait()
		}},
		{id: "stall-in-an-error", short: attempt, within: 2 * time.Second, class: gateway.ClassOverloaded, cost: zero, script: func(c *conn) {
			c.head(503, "Content-Length: 1000")
			c.write(`{"error":`)
			c.wait()
		}},
		{id: "stall-before-the-first-piece", only: streamOnly, short: first, class: timeout, reason: "first_token_timeout", cost: bound, script: func(c *conn) {
			c.events(c.d.open)
			c.wait()
		}},
		{id: "stall-after-a-piece", only: streamOnly, short: idle, calls: 1, class: quiet, cost: bound, see: committed, script: func(c *conn) {
			c.events(c.d.open, c.d.piece("hi"))
			c.wait()
		}},
		{id: "stall-in-an-event", only: streamOnly, short: idle, calls: 1, class: quiet, cost: bound, see: committed, script: func(c *conn) {
			c.events(c.d.open, c.d.piece("hi"), c.d.piece("more")[:20])
			c.wait()
		}},
		{id: "endless-comments-before-the-first-piece", only: streamOnly, short: first, class: timeout, reason: "first_token_timeout", cost: bound, script: func(c *conn) {
			c.events(c.d.open)
			c.forever(": alive\n\n")
		}},
		{id: "endless-comments-after-a-piece", only: streamOnly, short: idle, calls: 1, class: quiet, cost: bound, script: func(c *conn) {
			c.events(c.d.open, c.d.piece("hi"))
			c.forever(": alive\n\n")
		}, see: func(t *testing.T, o outcome) {
			committed(t, o)
			if r := o.rows[0]; r.Silence < short || r.WireBytes == 0 || r.WireSilence >= r.Silence {
				t.Errorf("R-GWS-06 row says %s without progress, %s without a byte, %d bytes", r.Silence, r.WireSilence, r.WireBytes)
			}
		}},
		{id: "endless-empty-pieces", only: streamOnly, short: idle, calls: 1, class: quiet, cost: bound, see: committed, script: func(c *conn) {
			c.events(c.d.open, c.d.piece("hi"))
			c.forever(c.d.empty)
		}},
		{id: "endless-half-event", only: streamOnly, short: idle, calls: 1, class: quiet, cost: bound, see: committed, script: func(c *conn) {
			c.events(c.d.open, c.d.piece("hi"), "data: ")
			c.forever("x")
		}},
	}
}

// cuts are connections that break.
func cuts() []scenario {
	const transport, truncated = gateway.ClassTransport, gateway.ClassStreamTruncated
	heard := func(t *testing.T, o outcome) {
		if !o.rows[0].Committed || o.heard != "hi" {
			t.Errorf("R-GWS-14 row %+v, heard %q", o.rows[0], o.heard)
		}
	}
	return []scenario{
		{id: "nobody-listens", unserved: true, class: transport, cost: zero, script: well},
		{id: "reset-before-the-request", raw: true, class: transport, cost: either, script: (*conn).reset},
		{id: "reset-before-the-head", class: transport, cost: bound, script: (*conn).reset},
		{id: "closed-before-the-head", class: transport, cost: bound, script: func(*conn) {}},
		{id: "reset-after-the-head", only: streamOnly, class: transport, cost: bound, script: func(c *conn) {
			c.events(c.d.open)
			c.reset()
		}},
		{id: "reset-in-the-document", only: wholeOnly, class: transport, cost: bound, script: func(c *conn) {
			c.head(200, "Content-Type: application/json", "Content-Length: 1000")
			c.write(`{"id":`)
			c.reset()
		}},
		{id: "cut-in-the-document", only: wholeOnly, class: transport, cost: bound, script: func(c *conn) {
			document, _ := c.d.good()
			c.head(200, "Content-Type: application/json", "Content-Length: 100000")
			c.write(document)
		}},
		{id: "cut-before-the-first-piece", only: streamOnly, class: truncated, cost: bound, script: func(c *conn) { c.events(c.d.open) }},
		{id: "cut-after-a-piece", only: streamOnly, calls: 1, class: truncated, cost: bound, see: heard, script: func(c *conn) { c.events(c.d.open, c.d.piece("hi")) }},
		{id: "cut-in-an-event", only: streamOnly, calls: 1, class: truncated, cost: bound, see: heard, script: func(c *conn) {
			c.events(c.d.open, c.d.piece("hi"), strings.TrimRight(c.d.end(c.d.ends[gateway.FinishStop], c.d.told()), "\n")[:30])
		}},
		{id: "cut-in-a-chunk", only: streamOnly, calls: 1, class: transport, cost: bound, see: heard, script: func(c *conn) {
			c.head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
			all := c.d.open + c.d.piece("hi")
			c.write(fmt.Sprintf("%x\r\n%s\r\n", len(all), all), "ff\r\ndata: ")
		}},
		{id: "chunks-of-no-size", only: streamOnly, class: transport, cost: bound, script: func(c *conn) {
			c.head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
			c.write("zz\r\nhello\r\n")
		}},
		{id: "reset-after-a-piece", only: streamOnly, calls: 1, class: transport, cost: bound, see: heard, script: func(c *conn) {
			c.events(c.d.open, c.d.piece("hi"))
			select {
			case <-c.taken: // what is not read yet goes with a reset
			case <-time.After(patience):
			}
			c.reset()
		}},
	}
}

// recoveries are troubles that pass.
func recoveries() []scenario {
	return []scenario{
		{id: "passing-overload", calls: 2, cost: zero, script: once(status(503, ""))},
		{id: "passing-break", calls: 2, cost: bound, script: once((*conn).reset)},
		{id: "passing-cut-before-the-first-piece", only: streamOnly, calls: 2, cost: bound, script: once(func(c *conn) { c.events(c.d.open) })},
		{id: "passing-nonsense", only: wholeOnly, calls: 2, cost: bound, script: once(func(c *conn) { c.document(200, "{}") })},
	}
}
