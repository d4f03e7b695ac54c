// Package fault holds the kinds of failure that a caller can act on.
//
// A fault is made where the reason is known and travels unchanged, also across
// processes: internal/problem maps it to HTTP and back. A fault's message and
// details are meant for people and never hold prompt text, secrets or paths;
// the wrapped cause is for logs only. Errors that no caller can act on are
// plain errors.
package fault

import (
	"errors"
	"fmt"
)

// Kind is the family of a fault. It decides the HTTP status and whether a retry
// can help; Code says exactly what happened.
type Kind int

// The kinds, in the order of checks of a request.
const (
	Internal           Kind = iota // our own mistake; nothing more is told
	Malformed                      // not JSON, bad query, bad token shape: 400
	Unauthenticated                // no or wrong credentials: 401
	Forbidden                      // right credentials, wrong role: 403
	Misdirected                    // wrong Host: 421
	Invalid                        // well-formed and wrong: 422
	Gate                           // a flag or gate is closed: 403 gate_closed
	NotFound                       // 404
	MethodNotAllowed               // 405
	Conflict                       // against the present state: 409
	Gone                           // expired: 410
	PreconditionFailed             // If-Match does not match: 412
	TooLarge                       // 413
	UnsupportedMedia               // 415
	Unavailable                    // not now; outcome may be unknown: 503, retryable
)

// Detail names one bad field.
type Detail struct {
	Field   string `json:"field"`   // path such as constraints.max_candidates or frontmatter.id
	Rule    string `json:"rule"`    // stable rule code such as maximum, unknown_key, hierarchy_attack
	Message string `json:"message"` // one sentence, without the bad value
}

// Error is a fault.
type Error struct {
	Kind    Kind
	Code    string // stable, lower snake case, e.g. validation_failed, gate_closed
	Message string // one sentence for a person, with what to do where we know it
	Details []Detail
	Err     error // cause, for logs only
}

// Error gives message, details and cause for logs; it is never sent to a client.
func (e *Error) Error() string {
	s := e.Code + ": " + e.Message
	for _, d := range e.Details {
		s += fmt.Sprintf("; %s (%s): %s", d.Field, d.Rule, d.Message)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// With adds details and returns the same fault.
func (e *Error) With(details ...Detail) *Error {
	e.Details = append(e.Details, details...)
	return e
}

// New makes a fault.
func New(kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Wrap makes a fault with a cause.
func Wrap(kind Kind, code string, err error, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Message: fmt.Sprintf(format, args...), Err: err}
}

// Validation makes the fault for a document with bad fields: 422 validation_failed.
func Validation(details []Detail) *Error {
	return &Error{Kind: Invalid, Code: "validation_failed", Message: summary(details), Details: details}
}

func summary(details []Detail) string {
	switch len(details) {
	case 0:
		return "the document is not valid"
	case 1:
		return details[0].Field + ": " + details[0].Message
	default:
		return fmt.Sprintf("%d fields are not valid; see details", len(details))
	}
}

// Of gives the kind of err: the outermost fault's, or Internal.
func Of(err error) Kind {
	var f *Error
	if errors.As(err, &f) {
		return f.Kind
	}
	return Internal
}

// Code gives the code of err: the outermost fault's, or "internal".
func Code(err error) string {
	var f *Error
	if errors.As(err, &f) {
		return f.Code
	}
	return "internal"
}
