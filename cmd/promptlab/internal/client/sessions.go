package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/elnor/promptlab/contracts"
)

func sessionPath(key contracts.OverlaySessionKey, verb ...string) []string {
	return append([]string{"api", "overlay-sessions", key.Token()}, verb...)
}

// Session gives a session and its ETag; the first read starts it.
func (c *Client) Session(ctx context.Context, key contracts.OverlaySessionKey) (out contracts.OverlaySessionResponse, etag string, err error) {
	etag, err = c.do(ctx, request{method: http.MethodGet, path: sessionPath(key)}, &out)
	return out, etag, err
}

// ChangeSession sends a change, such as activate with its body, if the session
// still is the one with the ETag match.
func (c *Client) ChangeSession(ctx context.Context, key contracts.OverlaySessionKey, verb string, body any, match string) (out contracts.OverlaySessionResponse, err error) {
	_, err = c.do(ctx, request{method: http.MethodPost, path: sessionPath(key, verb), body: body, match: match}, &out)
	return out, err
}

// ExplainSession says of each overlay why it is in the next packet or out of it.
func (c *Client) ExplainSession(ctx context.Context, key contracts.OverlaySessionKey) (out contracts.OverlayExplanations, err error) {
	_, err = c.do(ctx, request{method: http.MethodGet, path: sessionPath(key, "explain")}, &out)
	return out, err
}

// Truth gives a session's last receipt.
func (c *Client) Truth(ctx context.Context, key contracts.OverlaySessionKey) (out contracts.OverlayRuntimeTruthSummary, err error) {
	_, err = c.do(ctx, request{method: http.MethodGet, path: sessionPath(key, "runtime-truth")}, &out)
	return out, err
}

// Receipt gives the receipt of one turn, while it is kept.
func (c *Client) Receipt(ctx context.Context, key contracts.OverlaySessionKey, turn string) (out contracts.OverlayRuntimeTruthSummary, err error) {
	_, err = c.do(ctx, request{method: http.MethodGet, path: sessionPath(key, "runtime-truth"), query: url.Values{"turn_id": {turn}}}, &out)
	return out, err
}

// SessionQuery narrows a list of sessions. Zero values leave everything in.
type SessionQuery struct {
	Workspace string
	Surface   string
	Active    bool // only those with an overlay in their next turn
	Most      int  // how many at most; 0 is all
}

// Sessions lists sessions, the latest activity first, page by page.
func (c *Client) Sessions(ctx context.Context, q SessionQuery) (contracts.OverlaySessionList, error) {
	var out contracts.OverlaySessionList
	for {
		v := url.Values{"limit": {nextPage(q.Most, len(out.Items))}}
		set(v, "workspace_id", q.Workspace)
		set(v, "surface_kind", q.Surface)
		set(v, "after", out.Next)
		if q.Active {
			v.Set("active", "true")
		}
		var page contracts.OverlaySessionList
		if _, err := c.do(ctx, request{method: http.MethodGet, path: []string{"api", "overlay-sessions"}, query: v}, &page); err != nil {
			return out, err
		}
		out.Items = append(out.Items, page.Items...)
		out.Total, out.Next = page.Total, page.Next
		if out.Next == "" || q.Most > 0 && len(out.Items) >= q.Most {
			return out, nil
		}
	}
}

// CreateSessionKey makes a key by which a program names a session.
func (c *Client) CreateSessionKey(ctx context.Context, r contracts.SessionAPIKeyRequest) (out contracts.SessionAPIKeyCreated, err error) {
	_, err = c.do(ctx, request{method: http.MethodPost, path: []string{"api", "session-keys"}, body: r}, &out)
	return out, err
}

// SessionKeys lists the session keys in force.
func (c *Client) SessionKeys(ctx context.Context) (out contracts.SessionAPIKeyList, err error) {
	_, err = c.do(ctx, request{method: http.MethodGet, path: []string{"api", "session-keys"}}, &out)
	return out, err
}

// RevokedKey says which key is worthless now.
type RevokedKey struct {
	KeyID   contracts.UUID `json:"key_id"`
	Revoked bool           `json:"revoked"`
}

// RevokeSessionKey makes a session key worthless.
func (c *Client) RevokeSessionKey(ctx context.Context, id string) (out RevokedKey, err error) {
	_, err = c.do(ctx, request{method: http.MethodPost, path: []string{"api", "session-keys", id, "revoke"}, body: struct{}{}}, &out)
	return out, err
}

// ResolveSessionKey says which session a presented key names; it needs the
// seam's token. A key that is unknown or revoked is not found.
func (c *Client) ResolveSessionKey(ctx context.Context, key string) (out contracts.SessionAPIKeyOwner, err error) {
	body := contracts.SessionAPIKeyLookup{KeySHA256: contracts.HashSessionAPIKey(key)}
	_, err = c.do(ctx, request{method: http.MethodPost, path: []string{"internal", "doc17", "session-keys", "resolve"}, body: body}, &out)
	return out, err
}

// TruthHistory is the list of a session's receipts, oldest first.
type TruthHistory struct {
	Items contracts.List[contracts.OverlayRuntimeTruthSummary] `json:"items"`
}

// TruthHistory gives the receipts that are kept.
func (c *Client) TruthHistory(ctx context.Context, key contracts.OverlaySessionKey) (out TruthHistory, err error) {
	_, err = c.do(ctx, request{method: http.MethodGet, path: sessionPath(key, "runtime-truth", "history")}, &out)
	return out, err
}

// PrepareReanswer prepares a second answer to selected turns.
func (c *Client) PrepareReanswer(ctx context.Context, key contracts.OverlaySessionKey, r contracts.OverlayReanswerPlanRequest, match string) (out contracts.OverlayReanswerPlan, err error) {
	_, err = c.do(ctx, request{method: http.MethodPost, path: sessionPath(key, "reanswer-plan"), body: r, match: match}, &out)
	return out, err
}

// FeedbackText is what a client sends of an opinion on an overlay.
type FeedbackText struct {
	FeedbackID               contracts.UUID              `json:"feedback_id"`
	OverlayID                contracts.OverlayID         `json:"overlay_id"`
	WorkspaceID              string                      `json:"workspace_id"`
	SessionKey               contracts.OverlaySessionKey `json:"session_key"`
	OverlayHelpfulnessRating string                      `json:"overlay_helpfulness_rating"`
	FailureCategory          string                      `json:"failure_category,omitempty"`
	Comment                  string                      `json:"comment,omitempty"`
}

// SubmitFeedback records an opinion. The same id again changes nothing.
func (c *Client) SubmitFeedback(ctx context.Context, f FeedbackText) (out contracts.SignalAck, err error) {
	_, err = c.do(ctx, request{method: http.MethodPost, path: []string{"api", "overlay-feedback"}, body: f}, &out)
	return out, err
}
