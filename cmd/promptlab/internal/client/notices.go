package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/elnor/promptlab/contracts"
)

// Notices lists what a person has not put away yet.
func (c *Client) Notices(ctx context.Context) (out contracts.NoticeList, err error) {
	_, err = c.do(ctx, request{method: http.MethodGet, path: []string{"api", "notices"}}, &out)
	return out, err
}

// DismissNotice puts a notice away for good and gives what is left.
func (c *Client) DismissNotice(ctx context.Context, id string) (out contracts.NoticeList, err error) {
	_, err = c.do(ctx, request{method: http.MethodPost, path: []string{"api", "notices", id, "dismiss"}}, &out)
	return out, err
}

// SessionForDebrief reads a session with the post-task templates that a person
// may use now because they ask for it.
func (c *Client) SessionForDebrief(ctx context.Context, key contracts.OverlaySessionKey) (out contracts.OverlaySessionResponse, err error) {
	_, err = c.do(ctx, request{method: http.MethodGet, path: sessionPath(key), query: url.Values{"debrief": {"true"}}}, &out)
	return out, err
}
