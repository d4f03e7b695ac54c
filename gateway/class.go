package gateway

// ErrorClass is what a failure means for the next step. The list is closed:
// every failure of a call has exactly one.
type ErrorClass string

// The classes.
const (
	ClassTransport         ErrorClass = "transport"       // no connection, or it broke
	ClassAttemptTimeout    ErrorClass = "attempt_timeout" // our limit for one attempt
	ClassStreamIdle        ErrorClass = "stream_idle"
	ClassStreamTruncated   ErrorClass = "stream_truncated"
	ClassServer            ErrorClass = "server"
	ClassOverloaded        ErrorClass = "overloaded"
	ClassMalformedResponse ErrorClass = "malformed_response"
	ClassRateLimit         ErrorClass = "rate_limit"
	ClassBreakerOpen       ErrorClass = "breaker_open"
	ClassProviderQuota     ErrorClass = "provider_quota" // no money or plan left at the provider
	ClassModelNotFound     ErrorClass = "model_not_found"
	ClassEntitlement       ErrorClass = "entitlement"
	ClassAuth              ErrorClass = "auth"
	ClassBadRequest        ErrorClass = "bad_request"
	ClassContextOverflow   ErrorClass = "context_overflow"
	ClassContentFilter     ErrorClass = "content_filter"
	ClassPolicy            ErrorClass = "policy"     // refused by our own rules before any call
	ClassJobBudget         ErrorClass = "job_budget" // our budget does not allow the call
	ClassPriceUnknown      ErrorClass = "price_unknown"
	ClassSaturated         ErrorClass = "saturated" // no turn, or no money lent, in time
	ClassCallerGone        ErrorClass = "caller_gone"
	ClassUnknown           ErrorClass = "unknown"
)

// The failure codes of the worker contract that a model call can end in.
const (
	CodeRateLimited       = "provider_rate_limited"
	CodeTemporary         = "temporary_backend_error"
	CodeWorkerUnavailable = "worker_unavailable"
	CodeProviderTerminal  = "provider_terminal"
	CodePolicyRefused     = "policy_refused"
)

// traits is one line of the table that everything else reads.
type traits struct {
	retry    bool   // the same target may be asked again
	fallback bool   // another target may be asked
	breaker  bool   // counts against the target's health
	code     string // worker failure code; empty: ends the work without being a failure
}

func traitsOf(c ErrorClass) traits {
	switch c {
	case ClassTransport, ClassAttemptTimeout, ClassStreamIdle, ClassStreamTruncated,
		ClassServer, ClassOverloaded, ClassMalformedResponse:
		return traits{retry: true, fallback: true, breaker: true, code: CodeTemporary}
	case ClassRateLimit:
		return traits{retry: true, fallback: true, code: CodeRateLimited}
	case ClassBreakerOpen:
		return traits{fallback: true, code: CodeTemporary}
	case ClassProviderQuota, ClassModelNotFound, ClassEntitlement:
		return traits{fallback: true, code: CodeProviderTerminal}
	case ClassSaturated:
		return traits{code: CodeWorkerUnavailable}
	case ClassContentFilter, ClassPolicy, ClassPriceUnknown:
		return traits{code: CodePolicyRefused}
	case ClassJobBudget, ClassCallerGone:
		return traits{}
	default: // auth, bad_request, context_overflow, unknown
		return traits{code: CodeProviderTerminal}
	}
}

// Classes gives all classes, in the order of the table.
func Classes() []ErrorClass {
	return []ErrorClass{
		ClassTransport, ClassAttemptTimeout, ClassStreamIdle, ClassStreamTruncated, ClassServer,
		ClassOverloaded, ClassMalformedResponse, ClassRateLimit, ClassBreakerOpen, ClassProviderQuota,
		ClassModelNotFound, ClassEntitlement, ClassAuth, ClassBadRequest, ClassContextOverflow,
		ClassContentFilter, ClassPolicy, ClassJobBudget, ClassPriceUnknown, ClassSaturated,
		ClassCallerGone, ClassUnknown,
	}
}

// Retryable tells whether the same target may be asked again.
func (c ErrorClass) Retryable() bool { return traitsOf(c).retry }

// FallsBack tells whether another target may be asked.
func (c ErrorClass) FallsBack() bool { return traitsOf(c).fallback }

// Trips tells whether the class counts against the target's circuit breaker.
func (c ErrorClass) Trips() bool { return traitsOf(c).breaker }

// FailureCode gives the worker failure code. It is empty for job_budget, which
// ends a search and is no failure, and for caller_gone, which is a cancel.
func (c ErrorClass) FailureCode() string { return traitsOf(c).code }
