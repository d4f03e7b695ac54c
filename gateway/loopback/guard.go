package loopback

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/elnor/promptlab/gateway"
)

// bodyTimeout bounds the arrival of a request's body.
const bodyTimeout = 30 * time.Second

// problem is an error answer in the OpenAI shape.
type problem struct {
	status  int
	code    string
	message string
	param   string
}

func bad(param, message string) *problem {
	return &problem{http.StatusBadRequest, "invalid_request", message, param}
}

// routes builds the handler. Order: host, browser, token, path, latch.
func (s *Server) routes() http.Handler {
	endpoints := map[string]func(http.ResponseWriter, *http.Request) *problem{
		"POST /v1/chat/completions": s.chat,
		"GET /v1/models":            s.models,
		"POST /v1/measure":          s.measure,
		"POST /v1/check":            s.check,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := s.guard(r)
		if p == nil {
			endpoint := endpoints[r.Method+" "+r.URL.Path]
			switch l, latched := s.Latch(); {
			case endpoint == nil:
				p = &problem{http.StatusNotFound, "not_found", "there is no such endpoint", ""}
			case latched:
				p = latchProblem(l)
			default:
				p = endpoint(w, r)
			}
		}
		if p != nil {
			s.refused.Add(1)
			writeProblem(w, p)
		}
	})
}

func (s *Server) guard(r *http.Request) *problem {
	if !strings.EqualFold(r.Host, s.host) {
		return &problem{http.StatusMisdirectedRequest, "misdirected", "this is not the host of this server", ""}
	}
	// No browser has business here, whatever page it shows.
	if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
		return &problem{http.StatusForbidden, "forbidden", "not for browsers", ""}
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	sum := sha256.Sum256([]byte(token))
	if !ok || s.dead.Load() || subtle.ConstantTimeCompare(sum[:], s.token[:]) != 1 {
		return &problem{http.StatusUnauthorized, "invalid_token", "the job's token is needed", ""}
	}
	if r.URL.RawQuery != "" {
		return bad("", "no query is accepted")
	}
	return nil
}

// body reads a whole JSON document; unknown fields are the caller's to check.
func body(w http.ResponseWriter, r *http.Request) ([]byte, *problem) {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return nil, &problem{http.StatusUnsupportedMediaType, "unsupported_media_type", "send application/json", ""}
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout)) // not supported only in tests without a connection
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	_ = rc.SetReadDeadline(time.Time{}) // as above
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, &problem{http.StatusRequestEntityTooLarge, "too_large", "the body is larger than 4 MiB", ""}
	case err != nil:
		return nil, bad("", "the body could not be read")
	}
	return b, nil
}

// parse decodes one JSON value strictly.
func parse(b []byte, into any) *problem {
	if !utf8.Valid(b) {
		return bad("", "the body is not UTF-8")
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return bad(kind.Field, "has the wrong type")
		}
		if strings.HasPrefix(err.Error(), "json: unknown field") {
			return bad("", "holds a parameter that is not supported here")
		}
		return bad("", "the body is not one JSON object")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return bad("", "the body holds more than one JSON value")
	}
	return nil
}

// fault turns a failed gateway call into an answer and latches where no later
// call can fare better.
func (s *Server) fault(err error) *problem {
	var e *gateway.Error
	if !errors.As(err, &e) {
		s.log.Error("loopback call failed", "job", s.c.JobID, "error", err)
		return &problem{http.StatusInternalServerError, "internal", "the call failed inside the worker", ""}
	}
	select {
	case <-s.cancelled:
		return latchProblem(Latch{Status: http.StatusConflict, Code: "cancelled"})
	default:
	}
	l := Latch{Class: e.Class, FailureCode: e.Class.FailureCode()}
	switch e.Class {
	case gateway.ClassJobBudget:
		l.Status, l.Code = http.StatusPaymentRequired, "budget_exhausted"
	case gateway.ClassAuth, gateway.ClassProviderQuota, gateway.ClassEntitlement, gateway.ClassModelNotFound:
		l.Status, l.Code = http.StatusForbidden, gateway.CodeProviderTerminal
	case gateway.ClassPriceUnknown:
		l.Status, l.Code = http.StatusForbidden, gateway.CodePolicyRefused
	case gateway.ClassContextOverflow:
		return &problem{http.StatusBadRequest, "context_length_exceeded", "the messages are too long for the model", "messages"}
	case gateway.ClassContentFilter:
		return &problem{http.StatusBadRequest, "content_filter", "the model's provider refused the content", "messages"}
	case gateway.ClassPolicy, gateway.ClassBadRequest, gateway.ClassUnknown:
		return &problem{http.StatusBadRequest, orElse(l.FailureCode, "invalid_request"), "the call was refused", ""}
	default: // the gateway has already retried
		return &problem{http.StatusServiceUnavailable, orElse(l.FailureCode, gateway.CodeTemporary), "the model cannot be reached now", ""}
	}
	s.close(l)
	return latchProblem(l)
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func latchProblem(l Latch) *problem {
	message := map[string]string{
		"budget_exhausted":           "the job's budget is used up",
		gateway.CodeProviderTerminal: "the model's provider refuses this job's calls",
		gateway.CodePolicyRefused:    "the rules of this installation refuse this job's calls",
		"cancelled":                  "the job was cancelled",
	}[l.Code]
	return &problem{l.Status, l.Code, message, ""}
}

// writeProblem answers in the OpenAI shape and tells clients of that kind not to
// try again by themselves.
func writeProblem(w http.ResponseWriter, p *problem) {
	w.Header().Set("X-Should-Retry", "false")
	var param any
	if p.param != "" {
		param = p.param
	}
	kind := "invalid_request_error"
	if p.status >= 500 {
		kind = "server_error"
	}
	write(w, p.status, map[string]any{"error": map[string]any{
		"message": p.message, "type": kind, "param": param, "code": p.code,
	}})
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone at worst
}
