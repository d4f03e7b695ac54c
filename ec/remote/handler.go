package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/elnor/promptlab/internal/life"
	"github.com/elnor/promptlab/internal/problem"
)

// Handler serves POST /internal/worker/tasks/{task_id}/{claim, heartbeat, rows,
// usage, finish, release}. The caller has checked that the role is worker.
// Unknown fields are ignored, so that workers and EC may differ in version.
func Handler(tasks ec.Tasks) http.Handler {
	mux := http.NewServeMux()
	serve(mux, "claim", maxSmall, tasks.Claim)
	serve(mux, "heartbeat", maxSmall, func(ctx context.Context, task contracts.UUID, in contracts.TaskHeartbeat) (contracts.TaskHeartbeatReply, error) {
		ctx, cancel := untilStopping(ctx)
		defer cancel()
		return tasks.Heartbeat(ctx, task, in)
	})
	serve(mux, "rows", maxRows, tasks.Rows)
	serve(mux, "usage", maxRows, tasks.Usage)
	serve(mux, "finish", maxFinish, tasks.Finish)
	if r, ok := tasks.(releaser); ok {
		serve(mux, "release", maxSmall, func(ctx context.Context, task contracts.UUID, in contracts.TaskClaim) (released, error) {
			return released{true}, r.Release(ctx, task, in)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		problem.Write(w, r, fault.New(fault.NotFound, "not_found", "the worker door has no such route"))
	})
	return mux
}

// untilStopping ends with the request, or when its server is told to stop: a
// long poll must not use up the grace that running requests have. The worker
// takes it for an EC that is away and asks again.
func untilStopping(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-life.Stopping(ctx):
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(); <-watched }
}

// serve mounts one call of the door.
func serve[In, Out any](mux *http.ServeMux, name string, limit int64, call func(context.Context, contracts.UUID, In) (Out, error)) {
	path := prefix + "{task_id}/" + name
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		out, err := answer(w, r, limit, call)
		if err != nil {
			problem.Write(w, r, err)
			return
		}
		b, err := json.Marshal(out)
		if err != nil {
			problem.Write(w, r, fmt.Errorf("encode answer: %w", err))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(append(b, '\n')) // a worker that is gone asks again
	})
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", http.MethodPost)
		problem.Write(w, r, fault.New(fault.MethodNotAllowed, "method_not_allowed", "the worker door takes POST"))
	})
}

func answer[In, Out any](w http.ResponseWriter, r *http.Request, limit int64, call func(context.Context, contracts.UUID, In) (Out, error)) (Out, error) {
	var none Out
	id, err := contracts.Decode[contracts.UUID]([]byte(quote(r.PathValue("task_id"))), contracts.Peer)
	if err != nil {
		return none, fault.New(fault.NotFound, "not_found", "there is no task of this name")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return none, fault.New(fault.TooLarge, "payload_too_large", "the body is larger than %d bytes", limit)
		}
		return none, fault.Wrap(fault.Malformed, "bad_request", err, "the body cannot be read")
	}
	in, err := contracts.Decode[In](body, contracts.Peer)
	if err != nil {
		return none, err
	}
	return call(r.Context(), id, in)
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(b)
}
