package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/elnor/promptlab/contracts"
)

// SurfaceText is what a client sends of the defaults of a surface.
type SurfaceText struct {
	WorkspaceID  string                     `json:"workspace_id"`
	SurfaceKind  contracts.SupportedSurface `json:"surface_kind"`
	SurfaceID    string                     `json:"surface_id,omitempty"`
	OverlayIDs   []contracts.OverlayID      `json:"overlay_ids"`
	ModeratorIDs []string                   `json:"moderator_ids"`
}

// SurfaceDefaults lists what rooms, panels and tasks start with.
func (c *Client) SurfaceDefaults(ctx context.Context, workspace string) (out contracts.SurfaceDefaultsList, err error) {
	q := url.Values{}
	set(q, "workspace_id", workspace)
	_, err = c.do(ctx, request{method: http.MethodGet, path: []string{"api", "surface-defaults"}, query: q}, &out)
	return out, err
}

// PutSurfaceDefaults replaces what a surface starts with.
func (c *Client) PutSurfaceDefaults(ctx context.Context, d SurfaceText) (out contracts.SurfaceDefaults, err error) {
	_, err = c.do(ctx, request{method: http.MethodPut, path: []string{"api", "surface-defaults"}, body: d}, &out)
	return out, err
}

// ModeratorText is what a client sends of what a moderator brings along.
type ModeratorText struct {
	ModeratorID string                `json:"moderator_id"`
	OverlayIDs  []contracts.OverlayID `json:"overlay_ids"`
	AppliesTo   string                `json:"applies_to"`
}

// ModeratorDefaults gives what a moderator brings along.
func (c *Client) ModeratorDefaults(ctx context.Context, id string) (out contracts.ModeratorDefaults, err error) {
	_, err = c.do(ctx, request{method: http.MethodGet, path: []string{"api", "moderator-defaults", id}}, &out)
	return out, err
}

// PutModeratorDefaults replaces what a moderator brings along.
func (c *Client) PutModeratorDefaults(ctx context.Context, d ModeratorText) (out contracts.ModeratorDefaults, err error) {
	_, err = c.do(ctx, request{method: http.MethodPut, path: []string{"api", "moderator-defaults", d.ModeratorID}, body: d}, &out)
	return out, err
}
