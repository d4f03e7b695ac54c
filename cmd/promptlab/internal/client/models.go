package client

import (
	"context"
	"net/http"

	"github.com/elnor/promptlab/contracts"
)

// Models lists the registry.
func (c *Client) Models(ctx context.Context) (out contracts.ModelList, err error) {
	_, err = c.do(ctx, request{method: http.MethodGet, path: []string{"api", "models"}}, &out)
	return out, err
}

// Model reads one model of the registry.
func (c *Client) Model(ctx context.Context, name string) (out contracts.RegisteredModel, err error) {
	_, err = c.do(ctx, request{method: http.MethodGet, path: []string{"api", "models", name}}, &out)
	return out, err
}

// ActivateModel puts the configured version of a model into use.
func (c *Client) ActivateModel(ctx context.Context, name string, in contracts.ModelActivation) (out contracts.RegisteredModel, err error) {
	err = c.changeModel(ctx, name, "activate", in, &out)
	return out, err
}

// RollbackModel puts the version before the active one into use again.
func (c *Client) RollbackModel(ctx context.Context, name, reason string) (out contracts.RegisteredModel, err error) {
	err = c.changeModel(ctx, name, "rollback", contracts.ModelRollback{Reason: reason}, &out)
	return out, err
}

// DeprecateModel says that a model should not be relied on any more, or takes that back.
func (c *Client) DeprecateModel(ctx context.Context, name string, in contracts.ModelDeprecation) (out contracts.RegisteredModel, err error) {
	err = c.changeModel(ctx, name, "deprecate", in, &out)
	return out, err
}

func (c *Client) changeModel(ctx context.Context, name, how string, in any, out *contracts.RegisteredModel) error {
	_, err := c.do(ctx, request{method: http.MethodPost, path: []string{"api", "models", name, how}, body: in}, out)
	return err
}
