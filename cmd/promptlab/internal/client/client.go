// Package client speaks the public API for the command line: one method per
// route, faults unchanged, a token that is never sent over a network in the clear.
//
// It deliberately does not know how answers are shown, and it retries nothing: a
// person sees at once that the server is away.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/elnor/promptlab/cmd/promptlab/internal/config"
	"github.com/elnor/promptlab/internal/problem"
)

// Config is what a Client needs.
type Config struct {
	API   string         // base address, such as http://127.0.0.1:7717
	Token string         // bearer token
	Roots *x509.CertPool // certificates to trust; nil: the system's
	Agent string         // User-Agent
}

// Client calls one server with one token.
type Client struct {
	base   *url.URL
	token  string
	agent  string
	http   *http.Client // answers
	stream *http.Client // event streams: no limit on the whole exchange
}

const (
	answerTimeout = 60 * time.Second
	maxAnswer     = 256 << 20
)

// New makes a client. A token is not sent over plain http to another machine.
func New(c Config) (*Client, error) {
	u, err := url.Parse(c.API)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not an address such as http://127.0.0.1:7717", c.API)
	}
	if u.Scheme == "http" && !config.Loopback(u.Hostname()) {
		return nil, fmt.Errorf("%s is another machine: it needs https, or the token could be read on the way", u.Host)
	}
	transport := &http.Transport{
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.Roots},
		ResponseHeaderTimeout: answerTimeout,
		TLSHandshakeTimeout:   10 * time.Second,
		IdleConnTimeout:       30 * time.Second,
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // a token follows no redirect
	return &Client{
		base: u, token: c.Token, agent: c.Agent,
		http:   &http.Client{Transport: transport, CheckRedirect: stay, Timeout: answerTimeout},
		stream: &http.Client{Transport: transport, CheckRedirect: stay},
	}, nil
}

// Unreachable says that nobody answered at an address.
type Unreachable struct {
	API string
	Err error
}

// Error names the address.
func (u *Unreachable) Error() string { return "nobody answers at " + u.API }

// Unwrap gives the cause.
func (u *Unreachable) Unwrap() error { return u.Err }

// request is one call.
type request struct {
	method string
	path   []string // segments, escaped here
	query  url.Values
	body   any    // nil: none
	match  string // If-Match, may be empty
}

// do sends a request and decodes the answer into out, which may be nil. It returns
// the answer's ETag.
func (c *Client) do(ctx context.Context, r request, out any) (etag string, err error) {
	resp, err := c.send(ctx, c.http, r, "application/json")
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return "", &Unreachable{c.base.String(), fmt.Errorf("read answer: %w", err)}
	case len(raw) > maxAnswer:
		return "", errors.New("the answer is too large")
	}
	if out != nil {
		if err := json.Unmarshal(raw, out); err != nil {
			return "", fmt.Errorf("the answer of %s cannot be read; is it another version? %w", c.base, err)
		}
	}
	return resp.Header.Get("ETag"), nil
}

// send gives a successful answer with its body open.
func (c *Client) send(ctx context.Context, by *http.Client, r request, accept string) (*http.Response, error) {
	var body io.Reader
	if r.body != nil {
		b, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	u := *c.base
	var path strings.Builder
	path.WriteString(strings.TrimSuffix(u.EscapedPath(), "/"))
	for _, seg := range r.path {
		path.WriteString("/" + url.PathEscape(seg))
	}
	u.RawPath = path.String()
	var err error
	if u.Path, err = url.PathUnescape(u.RawPath); err != nil {
		return nil, fmt.Errorf("make address: %w", err)
	}
	u.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("User-Agent", c.agent)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.match != "" {
		req.Header.Set("If-Match", r.match)
	}
	resp, err := by.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("call API: %w", ctx.Err())
		}
		return nil, &Unreachable{c.base.String(), err}
	}
	if resp.StatusCode >= 300 {
		defer func() { _ = resp.Body.Close() }()
		if err := problem.Read(resp); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%s answers with a redirect, which is not followed", c.base)
	}
	return resp, nil
}
