package api_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
)

const packetPath = "/internal/doc17/overlay-packet?" + oneSession

func (r *rig) packet(what, query string, headers ...string) (contracts.OverlayPromptPacket, answer) {
	r.t.Helper()
	a := r.ask(ec.RoleSeam, "GET", packetPath+query, "", headers...)
	return read[contracts.OverlayPromptPacket](r, what, a, 200), a
}

func TestPacketBytes(t *testing.T) {
	r := liveRig(t)
	p, _ := r.packet("of an unknown session", "") // G-022
	if p.Revision != 0 || len(p.OverlayBlocks) != 0 || p.RefreshReason != "" {
		t.Errorf("first packet: %+v", p)
	}
	r.change("t-1", "activate", on("o-a"))
	p, a := r.packet("after a change", "&turn_id=n1")
	if p.RefreshReason != contracts.RefreshActivation || len(p.OverlayBlocks) != 1 || p.PacketHash != p.Hash() {
		t.Errorf("R-PKT-19 packet after a change: %+v", p)
	}
	if a.header.Get("Cache-Control") != "no-store" || a.header.Get("ETag") == "" { // R-PKT-28
		t.Errorf("headers: %v", a.header)
	}
	_, retry := r.packet("retry of the turn", "&turn_id=n1")
	if string(retry.body) != string(a.body) || retry.header.Get("ETag") != a.header.Get("ETag") {
		t.Errorf("R-PKT-19 a retry of the turn: %s, want the same bytes %s", retry.body, a.body)
	}
	plain, first := r.packet("next turn", "&turn_id=n2")
	if plain.RefreshReason != "" {
		t.Errorf("decision 30: a reason labels one packet; got %s again", plain.RefreshReason)
	}
	seq := r.env.View().Seq()
	for i, query := range []string{"", "&turn_id=n3", "&revision=0", "&revision=1", "&force_refresh=false", "&thread_id=t-1"} { // R-PKT-25
		if _, again := r.packet(query, query); string(again.body) != string(first.body) {
			t.Errorf("%d %s: got %s, want the same bytes %s", i, query, again.body, first.body)
		}
	}
	etag := first.header.Get("ETag")
	for _, match := range []string{etag, "W/" + etag, `"x", ` + etag, "*"} {
		a := r.ask(ec.RoleSeam, "GET", packetPath, "", "If-None-Match", match)
		if a.status != http.StatusNotModified || len(a.body) != 0 || a.header.Get("ETag") != etag || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("If-None-Match %s: got %d %q %v", match, a.status, a.body, a.header)
		}
	}
	r.packet("another tag", "", "If-None-Match", `"x"`)
	if now := r.env.View().Seq(); now != seq {
		t.Errorf("reading what is there took %d commands, want none", now-seq)
	}
	future, _ := r.packet("future", "&revision=99") // G-045
	if future.Revision != 1 || !strings.Contains(strings.Join(future.Warnings, " "), "future_revision") {
		t.Errorf("a future revision: %+v", future)
	}
	forced, _ := r.packet("forced", "&force_refresh=true")
	if forced.PacketHash != plain.PacketHash || forced.Revision != plain.Revision || !forced.GeneratedAt.After(plain.GeneratedAt.Time) {
		t.Errorf("decision 30: forced %+v, before %+v", forced, plain)
	}
	r.change("t-1", "refresh", "")
	if a := r.ask(ec.RoleSeam, "GET", packetPath, "", "If-None-Match", "*"); a.status != http.StatusNotModified {
		t.Errorf("anything will do: got %d", a.status)
	}
	st := read[contracts.OverlaySessionResponse](r, "session", r.ask(ec.RoleUser, "GET", at("t-1", ""), ""), 200).SessionState
	if st.ForceRefreshNextTurn || st.LastRefreshReason != contracts.RefreshManual { // R-PKT-19, G-020
		t.Errorf("the refresh was not consumed: %+v", st)
	}
}

func TestPacketQueryIsStrict(t *testing.T) { // G-008
	r := liveRig(t)
	seq := r.env.View().Seq()
	for query, field := range map[string]string{
		"":                         "workspace_id",
		"workspace_id=w":           "surface_kind",
		"workspace_id=&" + oneLess: "workspace_id",
		"workspace_id=" + strings.Repeat("w", 201) + "&" + oneLess: "workspace_id",
		"workspace_id=w&surface_kind=mail&surface_id=t-1":          "surface_kind",
		"workspace_id=w&surface_kind=prompt_advisor&surface_id=x":  "surface_kind",
		"workspace_id=w&surface_kind=chat":                         "surface_id",
		oneSession + "&thread_id=other":                            "thread_id",
		oneSession + "&force_refresh=TRUE":                         "force_refresh",
		oneSession + "&force_refresh=1":                            "force_refresh",
		oneSession + "&force_refresh=":                             "force_refresh",
		oneSession + "&revision=-1":                                "revision",
		oneSession + "&revision=1.0":                               "revision",
		oneSession + "&revision=99999999999":                       "revision",
		oneSession + "&turn_id=%07":                                "turn_id",
		oneSession + "&room_id=x":                                  "room_id",
		oneSession + "&surface_id=t-2":                             "surface_id",
	} {
		for _, path := range []string{"overlay-packet", "brief-facts"} {
			if path == "brief-facts" && !strings.HasPrefix(query, "workspace_id=&") {
				continue
			}
			got := r.want(path+"?"+query, r.ask(ec.RoleSeam, "GET", "/internal/doc17/"+path+"?"+query, ""), 400, "bad_request")
			if !strings.Contains(fmt.Sprint(got.Details), "{"+field+" ") {
				t.Errorf("%s?%s: details %+v do not name %s", path, query, got.Details, field)
			}
		}
	}
	if now := r.env.View().Seq(); now != seq {
		t.Errorf("refused reads took %d commands", now-seq)
	}
	r.want("a room has no thread", r.ask(ec.RoleSeam, "GET", "/internal/doc17/overlay-packet?workspace_id=w&surface_kind=room&surface_id=r1&thread_id=t", ""), 200, "")
}

const oneLess = "surface_kind=chat&surface_id=t-1"

func TestPacketOfAPlan(t *testing.T) {
	r := liveRig(t)
	r.change("t-1", "activate", on("o-a"))
	r.packet("own", "&turn_id=n1")
	_, own := r.packet("own", "")
	plan := read[contracts.OverlayReanswerPlan](r, "plan", r.ask(ec.RoleUser, "POST", at("t-1", "reanswer-plan"),
		`{"selected_message_ids":["m1"],"override_mode":"one_time_overlay_only","overlay_ids":["o-b"]}`), 201)
	p, first := r.packet("of the plan", "&turn_id=x1&plan_id="+string(plan.PlanID))
	if p.ReanswerPlanID != plan.PlanID || len(p.OverlayBlocks) != 1 || p.OverlayBlocks[0].OverlayID != "o-b" {
		t.Errorf("packet of a plan: %+v", p)
	}
	if _, again := r.packet("retry", "&turn_id=x1&plan_id="+strings.ToUpper(string(plan.PlanID))); string(again.body) != string(first.body) {
		t.Errorf("a retry of the dispatch: %s, want %s", again.body, first.body)
	}
	r.want("used", r.ask(ec.RoleSeam, "GET", packetPath+"&turn_id=x2&plan_id="+string(plan.PlanID), ""), 409, "plan_used")
	r.want("another session's", r.ask(ec.RoleSeam, "GET", strings.ReplaceAll(packetPath, "t-1", "t-2")+"&plan_id="+string(plan.PlanID), ""), 409, "plan_session_mismatch")
	r.want("unknown", r.ask(ec.RoleSeam, "GET", packetPath+"&plan_id="+someID, ""), 404, "not_found")
	if _, now := r.packet("own", ""); string(now.body) != string(own.body) {
		t.Errorf("the session's own packet changed: %s, before %s", now.body, own.body)
	}
	late := read[contracts.OverlayReanswerPlan](r, "plan", r.ask(ec.RoleUser, "POST", at("t-1", "reanswer-plan"), `{"selected_message_ids":["m1"]}`), 201)
	r.env.Clock.Add(16 * 60 * 1e9)
	r.want("expired", r.ask(ec.RoleSeam, "GET", packetPath+"&plan_id="+string(late.PlanID), ""), 410, "plan_expired")
}

func TestWhatTheSeamReportsAndReads(t *testing.T) {
	r := liveRig(t)
	r.change("t-1", "activate", on("o-a"))
	r.packet("own", "")
	event := func(kind string) answer {
		return r.ask(ec.RoleSeam, "POST", "/internal/doc17/session-events", fmt.Sprintf(`{"event_kind":%q,"session_key":%s}`, kind, someKey))
	}
	got := read[contracts.OverlaySessionResponse](r, "compaction", event("compaction"), 200)
	if !got.SessionState.ForceRefreshNextTurn || !got.PromptTruthAvailable {
		t.Errorf("after a compaction: %+v", got)
	}
	if p, _ := r.packet("rebuilt", ""); p.RefreshReason != contracts.RefreshCompaction {
		t.Errorf("packet after a compaction: %+v", p)
	}
	r.want("no event of the seam's", event("manual"), 422, "validation_failed")
	r.want("another thread", r.ask(ec.RoleSeam, "POST", "/internal/doc17/session-events", strings.Replace(`{"event_kind":"compaction","session_key":`+someKey+`}`, `"thread_id":"t-1"`, `"thread_id":"x"`, 1)), 422, "validation_failed")
	facts := read[contracts.OverlayBriefFacts](r, "brief", r.ask(ec.RoleSeam, "GET", "/internal/doc17/brief-facts?"+oneSession, ""), 200)
	if len(facts.ActiveOverlayIDs) != 1 || facts.ActiveOverlayIDs[0] != "o-a" || facts.Revision != 2 {
		t.Errorf("brief: %+v", facts)
	}
	page := func(query string) contracts.RegistryFeed {
		return read[contracts.RegistryFeed](r, query, r.ask(ec.RoleSeam, "GET", "/internal/doc17/registry-events?"+query, ""), 200)
	}
	all := page("limit=0")
	if len(all.Events) != 24 { // 21 presets and 3 of a person's
		t.Errorf("registry: %d events, want 24", len(all.Events))
	}
	var paged []contracts.RegistryEntry
	for next := uint64(0); ; {
		p := page("limit=7&after=" + strconv.FormatUint(next, 10))
		if len(p.Events) == 0 {
			break
		}
		paged, next = append(paged, p.Events...), p.Next
	}
	if fmt.Sprint(paged) != fmt.Sprint([]contracts.RegistryEntry(all.Events)) {
		t.Errorf("R-REG pages do not add up to the whole: %d and %d events", len(paged), len(all.Events))
	}
	r.want("limit", r.ask(ec.RoleSeam, "GET", "/internal/doc17/registry-events?limit=1001", ""), 400, "bad_request")
}

func TestSessionNotices(t *testing.T) { // G-045, decision 24
	r := liveRig(t)
	resp, stream := r.watchAs(ec.RoleSeam, "/internal/doc17/session-notices")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("stream: %d %v", resp.StatusCode, resp.Header)
	}
	r.change("t-1", "activate", on("o-a"))
	r.env.Must(ec.CreateOverlay{Record: ectest.Overlay("o-z", "No notice.\n")})
	r.packet("consumes the reason", "")
	type notice struct {
		kind, session string
		revision      int
		pending       bool
	}
	next := func() notice {
		t.Helper()
		_, e := parse(t, message(t, stream))
		if e.SessionRevision == nil {
			t.Fatalf("not about a session: %+v", e)
		}
		return notice{e.Type, e.Session, *e.SessionRevision, e.PendingRefresh}
	}
	token := sessionKey("t-1").Token()
	for _, want := range []notice{{"session.changed", token, 1, true}, {"session.changed", token, 1, false}} {
		if got := next(); got != want {
			t.Errorf("notice: got %+v, want %+v", got, want)
		}
	}
	r.env.Clock.Add(15 * 24 * 60 * 60 * 1e9)
	r.env.Must(ec.PruneSessions{})
	if got := next(); got.kind != "session.pruned" || got.session != token {
		t.Errorf("notice of a pruned session: %+v", got)
	}
	list := read[contracts.EventList](r, "list", r.ask(ec.RoleSeam, "GET", "/internal/doc17/session-notices", "", "Accept", "application/json"), 200)
	if len(list.Items) != 3 {
		t.Errorf("list: %+v, want 3 notices and nothing else", list.Items)
	}
	r.want("odd position", r.ask(ec.RoleSeam, "GET", "/internal/doc17/session-notices?after=x", ""), 400, "bad_request")
}

// TestPacketsUnderWriters: many turn overlays on and off in one session while as
// many read its packet. Revisions are as many as changes were reported, and no
// packet mixes two moments.
func TestPacketsUnderWriters(t *testing.T) {
	r := liveRig(t)
	const writers, readers, rounds = 100, 100, 3
	r.change("t-1", "bootstrap", "")
	transport := &http.Transport{MaxIdleConnsPerHost: writers + readers}
	client := &http.Client{Transport: transport, Timeout: 2 * patience}
	t.Cleanup(transport.CloseIdleConnections)
	send := func(role ec.Role, method, path, body string) (int, http.Header, []byte) {
		req, err := http.NewRequestWithContext(context.Background(), method, "http://"+r.addr+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0, nil, nil
		}
		req.Header.Set("Authorization", "Bearer "+token(role))
		if method != "GET" {
			req.Header.Set("Content-Type", "application/json")
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Errorf("%s %s: %v", method, path, err)
			return 0, nil, nil
		}
		defer func() { _ = resp.Body.Close() }()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		return resp.StatusCode, resp.Header, b
	}
	var seen sync.Map     // ETag to bytes
	var reported sync.Map // revisions
	var wait sync.WaitGroup
	for i := range writers {
		wait.Go(func() {
			for n := range rounds {
				verb, id := "activate", []string{"o-a", "o-b", "o-c"}[(i+n)%3]
				if (i+n)%2 == 0 {
					verb = "deactivate"
				}
				status, h, b := send(ec.RoleUser, "POST", at("t-1", verb), on(id))
				if status != 200 {
					t.Errorf("%s: %d %s", verb, status, b)
					continue
				}
				revision, err := strconv.Atoi(strings.Trim(h.Get("ETag"), `"`))
				if err != nil {
					t.Error(err)
				}
				reported.Store(revision, true)
			}
		})
	}
	for range readers {
		wait.Go(func() {
			for range rounds {
				status, h, b := send(ec.RoleSeam, "GET", packetPath, "")
				if status != 200 {
					t.Errorf("packet: %d %s", status, b)
					continue
				}
				p, err := contracts.Decode[contracts.OverlayPromptPacket](b, contracts.Stored)
				if err != nil || p.PacketHash != p.Hash() || len(p.RequestedOverlayIDs) != len(p.OverlayBlocks)+len(p.Dropped) {
					t.Errorf("torn packet: %s, %v", b, err)
				}
				if old, ok := seen.LoadOrStore(h.Get("ETag"), string(b)); ok && old != string(b) {
					t.Errorf("one tag, two packets: %s and %s", old, b)
				}
			}
		})
	}
	wait.Wait()
	st := read[contracts.OverlaySessionResponse](r, "session", r.ask(ec.RoleUser, "GET", at("t-1", ""), ""), 200).SessionState
	changes := map[int]bool{}
	for _, e := range r.env.Feed.After(0) {
		if e.Session != "" {
			changes[*e.SessionRevision] = true
		}
	}
	if len(changes) != st.Revision+1 || !changes[st.Revision] {
		t.Errorf("the session is at revision %d after notices of %d revisions", st.Revision, len(changes))
	}
	reported.Range(func(revision, _ any) bool {
		if n, _ := revision.(int); !changes[n] {
			t.Errorf("revision %d was answered and never was", n)
		}
		return true
	})
	_, first := r.packet("after", "")
	if _, again := r.packet("after", ""); string(again.body) != string(first.body) && st.PendingRefreshReason == "" {
		t.Errorf("at rest: %s and %s", first.body, again.body)
	}
}
