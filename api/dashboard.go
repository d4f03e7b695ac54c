package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"regexp"
	"strings"
)

// withScriptHashes serves a dashboard whose page has inline scripts under a
// policy that names exactly those scripts by their hashes, and makes inline
// styles possible for it alone. Everything else of h passes as it is.
func withScriptHashes(h http.Handler) http.Handler {
	if h == nil {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := &pageWriter{ResponseWriter: w}
		h.ServeHTTP(p, r)
		p.finish()
	})
}

// pageWriter holds HTML back until it is complete.
type pageWriter struct {
	http.ResponseWriter
	status int
	sent   bool // not HTML: passed on as it comes
	page   bytes.Buffer
}

// WriteHeader keeps the status until the type is known.
func (p *pageWriter) WriteHeader(status int) {
	if p.status == 0 {
		p.status = status
	}
}

// Write decides at the first byte whether this is a page.
func (p *pageWriter) Write(b []byte) (int, error) {
	if !p.sent && p.page.Len() == 0 {
		if p.Header().Get("Content-Type") == "" {
			p.Header().Set("Content-Type", http.DetectContentType(b))
		}
		if !strings.HasPrefix(p.Header().Get("Content-Type"), "text/html") {
			p.begin()
		}
	}
	if p.sent {
		return p.ResponseWriter.Write(b) //nolint:wrapcheck // a writer in between
	}
	return p.page.Write(b) //nolint:wrapcheck // memory
}

// Unwrap lets http.ResponseController reach the connection.
func (p *pageWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *pageWriter) begin() {
	p.sent = true
	if p.status != 0 {
		p.ResponseWriter.WriteHeader(p.status)
	}
}

func (p *pageWriter) finish() {
	if p.sent {
		return
	}
	if p.page.Len() > 0 {
		p.Header().Set("Content-Security-Policy", dashboardPolicy(p.page.Bytes()))
	}
	p.begin()
	_, _ = p.ResponseWriter.Write(p.page.Bytes()) // the reader may be gone
}

func dashboardPolicy(page []byte) string {
	scripts := "'self'"
	for _, m := range regexp.MustCompile(`(?is)<script>(.*?)</script>`).FindAllSubmatch(page, -1) {
		sum := sha256.Sum256(m[1])
		scripts += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'self'; script-src " + scripts + "; style-src 'self' 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
}
