package contracts

import "github.com/elnor/promptlab/internal/fault"

// APIError is the body of every failure of the API.
type APIError struct {
	Error APIErrorBody `json:"error"`
}

// APIErrorBody says what went wrong, which fields are wrong, and whether the
// same request may succeed later.
type APIErrorBody struct {
	Code      string             `json:"code"`
	Message   string             `json:"message"`
	Details   List[fault.Detail] `json:"details"`
	RequestID string             `json:"request_id"`
	Retryable bool               `json:"retryable"`
}
