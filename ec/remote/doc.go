// Package remote is the worker door over HTTP: the handler for EC's side and
// the client for the worker's, side by side so that they cannot drift apart.
// Faults arrive as they left. The package knows neither what a task is about
// nor who may speak: whoever mounts the handler checks the role first.
package remote

import (
	"context"

	"github.com/elnor/promptlab/contracts"
)

// prefix is where the routes live.
const prefix = "/internal/worker/tasks/"

// Bounds of bodies in bytes. A claim's answer holds a whole dataset.
const (
	maxSmall  = 64 << 10
	maxRows   = 8 << 20
	maxFinish = 16 << 20
	maxTask   = 256 << 20
	maxAnswer = 1 << 20
)

// releaser is the part of a door that takes a task back without a result.
type releaser interface {
	Release(ctx context.Context, task contracts.UUID, in contracts.TaskClaim) error
}

// released answers a release.
type released struct {
	Released bool `json:"released"`
}
