package api_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/elnor/promptlab/api"
	"github.com/elnor/promptlab/ec"
)

// R-STO-08, R-STO-15: an operator's word forgets what nobody has used for long, however
// much it is, and nothing else.
func TestPruneSessions(t *testing.T) {
	r := liveRig(t)
	for i := range 3 {
		r.change(fmt.Sprintf("old-%d", i), "activate", on("o-a"))
	}
	r.env.Clock.Add(15 * 24 * time.Hour)
	r.change("new", "activate", on("o-a"))
	got := read[api.Pruned](r, "prune", r.ask(ec.RoleOperator, "POST", "/api/maintenance/prune-sessions", ""), 200)
	if got.Sessions != 3 || got.Plans != 0 {
		t.Errorf("pruned %+v, want the three old sessions", got)
	}
	if again := read[api.Pruned](r, "again", r.ask(ec.RoleOperator, "POST", "/api/maintenance/prune-sessions", ""), 200); again != (api.Pruned{}) {
		t.Errorf("again: %+v, want nothing left", again)
	}
	if sessions, _ := r.env.View().Kept(); sessions != 1 {
		t.Errorf("%d sessions are left, want the new one", sessions)
	}
	r.want("a user", r.ask(ec.RoleUser, "POST", "/api/maintenance/prune-sessions", ""), 403, "forbidden")
}
