package api

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/elnor/promptlab/internal/wall"
)

type areaKind int

const (
	areaConsole areaKind = iota
	areaPublic           // no credentials
	areaAPI
	areaMetrics
	areaDoor
	areaSeam
	areaInternal // nothing is there
	areaDashboard
	areaDocs // a page, answered by the router
)

// area is a part of the address space with one policy.
type area struct {
	kind        areaKind
	label       string    // route label until a route is known
	read, write []ec.Role // who may come in
	limit       int64     // body bytes, an operation may allow less
}

const (
	smallBody = 1 << 20
	largeBody = 32 << 20
)

// Who may come into an area.
var ( //nolint:gochecknoglobals // constants that Go cannot write
	people   = []ec.Role{ec.RoleUser, ec.RoleOperator}
	readers  = []ec.Role{ec.RoleUser, ec.RoleOperator, ec.RoleAgent}
	operator = []ec.Role{ec.RoleOperator}
	worker   = []ec.Role{ec.RoleWorker}
	seam     = []ec.Role{ec.RoleSeam}
	inside   = []ec.Role{ec.RoleSeam, ec.RoleWorker}
)

// areaOf gives the policy of a path. The path is the decoded one that routing
// uses too, and guard has refused paths that are not clean.
func areaOf(p string) area {
	under := func(prefix string) bool { return p == prefix || strings.HasPrefix(p, prefix+"/") }
	switch {
	case p == "/healthz", p == "/readyz", p == "/login":
		return area{kind: areaPublic, label: "unmatched", limit: 4 << 10}
	case p == "/metrics":
		return area{kind: areaMetrics, label: "unmatched", read: operator, limit: 0}
	case under("/api"), p == "/openapi.json":
		return area{kind: areaAPI, label: "unmatched", read: readers, write: people, limit: largeBody}
	case under("/internal/worker"):
		return area{kind: areaDoor, label: "/internal/worker/*", read: worker, write: worker, limit: largeBody}
	case under("/internal/doc17"):
		return area{kind: areaSeam, label: "unmatched", read: seam, write: seam, limit: smallBody}
	case under("/internal"):
		return area{kind: areaInternal, label: "unmatched", read: inside, write: inside, limit: smallBody}
	case under("/dashboard"):
		return area{kind: areaDashboard, label: "/dashboard/*", read: operator, write: operator, limit: smallBody}
	case p == "/docs", p == "/docs.css":
		return area{kind: areaDocs, label: "unmatched", read: people, write: people, limit: smallBody}
	default:
		return area{kind: areaConsole, label: "/*", read: people, write: people, limit: smallBody}
	}
}

func reads(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// guard is the wall. Its order is part of its meaning: who asks from where,
// before who asks, before what is asked. done says that it has answered itself.
func (s *Server) guard(x *exchange, r *http.Request, where area) (done bool, err error) {
	if reason, err := s.wall.Check(r); err != nil {
		x.denied = reason
		return false, err
	}
	if r.Method == http.MethodOptions { // the same for every path, and no permission for anybody
		x.WriteHeader(http.StatusNoContent)
		return true, nil
	}
	if !wall.CleanPath(r.URL) {
		x.denied = denyPath
		return false, fault.New(fault.Malformed, "bad_request", "the path is not in its plain form")
	}
	if s.tokenInQuery(r.URL) {
		x.denied = denyTokenInURL
		return false, fault.New(fault.Malformed, "bad_request", "credentials do not belong into an address; send them in the Authorization header, and make new ones now: promptlab token rotate")
	}
	if where.kind != areaPublic {
		if err := s.authenticate(x, r); err != nil {
			return false, err
		}
		allowed := where.write
		if reads(r.Method) {
			allowed = where.read
		}
		if !slices.Contains(allowed, x.role) {
			x.denied = denyRole
			return false, wrongRole(x.role)
		}
	}
	return false, checkMedia(x, r, where)
}

func wrongRole(role ec.Role) error {
	return fault.New(fault.Forbidden, "forbidden", "the role %s may not do this", role)
}

// shortestToken is less than any token has characters; what is shorter is none.
const shortestToken = 20

// tokenInQuery finds credentials in an address, by name or by value.
func (s *Server) tokenInQuery(u *url.URL) bool {
	if u.RawQuery == "" {
		return false
	}
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, nameErr := url.QueryUnescape(name)
		value, valueErr := url.QueryUnescape(value)
		if nameErr != nil || valueErr != nil || strings.Contains(pair, ";") {
			continue // what can be read is looked at; the route refuses the rest
		}
		switch strings.ToLower(strings.Trim(name, " -_")) {
		case "token", "access_token", "access-token", "auth_token", "auth", "authorization", "bearer", "api_key", "api-key", "apikey", "password":
			return true
		}
		if s.isCredential(value) || s.isCredential(name) {
			return true
		}
	}
	return false
}

func (s *Server) isCredential(v string) bool {
	if len(v) < shortestToken {
		return false
	}
	_, ok := s.keys.token(v)
	return ok || contracts.IsSessionAPIKey(v)
}

// authenticate finds out the role. A header that is there decides: a wrong one
// is not made good by a cookie.
func (s *Server) authenticate(x *exchange, r *http.Request) error {
	headers := r.Header.Values("Authorization")
	if len(headers) == 0 {
		if c, err := r.Cookie(s.keys.cookieName); err == nil {
			if role, ok := s.keys.session(c.Value); ok {
				x.role, x.cookie = role, true
				return nil
			}
			x.denied = denyBadToken
			return fault.New(fault.Unauthenticated, "unauthenticated", "the login has ended; open the link that promptlab printed")
		}
		x.denied = denyNoToken
		return fault.New(fault.Unauthenticated, "unauthenticated", "credentials are needed: Authorization: Bearer TOKEN")
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	role, ok := s.keys.token(token)
	if len(headers) != 1 || !strings.EqualFold(scheme, "Bearer") || !ok {
		x.denied = denyBadToken
		return fault.New(fault.Unauthenticated, "unauthenticated", "the credentials are not valid")
	}
	x.role = role
	return nil
}

// checkMedia demands JSON of everything that writes, which a page of somebody
// else's cannot send unasked. A program with a header token may leave the type
// out when it sends no body: that header has the same effect.
func checkMedia(x *exchange, r *http.Request, where area) error {
	if reads(r.Method) || methodLabel(r.Method) == "other" || where.kind == areaPublic && r.URL.Path != "/login" { // nothing takes those
		return nil
	}
	types := r.Header.Values("Content-Type")
	bare := len(types) == 0 && r.ContentLength == 0 && x.role != "" && !x.cookie
	if !bare && (len(types) != 1 || !wall.JSON(types[0])) || r.Header.Get("Content-Encoding") != "" {
		x.denied = denyMedia
		return fault.New(fault.UnsupportedMedia, "unsupported_media_type", "a body must be sent as Content-Type: application/json, not compressed")
	}
	if r.ContentLength > where.limit {
		x.denied = denySize
		return fault.New(fault.TooLarge, "payload_too_large", "the body is larger than %d bytes", where.limit)
	}
	return nil
}

var noStore = []string{"no-store"} //nolint:gochecknoglobals // a constant that Go cannot write; has no room to grow

// setHeaders sets what every answer carries.
func setHeaders(h http.Header, where area) {
	wall.SetHeaders(h)
	if where.kind != areaConsole {
		h["Cache-Control"] = noStore
	}
}

// headLines gives what setHeaders sets, as it stands on the wire.
func headLines(where area) []byte {
	head := http.Header{}
	setHeaders(head, where)
	var lines bytes.Buffer
	_ = head.Write(&lines) // a buffer takes everything
	return lines.Bytes()
}

// refuse answers for the wall. A person in front of a browser gets a page.
func (s *Server) refuse(x *exchange, r *http.Request, where area, err error) {
	if (where.kind == areaConsole || where.kind == areaDashboard || where.kind == areaDocs) && fault.Of(err) == fault.Unauthenticated && r.Method == http.MethodGet && wantsHTML(r) {
		x.err = err
		s.loginPage(x, http.StatusUnauthorized)
		return
	}
	if r.ContentLength != 0 {
		x.Header().Set("Connection", "close") // the body has not been read and will not be
	}
	s.fail(x, r, err)
}

func wantsHTML(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }
