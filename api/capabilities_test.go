package api_test

import (
	"slices"
	"strings"
	"testing"
)

// R-BND-13: six capabilities are offered. Of each that is there, every route is
// described and does its work with the good request of the route table; one that
// is not there yet has no route at all.
func TestCapabilities(t *testing.T) {
	session := "/api/overlay-sessions/:session_key"
	capabilities := []struct {
		name   string
		routes []string // empty: not there yet
		prefix []string // where its routes lie
	}{
		{"library", []string{
			"GET /api/overlays", "GET /api/overlays/search", "GET /api/overlays/:overlay_id", "POST /api/overlays", "PUT /api/overlays/:overlay_id",
			"POST /api/overlays/:overlay_id/archive", "POST /api/overlays/:overlay_id/restore", "POST /api/presets/install",
		}, []string{"/api/overlays", "/api/presets/"}},
		{"advisor", nil, []string{"/api/prompt-advisor"}},
		{"recipes", nil, []string{"/api/prompt-recipes"}},
		{"refresh and re-answer", []string{"POST " + session + "/refresh", "POST " + session + "/reanswer-plan", "GET " + session + "/runtime-truth"}, nil},
		{"feedback", []string{"POST /api/overlay-feedback", "POST /api/overlay-signals"}, []string{"/api/overlay-feedback", "/api/overlay-signals"}},
		{"lab bridge", []string{
			"POST /api/prompt-lab/jobs", "GET /api/prompt-lab/jobs", "GET /api/prompt-lab/jobs/:job_id", "POST /api/prompt-lab/jobs/:job_id/cancel",
			"GET /api/prompt-lab/candidates", "GET /api/prompt-lab/candidates/:candidate_id",
			"POST /api/prompt-lab/datasets", "GET /api/prompt-lab/datasets", "GET /api/prompt-lab/datasets/:dataset_ref",
		}, []string{"/api/prompt-lab/"}},
	}
	if len(capabilities) != 6 {
		t.Fatalf("%d capabilities, want 6", len(capabilities))
	}
	r := everything(t)
	byName := map[string]route{}
	for _, rt := range table() {
		byName[rt.method+" "+rt.path] = rt
	}
	for _, c := range capabilities {
		t.Run("R-BND-13 "+c.name, func(t *testing.T) {
			in := &rig{t: t, env: r.env, srv: r.srv, addr: r.addr, log: r.log, ids: r.ids}
			for _, prefix := range c.prefix {
				for _, name := range in.srv.Routes() {
					if _, path, _ := strings.Cut(name, " "); strings.HasPrefix(path, prefix) && !slices.Contains(c.routes, name) {
						t.Errorf("%s is not in the table of capabilities", name)
					}
				}
			}
			for _, name := range c.routes {
				rt, ok := byName[name]
				if !ok {
					t.Errorf("there is no %s", name)
					continue
				}
				if a := in.good(rt); a.status != 200 && a.status != 201 {
					t.Errorf("%s answers %d: %s", name, a.status, a.body)
				}
			}
		})
	}
}
