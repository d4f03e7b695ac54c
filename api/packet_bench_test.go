package api_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/elnor/promptlab/api"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
)

// BenchmarkPacket is the packet's way through wall, router and view; the socket
// is left out. The name of a case says whether the caller has the packet already.
func BenchmarkPacket(b *testing.B) {
	env := ectest.New(b)
	for _, id := range []string{"o-a", "o-b", "o-c"} {
		env.Must(ec.CreateOverlay{Record: ectest.Overlay(id, "Rule "+id+".\n")})
	}
	for _, id := range []contracts.OverlayID{"o-a", "o-b", "o-c"} {
		env.Must(ec.ActivateOverlay{Key: sessionKey("t-1"), OverlayID: id, Source: contracts.FromManual})
	}
	srv, err := api.New(config(func(c *api.Config) { c.Service, c.Feed, c.Now = env, env.Feed, env.Clock.Now }))
	if err != nil {
		b.Fatal(err)
	}
	request := func() *http.Request {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:1"+packetPath+"&revision=3", http.NoBody)
		r.ContentLength = 0
		r.Header.Set("Authorization", "Bearer "+token(ec.RoleSeam))
		return r
	}
	h := srv.Handler()
	first := httptest.NewRecorder()
	h.ServeHTTP(first, request())
	plain := httptest.NewRecorder()
	h.ServeHTTP(plain, request())
	for name, want := range map[string]int{"whole": http.StatusOK, "held": http.StatusNotModified} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := request()
				if want == http.StatusNotModified {
					r.Header.Set("If-None-Match", plain.Header().Get("ETag"))
				}
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, r); w.Code != want {
					b.Fatalf("got %d %s, want %d", w.Code, w.Body, want)
				}
			}
		})
	}
}
