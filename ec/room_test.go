package ec_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/google/go-cmp/cmp"
)

// with starts a library with other companions than usual.
func liveWith(t *testing.T, m ec.Moderators, r ec.Rooms) live {
	t.Helper()
	p := ec.DefaultPolicy()
	p.Moderators, p.Rooms = m, r
	l := live{ectest.At(t, t.TempDir(), p), t}
	l.Must(ec.InstallPresets{Pack: shipped(t)})
	for _, id := range []string{"r-role", "r-room", "r-mod", "r-ws", "r-user"} {
		l.own(id, 60, contracts.SurfaceRoom, contracts.SurfacePanel, contracts.SurfaceChat)
	}
	return l
}

// reopen goes on with the same files and other companions.
func (l live) reopen(m ec.Moderators, r ec.Rooms) {
	l.t.Helper()
	l.Policy.Moderators, l.Policy.Rooms = m, r
	l.Restart()
}

func roomOf(id string) contracts.OverlaySessionKey { return key(contracts.SurfaceRoom, "w", id) }

func moderator(id string, ids ...contracts.OverlayID) ec.PutModeratorDefaults {
	return ec.PutModeratorDefaults{Defaults: contracts.ModeratorDefaults{ModeratorID: id, AppliesTo: "both", UpdatedBy: "user", OverlayIDs: ids}}
}

func surface(kind contracts.SupportedSurface, moderators []string, ids ...contracts.OverlayID) ec.PutSurfaceDefaults {
	return ec.PutSurfaceDefaults{Defaults: contracts.SurfaceDefaults{WorkspaceID: "w", SurfaceKind: kind, UpdatedBy: "user", OverlayIDs: ids, ModeratorIDs: moderators}}
}

func inRoom(participants ...contracts.RoomParticipant) ec.PutRoom {
	return ec.PutRoom{Key: roomOf("r"), Room: contracts.Room{UpdatedBy: "user", RolePrompt: "You are a board.", Participants: participants}}
}

// seen writes down a list of overlays of a room.
func layersOf(list []contracts.RoomOverlay) string {
	var out []string
	for _, o := range list {
		s := fmt.Sprintf("%s:%s", o.Layer, o.OverlayID)
		if !o.In {
			s += "(" + o.Reason + ":" + string(o.LostTo) + ")"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

// R-ROM-03, R-ROM-04, R-SYS-06: who keeps the defaults makes no difference to
// what sessions start with, nor to how they are set and read.
func TestModeratorDefaultsWhoeverKeepsThem(t *testing.T) {
	run := func(k ec.Keeper) (state, answer string) {
		l := liveWith(t, ec.LocalModerators{By: k}, ec.LocalRooms{})
		l.Must(moderator("m", "r-mod"))
		l.Must(surface(contracts.SurfacePanel, []string{"m"}))
		l.Must(surface(contracts.SurfaceRoom, []string{"m"}, "r-room"))
		l.Restart()
		l.start(roomOf("r"))
		panel := key(contracts.SurfacePanel, "w", "p")
		l.start(panel)
		d, err := l.View().Moderator("m")
		if err != nil {
			t.Fatal(err)
		}
		d.UpdatedAt = contracts.Time{}
		return l.set(roomOf("r")) + "; " + l.set(panel), mustEncode(d)
	}
	adopted, answer := run(ec.KeptByProfiles)
	fallback, same := run(ec.KeptByStore)
	if adopted != fallback || adopted != "r-room r-mod; r-mod" || answer != same {
		t.Errorf("R-ROM-03 profiles: %q %s; store: %q %s", adopted, answer, fallback, same)
	}
	t.Run("R-ROM-03 profiles read what the store had before", func(t *testing.T) {
		l := liveWith(t, ec.LocalModerators{By: ec.KeptByStore}, ec.LocalRooms{})
		l.Must(moderator("m", "r-mod"))
		l.reopen(ec.LocalModerators{By: ec.KeptByProfiles}, ec.LocalRooms{})
		if d, err := l.View().Moderator("m"); err != nil || len(d.OverlayIDs) != 1 {
			t.Errorf("got %+v, %v", d, err)
		}
		l.Must(moderator("m", "r-ws"))
		l.reopen(ec.LocalModerators{By: ec.KeptByStore}, ec.LocalRooms{})
		if d, err := l.View().Moderator("m"); err != nil || d.OverlayIDs[0] != "r-mod" {
			t.Errorf("the profiles are not there any more, and the store says %+v, %v", d, err)
		}
	})
	t.Run("R-ROM-08 R-HTTP-13 kept by nobody, they are refused and the switch is named", func(t *testing.T) {
		l := liveWith(t, ec.LocalModerators{By: ec.KeptByStore}, ec.LocalRooms{})
		l.Must(moderator("m", "r-mod"))
		l.Must(surface(contracts.SurfaceRoom, []string{"m"}, "r-room"))
		l.reopen(ec.LocalModerators{By: ec.KeptByNobody}, ec.LocalRooms{})
		f := l.refuses(moderator("m", "r-ws"), fault.Gate, "gate_closed")
		if !strings.Contains(f.Message, "companions.moderators") || f.Details[0].Field != "companions.moderators" {
			t.Errorf("the refusal does not name the switch: %v", f)
		}
		l.refuses(surface(contracts.SurfacePanel, []string{"m"}), fault.Gate, "gate_closed")
		if _, err := l.View().Moderator("m"); fault.Code(err) != "gate_closed" {
			t.Errorf("read: %v", err)
		}
		st := l.start(roomOf("r"))
		if l.set(roomOf("r")) != "r-room" || warned(st, "moderator_defaults_off") != 1 || !strings.Contains(strings.Join(st.Warnings, " "), "r-mod") {
			t.Errorf("a room that starts now has %q, warnings %q", l.set(roomOf("r")), st.Warnings)
		}
		l.reopen(ec.LocalModerators{By: ec.KeptByStore}, ec.LocalRooms{})
		l.start(roomOf("later"))
		if l.set(roomOf("later")) != "r-room r-mod" {
			t.Errorf("kept again: %q", l.set(roomOf("later")))
		}
		l.on(roomOf("r"), "r-user")
		if st := l.state(roomOf("r")); warned(st, "moderator_defaults_off") != 0 {
			t.Errorf("R-SES-23 the cause is over: %q", st.Warnings)
		}
	})
	t.Run("R-ROM-02 of a moderator no more is known than a list of overlays", func(t *testing.T) {
		schema := contracts.Schema{}
		for _, name := range strings.Fields("moderator_id overlay_ids applies_to updated_at updated_by") {
			schema[name] = true
		}
		var fields map[string]any
		decode(t, mustEncode(contracts.ModeratorDefaults{}), &fields)
		for name := range fields {
			if schema[name] == nil {
				t.Errorf("a moderator has the field %s", name)
			}
		}
	})
}

// R-ROM-01, R-ROM-09, R-ROM-12, R-SES-03: a room's layers, and its participants
// apart from it.
func TestRoomLayers(t *testing.T) {
	l := liveWith(t, ec.LocalModerators{By: ec.KeptByStore}, ec.LocalRooms{})
	l.Must(moderator("m", "r-mod"))
	l.Must(surface(contracts.SurfaceRoom, []string{"m"}, "r-room"))
	l.Must(inRoom(
		contracts.RoomParticipant{ParticipantID: "ann", RolePrompt: "You are counsel.", OverlayIDs: contracts.List[contracts.OverlayID]{"r-role"}},
		contracts.RoomParticipant{ParticipantID: "bob", OverlayIDs: contracts.List[contracts.OverlayID]{"legal-strict", "r-room"}},
	))
	l.start(roomOf("r"))
	l.on(roomOf("r"), "creative-flow")
	state := func() contracts.RoomState {
		t.Helper()
		st, err := l.View().RoomState(roomOf("r"))
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	st := state()
	if got := layersOf(st.Overlays); got != "room_overlay:r-room room_overlay:r-mod session_overlay:creative-flow" || st.RoomsState != contracts.AdviceAvailable || st.RolePrompt != "You are a board." {
		t.Errorf("R-ROM-09 the room: %q, %+v", got, st)
	}
	want := map[string]string{
		"ann": "participant_role_overlay:r-role room_overlay:r-room room_overlay:r-mod session_overlay:creative-flow",
		"bob": "participant_role_overlay:legal-strict participant_role_overlay:r-room room_overlay:r-room(duplicate:r-room) room_overlay:r-mod session_overlay:creative-flow(hard_conflict:legal-strict)",
	}
	for _, p := range st.Participants {
		if got := layersOf(p.Overlays); got != want[p.ParticipantID] {
			t.Errorf("R-ROM-01 R-ROM-12 %s: %q, want %q", p.ParticipantID, got, want[p.ParticipantID])
		}
		if p.Overlays[0].Body == "" || p.Overlays[len(p.Overlays)-1].Body != "" {
			t.Errorf("%s: texts of roles and no others are here: %+v", p.ParticipantID, p.Overlays)
		}
	}
	if len(st.Participants) != 2 || st.Participants[0].RolePrompt != "You are counsel." {
		t.Errorf("participants: %+v", st.Participants)
	}
	if d := cmp.Diff(contracts.RoomLayer("").Values(), []string{"room_role_prompt", "participant_role_overlay", "room_overlay", "session_overlay"}); d != "" {
		t.Errorf("R-ROM-01 order of precedence: %s", d)
	}
	t.Run("R-SES-03 roles and overlays of a room are changed apart", func(t *testing.T) {
		packet := l.bytes(roomOf("r"))
		before := mustEncode(l.state(roomOf("r")))
		r := l.Must(inRoom(contracts.RoomParticipant{ParticipantID: "ann", RolePrompt: "You are a judge."}))
		if d := cmp.Diff(before, mustEncode(l.state(roomOf("r")))); d != "" || l.bytes(roomOf("r")) != packet || !r.Changed {
			t.Errorf("a role prompt changed the room's overlays: %s", d)
		}
		room, err := l.View().Room(roomOf("r"))
		if err != nil || room.Participants[0].RolePrompt != "You are a judge." {
			t.Fatalf("room %+v, %v", room, err)
		}
		l.Must(ec.DeactivateOverlay{Key: roomOf("r"), OverlayID: "creative-flow"})
		if now, _ := l.View().Room(roomOf("r")); mustEncode(now) != mustEncode(room) {
			t.Errorf("a change of overlays changed the roles: %+v", now)
		}
		if l.Must(inRoom(contracts.RoomParticipant{ParticipantID: "ann", RolePrompt: "You are a judge."})).Changed {
			t.Error("the same room again is a change")
		}
		l.Restart()
		if now, _ := l.View().Room(roomOf("r")); mustEncode(now) != mustEncode(room) {
			t.Errorf("after a restart: %+v", now)
		}
	})
	t.Run("R-ROM-09 an overlay of the room that lost to another one names it", func(t *testing.T) {
		one, two := l.own("lost-one", 50, contracts.SurfaceRoom), l.own("lost-two", 50, contracts.SurfaceRoom)
		l.start(roomOf("losing"))
		for _, id := range []string{"lost-one", "lost-two"} {
			l.Must(ec.ActivateOverlay{Key: roomOf("losing"), OverlayID: contracts.OverlayID(id), Source: contracts.FromManual, OverrideLimit: true})
		}
		two.Frontmatter.ConflictsWith = contracts.List[contracts.OverlayID]{one.Frontmatter.ID}
		l.Must(ec.UpdateOverlay{OverlayID: "lost-two", Record: two, DeclareReciprocal: true})
		st, err := l.View().RoomState(roomOf("losing"))
		if got := layersOf(st.Overlays); err != nil || !strings.HasSuffix(got, "session_overlay:lost-one session_overlay:lost-two(hard_conflict:lost-one)") {
			t.Errorf("the room: %q, %v", got, err)
		}
	})
	t.Run("what a room may not be", func(t *testing.T) {
		twice := contracts.RoomParticipant{ParticipantID: "ann"}
		l.refuses(inRoom(twice, twice), fault.Invalid, "validation_failed")
		l.refuses(inRoom(contracts.RoomParticipant{ParticipantID: "x", OverlayIDs: contracts.List[contracts.OverlayID]{"creative-flow", "legal-strict"}}), fault.Conflict, "hard_conflict")
		l.refuses(inRoom(contracts.RoomParticipant{ParticipantID: "x", OverlayIDs: contracts.List[contracts.OverlayID]{"spec-architect"}}), fault.Invalid, "validation_failed")
		l.refuses(ec.PutRoom{Key: chat("r"), Room: contracts.Room{UpdatedBy: "user"}}, fault.Invalid, "validation_failed")
		l.refuses(ec.PutRoom{Key: roomOf("r"), Room: contracts.Room{UpdatedBy: "user", RoomID: "other"}}, fault.Invalid, "validation_failed")
	})
	t.Run("an archived role overlay is out and says so", func(t *testing.T) {
		l.Must(inRoom(contracts.RoomParticipant{ParticipantID: "ann", OverlayIDs: contracts.List[contracts.OverlayID]{"r-role"}}))
		l.Must(ec.ArchiveOverlay{OverlayID: "r-role"})
		if got := layersOf(state().Participants[0].Overlays); !strings.HasPrefix(got, "participant_role_overlay:r-role(archived:)") {
			t.Errorf("got %q", got)
		}
	})
}

// R-SYS-06, R-ROM-07: without the rooms' system there are no room defaults, no
// participants, and no recommendations in rooms; each of them says so.
func TestRoomsAreAway(t *testing.T) {
	l := liveWith(t, ec.LocalModerators{By: ec.KeptByStore}, ec.LocalRooms{})
	l.Must(surface(contracts.SurfaceRoom, nil, "r-room"))
	l.Must(surface(contracts.SurfaceTask, nil, "secure-code"))
	l.Must(inRoom(contracts.RoomParticipant{ParticipantID: "ann", OverlayIDs: contracts.List[contracts.OverlayID]{"r-role"}}))
	l.Must(ec.SetFlags{Flags: contracts.Flags{LearnedRecommendations: true}})
	recommended := func(k contracts.OverlaySessionKey) ec.ActivateOverlay {
		return ec.ActivateOverlay{Key: k, OverlayID: "r-user", Source: contracts.FromRecommended, Truth: true, Retrieval: true}
	}
	l.Must(recommended(roomOf("before")))
	l.reopen(ec.LocalModerators{By: ec.KeptByStore}, ec.LocalRooms{Off: true})
	if f := l.refuses(recommended(roomOf("r")), fault.Gate, "gate_closed"); !strings.Contains(f.Message, "companions.rooms") {
		t.Errorf("R-ROM-07 the refusal does not name the switch: %v", f)
	}
	l.Must(recommended(chat("c"))) // elsewhere they go on
	l.refuses(inRoom(), fault.Gate, "gate_closed")
	l.refuses(surface(contracts.SurfaceRoom, nil), fault.Gate, "gate_closed")
	l.Must(surface(contracts.SurfaceTask, nil, "secure-code", "verify-first"))
	st := l.start(roomOf("r"))
	if l.set(roomOf("r")) != "" || warned(st, "rooms_off") != 1 {
		t.Errorf("a room that starts now has %q, warnings %q", l.set(roomOf("r")), st.Warnings)
	}
	l.on(roomOf("r"), "r-user") // the room's own overlays go on working
	rs, err := l.View().RoomState(roomOf("r"))
	if err != nil || rs.RoomsState != contracts.AdviceUnavailable || len(rs.Participants) != 0 || layersOf(rs.Overlays) != "session_overlay:r-user" {
		t.Errorf("room state: %+v, %v", rs, err)
	}
	open := map[string]bool{}
	for _, g := range l.View().Status().Gates {
		open[g.Name] = g.Open
		if !g.Open && g.Reason == "" {
			t.Errorf("gate %s is closed without a reason", g.Name)
		}
	}
	if on, known := open["rooms"]; on || !known || !open["moderator_defaults"] {
		t.Errorf("gates: %v", open)
	}
}

// fakeRooms is another rooms' system: the domain needs no change for it.
type fakeRooms struct{}

func (fakeRooms) Available() bool { return true }

func (fakeRooms) Room(_ ec.Kept, k contracts.OverlaySessionKey) (contracts.Room, bool) {
	return contracts.Room{RoomID: k.SurfaceID, Participants: contracts.List[contracts.RoomParticipant]{{ParticipantID: "zoe", OverlayIDs: contracts.List[contracts.OverlayID]{"r-role"}}}}, true
}

type fakeModerators struct{}

func (fakeModerators) Keeper() ec.Keeper { return ec.KeptByProfiles }

func (fakeModerators) Profile(_ ec.Kept, id string) (contracts.ModeratorDefaults, bool) {
	return contracts.ModeratorDefaults{ModeratorID: id, AppliesTo: "both", OverlayIDs: contracts.List[contracts.OverlayID]{"r-mod"}}, true
}

// R-BND-06: other systems take the stand-ins' places.
func TestCompanionsCanBeReplaced(t *testing.T) {
	l := liveWith(t, fakeModerators{}, fakeRooms{})
	l.Must(surface(contracts.SurfaceRoom, []string{"anybody"}))
	l.start(roomOf("r"))
	st, err := l.View().RoomState(roomOf("r"))
	if err != nil || l.set(roomOf("r")) != "r-mod" || layersOf(st.Participants[0].Overlays) != "participant_role_overlay:r-role room_overlay:r-mod" {
		t.Errorf("set %q, state %+v, %v", l.set(roomOf("r")), st, err)
	}
}
