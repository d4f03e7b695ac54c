package api

import (
	"context"
	"net/http"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/fault"
)

// roomRoutes serve what surfaces start with, what rooms are set up with, and
// what the systems beside this one read.
func (s *Server) roomRoutes() {
	const room, seam = "/api/rooms/{room_key}", "/internal/doc17/"
	workspace := param{name: "workspace_id", max: 200, about: "Only this workspace's."}
	add(s, op{id: "list-surface-defaults", method: http.MethodGet, path: "/api/surface-defaults", summary: "List what rooms, panels and tasks start with", query: []param{workspace}}, s.surfaces)
	add(s, op{id: "put-surface-defaults", method: http.MethodPut, path: "/api/surface-defaults", summary: "Set what a room, panel or task starts with, or all of a kind in a workspace, for sessions that start later"}, s.putSurface)
	add(s, op{id: "list-rooms", method: http.MethodGet, path: "/api/rooms", summary: "List the rooms that roles or participants are set up for", query: []param{workspace}}, s.rooms)
	add(s, op{id: "get-room", method: http.MethodGet, path: room, summary: "Read the role prompts and participants of a room"}, s.room)
	add(s, op{id: "put-room", method: http.MethodPut, path: room, summary: "Set the role prompts and participants of a room; the overlays that are on in it are not touched"}, s.putRoom)

	read := func(id, path, summary string, query ...param) op {
		return op{id: id, method: http.MethodGet, path: seam + path, summary: summary, only: ec.RoleSeam, peer: true, query: query}
	}
	plan := param{name: "plan_id", max: 36, about: "Of a re-answer that is dispatched."}
	add(s, read("get-room-state", "room-state", "The overlays of a room by layer, and apart from them those of each participant", sessionQuery()...), s.roomState)
	add(s, read("get-route-facts", "route-facts", "What a router may know of a session", append(sessionQuery(), plan)...), s.routeFacts)
	add(s, read("get-context-facts", "context-facts", "What recommendations for a session may be made from", sessionQuery()...), s.contextFacts)
	add(s, read("list-observations", "observations", "How prompt artifacts did, in order: opinions and signs of them, without texts",
		param{name: "after", kind: paramInt, about: "The cursor of the last observation that is known already."},
		param{name: "limit", kind: paramInt, max: 1000, deflt: "200", about: "How many at most; 0 is all."},
		param{name: "failures", kind: paramBool, deflt: "false", about: "Only where something went wrong."}), s.observations)
}

func (s *Server) surfaces(_ context.Context, c call[none]) (reply[contracts.SurfaceDefaultsList], error) {
	var out contracts.SurfaceDefaultsList
	for _, d := range s.cfg.Service.View().SurfaceDefaults() {
		if ws := c.query.str("workspace_id"); ws == "" || ws == d.WorkspaceID {
			out.Items = append(out.Items, d)
		}
	}
	out.Total = len(out.Items)
	return reply[contracts.SurfaceDefaultsList]{body: out}, nil
}

func (s *Server) putSurface(ctx context.Context, c call[contracts.SurfaceDefaults]) (reply[contracts.SurfaceDefaults], error) {
	target := string(c.body.SurfaceKind) + "/" + contracts.HashJSON([]string{c.body.WorkspaceID, c.body.SurfaceID})
	if _, err := s.cfg.Service.Do(ctx, c.command(ec.PutSurfaceDefaults{Defaults: c.body}, target)); err != nil {
		return reply[contracts.SurfaceDefaults]{}, err
	}
	for _, d := range s.cfg.Service.View().SurfaceDefaults() {
		if d.WorkspaceID == c.body.WorkspaceID && d.SurfaceKind == c.body.SurfaceKind && d.SurfaceID == c.body.SurfaceID {
			return reply[contracts.SurfaceDefaults]{body: d}, nil
		}
	}
	return reply[contracts.SurfaceDefaults]{}, fault.New(fault.NotFound, "not_found", "the defaults are not there any more")
}

func (s *Server) rooms(_ context.Context, c call[none]) (reply[contracts.RoomList], error) {
	rooms, err := s.cfg.Service.View().Rooms(c.query.str("workspace_id"))
	return reply[contracts.RoomList]{body: contracts.RoomList{Items: rooms, Total: len(rooms)}}, err
}

func (s *Server) room(_ context.Context, c call[none]) (reply[contracts.Room], error) {
	key, err := contracts.ParseSessionToken(c.path("room_key"))
	if err != nil {
		return reply[contracts.Room]{}, err
	}
	room, err := s.cfg.Service.View().Room(key)
	return reply[contracts.Room]{body: room}, err
}

func (s *Server) putRoom(ctx context.Context, c call[contracts.Room]) (reply[contracts.Room], error) {
	key, err := contracts.ParseSessionToken(c.path("room_key"))
	if err != nil {
		return reply[contracts.Room]{}, err
	}
	if _, err := s.cfg.Service.Do(ctx, c.command(ec.PutRoom{Key: key, Room: c.body}, key.FileName())); err != nil {
		return reply[contracts.Room]{}, err
	}
	room, err := s.cfg.Service.View().Room(key)
	return reply[contracts.Room]{body: room}, err
}

func (s *Server) roomState(ctx context.Context, c call[none]) (reply[contracts.RoomState], error) {
	key, err := sessionOf(c.query)
	if err != nil {
		return reply[contracts.RoomState]{}, err
	}
	if key.SurfaceKind != contracts.SurfaceRoom {
		return reply[contracts.RoomState]{}, badRequest([]fault.Detail{{Field: "surface_kind", Rule: "room_only", Message: "must be room"}})
	}
	return materialised(ctx, s, c.actor, key, func(v *ec.View) (reply[contracts.RoomState], error) {
		st, err := v.RoomState(key)
		return reply[contracts.RoomState]{body: st}, err
	})
}

func (s *Server) routeFacts(_ context.Context, c call[none]) (reply[contracts.RouteFacts], error) {
	key, err := sessionOf(c.query)
	if err != nil {
		return reply[contracts.RouteFacts]{}, err
	}
	facts, err := s.cfg.Service.View().RouteFacts(key, uuidOf(c.query.str("plan_id")), s.truthAvailable())
	return reply[contracts.RouteFacts]{body: facts}, err
}

func (s *Server) contextFacts(ctx context.Context, c call[none]) (reply[contracts.ContextFacts], error) {
	key, err := sessionOf(c.query)
	if err != nil {
		return reply[contracts.ContextFacts]{}, err
	}
	return materialised(ctx, s, c.actor, key, func(v *ec.View) (reply[contracts.ContextFacts], error) {
		facts, err := v.ContextFacts(key)
		return reply[contracts.ContextFacts]{body: facts}, err
	})
}

func (s *Server) observations(_ context.Context, c call[none]) (reply[contracts.ObservationFeed], error) {
	feed := s.cfg.Service.View().Observations(c.query.number("after"), int(c.query.number("limit")), c.query.flag("failures")) //nolint:gosec // bounded
	return reply[contracts.ObservationFeed]{body: feed}, nil
}
