package api_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/elnor/promptlab/api"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/dispatch/broker"
)

// byNetHTTP stands for a request that never reaches us: a plain 400.
const byNetHTTP = -1

// raw sends bytes as they are and reads one answer.
func (r *rig) raw(request string) answer {
	r.t.Helper()
	c, err := (&net.Dialer{}).DialContext(r.t.Context(), "tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(c, request) }() // the server may answer before it has read all
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		r.t.Fatalf("raw request %.80q: %v", request, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatalf("raw request %.80q: read body: %v", request, err)
	}
	return answer{resp.StatusCode, resp.Header, body}
}

// request builds a raw HTTP/1.1 request.
func request(line string, body string, headers ...string) string {
	s := line + "\r\n" + strings.Join(headers, "\r\n") + "\r\n"
	if body != "" {
		s += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	return s + "Connection: close\r\n\r\n" + body
}

func TestRawRequests(t *testing.T) { // R-SEC-10
	r := newRig(t)
	_, port, _ := strings.Cut(r.addr, ":")
	host := "Host: " + r.addr
	auth := "Authorization: Bearer " + token(ec.RoleUser)
	operator := "Authorization: Bearer " + token(ec.RoleOperator)
	jsonType := "Content-Type: application/json"
	cookie := "Cookie: " + r.login(ec.RoleUser)
	overlay := func(id string) string { return overlayBody(id, "Text.\n") }
	const get, post = "GET /api/overlays HTTP/1.1", "POST /api/overlays HTTP/1.1"
	for _, c := range []struct {
		name, raw string
		status    int
	}{
		{"own page reads", request(get, "", host, cookie, "Sec-Fetch-Site: same-origin"), 200},
		{"own page writes", request(post, overlay("by-page"), host, cookie, jsonType, "Origin: http://"+r.addr, "Sec-Fetch-Site: same-origin"), 201},
		{"command line writes", request(post, overlay("by-cli"), host, auth, jsonType), 201},
		{"localhost is us too", request(get, "", "Host: LocalHost:"+port, auth), 200},
		{"ipv6 loopback is us too", request(get, "", "Host: [::1]:"+port, auth), 200},
		{"rebinding read (CVE-2018-5702, CVE-2024-28224)", request(get, "", "Host: evil.example:"+port, "Origin: http://evil.example:"+port, "Sec-Fetch-Site: same-origin", cookie), 421},
		{"rebinding write (CVE-2025-66414, CVE-2025-66416)", request(post, overlay("evil"), "Host: evil.example:"+port, "Origin: http://evil.example:"+port, "Sec-Fetch-Site: same-origin", cookie, jsonType), 421},
		{"rebinding without Origin (UI-TARS-desktop 1975)", request("GET / HTTP/1.1", "", "Host: evil.example:"+port), 421},
		{"localhost as a label", request(get, "", "Host: localhost.evil.example:"+port, auth), 421},
		{"loopback in a wildcard name", request(get, "", "Host: 127.0.0.1.nip.io:"+port, auth), 421},
		{"unspecified address (0.0.0.0 day)", request(get, "", "Host: 0.0.0.0:"+port, auth), 421},
		{"no port", request(get, "", "Host: 127.0.0.1", auth), 421},
		{"other port", request(get, "", "Host: 127.0.0.1:1", auth), 421},
		{"trailing dot", request(get, "", "Host: localhost.:"+port, auth), 421},
		{"user info in the name", request(get, "", "Host: "+r.addr+"@evil.example", auth), byNetHTTP},
		{"absolute form of somebody else", request("GET http://evil.example/api/overlays HTTP/1.1", "", host, auth), 421},
		{"absolute form of ours", request("GET http://"+r.addr+"/api/overlays HTTP/1.1", "", "Host: evil.example", auth), 200},
		{"X-Forwarded-Host is nothing to us", request(get, "", "Host: evil.example:"+port, "X-Forwarded-Host: "+r.addr, "Forwarded: host="+r.addr, auth), 421},
		{"HTTP/1.0 without Host", "GET /api/overlays HTTP/1.0\r\n" + auth + "\r\n\r\n", 421},
		{"cross-site form", request(post, "a=b", host, cookie, "Origin: http://evil.example", "Sec-Fetch-Site: cross-site", "Content-Type: text/plain"), 403},
		{"cross-site form of an old browser", request(post, "a=b", host, cookie, "Origin: http://evil.example", "Content-Type: text/plain"), 403},
		{"Origin null", request(post, overlay("evil"), host, cookie, jsonType, "Origin: null"), 403},
		{"same site, other port", request(post, overlay("evil"), host, cookie, jsonType, "Origin: http://127.0.0.1:1", "Sec-Fetch-Site: same-site"), 403},
		{"same host, other scheme", request(get, "", host, cookie, "Origin: https://"+r.addr), 403},
		{"two origins", request(get, "", host, cookie, "Origin: http://"+r.addr, "Origin: http://evil.example"), 403},
		{"cross-site read by an image", request(get, "", host, cookie, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"), 403},
		{"cross-site stream (CVE-2025-49596)", request("GET /api/events?after=0 HTTP/1.1", "", host, cookie, "Sec-Fetch-Site: cross-site"), 403},
		{"stream without a token (CVE-2025-49596)", request("GET /api/events?after=0 HTTP/1.1", "", host), 401},
		{"no browser headers, text/plain", request(post, overlay("evil"), host, cookie, "Content-Type: text/plain"), 415},
		{"cookie, no body, no type", request("POST /api/overlays/by-cli/archive HTTP/1.1", "", host, cookie), 415},
		{"header token, no body, no type", request("POST /api/overlays/by-cli/archive HTTP/1.1", "", host, auth), 200},
		{"token in the address", request("GET /api/overlays?token="+token(ec.RoleUser)+" HTTP/1.1", "", host), 400},
		{"token in the address under another name", request("GET /api/overlays?query="+token(ec.RoleUser)+" HTTP/1.1", "", host, auth), 400},
		{"body of 2 MiB", request(post, strings.Repeat("x", 2<<20), host, auth, jsonType), 413},
		{"body of 2 MiB without a length", chunked(post, 2<<20, host, auth, jsonType), 413},
		{"dashboard without credentials", request("GET /dashboard/api/queues HTTP/1.1", "", host), 401},
		{"dashboard paused by another site", request("POST /dashboard/api/queues/default:pause HTTP/1.1", "", host, operator, "Origin: http://evil.example", "Sec-Fetch-Site: cross-site", "Content-Length: 0"), 403},
		{"two credentials", request(get, "", host, auth, auth), 401},
		{"good cookie beside a bad token", request(get, "", host, cookie, "Authorization: Bearer nonsense"), 401},
		{"token with a tail", request(get, "", host, auth+"x"), 401},
		{"empty token", request(get, "", host, "Authorization: Bearer "), 401},
		{"OPTIONS star", request("OPTIONS * HTTP/1.1", "", host), 204},
		{"TRACE", request("TRACE /api/overlays HTTP/1.1", "", host, auth, jsonType), 405},
		{"encoded dot segments", request("GET /api/%2e%2e/metrics HTTP/1.1", "", host, auth), 400},
		{"two Host headers", request(get, "", host, "Host: evil.example", auth), byNetHTTP},
		{"length and chunks", request(post, "", host, auth, jsonType, "Content-Length: 5", "Transfer-Encoding: chunked") + "0\r\n\r\n", 400},
	} {
		t.Run("R-SEC-10 "+c.name, func(t *testing.T) {
			r := &rig{t: t, addr: r.addr}
			a := r.raw(c.raw)
			if c.status == byNetHTTP {
				if a.status != 400 {
					t.Fatalf("got %d %s, want net/http to refuse it", a.status, a.body)
				}
				return
			}
			if a.status != c.status {
				t.Fatalf("got %d %s, want %d", a.status, a.body, c.status)
			}
			if c.status >= 400 {
				r.want(c.name, a, c.status, "")
			}
			for name := range a.header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("answer permits another origin: %s", name)
				}
			}
		})
	}
	list := r.ask(ec.RoleUser, "GET", "/api/overlays?include_archived=true", "")
	if strings.Contains(string(list.body), "evil") {
		t.Errorf("a refused request changed something: %s", list.body)
	}
	if strings.Contains(r.log.String(), token(ec.RoleUser)) {
		t.Error("the log holds a token")
	}
}

func chunked(line string, size int, headers ...string) string {
	return line + "\r\n" + strings.Join(headers, "\r\n") + "\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" +
		fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", size, strings.Repeat("x", size))
}

func TestPreflightGetsNoPermission(t *testing.T) { // R-SEC-10
	r := newRig(t)
	a := r.ask("", "OPTIONS", "/api/overlays", "", "Content-Type", "", "Access-Control-Request-Method", "POST")
	if a.status != 204 || len(a.body) != 0 || a.header.Get("Allow") != "" {
		t.Errorf("OPTIONS: got %d %s %v, want a bare 204", a.status, a.body, a.header)
	}
	a = r.ask("", "OPTIONS", "/api/overlays", "", "Content-Type", "", "Origin", "http://evil.example", "Access-Control-Request-Method", "POST")
	if a.status != 403 || a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("preflight of another origin: got %d %v, want 403", a.status, a.header)
	}
}

func TestEveryAnswerCarriesTheHeaders(t *testing.T) { // R-SEC-10
	r := newRig(t, func(c *api.Config) {
		c.Console = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("console broke: SECRET") })
	})
	for path, status := range map[string]int{
		"/healthz": 200, "/api/overlays": 200, "/api/none": 404, "/openapi.json": 200, "/login": 200, "/": 500, "/metrics": 403,
	} {
		a := r.ask(ec.RoleUser, "GET", path, "")
		if a.status != status {
			t.Errorf("GET %s: got %d, want %d", path, a.status, status)
		}
		csp := a.header.Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'self';") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") {
			t.Errorf("GET %s: policy %q", path, csp)
		}
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := a.header.Get(name); got != want {
				t.Errorf("GET %s: %s is %q, want %q", path, name, got, want)
			}
		}
		if strings.HasPrefix(path, "/api") && a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("GET %s may be stored", path)
		}
	}
}

func TestPanicIsAnAnswer(t *testing.T) { // R-HTTP-03, R-HTTP-15
	r := newRig(t, func(c *api.Config) {
		c.Console = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/late" {
				_, _ = io.WriteString(w, "half of it")
				_ = http.NewResponseController(w).Flush()
			}
			panic("console broke: SECRET")
		})
	})
	a := r.ask(ec.RoleUser, "GET", "/", "")
	r.want("panic", a, 500, "internal")
	if strings.Contains(string(a.body), "SECRET") {
		t.Errorf("the answer tells the cause: %s", a.body)
	}
	if !strings.Contains(r.log.String(), "console broke") {
		t.Error("the log does not tell the cause")
	}
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	fmt.Fprint(c, request("GET /late HTTP/1.1", "", "Host: "+r.addr, "Authorization: Bearer "+token(ec.RoleUser)))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("a broken answer looks whole: %q", body)
	}
}

func TestDashboard(t *testing.T) { // R-SEC-10
	b, err := broker.Open(broker.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	r := newRig(t, func(c *api.Config) { c.Dashboard = b.Dashboard("/dashboard") })
	for _, path := range []string{"/dashboard", "/dashboard/", "/dashboard/queues/default"} {
		a := r.ask(ec.RoleOperator, "GET", path, "")
		csp := a.header.Get("Content-Security-Policy")
		if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Fatalf("GET %s: %d %v", path, a.status, a.header)
		}
		scripts := 0
		for rest := string(a.body); ; scripts++ {
			_, after, more := strings.Cut(rest, "<script>")
			if !more {
				break
			}
			var script string
			script, rest, _ = strings.Cut(after, "</script>")
			sum := sha256.Sum256([]byte(script))
			if want := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(csp, want) {
				t.Errorf("GET %s: the policy %q does not let the page's own script run (%s)", path, csp, want)
			}
		}
		if scripts == 0 || strings.Contains(strings.Split(csp, "style-src")[0], "unsafe") {
			t.Errorf("GET %s: %d inline scripts, policy %q", path, scripts, csp)
		}
	}
	a := r.ask(ec.RoleOperator, "GET", "/dashboard/api/queues", "")
	if a.status != 200 || strings.Contains(a.header.Get("Content-Type"), "html") || !strings.Contains(string(a.body), "queues") {
		t.Errorf("list of queues: %d %v %s", a.status, a.header, a.body)
	}
	r.want("nobody", r.ask("", "GET", "/dashboard/api/queues", ""), 401, "unauthenticated")
	for _, method := range []string{"POST", "DELETE", "PUT", "PATCH"} {
		r.want(method, r.ask(ec.RoleOperator, method, "/dashboard/api/queues/default:pause", "{}"), 405, "method_not_allowed")
	}
}
