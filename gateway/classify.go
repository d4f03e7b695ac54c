package gateway

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxErrorText bounds how much of a provider's message the phrase tables see.
const maxErrorText = 4096

// Classify maps an OpenAI-compatible error answer to an Error. It reads the
// shapes that are in use: {"error":{...}}, {"error":"text"}, {"detail":...},
// {"message":...}, a list around any of them, plain text, HTML. body may be
// cut; now is used for an HTTP-date Retry-After.
func Classify(status int, header http.Header, body []byte, now time.Time) *Error {
	return classify(Profile{}, status, header, body, now)
}

func classify(p Profile, status int, header http.Header, body []byte, now time.Time) *Error {
	w := readWire(body, p.nestedRaw)
	w.status, w.rules = status, append(slices.Clone(p.rules), order()...)
	if status < 300 {
		w.envelope = true
		// A status that the envelope itself names is the real one.
		if n, err := strconv.Atoi(w.code); err == nil && n >= 400 && n < 600 {
			w.status = n
		}
	}
	return &Error{
		Final:        strings.EqualFold(strings.TrimSpace(header.Get("X-Should-Retry")), "false"),
		Class:        w.class(),
		Status:       status,
		ProviderCode: w.knownCode(),
		RetryAfter:   RetryAfter(header, now),
		RequestID:    cleanID(header.Get("X-Request-Id")),
		Envelope:     w.envelope,
		NotBilled:    status >= 300,
	}
}

// HasError tells whether a 2xx body is an error envelope instead of an answer.
func HasError(body []byte) bool {
	var top struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &top) != nil {
		return false
	}
	return len(top.Error) > 0 && !bytes.Equal(top.Error, []byte("null"))
}

// wire is what an error answer says, lower-cased, for the tables below. It
// never leaves this file.
type wire struct {
	status   int
	envelope bool
	code     string
	kind     string // "type"
	text     string
	nested   bool // whether metadata.raw is read
	rules    []rule
}

func readWire(body []byte, nested bool) *wire {
	w := &wire{nested: nested}
	trimmed := bytes.TrimSpace(body)
	var top any
	if err := json.Unmarshal(trimmed, &top); err != nil {
		// A page is somebody's proxy talking: its words mean nothing to us.
		if !bytes.HasPrefix(trimmed, []byte("<")) && !bytes.HasPrefix(trimmed, []byte("{")) {
			w.text = lower(string(trimmed))
		}
		return w
	}
	w.read(top, 0)
	return w
}

// read collects code, type and text from the known places, outermost first.
func (w *wire) read(v any, depth int) {
	if depth > 4 {
		return
	}
	switch v := v.(type) {
	case string:
		w.addText(v)
	case []any:
		for i, e := range v {
			if i == 8 {
				return
			}
			w.read(e, depth+1)
		}
	case map[string]any:
		w.setCode(v["code"])
		w.setKind(v["type"])
		w.setKind(v["status"]) // Google's {"error":{"status":"RESOURCE_EXHAUSTED"}}
		for _, key := range []string{"message", "msg"} {
			if s, ok := v[key].(string); ok {
				w.addText(s)
			}
		}
		for _, key := range []string{"error", "detail", "errors", "innererror"} {
			w.read(v[key], depth+1)
		}
		w.readRaw(v["metadata"], depth)
	}
}

// readRaw reads an error that a router passes on from the server behind it: a
// string that may hold JSON again.
func (w *wire) readRaw(metadata any, depth int) {
	m, ok := metadata.(map[string]any)
	if !ok || !w.nested {
		return
	}
	raw, _ := m["raw"].(string)
	var inner any
	if json.Unmarshal([]byte(raw), &inner) == nil {
		w.read(inner, depth+1)
		return
	}
	w.addText(raw)
}

func (w *wire) addText(s string) {
	if len(w.text) < maxErrorText {
		w.text += " " + lower(s)
	}
}

// setCode keeps the innermost code: wrappers put their own outside.
func (w *wire) setCode(v any) {
	switch v := v.(type) {
	case string:
		w.code = lower(v)
	case float64:
		w.code = strconv.Itoa(int(v))
	}
}

func (w *wire) setKind(v any) {
	if s, ok := v.(string); ok && s != "error" {
		w.kind = lower(s)
	}
}

func lower(s string) string {
	if len(s) > maxErrorText {
		s = s[:maxErrorText]
	}
	return strings.ToLower(s)
}

// rule is one step of the order of tests; the first that holds decides.
type rule struct {
	class    ErrorClass
	statuses []int
	codes    []string // "code" or "type" is one of these
	phrases  []string // the message says one of these ...
	where    func(status int) bool
	unless   []string // ... and none of these
}

func any4xx5xx(s int) bool { return s >= 400 || s < 300 }
func not429(s int) bool    { return s != http.StatusTooManyRequests }
func only4xx(s int) bool   { return s >= 400 && s < 500 }

// order is the table. Final classes stand before passing ones, and within the
// final ones the more specific first, because providers wrap one in another: an
// overflow inside a 500, an empty account behind a 429.
func order() []rule {
	return []rule{
		{class: ClassContextOverflow, statuses: []int{413}, where: not429,
			codes: []string{"context_length_exceeded", "context_window_exceeded", "contextwindowexceedederror",
				"string_above_max_length", "request_too_large", "exceed_context_size_error", "input_too_long", "prompt_too_long"},
			phrases: []string{"maximum context length", "context length exceeded", "context_length_exceeded",
				"context window", "context size", "prompt is too long", "input is too long", "prompt too long",
				"reduce the length of the messages", "exceeds the maximum number of tokens", "maximum model length"}},
		{class: ClassProviderQuota, statuses: []int{402}, where: any4xx5xx,
			codes: []string{"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "quota_exceeded",
				"insufficient_balance", "insufficient_credits", "billing_error", "credit_balance_too_low"},
			phrases: []string{"credit balance", "exceeded your current quota", "insufficient balance",
				"insufficient credit", "insufficient_quota", "billing hard limit", "out of credits"},
			unless: []string{"per minute", "per second", "per_minute", "perminute"}},
		{class: ClassContentFilter, where: only4xx,
			codes: []string{"content_filter", "content_policy_violation", "responsibleaipolicyviolation",
				"moderation_blocked", "safety_violation", "cyber_policy_violation"},
			phrases: []string{"content management policy", "content policy", "flagged by our", "flagged as potentially", "safety system"}},
		{class: ClassAuth, statuses: []int{401, 407},
			codes: []string{"invalid_api_key", "authentication_error", "unauthenticated", "invalid_authentication",
				"missing_api_key", "expired_api_key", "api_key_invalid"}},
		{class: ClassModelNotFound, statuses: []int{404},
			codes:   []string{"model_not_found", "deploymentnotfound", "unknown_model", "model_not_available", "not_found_error"},
			where:   only4xx,
			phrases: []string{"model not found", "model does not exist", "no such model", "unknown model", "not a valid model"}},
		{class: ClassEntitlement, statuses: []int{403},
			codes: []string{"permission_error", "permission_denied", "unsupported_country_region_territory",
				"account_deactivated", "organization_restricted", "access_denied"}},
		{class: ClassRateLimit, statuses: []int{429},
			codes: []string{"rate_limit_exceeded", "rate_limit_error", "too_many_requests", "resource_exhausted",
				"tokens_exceeded", "throttling_exception", "ratelimitreached"}},
		{class: ClassOverloaded, statuses: []int{503, 529},
			codes: []string{"overloaded_error", "overloaded", "server_overloaded", "engine_overloaded",
				"service_unavailable", "unavailable", "model_overloaded"}},
		{class: ClassServer,
			codes: []string{"server_error", "internal_error", "internal_server_error", "api_error", "timeout_error"}},
	}
}

func (w *wire) class() ErrorClass {
	for _, r := range w.rules {
		if r.matches(w) {
			return r.class
		}
	}
	switch {
	case w.status == http.StatusRequestTimeout, w.status == http.StatusTooEarly, w.status >= 500:
		return ClassServer
	case w.status >= 300, w.kind == "invalid_request_error":
		return ClassBadRequest // redirects too: the address in the configuration is not the service's
	default:
		return ClassServer // an error inside a 2xx that says nothing we know
	}
}

func (r rule) matches(w *wire) bool {
	if slices.Contains(r.statuses, w.status) {
		return true
	}
	hit := w.code != "" && slices.Contains(r.codes, w.code) || w.kind != "" && slices.Contains(r.codes, w.kind)
	if !hit && r.where != nil && r.where(w.status) {
		hit = containsAny(w.text, r.phrases)
	}
	return hit && !containsAny(w.text, r.unless)
}

func containsAny(text string, phrases []string) bool {
	return slices.ContainsFunc(phrases, func(p string) bool { return strings.Contains(text, p) })
}

// knownCode gives the provider's code if the tables know it: a code is
// provider text as well, and only our own list may travel.
func (w *wire) knownCode() string {
	for _, c := range []string{w.code, w.kind} {
		if c == "" {
			continue
		}
		for _, r := range w.rules {
			if slices.Contains(r.codes, c) {
				return c
			}
		}
	}
	if w.code != "" || w.kind != "" {
		return "other"
	}
	return ""
}

// RetryAfter reads Retry-After-Ms and Retry-After (seconds or HTTP date).
// Headers that announce the reset of a window are not waits and are not read.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	const most = 24 * time.Hour
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return min(time.Duration(min(ms, 1e9)*float64(time.Millisecond)), most)
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 {
		return min(time.Duration(min(s, 1e6)*float64(time.Second)), most)
	}
	if t, err := http.ParseTime(v); err == nil && t.After(now) {
		return min(t.Sub(now), most)
	}
	return 0
}

// cleanID keeps an identifier of a provider only when it looks like one.
func cleanID(s string) string { return clean(s, "-_") }

// CleanServed keeps a served model's name only when it looks like one, and says
// "unrecognised" otherwise: it is provider text that goes into rows.
func CleanServed(s string) string {
	if s == "" {
		return ""
	}
	if c := clean(s, "-_.:/@+"); c != "" {
		return c
	}
	return "unrecognised"
}

// CleanRequestID keeps a provider's request id only when it looks like one.
func CleanRequestID(s string) string { return cleanID(s) }

func clean(s, extra string) string {
	if len(s) > 128 {
		return ""
	}
	for _, r := range s {
		known := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(extra, r)
		if !known {
			return ""
		}
	}
	return s
}
