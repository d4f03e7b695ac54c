// Package openai speaks the OpenAI Chat Completions protocol to any server that
// speaks it. One call of Complete is one HTTP request.
//
// It deliberately does not know about retries, budgets, routes or which company
// runs the server: a further provider is configuration, not code. It uses no
// proxy from the environment, keeps no cookies and follows no redirect, so a
// key only ever goes to the configured host.
package openai

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/elnor/promptlab/gateway"
)

// DefaultMaxResponse is the largest answer that is read, in bytes.
const DefaultMaxResponse = 8 << 20

// maxErrorBody bounds what is read of an error answer.
const maxErrorBody = 64 << 10

// Config is what an Adapter needs. The zero value is good.
type Config struct {
	MaxResponse int64             // bytes; 0: DefaultMaxResponse
	Transport   http.RoundTripper // nil: the package's own, without proxies
}

// Adapter implements gateway.Adapter.
type Adapter struct {
	client *http.Client
	most   int64
}

// New makes an adapter with its own connections.
func New(c Config) *Adapter {
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
	return &Adapter{
		most: c.MaxResponse,
		client: &http.Client{
			Transport:     c.Transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Complete makes the one HTTP request.
func (a *Adapter) Complete(ctx context.Context, call gateway.Call) (gateway.Reply, error) {
	body, err := encode(call, false)
	if err != nil {
		return gateway.Reply{}, &gateway.Error{Class: gateway.ClassBadRequest, NotBilled: true, Reason: "not_encodable"}
	}
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Store(true) },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, call.Target.BaseURL+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return gateway.Reply{}, &gateway.Error{Class: gateway.ClassBadRequest, NotBilled: true, Reason: "address"}
	}
	req.GetBody = nil // the transport cannot send it a second time by itself
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "promptlab")
	if name := call.Target.Profile.KeyHeader; call.Key != "" && name != "" {
		req.Header.Set(name, call.Key.Reveal())
	} else if call.Key != "" {
		req.Header.Set("Authorization", "Bearer "+call.Key.Reveal())
	}
	began := time.Now()
	res, err := a.client.Do(req)
	if err != nil {
		// The text of err holds the address; nothing of it is kept.
		return gateway.Reply{}, &gateway.Error{Class: gateway.ClassTransport, NotBilled: !sent.Load()}
	}
	defer func() { _ = res.Body.Close() }() // never drained: an abandoned answer has no bound
	reply, err := a.read(res, call)
	reply.Upstream = time.Since(began)
	return reply, err
}

func (a *Adapter) read(res *http.Response, call gateway.Call) (gateway.Reply, error) {
	profile := call.Target.Profile
	if res.StatusCode < 200 || res.StatusCode >= 300 {
		// What can be read of the body helps to classify; the status is enough.
		body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
		return gateway.Reply{}, profile.Classify(res.StatusCode, res.Header, body, time.Now())
	}
	id := gateway.CleanRequestID(res.Header.Get("X-Request-Id"))
	body, err := io.ReadAll(io.LimitReader(res.Body, a.most+1))
	if err != nil {
		return gateway.Reply{}, &gateway.Error{Class: gateway.ClassTransport, RequestID: id}
	}
	if int64(len(body)) > a.most {
		return gateway.Reply{}, &gateway.Error{Class: gateway.ClassMalformedResponse, Status: res.StatusCode, RequestID: id, Reason: "answer_too_large"}
	}
	if gateway.HasError(body) {
		return gateway.Reply{Usage: usageOf(body)}, profile.Classify(res.StatusCode, res.Header, body, time.Now())
	}
	reply, inside, err := decode(body, call.Request.MaxTokens)
	if inside != nil { // one answer of the list failed behind the server's back
		return gateway.Reply{Usage: reply.Usage}, profile.Classify(res.StatusCode, res.Header, inside, time.Now())
	}
	reply.ProviderRequestID = id
	var e *gateway.Error
	if errors.As(err, &e) {
		e.Status, e.RequestID = res.StatusCode, id
	}
	return reply, err
}

// Stream gives the answer in one piece, until there is a reader of event streams.
func (a *Adapter) Stream(ctx context.Context, call gateway.Call, emit func(gateway.Event) error) (gateway.Reply, error) {
	reply, err := a.Complete(ctx, call)
	if err != nil {
		return reply, err
	}
	return reply, gateway.EmitReply(reply, emit)
}
