package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Error is a failed call or attempt. Its text is made of our own words and
// numbers only: a provider's message may echo a prompt, so none is kept.
type Error struct {
	Class        ErrorClass
	Status       int           // HTTP status, 0 when there was none
	ProviderCode string        // one of the codes we know, "other", or empty
	RetryAfter   time.Duration // what the provider asked for, 0 when it did not
	RequestID    string        // the provider's, cleaned
	Envelope     bool          // the error came inside a 2xx answer
	Final        bool          // the provider says that asking it again is of no use
	NotBilled    bool          // certain that nothing was computed: refused or never sent
	Target       string        // configured name
	Attempts     int           // attempts made for the logical call
	Committed    bool          // pieces of the answer went to the consumer, who keeps them
	Reason       string        // our own short constant, such as max_tokens_required
}

// Error gives class, target, status and attempts.
func (e *Error) Error() string {
	s := "model call: " + string(e.Class)
	if e.Reason != "" {
		s += " (" + e.Reason + ")"
	}
	if e.Target != "" {
		s += fmt.Sprintf(" at %s", e.Target)
	}
	if e.Status != 0 {
		s += fmt.Sprintf(", status %d", e.Status)
	}
	if e.Attempts > 0 {
		s += fmt.Sprintf(", attempts %d", e.Attempts)
	}
	return s
}

// ClassOf gives the class of err: empty for nil, caller_gone for a bare
// context error, unknown for anything that is not ours.
func ClassOf(err error) ErrorClass {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return ClassCallerGone
	}
	return ClassUnknown
}

// Causes of the cancels that the chain makes itself.
var (
	errTotalTimeout   = errors.New("total timeout")
	errAttemptTimeout = errors.New("attempt timeout")
	errFirstToken     = errors.New("first token timeout")
	errIdle           = errors.New("stream idle")
	errTrailing       = errors.New("nothing more after the end of the answer")
	errConsumerGone   = errors.New("consumer gone")
)
