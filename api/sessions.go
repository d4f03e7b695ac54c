package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/fault"
)

// TruthHistory answers with the receipts of a session that are kept.
type TruthHistory struct {
	Items contracts.List[contracts.OverlayRuntimeTruthSummary] `json:"items"` // oldest first
}

func (s *Server) sessionRoutes() {
	const one = "/api/overlay-sessions/{session_key}"
	read := func(id, path, summary string) op {
		return op{id: id, method: http.MethodGet, path: one + path, summary: summary}
	}
	whole := read("get-overlay-session", "", "Read a session; the first read starts it")
	whole.etag = true
	whole.query = []param{{name: "debrief", kind: paramBool, about: "A person asks for a debrief: offer the post-task templates."}}
	add(s, whole, s.session)
	truth := read("get-runtime-truth", "/runtime-truth", "Read what the last turn, or a named one, did with the overlays")
	truth.query = []param{{name: "turn_id", max: 200, about: "The turn whose receipt is wanted; without it the last one's."}}
	add(s, truth, s.truth)
	add(s, read("list-runtime-truth", "/runtime-truth/history", "List the receipts that are kept, oldest first"), s.truthHistory)
	add(s, read("explain-overlay-session", "/explain", "Say of each overlay why it is in the next packet or out of it"), s.explain)

	changeSession(s, "activate", "Turn an overlay on, from the next turn on", func(k contracts.OverlaySessionKey, c call[contracts.OverlayActivateRequest]) ec.Body {
		return ec.ActivateOverlay{
			Key: k, OverlayID: c.body.OverlayID, Source: c.body.Source, PinScope: c.body.PinScope, OverrideLimit: c.body.OverrideLimit,
			Truth: s.truthAvailable(), Retrieval: s.there(s.cfg.Retrieval), IfMatch: c.ifMatch,
		}
	})
	changeSession(s, "deactivate", "Turn an overlay off; pins stay", func(k contracts.OverlaySessionKey, c call[contracts.OverlayDeactivateRequest]) ec.Body {
		return ec.DeactivateOverlay{Key: k, OverlayID: c.body.OverlayID, IfMatch: c.ifMatch}
	})
	changeSession(s, "clear", "Turn every overlay off at once; pins stay", func(k contracts.OverlaySessionKey, c call[none]) ec.Body {
		return ec.ClearSession{Key: k, IfMatch: c.ifMatch}
	})
	changeSession(s, "pin", "Pin an overlay, and turn it on here where it is off", func(k contracts.OverlaySessionKey, c call[contracts.OverlayPinRequest]) ec.Body {
		return ec.PinOverlay{Key: k, OverlayID: c.body.OverlayID, Scope: c.body.PinScope, IfMatch: c.ifMatch}
	})
	changeSession(s, "unpin", "Remove a pin; what is on stays on", func(k contracts.OverlaySessionKey, c call[contracts.OverlayPinRequest]) ec.Body {
		return ec.UnpinOverlay{Key: k, OverlayID: c.body.OverlayID, Scope: c.body.PinScope, IfMatch: c.ifMatch}
	})
	changeSession(s, "refresh", "Ask for a packet built anew at the next turn", func(k contracts.OverlaySessionKey, c call[contracts.OverlayRefreshRequest]) ec.Body {
		return ec.RequestRefresh{Key: k, Reason: c.body.Reason, IfMatch: c.ifMatch}
	})
	changeSession(s, "bootstrap", "Start a session, with overlays of the session before it", func(k contracts.OverlaySessionKey, c call[contracts.OverlayBootstrapRequest]) ec.Body {
		return ec.BootstrapSession{Key: k, CarryFrom: c.body.CarryFrom, CarryIDs: c.body.CarryOverlayIDs, IfMatch: c.ifMatch}
	})
	add(s, op{id: "prepare-reanswer", method: http.MethodPost, path: one + "/reanswer-plan", summary: "Prepare a second answer to selected turns", success: http.StatusCreated, match: true}, s.reanswer)
}

// changeSession registers a change of one session: one command, and the session
// after it. Bodies all of whose fields have defaults may be left out.
func changeSession[B any](s *Server, verb, summary string, body func(contracts.OverlaySessionKey, call[B]) ec.Body) {
	optional := verb == "clear" || verb == "refresh" || verb == "bootstrap"
	o := op{
		id: verb + "-overlay-session", method: http.MethodPost, path: "/api/overlay-sessions/{session_key}/" + verb,
		summary: summary, empty: optional, etag: true, match: true,
	}
	add(s, o, func(ctx context.Context, c call[B]) (reply[contracts.OverlaySessionResponse], error) {
		key, err := contracts.ParseSessionToken(c.path("session_key"))
		if err != nil {
			return reply[contracts.OverlaySessionResponse]{}, err
		}
		return s.doSession(ctx, c.command(body(key, c), key.FileName()), key)
	})
}

// doSession carries a command out and shows the session as the command left it.
func (s *Server) doSession(ctx context.Context, cmd ec.Command, key contracts.OverlaySessionKey) (out reply[contracts.OverlaySessionResponse], err error) {
	receipt, err := s.cfg.Service.Do(ctx, cmd)
	if err != nil {
		return out, err
	}
	view := s.cfg.Service.View()
	var etag string
	if receipt.Session != nil {
		out.body, etag = view.SessionAnswer(*receipt.Session, s.truthAvailable())
	} else { // a repeat of what was done before a restart
		out.body, etag, err = view.Session(key, s.truthAvailable())
	}
	out.etag = strings.Trim(etag, `"`)
	return out, err
}

// materialised reads something of a session, which is started first where it is
// not there yet. Reading again starts nothing.
func materialised[T any](ctx context.Context, s *Server, actor ec.Actor, key contracts.OverlaySessionKey, read func(*ec.View) (T, error)) (T, error) {
	out, err := read(s.cfg.Service.View())
	if fault.Of(err) != fault.NotFound {
		return out, err
	}
	cmd := ec.Command{ID: "bootstrap:" + key.FileName() + ":" + s.cfg.NewID(), Actor: actor, Body: ec.BootstrapSession{Key: key}}
	if _, err := s.cfg.Service.Do(ctx, cmd); err != nil {
		return out, err
	}
	return read(s.cfg.Service.View())
}

func (s *Server) session(ctx context.Context, c call[none]) (reply[contracts.OverlaySessionResponse], error) {
	key, err := contracts.ParseSessionToken(c.path("session_key"))
	if err != nil {
		return reply[contracts.OverlaySessionResponse]{}, err
	}
	return materialised(ctx, s, c.actor, key, func(v *ec.View) (reply[contracts.OverlaySessionResponse], error) {
		body, etag, err := v.Session(key, s.truthAvailable())
		if err == nil && c.query.flag("debrief") {
			body.PostTaskOffers = v.PostTaskOffers(key, true)
		}
		return reply[contracts.OverlaySessionResponse]{body: body, etag: strings.Trim(etag, `"`)}, err
	})
}

func (s *Server) explain(ctx context.Context, c call[none]) (reply[contracts.OverlayExplanations], error) {
	key, err := contracts.ParseSessionToken(c.path("session_key"))
	if err != nil {
		return reply[contracts.OverlayExplanations]{}, err
	}
	return materialised(ctx, s, c.actor, key, func(v *ec.View) (reply[contracts.OverlayExplanations], error) {
		body, err := v.Explain(key)
		return reply[contracts.OverlayExplanations]{body: body}, err
	})
}

func (s *Server) truth(_ context.Context, c call[none]) (reply[contracts.OverlayRuntimeTruthSummary], error) {
	key, err := contracts.ParseSessionToken(c.path("session_key"))
	if err != nil {
		return reply[contracts.OverlayRuntimeTruthSummary]{}, err
	}
	if turn := c.query.str("turn_id"); turn != "" {
		t, err := s.cfg.Service.View().Receipt(key, turn)
		return reply[contracts.OverlayRuntimeTruthSummary]{body: t}, err
	}
	t, err := s.cfg.Service.View().Truth(key, s.truthAvailable())
	return reply[contracts.OverlayRuntimeTruthSummary]{body: t}, err
}

func (s *Server) truthHistory(_ context.Context, c call[none]) (reply[TruthHistory], error) {
	key, err := contracts.ParseSessionToken(c.path("session_key"))
	if err != nil {
		return reply[TruthHistory]{}, err
	}
	return reply[TruthHistory]{body: TruthHistory{Items: s.cfg.Service.View().TruthHistory(key)}}, nil
}

func (s *Server) reanswer(ctx context.Context, c call[contracts.OverlayReanswerPlanRequest]) (reply[contracts.OverlayReanswerPlan], error) {
	key, err := contracts.ParseSessionToken(c.path("session_key"))
	if err != nil {
		return reply[contracts.OverlayReanswerPlan]{}, err
	}
	receipt, err := s.cfg.Service.Do(ctx, c.command(ec.PreparePlan{Key: key, Request: c.body, IfMatch: c.ifMatch}, key.FileName()))
	switch {
	case err != nil:
		return reply[contracts.OverlayReanswerPlan]{}, err
	case receipt.Plan != nil:
		return reply[contracts.OverlayReanswerPlan]{body: *receipt.Plan}, nil
	}
	plan, err := s.cfg.Service.View().Plan(contracts.UUID(receipt.Subject))
	return reply[contracts.OverlayReanswerPlan]{body: plan}, err
}
