// Package problem turns faults into HTTP answers and HTTP answers back into
// faults, so that a fault made in the domain reaches a browser, a worker or the
// command line unchanged. Both directions read one table.
//
// It knows statuses and the error body. It does not know routes, logs or
// credentials, and it never sends the text of an error that is not a fault.
package problem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// row ties a kind of fault to its status.
type row struct {
	kind   fault.Kind
	status int
}

// table is the one mapping. Where two kinds share a status, the first is what
// the status reads back as, unless the code says otherwise (see kindOf).
func table() []row {
	return []row{
		{fault.Malformed, http.StatusBadRequest},
		{fault.Unauthenticated, http.StatusUnauthorized},
		{fault.Forbidden, http.StatusForbidden},
		{fault.Gate, http.StatusForbidden},
		{fault.NotFound, http.StatusNotFound},
		{fault.MethodNotAllowed, http.StatusMethodNotAllowed},
		{fault.Conflict, http.StatusConflict},
		{fault.Gone, http.StatusGone},
		{fault.PreconditionFailed, http.StatusPreconditionFailed},
		{fault.TooLarge, http.StatusRequestEntityTooLarge},
		{fault.UnsupportedMedia, http.StatusUnsupportedMediaType},
		{fault.Misdirected, http.StatusMisdirectedRequest},
		{fault.Invalid, http.StatusUnprocessableEntity},
		{fault.Internal, http.StatusInternalServerError},
		{fault.Unavailable, http.StatusServiceUnavailable},
	}
}

// codeGate is the code of every fault of kind Gate; it tells a closed gate from
// a wrong role, which have the same status.
const codeGate = "gate_closed"

const internalText = "something went wrong on our side; the log has the cause under this request id"

// Status gives the HTTP status of err. What is not a fault is 500.
func Status(err error) int {
	kind := fault.Of(err)
	for _, r := range table() {
		if r.kind == kind {
			return r.status
		}
	}
	return http.StatusInternalServerError
}

// Retryable says whether the same request may succeed later.
func Retryable(err error) bool { return fault.Of(err) == fault.Unavailable }

// Body gives the error body for err. An error without a kind that a caller can
// act on gives the generic text: its own text is for the log.
func Body(err error, requestID string) contracts.APIError {
	body := contracts.APIErrorBody{Code: "internal", Message: internalText, RequestID: requestID}
	var f *fault.Error
	if errors.As(err, &f) && f.Kind != fault.Internal {
		body.Code, body.Message = f.Code, f.Message
		body.Details = f.Details
		body.Retryable = Retryable(f)
	}
	return contracts.APIError{Error: body}
}

// Write answers a request with err: status, headers and body. It does not log;
// the observer of the request's context is told.
func Write(w http.ResponseWriter, r *http.Request, err error) {
	if seen, ok := r.Context().Value(observerKey{}).(func(error)); ok {
		seen(err)
	}
	status := Status(err)
	b, merr := json.Marshal(Body(err, RequestID(r.Context())))
	if merr != nil {
		panic(fmt.Sprintf("problem: an error body that cannot be marshalled: %v", merr)) // strings only
	}
	h := w.Header()
	for _, name := range []string{"ETag", "Last-Modified", "Content-Length"} { // of the answer that did not come about
		h.Del(name)
	}
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	switch status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="promptlab"`)
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the reader may be gone; there is nobody left to tell
}

type observerKey struct{}

// WithObserver gives ctx a function that Write tells every error it answers,
// so that one place can log what handlers of other packages ran into.
func WithObserver(ctx context.Context, seen func(error)) context.Context {
	return context.WithValue(ctx, observerKey{}, seen)
}

type requestIDKey struct{}

// WithRequestID gives ctx the id that Write puts into error bodies.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// RequestID gives the request id of ctx, or "".
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// Remote is the cause of a fault that came over HTTP.
type Remote struct {
	Status    int
	RequestID string // of the other side, may be empty
}

// Error names status and request id.
func (e *Remote) Error() string {
	return fmt.Sprintf("answer %d to request %q", e.Status, e.RequestID)
}

const maxBody = 1 << 20

// Read gives the fault that an answer carries, or nil for a status below 400.
// It reads the body and leaves closing it to the caller. An answer that is not
// in our shape, or has a status that we do not send, comes from somebody in
// between: Unavailable, outcome unknown.
func Read(resp *http.Response) error {
	if resp.StatusCode < http.StatusBadRequest {
		return nil
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return foreign(resp.StatusCode, fmt.Errorf("read error body: %w", err))
	}
	doc, err := contracts.Decode[contracts.APIError](raw, contracts.Peer)
	if err != nil {
		return foreign(resp.StatusCode, err)
	}
	kind, known := kindOf(resp.StatusCode, doc.Error.Code)
	if !known {
		return foreign(resp.StatusCode, &Remote{resp.StatusCode, doc.Error.RequestID})
	}
	f := fault.Wrap(kind, doc.Error.Code, &Remote{resp.StatusCode, doc.Error.RequestID}, "%s", doc.Error.Message)
	if len(doc.Error.Details) > 0 {
		f.Details = doc.Error.Details
	}
	return f
}

// RemoteID gives the other side's request id of an error made by Read, or "".
func RemoteID(err error) string {
	var r *Remote
	if errors.As(err, &r) {
		return r.RequestID
	}
	return ""
}

func foreign(status int, cause error) error {
	return fault.Wrap(fault.Unavailable, "ec_unavailable", cause,
		"the answer (status %d) is not one of ours; is something else listening at this address?", status)
}

func kindOf(status int, code string) (fault.Kind, bool) {
	if status == http.StatusForbidden && code == codeGate {
		return fault.Gate, true
	}
	for _, r := range table() {
		if r.status == status {
			return r.kind, true
		}
	}
	return fault.Internal, false
}
