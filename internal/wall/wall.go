// Package wall holds what every listener of ours refuses before it looks at
// what is asked: other names, other origins, paths with two meanings, bodies
// that a page of somebody else's could have sent.
//
// It does not know credentials, routes or what an answer looks like.
package wall

import (
	"crypto/sha256"
	"crypto/subtle"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/elnor/promptlab/internal/fault"
)

// Why a request was refused, for counting.
const (
	Host      = "host"
	FetchSite = "fetch_site"
	Origin    = "origin"
	Cross     = "cross_origin"
)

// Wall knows under which names its listener is addressed.
type Wall struct {
	hosts map[string]bool
	tls   bool
	cross *http.CrossOriginProtection
}

// New makes a wall. Hosts are the allowed Host values; tls says that the
// listener speaks TLS.
func New(hosts []string, tls bool) *Wall {
	w := &Wall{hosts: map[string]bool{}, tls: tls, cross: http.NewCrossOriginProtection()}
	for _, h := range hosts {
		w.hosts[strings.ToLower(h)] = true
	}
	return w
}

// LoopbackHosts gives the Host values under which a listener on this machine
// may be addressed: 127.0.0.1, localhost and [::1] with its port.
func LoopbackHosts(addr net.Addr) []string {
	_, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return nil
	}
	return []string{"127.0.0.1:" + port, "localhost:" + port, "[::1]:" + port}
}

// Check refuses requests that a page of somebody else's may have caused. The
// reason is one of the constants above.
func (w *Wall) Check(r *http.Request) (reason string, err error) {
	if !w.hosts[strings.ToLower(r.Host)] || r.URL.Host != "" && !w.hosts[strings.ToLower(r.URL.Host)] {
		return Host, fault.New(fault.Misdirected, "misdirected", "this server does not answer under that name; use the address that it printed")
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return FetchSite, fault.New(fault.Forbidden, "forbidden", "requests from other sites are refused")
		}
	}
	scheme := "http://"
	if w.tls {
		scheme = "https://"
	}
	for _, origin := range r.Header.Values("Origin") {
		if !strings.EqualFold(origin, scheme+r.Host) {
			return Origin, fault.New(fault.Forbidden, "forbidden", "requests from other origins are refused")
		}
	}
	if err := w.cross.Check(r); err != nil {
		return Cross, fault.Wrap(fault.Forbidden, "forbidden", err, "requests from other origins are refused")
	}
	return "", nil
}

// CleanPath refuses dot segments and empty segments, also encoded ones: policy
// and routing must mean the same resource.
func CleanPath(u *url.URL) bool {
	p := u.Path
	if p == "" || p[0] != '/' || strings.ContainsAny(p, "\\\x00") {
		return false
	}
	clean := path.Clean(p)
	return p == clean || p == clean+"/" && clean != "/"
}

// JSON says whether a content type is JSON in UTF-8 and nothing else.
func JSON(contentType string) bool {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil || media != "application/json" {
		return false
	}
	for name, v := range params {
		if name != "charset" || !strings.EqualFold(v, "utf-8") {
			return false
		}
	}
	return true
}

// What every answer carries. The lists are shared by all answers and have no
// room to grow, so that adding to one copies it.
var ( //nolint:gochecknoglobals // constants that Go cannot write
	policy     = []string{"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"}
	nosniff    = []string{"nosniff"}
	noReferrer = []string{"no-referrer"}
	sameOrigin = []string{"same-origin"}
)

var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}\z`)

// RequestID gives the name that a client has given to its request, if it is one
// that may stand in logs and answers, or a new one.
func RequestID(r *http.Request, newID func() string) string {
	id := r.Header.Get("X-Request-Id")
	if id == "" || !requestID.MatchString(id) {
		return newID()
	}
	return id
}

// Match gives the name whose secret has this SHA-256, or nothing. It looks at all
// of them, always, so that its time says nothing.
func Match[K ~string](secrets map[K][sha256.Size]byte, hash [sha256.Size]byte) K {
	var found K
	for name, want := range secrets {
		if subtle.ConstantTimeCompare(hash[:], want[:]) == 1 {
			found = name
		}
	}
	return found
}

// SetHeaders sets what every answer carries. Nothing here permits another origin.
func SetHeaders(h http.Header) {
	h["Content-Security-Policy"] = policy
	h["X-Content-Type-Options"] = nosniff
	h["Referrer-Policy"] = noReferrer
	h["Cross-Origin-Opener-Policy"] = sameOrigin
	h["Cross-Origin-Resource-Policy"] = sameOrigin
}
