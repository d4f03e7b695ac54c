package api

import (
	"context"
	"net/http"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
)

// sessionKeyRoutes list sessions, and make and take back the keys by which
// programs name one. A key is shown in one answer and kept nowhere.
func (s *Server) sessionKeyRoutes() {
	const keys = "/api/session-keys"
	list := op{id: "list-overlay-sessions", method: http.MethodGet, path: "/api/overlay-sessions", summary: "List sessions, the latest activity first"}
	list.query = []param{
		{name: "workspace_id", max: 200},
		{name: "surface_kind", enum: []string{"chat", "room", "panel", "task"}},
		{name: "active", kind: paramBool, deflt: "false", about: "Only those whose next turn has an overlay."},
		{name: "limit", kind: paramInt, max: 1000, deflt: "200", about: "How many at most; 0 is all."},
		{name: "after", max: 100, about: "The next of the page before."},
	}
	add(s, list, s.sessions)
	add(s, op{id: "list-session-keys", method: http.MethodGet, path: keys, summary: "List the keys by which programs name a session", people: true}, s.sessionKeys)
	add(s, op{id: "create-session-key", method: http.MethodPost, path: keys, summary: "Make a key to a session; it is shown in this answer only", success: http.StatusCreated, repeat: true, people: true}, s.createSessionKey)
	add(s, op{id: "revoke-session-key", method: http.MethodPost, path: keys + "/{key_id}/revoke", summary: "Make a key worthless", empty: true, people: true}, s.revokeSessionKey)
	add(s, op{id: "resolve-session-key", method: http.MethodPost, path: "/internal/doc17/session-keys/resolve", summary: "Say which session a presented key names", only: ec.RoleSeam, peer: true}, s.resolveSessionKey)
}

func (s *Server) sessions(_ context.Context, c call[none]) (reply[contracts.OverlaySessionList], error) {
	list, err := s.cfg.Service.View().Sessions(ec.SessionFilter{
		WorkspaceID: c.query.str("workspace_id"), Surface: contracts.SupportedSurface(c.query.str("surface_kind")),
		Active: c.query.flag("active"), After: c.query.str("after"),
		Limit: int(c.query.number("limit")), //nolint:gosec // bounded
	})
	return reply[contracts.OverlaySessionList]{body: list}, err
}

func (s *Server) sessionKeys(context.Context, call[none]) (reply[contracts.SessionAPIKeyList], error) {
	return reply[contracts.SessionAPIKeyList]{body: s.cfg.Service.View().SessionKeys()}, nil
}

func (s *Server) createSessionKey(ctx context.Context, c call[contracts.SessionAPIKeyRequest]) (out reply[contracts.SessionAPIKeyCreated], err error) {
	key := contracts.NewSessionAPIKey()
	hash := contracts.HashSessionAPIKey(key)
	receipt, err := s.cfg.Service.Do(ctx, c.command(ec.CreateSessionKey{Key: c.body.SessionKey, Name: c.body.Name, SHA256: hash}, ""))
	if err != nil {
		return out, err
	}
	known, mine, err := s.cfg.Service.View().SessionKey(contracts.UUID(receipt.Subject), hash)
	out.body.SessionAPIKey = known
	if mine {
		out.body.Key = key
	} else { // a repeat: the key of the first answer counts, and is not known any more
		out.status = http.StatusOK
	}
	return out, err
}

// Revoked says which key is worthless now.
type Revoked struct {
	KeyID   contracts.UUID `json:"key_id"`
	Revoked bool           `json:"revoked"`
}

func (s *Server) revokeSessionKey(ctx context.Context, c call[none]) (reply[Revoked], error) {
	id := uuidOf(c.path("key_id"))
	_, err := s.cfg.Service.Do(ctx, c.command(ec.RevokeSessionKey{KeyID: id}, string(id)))
	return reply[Revoked]{body: Revoked{KeyID: id, Revoked: true}}, err
}

func (s *Server) resolveSessionKey(_ context.Context, c call[contracts.SessionAPIKeyLookup]) (reply[contracts.SessionAPIKeyOwner], error) {
	owner, err := s.cfg.Service.View().ResolveSessionKey(c.body.KeySHA256)
	return reply[contracts.SessionAPIKeyOwner]{body: owner}, err
}
