package ec_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/internal/fault"
	"pgregory.net/rapid"
)

// With -ec.long the property runs 10,000 sequences instead of a few hundred.
var long = flag.Bool("ec.long", false, "run 10,000 random command sequences against the reference model")

// bench is the domain without its writer, with a clock of whole seconds.
type bench struct {
	s *ec.State
	n int
}

func (b *bench) do(body ec.Body) (ec.Receipt, error) {
	b.n++
	actor := ectest.User
	switch body.(type) {
	case ec.BuildPacket, ec.RecordTruth, ec.ReportSessionEvent:
		actor.Role = ec.RoleSeam
	}
	at := contracts.At(time.Date(2026, 1, 1, 0, 0, b.n, 0, time.UTC))
	out, err := b.s.Perform(ec.Command{ID: fmt.Sprint("cmd-", b.n), Actor: actor, At: at, Body: body})
	return out.Receipt, err
}

func modelOverlays() map[string]*mOverlay {
	const all = "chat room panel task"
	return map[string]*mOverlay{
		"a": {tokens: 390, surfaces: all, hard: "f"}, "b": {tokens: 390, surfaces: all, soft: "c"}, "c": {tokens: 390, surfaces: all},
		"d": {tokens: 440, surfaces: all}, "e": {tokens: 100, surfaces: all, hard: "h"}, "f": {tokens: 100, surfaces: all, hard: "a"},
		"g": {tokens: 200, surfaces: "task prompt_advisor", advisor: true}, "h": {tokens: 60, surfaces: "chat", hard: "e"},
		"i": {tokens: 50, surfaces: "post_task", post: true},
	}
}

func overlayIDs() []string { return strings.Fields("a b c d e f g h i") }

// library gives a state with the model's overlays in it.
func modelState(t *testing.T) *ec.State {
	t.Helper()
	s := ec.New(ec.DefaultPolicy())
	pack := ec.Pack{ID: "model"}
	for _, id := range overlayIDs() {
		o := modelOverlays()[id]
		rec := ectest.Overlay(id, sized(id, o.tokens))
		fm := rec.Frontmatter
		fm.LiveTokenTarget, fm.ConflictsWith, fm.WarnsWith, fm.SupportedSurfaces = 450, nil, nil, nil
		for _, x := range strings.Fields(o.hard) {
			fm.ConflictsWith = append(fm.ConflictsWith, contracts.OverlayID(x))
		}
		for _, x := range strings.Fields(o.soft) {
			fm.WarnsWith = append(fm.WarnsWith, contracts.OverlayID(x))
		}
		for _, x := range strings.Fields(o.surfaces) {
			fm.SupportedSurfaces = append(fm.SupportedSurfaces, contracts.SupportedSurface(x))
		}
		switch {
		case o.advisor:
			fm.ArtifactClass, fm.RequiresExplicitInvocation = contracts.ClassAdvisor, true
		case o.post:
			fm.ArtifactClass, fm.RequiresExplicitInvocation = contracts.ClassPostTask, true
		}
		pack.Overlays = append(pack.Overlays, ec.PackOverlay{Frontmatter: fm, Body: rec.Body})
	}
	b := bench{s: s}
	if _, err := b.do(ec.InstallPresets{Pack: pack}); err != nil {
		t.Fatal(err)
	}
	return s
}

type place struct{ name, ws, kind string }

func (p place) key() contracts.OverlaySessionKey {
	return key(contracts.SupportedSurface(p.kind), p.ws, p.name)
}

// R-SES-04, R-SES-12, R-SES-16, R-SES-21 to R-SES-23, R-PIN-13, R-PKT-19,
// R-PKT-23, R-TRU-05: whatever is done in whatever order, the domain and the
// reference model say the same.
func TestSessionsFollowTheReferenceModel(t *testing.T) {
	if *long {
		if err := flag.Set("rapid.checks", "10000"); err != nil {
			t.Fatal(err)
		}
	} else if err := flag.Set("rapid.checks", "200"); err != nil {
		t.Fatal(err)
	}
	if err := flag.Set("rapid.nofailfile", "true"); err != nil {
		t.Fatal(err)
	}
	base := modelState(t)
	places := []place{{"one", "w", "chat"}, {"two", "w", "chat"}, {"three", "v", "chat"}, {"work", "w", "task"}, {"board", "w", "room"}, {"forum", "w", "panel"}}
	rapid.Check(t, func(t *rapid.T) {
		r := &run{T: t, b: bench{s: base.Copy(), n: 1}, m: &model{overlays: modelOverlays(), pins: map[string][]string{}, sessions: map[string]*mSession{}, surfaces: map[string]mDefaults{}}}
		for range rapid.IntRange(0, 3).Draw(t, "defaults") { // before anything starts
			r.defaults()
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			p := rapid.SampledFrom(places).Draw(t, "session")
			id := rapid.SampledFrom(overlayIDs()).Draw(t, "overlay")
			r.step(p, id)
			r.compare(places)
		}
	})
}

type run struct {
	*rapid.T
	b bench
	m *model
}

// refusal gives the code of a refusal for the reason that the model knows.
func refusal(why string) string {
	switch why {
	case "overlay_limit":
		return "live_limit_exceeded"
	case "hard_budget":
		return "hard_budget_exceeded"
	}
	return why
}

// both sends a command to the domain and compares the refusal with the model's.
func (r *run) both(body ec.Body, want func() string) ec.Receipt {
	r.m.clock = r.b.n + 1
	receipt, err := r.b.do(body)
	got := ""
	if err != nil {
		got = fault.Code(err)
	}
	if code := refusal(want()); got != code {
		r.Fatalf("%s %+v: the domain says %q (%v), the model %q", body.Type(), body, got, err, code)
	}
	return receipt
}

func (r *run) step(p place, id string) {
	k, oid, m := p.key(), contracts.OverlayID(id), r.m
	scope := rapid.SampledFrom([]contracts.OverlayPinScope{"thread", "workspace", "until_off"}).Draw(r.T, "scope")
	letter := map[contracts.OverlayPinScope]string{"thread": "t", "workspace": "w", "until_off": "u"}[scope]
	turn := rapid.SampledFrom([]string{"1", "2", "3"}).Draw(r.T, "turn")
	change := func(reason string, f func(*mSession) string) func() string {
		return func() string { return m.change(p.name, p.ws, p.kind, reason, f) }
	}
	switch rapid.IntRange(0, 14).Draw(r.T, "command") {
	case 0, 1:
		override := rapid.Bool().Draw(r.T, "override")
		r.both(ec.ActivateOverlay{Key: k, OverlayID: oid, Source: "manual", OverrideLimit: override}, change("activation_change", func(s *mSession) string { return m.turnOn(s, id, "", override) }))
	case 2:
		r.both(ec.ActivateOverlay{Key: k, OverlayID: oid, Source: "manual", PinScope: scope}, change("activation_change", func(s *mSession) string {
			if code := m.turnOn(s, id, letter, false); code != "" {
				return code
			}
			return m.pin(s, id, letter)
		}))
	case 3:
		r.both(ec.DeactivateOverlay{Key: k, OverlayID: oid}, change("deactivation_change", func(s *mSession) string {
			s.remove(id)
			s.unnote("overlay_archived", id)
			return ""
		}))
	case 4:
		r.both(ec.PinOverlay{Key: k, OverlayID: oid, Scope: scope}, change("activation_change", func(s *mSession) string {
			switch o := m.overlays[id]; {
			case o.archived:
				return "overlay_archived"
			case o.post:
				return "class_not_activatable"
			case o.advisor:
				return "explicit_invocation_required"
			}
			if s.find(id) == nil {
				if code := m.turnOn(s, id, letter, false); code != "" {
					return code
				}
			}
			return m.pin(s, id, letter)
		}))
	case 5:
		r.both(ec.UnpinOverlay{Key: k, OverlayID: oid, Scope: scope}, change("", func(s *mSession) string { m.unpin(s, id, letter); return "" }))
	case 6:
		reason := rapid.SampledFrom([]contracts.OverlayRefreshReason{"manual", "model_switch", "session_rehydrate"}).Draw(r.T, "reason")
		r.both(ec.RequestRefresh{Key: k, Reason: reason}, change("", func(s *mSession) string { s.refresh(string(reason)); return "" }))
	case 7:
		reason := rapid.SampledFrom([]contracts.OverlayRefreshReason{"compaction", "packet_trim"}).Draw(r.T, "event")
		r.both(ec.ReportSessionEvent{Event: contracts.OverlaySessionEvent{SessionKey: k, EventKind: reason}}, change("", func(s *mSession) string { s.refresh(string(reason)); return "" }))
	case 8:
		if rapid.IntRange(0, 3).Draw(r.T, "rarely") == 0 {
			r.both(ec.ClearSession{Key: k}, change("deactivation_change", func(s *mSession) string { s.entries, s.notes = nil, nil; return "" }))
		}
	case 9:
		r.edit(id)
	case 10:
		if m.overlays[id].archived {
			r.both(ec.RestoreOverlay{OverlayID: oid}, func() string { m.restore(id); return "" })
		} else {
			r.both(ec.ArchiveOverlay{OverlayID: oid}, func() string { m.archive(id); return "" })
		}
	case 11, 12:
		r.defaults()
	default:
		r.turn(p, turn)
	}
}

// defaults sets what sessions start with that are started later.
func (r *run) defaults() {
	m := r.m
	var ids []string
	var list contracts.List[contracts.OverlayID]
	for _, id := range overlayIDs() {
		if len(ids) < 3 && rapid.IntRange(0, 3).Draw(r.T, "default "+id) == 0 {
			ids, list = append(ids, id), append(list, contracts.OverlayID(id))
		}
	}
	if rapid.Bool().Draw(r.T, "moderator") {
		applies := rapid.SampledFrom([]string{"rooms", "panels", "both"}).Draw(r.T, "applies")
		r.both(ec.PutModeratorDefaults{Defaults: contracts.ModeratorDefaults{ModeratorID: "m", AppliesTo: applies, UpdatedBy: "user", OverlayIDs: list}}, func() string {
			code := m.list(ids)
			if code == "" {
				m.moderator, m.applies = ids, applies
			}
			return code
		})
		return
	}
	kind := rapid.SampledFrom([]string{"room", "panel", "task"}).Draw(r.T, "kind")
	d := contracts.SurfaceDefaults{WorkspaceID: "w", SurfaceKind: contracts.SupportedSurface(kind), UpdatedBy: "user", OverlayIDs: list}
	adopt := rapid.Bool().Draw(r.T, "adopt")
	if adopt {
		d.ModeratorIDs = contracts.List[string]{"m"}
	}
	r.both(ec.PutSurfaceDefaults{Defaults: d}, func() string {
		code := m.list(ids)
		if code == "" {
			m.surfaces[kind] = mDefaults{ids, adopt}
		}
		return code
	})
}

func (r *run) edit(id string) {
	o := r.m.overlays[id]
	tokens := rapid.SampledFrom([]int{60, 390, 440}).Draw(r.T, "tokens")
	if o.archived || o.advisor || o.post || tokens == o.tokens {
		return
	}
	d, _, err := ec.NewView(r.b.s).Overlay(contracts.OverlayID(id))
	if err != nil {
		r.Fatal(err)
	}
	d.Record.Body, d.Record.BodyHash = sized(id, tokens), ""
	r.both(ec.UpdateOverlay{OverlayID: contracts.OverlayID(id), Record: d.Record}, func() string { r.m.edit(id, tokens); return "" })
}

// turn reads the packet and, sometimes, reports what was done with it.
func (r *run) turn(p place, turn string) {
	force := rapid.IntRange(0, 4).Draw(r.T, "force") == 0
	q := ec.PacketQuery{TurnID: turn, Force: force}
	got, due, err := ec.NewView(r.b.s).Packet(p.key(), q)
	r.m.clock = r.b.n + 1
	if due {
		receipt, err := r.b.do(ec.BuildPacket{Key: p.key(), TurnID: turn, Force: force})
		if err != nil {
			r.Fatalf("build packet: %v", err)
		}
		got = q.Encode(*receipt.Packet)
	}
	if err != nil {
		r.Fatal(err)
	}
	packet, err := contracts.Decode[contracts.OverlayPromptPacket](got.Body, contracts.Stored)
	if err != nil {
		r.Fatal(err)
	}
	want, reason := r.m.packet(p.name, p.ws, p.kind, turn, force)
	if blocks(packet) != want || string(packet.RefreshReason) != reason {
		r.Fatalf("packet of %s, turn %s: blocks %q label %q, the model says %q %q", p.name, turn, blocks(packet), packet.RefreshReason, want, reason)
	}
	if packet.Revision != r.m.sessions[p.name].revision || len(packet.RequestedOverlayIDs) != len(packet.OverlayBlocks)+len(packet.Dropped) || packet.EstimatedTotalTokens > contracts.HardBudget {
		r.Fatalf("packet %s", got.Body)
	}
	if rapid.Bool().Draw(r.T, "receipt") {
		revision := packet.Revision + rapid.IntRange(-1, 1).Draw(r.T, "off")
		if revision < 0 {
			return
		}
		t := contracts.OverlayRuntimeTruthSummary{SessionKey: p.key(), Revision: revision, PacketHash: packet.PacketHash, TurnID: turn + fmt.Sprint("@", r.b.n)}
		var ids []string
		for _, b := range packet.OverlayBlocks {
			t.RequestedOverlayIDs, t.AppliedOverlayIDs = append(t.RequestedOverlayIDs, b.OverlayID), append(t.AppliedOverlayIDs, b.OverlayID)
			ids = append(ids, string(b.OverlayID))
		}
		r.both(ec.RecordTruth{Truth: t}, func() string { return r.m.receipt(p.name, revision, t.TurnID, ids) })
	}
}

// compare holds both sides' sessions against each other.
func (r *run) compare(places []place) {
	v := ec.NewView(r.b.s)
	for _, p := range places {
		resp, _, err := v.Session(p.key(), true)
		s := r.m.sessions[p.name]
		if (err == nil) != (s != nil) {
			r.Fatalf("session %s: the domain says %v, the model has %v", p.name, err, s)
		}
		if s == nil {
			continue
		}
		if got, want := domainSeen(resp.SessionState), r.m.seen(s); got != want {
			r.Fatalf("session %s: the domain has\n%s\nthe model\n%s", p.name, got, want)
		}
	}
}

func domainSeen(st contracts.OverlaySessionState) string {
	var out, warn []string
	for _, a := range st.ActiveOverlays {
		scopes := ""
		for _, s := range a.PinScopes {
			scopes += string(s[:1])
		}
		out = append(out, fmt.Sprint(a.OverlayID, " ", a.Source, " ", a.ActiveForSurface, " ", a.InertReason, " ", scopes, " ", a.Note != ""))
	}
	for _, w := range st.Warnings {
		code, _, _ := strings.Cut(w, ":")
		warn = append(warn, code)
	}
	slices.Sort(warn)
	applied := -1
	if st.LastAppliedRevision != nil {
		applied = *st.LastAppliedRevision
	}
	return fmt.Sprintf("revision %d force %v pending %q last %q applied %d\n%s\nwarnings %v", st.Revision, st.ForceRefreshNextTurn, st.PendingRefreshReason, st.LastRefreshReason, applied, strings.Join(out, "\n"), warn)
}
