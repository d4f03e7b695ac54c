package api

import (
	"context"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/fault"
)

// LoginLink gives an address that logs a browser in with a role, once, while
// this process lives.
func (s *Server) LoginLink(role ec.Role) string {
	scheme := "http"
	if s.cfg.TLS {
		scheme = "https"
	}
	u := url.URL{Scheme: scheme, Host: s.cfg.Hosts[0], Path: "/login", RawQuery: "code=" + s.keys.newCode(role)}
	return u.String()
}

// loginCode is the body of POST /login.
type loginCode struct {
	Code string `json:"code" minLength:"1" maxLength:"200"`
}

// loginReply says who is logged in now.
type loginReply struct {
	Role string `json:"role"`
}

func (s *Server) loginRoutes() {
	code := param{name: "code", kind: paramString, max: 200, about: "The one-time code of a login link."}
	s.register(op{id: "login", method: http.MethodGet, path: "/login", summary: "Log a browser in with a one-time link",
		query: []param{code}, public: true, media: "text/html"}, s.login)
	add(s, op{id: "login-code", method: http.MethodPost, path: "/login", summary: "Log in with a one-time code", public: true, limit: 4 << 10},
		s.loginByCode)
}

func (s *Server) login(w http.ResponseWriter, r *http.Request, q values) error {
	code := q.str("code")
	// A prefetch is not a person: it would use the link up.
	if code == "" || strings.Contains(r.Header.Get("Sec-Purpose"), "prefetch") {
		s.loginPage(w, http.StatusOK)
		return nil
	}
	cookie, _, err := s.startSession(code)
	if err != nil {
		if !wantsHTML(r) {
			return err
		}
		exchangeOf(r.Context()).err = err
		s.loginPage(w, http.StatusUnauthorized)
		return nil
	}
	http.SetCookie(w, cookie)
	w.Header().Set("Location", "/")
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

func (s *Server) loginByCode(_ context.Context, c call[loginCode]) (reply[loginReply], error) {
	cookie, role, err := s.startSession(c.body.Code)
	return reply[loginReply]{body: loginReply{Role: string(role)}, cookie: cookie}, err
}

func (s *Server) startSession(code string) (*http.Cookie, ec.Role, error) {
	session, role, ok := s.keys.exchange(code)
	if !ok {
		return nil, "", fault.New(fault.Unauthenticated, "unauthenticated", "this login link has been used or belongs to an earlier start")
	}
	return &http.Cookie{
		Name: s.keys.cookieName, Value: session, Path: "/",
		HttpOnly: true, Secure: s.cfg.TLS, SameSite: http.SameSiteStrictMode,
	}, role, nil
}

const loginHTML = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Prompt Lab: log in</title></head>
<body><main><h1>Prompt Lab</h1>
<p>{{if .Refused}}That login is not valid (any more). {{end}}Open the login link that promptlab printed when it started, or paste its code:</p>
<form method="get" action="/login"><label>Code <input name="code" autocomplete="off" required></label> <button>Log in</button></form>
<p>With a login: <a href="/docs">the API, to read</a>.</p>
</main></body></html>
`

const pageHTML = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Prompt Lab</title></head>
<body><main><h1>Prompt Lab {{.Version}}</h1>
<p>{{.Status.Overlays}} overlays, {{.Status.JobsOpen}} open jobs, revision {{.Status.Revision}}.{{if .Status.Simulated}} Models are simulated.{{end}}</p>
<ul>{{range .Status.Gates}}<li>{{.Name}}: {{if .Open}}on{{else}}{{.Reason}}{{end}}</li>{{end}}</ul>
<p><a href="/docs">The API, to read</a>, <a href="/openapi.json">as OpenAPI</a>{{if .Dashboard}}, <a href="/dashboard">queue dashboard</a> (operator){{end}}</p>
</main></body></html>
`

func (s *Server) loginPage(w http.ResponseWriter, status int) {
	s.html(w, status, loginHTML, struct{ Refused bool }{status != http.StatusOK})
}

// page is the console when there is none: what runs, and where to look.
func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	exchangeOf(r.Context()).route = "/"
	switch {
	case r.URL.Path != "/":
		exchangeOf(r.Context()).route = "unmatched"
		s.fail(w, r, fault.New(fault.NotFound, "not_found", "there is nothing at this address"))
	case !reads(r.Method):
		w.Header().Set("Allow", "GET, HEAD")
		s.fail(w, r, fault.New(fault.MethodNotAllowed, "method_not_allowed", "this address is for reading only"))
	default:
		s.html(w, http.StatusOK, pageHTML, struct {
			Version   string
			Status    contracts.Status
			Dashboard bool
		}{s.cfg.Version, s.statusNow(), s.cfg.Dashboard != nil})
	}
}

func (s *Server) html(w http.ResponseWriter, status int, text string, data any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = template.Must(template.New("page").Parse(text)).Execute(w, data) // the reader may be gone
}
