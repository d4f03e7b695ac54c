package client

import (
	"context"
	"net/http"

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
