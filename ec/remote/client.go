package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/elnor/promptlab/internal/problem"
)

// Config is what a Client needs.
type Config struct {
	BaseURL string         // of EC, e.g. http://127.0.0.1:7311
	Token   string         // of role worker
	Roots   *x509.CertPool // certificates to trust; nil: the system's
	Timeout time.Duration  // of one call, a heartbeat's wait not counted; 0: 30 s
	Pause   time.Duration  // before the second try, doubled after; 0: 200 ms
}

// Client is the worker door seen from another process. Its calls may all be
// repeated without harm, so it repeats what found nobody, three tries in all; a
// longer absence of EC is the caller's to wait out.
type Client struct {
	base  string
	token string
	limit time.Duration
	pause time.Duration
	http  *http.Client
}

// tries is how often one call is sent.
const tries = 3

// NewClient checks the address and makes a client. It connects with the first
// call.
func NewClient(c Config) (*Client, error) {
	u, err := url.Parse(c.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return nil, fault.Validation([]fault.Detail{{Field: "base_url", Rule: "url", Message: "must be an http or https address without credentials"}})
	}
	if c.Timeout <= 0 {
		c.Timeout = 30 * time.Second
	}
	if c.Pause <= 0 {
		c.Pause = 200 * time.Millisecond
	}
	return &Client{
		base: strings.TrimRight(u.String(), "/"), token: c.Token, limit: c.Timeout, pause: c.Pause,
		http: &http.Client{
			Transport: &http.Transport{
				DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
				TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.Roots},
				TLSHandshakeTimeout: 5 * time.Second,
				MaxIdleConnsPerHost: 8,
				IdleConnTimeout:     time.Minute,
			},
			// the token goes to the configured address and nowhere else
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close gives up idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Claim implements ec.Tasks.
func (c *Client) Claim(ctx context.Context, task contracts.UUID, in contracts.TaskClaim) (contracts.Task, error) {
	return call[contracts.Task](ctx, c, task, "claim", in, c.limit, maxTask, tries)
}

// Heartbeat implements ec.Tasks. It is sent once: its caller repeats it anyway.
func (c *Client) Heartbeat(ctx context.Context, task contracts.UUID, in contracts.TaskHeartbeat) (contracts.TaskHeartbeatReply, error) {
	limit := c.limit + time.Duration(in.WaitSeconds)*time.Second
	return call[contracts.TaskHeartbeatReply](ctx, c, task, "heartbeat", in, limit, maxAnswer, 1)
}

// Rows implements ec.Tasks.
func (c *Client) Rows(ctx context.Context, task contracts.UUID, in contracts.TaskRows) (contracts.TaskAck, error) {
	return call[contracts.TaskAck](ctx, c, task, "rows", in, c.limit, maxAnswer, tries)
}

// Usage implements ec.Tasks.
func (c *Client) Usage(ctx context.Context, task contracts.UUID, in contracts.TaskUsage) (contracts.TaskUsageReply, error) {
	return call[contracts.TaskUsageReply](ctx, c, task, "usage", in, c.limit, maxAnswer, tries)
}

// Finish implements ec.Tasks.
func (c *Client) Finish(ctx context.Context, task contracts.UUID, in contracts.TaskFinish) (contracts.TaskAck, error) {
	return call[contracts.TaskAck](ctx, c, task, "finish", in, c.limit, maxAnswer, tries)
}

// Release gives a task back without a result.
func (c *Client) Release(ctx context.Context, task contracts.UUID, in contracts.TaskClaim) error {
	_, err := call[released](ctx, c, task, "release", in, c.limit, maxAnswer, tries)
	return err
}

// call sends a message until somebody answers it, up to so many times.
func call[Out any](ctx context.Context, c *Client, task contracts.UUID, name string, in any, limit time.Duration, maxBytes int64, tries int) (Out, error) {
	var none Out
	body, err := json.Marshal(in)
	if err != nil {
		return none, fmt.Errorf("encode %s: %w", name, err)
	}
	path := c.base + prefix + url.PathEscape(string(task)) + "/" + name
	for try := 1; ; try++ {
		raw, err := c.post(ctx, path, body, limit, maxBytes)
		if err == nil {
			out, err := contracts.Decode[Out](raw, contracts.Peer)
			if err != nil {
				return none, fault.Wrap(fault.Unavailable, "ec_unavailable", err, "the answer to %s is not one of ours", name)
			}
			return out, nil
		}
		if try >= tries || fault.Of(err) != fault.Unavailable || !sleep(ctx, c.pause<<(try-1)) {
			return none, err
		}
	}
}

// post makes one request. Whoever does not answer is Unavailable: the outcome
// is unknown, which is why every message may be repeated.
func (c *Client) post(ctx context.Context, path string, body []byte, limit time.Duration, maxBytes int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, "ec_unavailable", err, "EC does not answer")
	}
	defer func() { _ = resp.Body.Close() }()
	if err := problem.Read(resp); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fault.New(fault.Unavailable, "ec_unavailable", "the answer (status %d) is not one of ours", resp.StatusCode)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes+1))
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, "ec_unavailable", err, "the answer broke off")
	}
	if int64(len(raw)) > maxBytes {
		return nil, fault.New(fault.TooLarge, "payload_too_large", "the answer is larger than %d bytes", maxBytes)
	}
	return raw, nil
}

// sleep waits; false means that ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
