package api_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/elnor/promptlab/api"
	"github.com/elnor/promptlab/ec"
)

// login opens a login link and gives the cookie as NAME=VALUE.
func (r *rig) login(role ec.Role) string {
	r.t.Helper()
	a := r.ask("", "GET", path(r.t, r.srv.LoginLink(role)), "")
	if a.status != http.StatusSeeOther || a.header.Get("Location") != "/" {
		r.t.Fatalf("login: got %d %s, want a way to /", a.status, a.body)
	}
	pair, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	return pair
}

func path(t *testing.T, link string) string {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	return u.RequestURI()
}

func TestLoginLinkWorksOnce(t *testing.T) { // R-SEC-10
	r := newRig(t)
	link := r.srv.LoginLink(ec.RoleUser)
	if !strings.HasPrefix(link, "http://"+r.addr+"/login?code=") {
		t.Fatalf("link: %s", link)
	}
	a := r.ask("", "GET", path(t, link), "", "Sec-Purpose", "prefetch")
	if a.status != 200 || a.header.Get("Set-Cookie") != "" {
		t.Errorf("prefetch: got %d %v, want a page and no cookie", a.status, a.header)
	}
	a = r.ask("", "GET", path(t, link), "", "Sec-Fetch-Site", "none")
	cookie := a.header.Get("Set-Cookie")
	if a.status != http.StatusSeeOther || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict") || !strings.Contains(cookie, "Path=/") {
		t.Fatalf("login: got %d, cookie %q", a.status, cookie)
	}
	pair, _, _ := strings.Cut(cookie, ";")
	r.want("with the cookie", r.ask("", "GET", "/api/overlays", "", "Cookie", pair), 200, "")
	r.want("a user's cookie is a user's", r.ask("", "GET", "/metrics", "", "Cookie", pair), 403, "forbidden")
	again := r.ask("", "GET", path(t, link), "")
	r.want("second use", again, 401, "unauthenticated")
	if again.header.Get("Set-Cookie") != "" {
		t.Error("second use sets a cookie")
	}
	code := strings.TrimPrefix(path(t, link), "/login?code=")
	if strings.Contains(r.log.String(), code) || strings.Contains(r.log.String(), strings.Split(pair, "=")[1]) {
		t.Error("the log holds a login code or a session")
	}
}

func TestLoginByCode(t *testing.T) {
	r := newRig(t)
	code := strings.TrimPrefix(path(t, r.srv.LoginLink(ec.RoleOperator)), "/login?code=")
	a := r.ask("", "POST", "/login", `{"code":"`+code+`"}`)
	r.want("good code", a, 200, "")
	pair, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	r.want("operator's cookie", r.ask("", "GET", "/metrics", "", "Cookie", pair), 200, "")
	r.want("used code", r.ask("", "POST", "/login", `{"code":"`+code+`"}`), 401, "unauthenticated")
	r.want("a token is not a code", r.ask("", "POST", "/login", `{"code":"`+token(ec.RoleUser)+`"}`), 401, "unauthenticated")
}

func TestUnusedLinksAreBounded(t *testing.T) {
	r := newRig(t)
	first := r.srv.LoginLink(ec.RoleUser)
	for range 16 {
		r.srv.LoginLink(ec.RoleUser)
	}
	r.want("the oldest of 17 links", r.ask("", "GET", path(t, first), ""), 401, "unauthenticated")
}

func TestBrowserWithoutLoginGetsAPage(t *testing.T) {
	r := newRig(t)
	a := r.ask("", "GET", "/", "", "Accept", "text/html,*/*")
	if a.status != 401 || !strings.Contains(string(a.body), "<form") || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
		t.Errorf("GET / of a browser: got %d %s, want 401 with a page", a.status, a.body)
	}
	a = r.ask("", "GET", "/dashboard", "", "Accept", "text/html,*/*")
	if a.status != 401 || !strings.Contains(string(a.body), "<form") {
		t.Errorf("the dashboard in a browser without a login: %d %.100s, want the login page", a.status, a.body)
	}
	r.want("a program gets our shape", r.ask("", "GET", "/", "", "Accept", "*/*"), 401, "unauthenticated")
	r.want("the API is not a page", r.ask("", "GET", "/api/overlays", "", "Accept", "text/html"), 401, "unauthenticated")
	a = r.ask(ec.RoleUser, "GET", "/", "")
	for _, want := range []string{"1.2.3", "/openapi.json", "/dashboard", "promptlab flags set prompt_lab on"} {
		if !strings.Contains(string(a.body), want) {
			t.Errorf("built-in page lacks %q: %s", want, a.body)
		}
	}
}

func TestTLSChangesSchemes(t *testing.T) {
	r := newRig(t, func(c *api.Config) { c.TLS = true })
	if link := r.srv.LoginLink(ec.RoleUser); !strings.HasPrefix(link, "https://") {
		t.Errorf("link: %s", link)
	}
	a := r.ask("", "GET", path(t, r.srv.LoginLink(ec.RoleUser)), "")
	if !strings.Contains(a.header.Get("Set-Cookie"), "Secure") {
		t.Errorf("cookie: %s", a.header.Get("Set-Cookie"))
	}
	r.want("origin of the plain scheme", r.ask(ec.RoleUser, "GET", "/api/overlays", "", "Origin", "http://"+r.addr), 403, "forbidden")
	r.want("origin of ours", r.ask(ec.RoleUser, "GET", "/api/overlays", "", "Origin", "https://"+r.addr), 200, "")
}
