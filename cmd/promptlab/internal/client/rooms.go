package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/elnor/promptlab/contracts"
)

// RoomText is what a client sends of a room.
type RoomText struct {
	RolePrompt   string                      `json:"role_prompt,omitempty"`
	Participants []contracts.RoomParticipant `json:"participants"`
}

// Rooms lists the rooms that something is set up for.
func (c *Client) Rooms(ctx context.Context, workspace string) (out contracts.RoomList, err error) {
	q := url.Values{}
	set(q, "workspace_id", workspace)
	_, err = c.do(ctx, request{method: http.MethodGet, path: []string{"api", "rooms"}, query: q}, &out)
	return out, err
}

// Room gives what is set up for a room.
func (c *Client) Room(ctx context.Context, key contracts.OverlaySessionKey) (out contracts.Room, err error) {
	_, err = c.do(ctx, request{method: http.MethodGet, path: []string{"api", "rooms", key.Token()}}, &out)
	return out, err
}

// PutRoom replaces what is set up for a room.
func (c *Client) PutRoom(ctx context.Context, key contracts.OverlaySessionKey, r RoomText) (out contracts.Room, err error) {
	_, err = c.do(ctx, request{method: http.MethodPut, path: []string{"api", "rooms", key.Token()}, body: r}, &out)
	return out, err
}
