// Package seam speaks to EC for the chat endpoint: one method per route of the
// prompt plan's side, over HTTP, with the role seam's token.
//
// It deliberately decides nothing: what an unreachable EC means for a turn is
// chat's business. It retries nothing.
package seam

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
	"strconv"
	"strings"
	"time"

	"github.com/elnor/promptlab/chat"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/elnor/promptlab/internal/problem"
)

const (
	base      = "/internal/doc17/"
	maxAnswer = 8 << 20
)

// Config is what a Client needs.
type Config struct {
	BaseURL   string            // of EC's API, such as http://127.0.0.1:7717
	Token     string            // of the role seam
	Roots     *x509.CertPool    // certificates to trust; nil: the system's
	Transport http.RoundTripper // nil: one without a proxy that trusts Roots
}

// Client implements chat.Seam. It is safe for concurrent use.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// New makes a client. The token must not travel in the clear to another machine.
func New(c Config) (*Client, error) {
	u, err := url.Parse(c.BaseURL)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the address of EC must be one such as http://127.0.0.1:7717")
	}
	if c.Token == "" {
		return nil, errors.New("the seam's token is needed")
	}
	if c.Transport == nil {
		c.Transport = &http.Transport{
			Proxy: nil, MaxIdleConnsPerHost: 64, IdleConnTimeout: 60 * time.Second, TLSHandshakeTimeout: 5 * time.Second,
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.Roots}, MaxResponseHeaderBytes: 64 << 10,
		}
	}
	return &Client{
		base: strings.TrimSuffix(u.String(), "/"), token: c.Token,
		http: &http.Client{Transport: c.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}, nil
}

// Notices gives what happened to sessions after a number.
func (c *Client) Notices(ctx context.Context, after uint64) (contracts.EventList, error) {
	return call[contracts.EventList](ctx, c, http.MethodGet, "session-notices", url.Values{"after": {strconv.FormatUint(after, 10)}}, nil)
}

// Packet gives what a turn is to be composed with.
func (c *Client) Packet(ctx context.Context, q chat.PacketQuery) (contracts.OverlayPromptPacket, error) {
	v := session(q.Session)
	v.Set("turn_id", q.TurnID)
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	set("plan_id", string(q.PlanID))
	if q.Revision != nil {
		set("revision", strconv.Itoa(*q.Revision))
	}
	if o := q.Override; o != nil {
		set("override_mode", string(o.Mode))
		ids := make([]string, len(o.OverlayIDs))
		for i, id := range o.OverlayIDs {
			ids[i] = string(id)
		}
		set("overlay_ids", strings.Join(ids, ","))
	}
	p, err := call[contracts.OverlayPromptPacket](ctx, c, http.MethodGet, "overlay-packet", v, nil)
	if err == nil && p.Hash() != p.PacketHash {
		return p, fault.New(fault.Unavailable, "packet_broken", "the packet is not what its hash says")
	}
	return p, err
}

// Plan gives a re-answer plan.
func (c *Client) Plan(ctx context.Context, id contracts.UUID) (contracts.OverlayReanswerPlan, error) {
	return call[contracts.OverlayReanswerPlan](ctx, c, http.MethodGet, "reanswer-plans/"+url.PathEscape(string(id)), nil, nil)
}

// Room gives the roles of a room and of who takes part in it.
func (c *Client) Room(ctx context.Context, key contracts.OverlaySessionKey) (contracts.RoomState, error) {
	return call[contracts.RoomState](ctx, c, http.MethodGet, "room-state", session(key), nil)
}

func session(key contracts.OverlaySessionKey) url.Values {
	return url.Values{"workspace_id": {key.WorkspaceID}, "surface_kind": {string(key.SurfaceKind)}, "surface_id": {key.SurfaceID}}
}

// SessionOf says which session a presented key names, by the key's hash.
func (c *Client) SessionOf(ctx context.Context, sha256Hex string) (contracts.SessionAPIKeyOwner, error) {
	return call[contracts.SessionAPIKeyOwner](ctx, c, http.MethodPost, "session-keys/resolve", nil, contracts.SessionAPIKeyLookup{KeySHA256: sha256Hex})
}

// ActiveModels gives what EC says about which models may answer.
func (c *Client) ActiveModels(ctx context.Context) (contracts.ActiveModels, error) {
	return call[contracts.ActiveModels](ctx, c, http.MethodGet, "models", nil, nil)
}

// Report tells EC what happened to a session.
func (c *Client) Report(ctx context.Context, e contracts.OverlaySessionEvent) error {
	_, err := call[json.RawMessage](ctx, c, http.MethodPost, "session-events", nil, e)
	return err
}

// Truth hands over a receipt. A session that EC has never seen is started first.
func (c *Client) Truth(ctx context.Context, t contracts.OverlayRuntimeTruthSummary) error {
	_, err := call[json.RawMessage](ctx, c, http.MethodPost, "runtime-truth", nil, t)
	if fault.Of(err) != fault.NotFound || t.ReanswerPlanID != "" {
		return err
	}
	if _, err := call[json.RawMessage](ctx, c, http.MethodGet, "brief-facts", session(t.SessionKey), nil); err != nil {
		return err
	}
	_, err = call[json.RawMessage](ctx, c, http.MethodPost, "runtime-truth", nil, t)
	return err
}

// Usage books model calls.
func (c *Client) Usage(ctx context.Context, rows []contracts.UsageRow) error {
	_, err := call[json.RawMessage](ctx, c, http.MethodPost, "usage", nil, contracts.SeamUsage{Rows: rows})
	return err
}

// call makes one request. Nobody there, and an answer that is not ours, is a
// fault of kind Unavailable.
func call[O any](ctx context.Context, c *Client, method, path string, query url.Values, in any) (O, error) {
	var out O
	address := c.base + base + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	var body io.Reader = http.NoBody
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return out, fmt.Errorf("encode %s: %w", path, err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return out, fmt.Errorf("ask EC: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "promptlab-chat")
	if id := problem.RequestID(ctx); id != "" {
		req.Header.Set("X-Request-ID", id)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return out, away(err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := problem.Read(res); err != nil {
		return out, err
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return out, away(err)
	}
	if len(raw) > maxAnswer || res.StatusCode != http.StatusOK && res.StatusCode != http.StatusCreated {
		return out, fault.New(fault.Unavailable, "ec_unavailable", "the answer (status %d, %d bytes) is not one of ours", res.StatusCode, len(raw))
	}
	if skip, ok := any(&out).(*json.RawMessage); ok { // only that it was done is asked
		*skip = raw
		return out, nil
	}
	out, err = contracts.Decode[O](raw, contracts.Peer)
	if err != nil { // it is EC's mistake and no fault of who asks
		return out, fault.Wrap(fault.Unavailable, "ec_unavailable", err, "the answer (status %d, %d bytes) is not one of ours", res.StatusCode, len(raw))
	}
	return out, nil
}

func away(err error) error {
	return fault.Wrap(fault.Unavailable, "ec_unavailable", err, "EC does not answer")
}
