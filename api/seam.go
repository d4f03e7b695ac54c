package api

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
)

// truthFresh is how long one word of the seam counts as its being there.
const truthFresh = 30 * time.Second

// TruthAck says what became of a receipt.
type TruthAck struct {
	Recorded bool   `json:"recorded"` // false: it was there already
	Note     string `json:"note,omitempty"`
}

// seamRoutes are for the prompt plan's side alone.
func (s *Server) seamRoutes() {
	const base = "/internal/doc17/"
	seam := func(id, method, path, summary string) op {
		return op{id: id, method: method, path: base + path, summary: summary, only: ec.RoleSeam, peer: true}
	}
	page := []param{
		{name: "after", kind: paramInt, about: "The cursor of the last event that is known already."},
		{name: "limit", kind: paramInt, max: 1000, deflt: "200", about: "How many at most; 0 is all."},
	}
	brief := seam("get-brief-facts", http.MethodGet, "brief-facts", "What a running brief or a handoff says of a session")
	brief.query = sessionQuery()
	registry := seam("list-registry-events", http.MethodGet, "registry-events", "What happened to the library, in order")
	registry.query = page
	add(s, seam("record-runtime-truth", http.MethodPost, "runtime-truth", "Report what was done with a packet"), s.recordTruth)
	event := seam("report-session-event", http.MethodPost, "session-events", "Report a compaction, a trimmed packet or another model")
	event.etag = true
	add(s, event, s.sessionEvent)
	task := seam("report-task", http.MethodPost, "task-events", "Report that the task of a session has started, has ended or has failed")
	task.etag = true
	add(s, task, s.taskReport)
	add(s, brief, s.brief)
	add(s, registry, s.registryEvents)

	notices := seam("session-notices", http.MethodGet, "session-notices",
		"Which packets are out of date, as it happens: server-sent events, or with Accept: application/json the list so far")
	notices.query = []param{{name: "after", kind: paramInt, about: "The seq of the last notice that is known already."}}
	notices.media, notices.out = "text/event-stream", reflect.TypeFor[contracts.EventList]()
	s.register(notices, func(w http.ResponseWriter, r *http.Request, q values) error {
		return s.follow(w, r, q, func(e contracts.LiveEvent) bool { return e.Session != "" })
	})
	s.packetRoute(base + "overlay-packet")
}

// sessionQuery names a session by parameters.
func sessionQuery() []param {
	const longest = 200
	return []param{
		{name: "workspace_id", max: longest, required: true},
		{name: "surface_kind", enum: []string{"chat", "room", "panel", "task"}, required: true},
		{name: "surface_id", max: longest, required: true},
		{name: "thread_id", max: longest, about: "Of a chat; must be the same as surface_id."},
	}
}

// sessionOf gives the session that a query names.
func sessionOf(q values) (contracts.OverlaySessionKey, error) {
	key := contracts.OverlaySessionKey{
		WorkspaceID: q.str("workspace_id"), SurfaceKind: contracts.SupportedSurface(q.str("surface_kind")),
		SurfaceID: q.str("surface_id"), ThreadID: q.str("thread_id"),
	}
	key, err := key.Canonical("")
	return key, inQuery(err)
}

// heard notes that the seam was there at a moment.
func (s *Server) heard(at time.Time) { s.seamSeen.Store(at.UnixNano()) }

// truthAvailable says whether what happens to packets will be told: the seam was
// here within half a minute, or one in this process is at work.
func (s *Server) truthAvailable() bool {
	if s.cfg.TruthInside != nil && s.cfg.TruthInside() {
		return true
	}
	seen := s.seamSeen.Load()
	return seen != 0 && s.cfg.Now().Sub(time.Unix(0, seen)) <= truthFresh
}

func (s *Server) recordTruth(ctx context.Context, c call[contracts.OverlayRuntimeTruthSummary]) (reply[TruthAck], error) {
	if _, err := c.body.SessionKey.Canonical("session_key"); err != nil {
		return reply[TruthAck]{}, err
	}
	receipt, err := s.cfg.Service.Do(ctx, c.command(ec.RecordTruth{Truth: c.body}, ""))
	return reply[TruthAck]{body: TruthAck{Recorded: receipt.Changed, Note: receipt.Note}}, err
}

func (s *Server) sessionEvent(ctx context.Context, c call[contracts.OverlaySessionEvent]) (reply[contracts.OverlaySessionResponse], error) {
	key, err := c.body.SessionKey.Canonical("session_key")
	if err != nil {
		return reply[contracts.OverlaySessionResponse]{}, err
	}
	return s.doSession(ctx, c.command(ec.ReportSessionEvent{Event: c.body}, ""), key)
}

func (s *Server) taskReport(ctx context.Context, c call[contracts.TaskReport]) (reply[contracts.OverlaySessionResponse], error) {
	key, err := c.body.SessionKey.Canonical("session_key")
	if err != nil {
		return reply[contracts.OverlaySessionResponse]{}, err
	}
	return s.doSession(ctx, c.command(ec.ReportTask{Report: c.body}, ""), key)
}

func (s *Server) brief(ctx context.Context, c call[none]) (reply[contracts.OverlayBriefFacts], error) {
	key, err := sessionOf(c.query)
	if err != nil {
		return reply[contracts.OverlayBriefFacts]{}, err
	}
	return materialised(ctx, s, c.actor, key, func(v *ec.View) (reply[contracts.OverlayBriefFacts], error) {
		facts, err := v.Brief(key)
		return reply[contracts.OverlayBriefFacts]{body: facts}, err
	})
}

func (s *Server) registryEvents(_ context.Context, c call[none]) (reply[contracts.RegistryFeed], error) {
	feed := s.cfg.Service.View().RegistryEvents(c.query.number("after"), int(c.query.number("limit"))) //nolint:gosec // bounded
	return reply[contracts.RegistryFeed]{body: feed}, nil
}
