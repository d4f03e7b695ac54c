// Package wire is what adapters of all protocols share below their own words:
// one POST over HTTP without proxies, cookies and redirects, whether anything of
// it left the house, what an error answer means, a bounded body, and an event
// stream with a count of what was alive in it.
//
// It deliberately does not know any protocol's documents, nor retries, budgets
// and clocks: the chain ends a call by its context.
package wire

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"github.com/elnor/promptlab/gateway"
)

// DefaultMaxResponse is the largest answer that is read, in bytes.
const DefaultMaxResponse = 8 << 20

// maxErrorBody bounds what is read of an error answer.
const maxErrorBody = 64 << 10

// Config is what a Client needs. The zero value is good.
type Config struct {
	MaxResponse int64             // bytes of one answer; 0: DefaultMaxResponse
	Transport   http.RoundTripper // nil: the client's own, without proxies
}

// Client makes requests. It is safe for concurrent use.
type Client struct {
	http *http.Client
	most int64
}

// New makes a client with its own connections.
func New(c Config) *Client {
	if c.MaxResponse == 0 {
		c.MaxResponse = DefaultMaxResponse
	}
	if c.Transport == nil {
		c.Transport = &http.Transport{
			Proxy:                  nil,
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxIdleConnsPerHost:    64,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		}
	}
	return &Client{
		most: c.MaxResponse,
		http: &http.Client{
			Transport:     c.Transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// MaxResponse gives the largest answer that is read, in bytes. Who puts an
// answer together from a stream holds it to the same bound.
func (c *Client) MaxResponse() int64 { return c.most }

// Request is one POST of a JSON document.
type Request struct {
	Path   string // behind the target's base URL, such as /chat/completions
	Body   []byte
	Header http.Header // the protocol's own; may be nil
	Stream bool        // an event stream is wanted
}

// Bearer gives the header that holds a call's key: the one that the target's
// profile names, else Authorization. Without a key it is empty.
func Bearer(call gateway.Call) http.Header {
	h := http.Header{}
	if name := call.Target.Profile.KeyHeader; call.Key != "" && name != "" {
		h.Set(name, call.Key.Reveal())
	} else if call.Key != "" {
		h.Set("Authorization", "Bearer "+call.Key.Reveal())
	}
	return h
}

// Post makes the one HTTP request of a call. A Response is a 2xx answer, of an
// event stream if one was asked for; the caller closes it. Everything else is an
// *gateway.Error.
func (c *Client) Post(ctx context.Context, call gateway.Call, r Request) (*Response, error) {
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Store(true) },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, call.Target.BaseURL+r.Path, bytes.NewReader(r.Body))
	if err != nil {
		return nil, &gateway.Error{Class: gateway.ClassBadRequest, NotBilled: true, Reason: "address"}
	}
	req.GetBody = nil // the transport cannot send it a second time by itself
	if r.Header != nil {
		req.Header = r.Header.Clone()
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "promptlab")
	if r.Stream {
		req.Header.Set("Accept", eventStream)
		req.Header.Set("Accept-Encoding", "identity") // a compressor would hold words back
	}
	began := time.Now()
	res, err := c.http.Do(req) //nolint:bodyclose // by Response.Close
	if err != nil {
		// The text of err holds the address; nothing of it is kept.
		return nil, &gateway.Error{Class: gateway.ClassTransport, NotBilled: !sent.Load()}
	}
	out := &Response{
		Status: res.StatusCode, Header: res.Header, ID: gateway.CleanRequestID(requestID(res.Header)),
		profile: call.Target.Profile, body: res.Body, most: c.most, began: began,
	}
	if err := out.open(r.Stream); err != nil {
		out.Close()
		return nil, err
	}
	return out, nil
}

// requestID gives the provider's name for the request.
func requestID(h http.Header) string {
	if id := h.Get("X-Request-Id"); id != "" {
		return id
	}
	return h.Get("Request-Id")
}

// open refuses what is no answer.
func (r *Response) open(stream bool) error {
	if r.Status < 200 || r.Status >= 300 {
		// What can be read of the body helps to classify; the status is enough.
		body, _ := io.ReadAll(io.LimitReader(r.body, maxErrorBody))
		return r.Fail(body)
	}
	if !stream {
		return nil
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return r.Malformed("content_encoding") // it was told not to
	}
	if r.isStream() {
		return nil
	}
	// An error may come as a document although a stream was asked for.
	body, _ := io.ReadAll(io.LimitReader(r.body, maxErrorBody))
	if gateway.HasError(body) {
		return r.Fail(body)
	}
	return r.Malformed("not_a_stream")
}
