package api_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/google/go-cmp/cmp"
)

const resolve = "/internal/doc17/session-keys/resolve"

func lookup(key string) string { return `{"key_sha256":"` + contracts.HashSessionAPIKey(key) + `"}` }

// Decisions 25 and 32, from a key's making to its end.
func TestSessionKeyLife(t *testing.T) {
	r := newRig(t)
	r.env.Ready()
	body := `{"session_key":` + someKey + `,"name":"editor"}`
	made := read[contracts.SessionAPIKeyCreated](r, "create", r.ask(ec.RoleUser, "POST", "/api/session-keys", body, "Idempotency-Key", "k1"), 201)
	if !contracts.IsSessionAPIKey(made.Key) || made.Name != "editor" || made.SessionKey != sessionKey("t-1") {
		t.Fatalf("create: got %+v", made)
	}
	again := read[contracts.SessionAPIKeyCreated](r, "R-CMD-05 the same request again", r.ask(ec.RoleUser, "POST", "/api/session-keys", body, "Idempotency-Key", "k1"), 200)
	if again.KeyID != made.KeyID || again.Key != "" {
		t.Errorf("R-CMD-05 a repeat: got %+v, want the id of the first and no key", again)
	}
	list := read[contracts.SessionAPIKeyList](r, "list", r.ask(ec.RoleOperator, "GET", "/api/session-keys", ""), 200)
	if d := cmp.Diff(contracts.SessionAPIKeyList{Items: contracts.List[contracts.SessionAPIKey]{made.SessionAPIKey}, Total: 1}, list); d != "" {
		t.Errorf("list (-want +got):\n%s", d)
	}
	owner := read[contracts.SessionAPIKeyOwner](r, "resolve", r.ask(ec.RoleSeam, "POST", resolve, lookup(made.Key)), 200)
	if owner.KeyID != made.KeyID || owner.SessionKey != sessionKey("t-1") {
		t.Errorf("resolve: got %+v", owner)
	}
	r.want("resolve another", r.ask(ec.RoleSeam, "POST", resolve, lookup("pls-x")), 404, "session_key_unknown")
	r.want("resolve no hash", r.ask(ec.RoleSeam, "POST", resolve, `{"key_sha256":"`+made.Key+`"}`), 422, "validation_failed")
	r.want("R-SEC a key in an address", r.ask(ec.RoleUser, "GET", "/api/overlays?query="+made.Key, ""), 400, "bad_request")
	r.want("the key is no token", r.ask("", "GET", "/api/overlays", "", "Authorization", "Bearer "+made.Key), 401, "unauthenticated")
	r.want("create without a session", r.ask(ec.RoleUser, "POST", "/api/session-keys", `{"name":"x"}`), 422, "validation_failed")

	revoke := "/api/session-keys/" + string(made.KeyID) + "/revoke"
	r.want("revoke", r.ask(ec.RoleUser, "POST", revoke, ""), 200, "")
	r.want("resolve a revoked one", r.ask(ec.RoleSeam, "POST", resolve, lookup(made.Key)), 404, "session_key_unknown")
	r.want("revoke again", r.ask(ec.RoleUser, "POST", revoke, ""), 404, "not_found")

	if strings.Contains(r.log.String(), made.Key) || strings.Contains(r.log.String(), contracts.HashSessionAPIKey(made.Key)) {
		t.Error("R-SEC the key or its hash is in the log")
	}
	r.env.While(func() {})
	err := fs.WalkDir(os.DirFS(r.env.Dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(r.env.Dir, path))
		if strings.Contains(string(b), made.Key) {
			t.Errorf("the key is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSessionListRoute(t *testing.T) {
	r := liveRig(t)
	for i := range 5 {
		r.want("start", r.ask(ec.RoleUser, "GET", at(fmt.Sprintf("t-%d", i), ""), ""), 200, "")
	}
	r.want("activate", r.ask(ec.RoleUser, "POST", at("t-1", "activate"), on("o-a")), 200, "")
	var got []string
	for after, pages := "", 0; ; pages++ {
		page := read[contracts.OverlaySessionList](r, "list", r.ask(ec.RoleAgent, "GET", "/api/overlay-sessions?limit=2&after="+after, ""), 200)
		for _, s := range page.Items {
			got = append(got, s.SessionKey.SurfaceID)
		}
		if after = page.Next; after == "" || pages > 5 {
			break
		}
	}
	if want := []string{"t-1", "t-4", "t-3", "t-2", "t-0"}; !cmp.Equal(want, got) {
		t.Errorf("all pages: got %v, want %v", got, want)
	}
	active := read[contracts.OverlaySessionList](r, "active", r.ask(ec.RoleUser, "GET", "/api/overlay-sessions?active=true&workspace_id=w&surface_kind=chat", ""), 200)
	if active.Total != 1 || active.Items[0].Token != sessionKey("t-1").Token() {
		t.Errorf("active ones: got %+v", active)
	}
	r.want("a place that is none", r.ask(ec.RoleUser, "GET", "/api/overlay-sessions?after=x", ""), 400, "bad_request")
	r.want("a surface that is none", r.ask(ec.RoleUser, "GET", "/api/overlay-sessions?surface_kind=mail", ""), 400, "bad_request")
}

// A receipt can be asked for by its turn.
func TestTruthOfATurn(t *testing.T) {
	r := liveRig(t)
	for i := range 3 {
		r.want("packet", r.ask(ec.RoleSeam, "GET", "/internal/doc17/overlay-packet?turn_id=x&"+oneSession, ""), 200, "")
		r.want("report", r.ask(ec.RoleSeam, "POST", "/internal/doc17/runtime-truth", truthBody(0, fmt.Sprint("turn-", i))), 200, "")
	}
	var truth struct {
		TurnID string `json:"turn_id"`
	}
	a := r.ask(ec.RoleUser, "GET", at("t-1", "runtime-truth?turn_id=turn-1"), "")
	if err := json.Unmarshal(a.body, &truth); err != nil || a.status != 200 || truth.TurnID != "turn-1" {
		t.Errorf("the receipt of turn-1: got %d %s", a.status, a.body)
	}
	r.want("a turn that nobody reported", r.ask(ec.RoleUser, "GET", at("t-1", "runtime-truth?turn_id=turn-9"), ""), 404, "truth_not_kept")
	r.want("a session without any", r.ask(ec.RoleUser, "GET", at("t-2", "runtime-truth?turn_id=turn-1"), ""), 404, "truth_not_recorded")
}
