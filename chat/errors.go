package chat

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/elnor/promptlab/internal/problem"
)

// The types of errors that clients of this kind know.
const (
	kindRequest   = "invalid_request_error"
	kindAuth      = "authentication_error"
	kindForbidden = "permission_error"
	kindRate      = "rate_limit_error"
	kindServer    = "server_error"
)

// apiError is a failure in the shape that these clients read.
type apiError struct {
	status  int
	kind    string
	code    string
	message string
	param   string
	details []fault.Detail
	retry   int // seconds; 0: none told
	err     error
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

func (e *apiError) Unwrap() error { return e.err }

// errorBody is the wire form.
type errorBody struct {
	Error struct {
		Message   string         `json:"message"`
		Type      string         `json:"type"`
		Param     *string        `json:"param"`
		Code      string         `json:"code"`
		Details   []fault.Detail `json:"details,omitempty"`
		RequestID string         `json:"request_id,omitempty"`
	} `json:"error"`
}

func (e *apiError) body(requestID string) errorBody {
	var b errorBody
	b.Error.Message, b.Error.Type, b.Error.Code = e.message, e.kind, e.code
	b.Error.Details, b.Error.RequestID = e.details, requestID
	if e.param != "" {
		b.Error.Param = &e.param
	}
	return b
}

// badRequest names every bad field in one error.
func badRequest(details ...fault.Detail) *apiError {
	parts := make([]string, len(details))
	for i, d := range details {
		parts[i] = d.Field + " " + d.Message
	}
	return &apiError{
		status: http.StatusBadRequest, kind: kindRequest, code: "validation_failed", param: details[0].Field,
		message: "the request is not valid: " + strings.Join(parts, "; "), details: details,
	}
}

// errorOf makes any failure one of these.
func errorOf(err error) *apiError {
	var own *apiError
	if errors.As(err, &own) {
		return own
	}
	var g *gateway.Error
	if errors.As(err, &g) {
		return modelError(g)
	}
	var f *fault.Error
	if errors.As(err, &f) {
		return faultError(f)
	}
	return &apiError{status: http.StatusInternalServerError, kind: kindServer, code: "internal", message: "something went wrong on our side; the log has the cause under this request id", err: err}
}

// faultError carries a fault of EC over: of a plan that has expired, say.
func faultError(f *fault.Error) *apiError {
	e := &apiError{status: problem.Status(f), kind: kindRequest, code: f.Code, message: f.Message, details: f.Details, err: f}
	if len(f.Details) > 0 {
		e.param = f.Details[0].Field
	}
	switch f.Kind {
	case fault.Invalid:
		e.status = http.StatusBadRequest
		if len(f.Details) > 0 { // clients show the message alone
			e.message = badRequest(f.Details...).message
		}
	case fault.Unauthenticated:
		e.kind = kindAuth
	case fault.Forbidden, fault.Gate:
		e.kind = kindForbidden
	case fault.Internal:
		return errorOf(errors.New(f.Error()))
	case fault.Unavailable:
		e.kind = kindServer
	}
	return e
}

// modelError says what a failed model call means for a client. The gateway has
// already tried again where that can help.
func modelError(g *gateway.Error) *apiError {
	e := &apiError{status: http.StatusBadGateway, kind: kindServer, code: string(g.Class), err: g}
	switch g.Class {
	case gateway.ClassRateLimit:
		e.status, e.kind, e.message = http.StatusTooManyRequests, kindRate, "the model's provider limits the rate of calls"
		e.retry = int(g.RetryAfter.Seconds())
	case gateway.ClassProviderQuota:
		e.status, e.kind, e.code, e.message = http.StatusTooManyRequests, "insufficient_quota", "insufficient_quota", "the account at the model's provider has nothing left"
	case gateway.ClassModelNotFound:
		e.status, e.kind, e.message = http.StatusNotFound, kindRequest, "the provider does not know the configured model"
	case gateway.ClassEntitlement:
		e.status, e.kind, e.message = http.StatusForbidden, kindForbidden, "the provider's account may not use the configured model"
	case gateway.ClassContextOverflow:
		e.status, e.kind, e.code, e.param = http.StatusBadRequest, kindRequest, "context_length_exceeded", "messages"
		e.message = "the messages and the session's overlays are too long for the model"
	case gateway.ClassContentFilter:
		e.status, e.kind, e.param, e.message = http.StatusBadRequest, kindRequest, "messages", "the model's provider refused the content"
	case gateway.ClassBadRequest, gateway.ClassPolicy:
		if g.Reason == gateway.ReasonNotActive {
			e.status, e.kind, e.code = http.StatusServiceUnavailable, kindServer, gateway.ReasonNotActive
			e.message = "the model " + g.Target + " is configured in a version that nobody has activated; promptlab models list says more"
			break
		}
		e.status, e.kind, e.message = http.StatusBadRequest, kindRequest, "the request cannot be sent to the model"
		if g.Reason != "" {
			e.message += ": " + strings.ReplaceAll(g.Reason, "_", " ")
		}
	case gateway.ClassJobBudget, gateway.ClassPriceUnknown:
		e.status, e.kind, e.message = http.StatusPaymentRequired, kindRequest, "the budget does not allow the call"
	case gateway.ClassAttemptTimeout:
		e.status, e.message = http.StatusGatewayTimeout, "the model did not answer in time"
	case gateway.ClassStreamIdle, gateway.ClassStreamTruncated:
		e.message = brokeOff
	case gateway.ClassOverloaded, gateway.ClassBreakerOpen, gateway.ClassSaturated:
		e.status, e.message = http.StatusServiceUnavailable, "the model is overloaded; try again later"
	case gateway.ClassAuth:
		e.message = "the key of the model's provider is missing or refused; promptlab doctor says which"
	case gateway.ClassCallerGone:
		e.status, e.message = 499, "the client left"
	default:
		e.message = "the model cannot be reached now"
		if g.Committed {
			e.message = brokeOff
		}
	}
	return e
}

const brokeOff = "the model's answer stopped before its end"

// write answers with the error. These clients are told not to try again by
// themselves: whoever can, has.
func (e *apiError) write(w http.ResponseWriter, body any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Should-Retry", "false")
	if e.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(e.retry))
	}
	if e.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="promptlab"`)
	}
	w.WriteHeader(e.status)
	b, err := json.Marshal(body)
	if err != nil {
		panic("chat: encode error: " + err.Error()) // strings only
	}
	_, _ = w.Write(append(b, '\n')) // the reader may be gone
}
