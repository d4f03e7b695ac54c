package problem_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/elnor/promptlab/internal/problem"
	"github.com/google/go-cmp/cmp"
)

func kinds() map[fault.Kind]int {
	return map[fault.Kind]int{
		fault.Malformed: 400, fault.Unauthenticated: 401, fault.Forbidden: 403, fault.Misdirected: 421,
		fault.Invalid: 422, fault.Gate: 403, fault.NotFound: 404, fault.MethodNotAllowed: 405, fault.Conflict: 409,
		fault.Gone: 410, fault.PreconditionFailed: 412, fault.TooLarge: 413, fault.UnsupportedMedia: 415, fault.Unavailable: 503,
	}
}

func write(err error) *http.Response {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	problem.Write(w, r.WithContext(problem.WithRequestID(r.Context(), "req-1")), err)
	return w.Result()
}

func TestFaultSurvivesHTTPUnchanged(t *testing.T) {
	for kind, status := range kinds() {
		t.Run(fmt.Sprintf("R-HTTP-03 kind %d is %d and back", kind, status), func(t *testing.T) {
			code := "some_code"
			if kind == fault.Gate {
				code = "gate_closed"
			}
			sent := fault.New(kind, code, "do this instead: 100%%").With(
				fault.Detail{Field: "a.b[0]", Rule: "maximum", Message: "too much"})
			resp := write(fmt.Errorf("while serving: %w", sent))
			if resp.StatusCode != status {
				t.Fatalf("status of kind %d: got %d, want %d", kind, resp.StatusCode, status)
			}
			err := problem.Read(resp)
			var got *fault.Error
			if !errors.As(err, &got) {
				t.Fatalf("read back: got %v, want a fault", err)
			}
			if problem.RemoteID(err) != "req-1" {
				t.Errorf("request id: got %q, want req-1", problem.RemoteID(err))
			}
			got.Err = nil
			if d := cmp.Diff(sent, got); d != "" {
				t.Errorf("the fault changed on the way (-sent +got):\n%s", d)
			}
		})
	}
}

func TestOnlyUnavailableIsRetryable(t *testing.T) {
	for kind := range kinds() {
		if got, want := problem.Retryable(fault.New(kind, "c", "m")), kind == fault.Unavailable; got != want {
			t.Errorf("retryable of kind %d: got %v, want %v", kind, got, want)
		}
	}
}

func TestInternalErrorsTellNothing(t *testing.T) { // R-HTTP-15
	for _, err := range []error{
		errors.New("open /home/me/ELNOR_MEMORY/x.md: SECRET"),
		fault.Wrap(fault.Internal, "odd_code", errors.New("SECRET"), "SECRET %s", "SECRET"),
	} {
		resp := write(err)
		raw, rerr := io.ReadAll(resp.Body)
		if rerr != nil {
			t.Fatal(rerr)
		}
		if resp.StatusCode != 500 || strings.Contains(string(raw), "SECRET") || strings.Contains(string(raw), "ELNOR") {
			t.Errorf("answer to %q: got %d %s, want 500 with a generic text", err, resp.StatusCode, raw)
		}
		doc, derr := contracts.Decode[contracts.APIError](raw, contracts.Stored)
		if derr != nil || doc.Error.Code != "internal" || doc.Error.RequestID != "req-1" {
			t.Errorf("body: got %+v (%v), want our shape with code internal and the request id", doc, derr)
		}
	}
}

func TestCausesAreNotSent(t *testing.T) { // R-HTTP-15
	raw, err := io.ReadAll(write(fault.Wrap(fault.Unavailable, "ec_unavailable", errors.New("SECRET"), "try again")).Body)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), "SECRET") {
		t.Errorf("body holds the cause: %s", raw)
	}
}

func TestHeaders(t *testing.T) {
	if got := write(fault.New(fault.Unauthenticated, "unauthenticated", "m")).Header.Get("WWW-Authenticate"); !strings.HasPrefix(got, "Bearer") {
		t.Errorf("WWW-Authenticate of a 401: got %q, want Bearer", got)
	}
	h := write(fault.New(fault.Unavailable, "x", "m")).Header
	if h.Get("Retry-After") == "" || h.Get("Cache-Control") != "no-store" || h.Get("Content-Type") != "application/json" {
		t.Errorf("headers of a 503: got %v", h)
	}
}

func TestReadForeignAnswers(t *testing.T) {
	ours := `{"error":{"code":"c","message":"m","details":[],"request_id":"r","retryable":false}}`
	for name, c := range map[string]struct {
		status int
		body   string
		want   fault.Kind
	}{
		"unknown status of our shape":     {http.StatusBadGateway, ours, fault.Unavailable},
		"teapot":                          {http.StatusTeapot, ours, fault.Unavailable},
		"html 404 of a proxy":             {http.StatusNotFound, "<html>", fault.Unavailable},
		"empty 401":                       {http.StatusUnauthorized, "", fault.Unavailable},
		"cut body":                        {http.StatusConflict, ours[:20], fault.Unavailable},
		"flood":                           {http.StatusConflict, strings.Repeat("x", 3<<20), fault.Unavailable},
		"ours":                            {http.StatusConflict, ours, fault.Conflict},
		"ours with a field of tomorrow":   {http.StatusGone, strings.Replace(ours, `"code"`, `"new":1,"code"`, 1), fault.Gone},
		"403 without the gate's code":     {http.StatusForbidden, ours, fault.Forbidden},
		"500 of our shape stays internal": {http.StatusInternalServerError, ours, fault.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			resp := &http.Response{StatusCode: c.status, Body: io.NopCloser(strings.NewReader(c.body))}
			err := problem.Read(resp)
			if err == nil || fault.Of(err) != c.want {
				t.Errorf("read %d %.30q: got kind %d (%v), want %d", c.status, c.body, fault.Of(err), err, c.want)
			}
		})
	}
	if err := problem.Read(&http.Response{StatusCode: 204}); err != nil {
		t.Errorf("read of a success: got %v, want nil", err)
	}
}

func TestTheObserverHearsOfEveryError(t *testing.T) {
	var heard error
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r = r.WithContext(problem.WithObserver(r.Context(), func(err error) { heard = err }))
	cause := errors.New("the cause")
	problem.Write(httptest.NewRecorder(), r, cause)
	if !errors.Is(heard, cause) {
		t.Errorf("observer: got %v, want the error with its cause", heard)
	}
}
