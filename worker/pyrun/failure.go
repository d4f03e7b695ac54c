package pyrun

import "github.com/elnor/promptlab/contracts"

// Failure is why a run gave no result. Code is a failure code of the job contract
// or, from an error event, one as received; Message is for people and holds
// nothing of the request.
type Failure struct { //nolint:errname // what it is called everywhere: a failure with a failure code
	Code      string
	Message   string
	Retryable bool
	Err       error // cause, for logs only
}

// Error gives code, message and cause.
func (f *Failure) Error() string {
	s := f.Code + ": " + f.Message
	if f.Err != nil {
		s += ": " + f.Err.Error()
	}
	return s
}

// Unwrap gives the cause.
func (f *Failure) Unwrap() error { return f.Err }

func unavailable(err error, message string) *Failure {
	return &Failure{Code: contracts.FailWorkerUnavailable, Message: message, Retryable: true, Err: err}
}

func temporary(err error, message string) *Failure {
	return &Failure{Code: contracts.FailTemporary, Message: message, Retryable: true, Err: err}
}
