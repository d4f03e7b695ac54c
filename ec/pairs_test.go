package ec_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/fault"
)

// headers gives the headers of the pack by id.
func headers(t *testing.T) map[contracts.OverlayID]contracts.OverlayTemplateFrontmatter {
	t.Helper()
	out := map[contracts.OverlayID]contracts.OverlayTemplateFrontmatter{}
	for _, o := range shipped(t).Overlays {
		out[o.Frontmatter.ID] = o.Frontmatter
	}
	return out
}

// pairs collects what the pack declares, each pair once, its ids in order.
func pairs(all map[contracts.OverlayID]contracts.OverlayTemplateFrontmatter, of func(contracts.OverlayTemplateFrontmatter) contracts.List[contracts.OverlayID]) [][2]contracts.OverlayID {
	seen := map[[2]contracts.OverlayID]bool{}
	for a, fm := range all {
		for _, b := range of(fm) {
			seen[[2]contracts.OverlayID{min(a, b), max(a, b)}] = true
		}
	}
	var out [][2]contracts.OverlayID
	for p := range seen {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b [2]contracts.OverlayID) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return out
}

// common gives a surface of a session where both overlays can be on.
func common(a, b contracts.OverlayTemplateFrontmatter) (contracts.SupportedSurface, bool) {
	for _, kind := range []contracts.SupportedSurface{contracts.SurfaceRoom, contracts.SurfaceChat, contracts.SurfacePanel, contracts.SurfaceTask} {
		if slices.Contains(a.SupportedSurfaces, kind) && slices.Contains(b.SupportedSurfaces, kind) {
			return kind, true
		}
	}
	return "", false
}

// names checks that a refusal is one of the pair, and says so.
func (l live) names(door string, f *fault.Error, a, b contracts.OverlayID) {
	l.t.Helper()
	var ids []string
	for _, d := range f.Details {
		ids = append(ids, d.Field)
	}
	slices.Sort(ids)
	want := []string{string(a), string(b)}
	slices.Sort(want)
	if !slices.Equal(ids, want) || !strings.Contains(f.Message, string(a)) || !strings.Contains(f.Message, string(b)) {
		l.t.Errorf("R-SES-12 %s: refused with %v naming %v, want %v", door, f, ids, want)
	}
}

// R-SES-12, R-SES-13, R-PIN-07, R-PIN-14, R-ROM-06, R-REA-08: every hard pair of
// the pack meets its refusal at every door, in both orders, with both named.
func TestEveryHardPairAtEveryDoor(t *testing.T) {
	all := headers(t)
	hard := pairs(all, func(fm contracts.OverlayTemplateFrontmatter) contracts.List[contracts.OverlayID] {
		return fm.ConflictsWith
	})
	if len(hard) != len(contracts.HardPairs()) {
		t.Fatalf("the pack declares %v, want the pairs %v", hard, contracts.HardPairs())
	}
	met := 0
	for _, p := range hard {
		for _, ab := range [][2]contracts.OverlayID{{p[0], p[1]}, {p[1], p[0]}} {
			a, b := ab[0], ab[1]
			kind, live := common(all[a], all[b])
			if !live { // they can meet in an advisor's call only; each is refused where the other can be
				l := newLive(t)
				for _, s := range all[a].SupportedSurfaces {
					if s == contracts.SurfaceAdvisor || s == contracts.SurfacePostTask {
						continue
					}
					if _, err := l.Send(activate(key(s, "w", "x"), b)); fault.Of(err) != fault.Invalid {
						t.Errorf("%s on the surface %s of %s: %v", b, s, a, err)
					}
				}
				continue
			}
			met++
			t.Run(string(a)+" then "+string(b), func(t *testing.T) { hardPair(t, kind, a, b) })
		}
	}
	if met != 8 {
		t.Errorf("%d ordered pairs met at their doors, want 8", met)
	}
}

func hardPair(t *testing.T, kind contracts.SupportedSurface, a, b contracts.OverlayID) {
	l := newLive(t)
	at := func(id string) contracts.OverlaySessionKey { return key(kind, "w", id) }
	refused := func(door string, body ec.Body) {
		t.Helper()
		before := l.View().Seq()
		l.names(door, l.refuses(body, fault.Conflict, "hard_conflict"), a, b)
		if l.View().Seq() != before {
			t.Errorf("%s: refused, and something changed", door)
		}
	}
	k, both := at("on"), contracts.List[contracts.OverlayID]{a, b}
	l.on(k, a)
	refused("activate", activate(k, b))
	refused("activate beyond the limit", ec.ActivateOverlay{Key: k, OverlayID: b, Source: contracts.FromManual, OverrideLimit: true})
	for _, scope := range []contracts.OverlayPinScope{contracts.PinThread, contracts.PinWorkspace, contracts.PinUntilOff} {
		refused("activate with pin "+string(scope), ec.ActivateOverlay{Key: k, OverlayID: b, Source: contracts.FromManual, PinScope: scope})
		refused("pin "+string(scope), ec.PinOverlay{Key: k, OverlayID: b, Scope: scope})
	}
	plan := func(mode contracts.OverlayDispatchOverrideMode, keep bool, ids ...contracts.OverlayID) ec.Body {
		return ec.PreparePlan{Key: k, Request: contracts.OverlayReanswerPlanRequest{
			SelectedMessageIDs: contracts.List[string]{"m"}, ContextMode: "clean_context", OverrideMode: mode, OverlayIDs: ids, KeepOverlayActiveAfterDispatch: keep,
		}}
	}
	refused("override with what is on", plan(contracts.OverrideActivePlus, false, b))
	refused("override of both", plan(contracts.OverrideOneTime, false, both...))
	refused("a plan that keeps it on", plan(contracts.OverrideOneTime, true, b))
	if _, err := l.View().OverridePacket(k, contracts.OverlayDispatchOverride{Mode: contracts.OverrideActivePlus, OverlayIDs: contracts.List[contracts.OverlayID]{b}}, contracts.At(l.Clock.Now())); fault.Code(err) != "hard_conflict" {
		t.Errorf("override of an ordinary turn: %v", err)
	}
	refused("moderator defaults", moderator("m", both...))
	for _, s := range []contracts.SupportedSurface{contracts.SurfaceRoom, contracts.SurfaceTask, contracts.SurfacePanel} {
		refused("defaults of a "+string(s), surface(s, nil, both...))
	}
	refused("a participant's role", inRoom(contracts.RoomParticipant{ParticipantID: "p", OverlayIDs: both}))

	// Two layers of a new session: the earlier wins, the pair is named.
	blocked := func(door string, k contracts.OverlaySessionKey) {
		t.Helper()
		st := l.start(k)
		want := contracts.OverlayPair{min(a, b), max(a, b)}
		if !slices.ContainsFunc(st.HardBlockedPairs, func(p contracts.OverlayPair) bool { return slices.Equal(p, want) }) || warned(st, "hard_conflict") != 1 || strings.Contains(l.set(k), string(b)) {
			t.Errorf("R-PIN-07 %s: set %q, pairs %v, warnings %q", door, l.set(k), st.HardBlockedPairs, st.Warnings)
		}
	}
	one, two := at("one"), at("two")
	l.start(one)
	l.start(two)
	l.Must(ec.PinOverlay{Key: one, OverlayID: a, Scope: contracts.PinWorkspace})
	l.on(two)
	l.names("pin beside another", l.refuses(ec.PinOverlay{Key: two, OverlayID: b, Scope: contracts.PinWorkspace}, fault.Conflict, "hard_conflict"), a, b)
	l.Must(ec.PinOverlay{Key: two, OverlayID: b, Scope: contracts.PinUntilOff})
	blocked("a workspace pin and a global one", at("later"))
	l.Must(surface(contracts.SurfaceRoom, []string{"m"}, a))
	l.Must(moderator("m", b))
	blocked("a room's default and its moderator's", roomOf("later"))
}

// R-SES-14: every soft pair of the pack goes on together and is warned of, once,
// by both names, in sessions, at the start of one, and in an override's packet.
func TestEverySoftPairWarns(t *testing.T) {
	all := headers(t)
	soft := pairs(all, func(fm contracts.OverlayTemplateFrontmatter) contracts.List[contracts.OverlayID] { return fm.WarnsWith })
	if len(soft) != 12 {
		t.Fatalf("the pack declares %d soft pairs, want 12", len(soft))
	}
	l := newLive(t)
	met := 0
	for i, p := range soft {
		kind, ok := common(all[p[0]], all[p[1]])
		if !ok || all[p[0]].ArtifactClass != contracts.ClassLive || all[p[1]].ArtifactClass != contracts.ClassLive {
			t.Logf("%v cannot be on together", p)
			continue
		}
		met++
		said := func(where string, warnings []string) {
			t.Helper()
			n := 0
			for _, w := range warnings {
				if strings.HasPrefix(w, "soft_conflict:") && strings.Contains(w, string(p[0])) && strings.Contains(w, string(p[1])) {
					n++
				}
			}
			if n != 1 {
				t.Errorf("R-SES-14 %v %s: warned %d times in %q", p, where, n, warnings)
			}
		}
		for _, ids := range [][]contracts.OverlayID{{p[0], p[1]}, {p[1], p[0]}} {
			k := key(kind, "w", fmt.Sprint("soft-", i, ids[0]))
			l.on(k, ids...)
			said("turned on", l.state(k).Warnings)
			packet, err := l.View().OverridePacket(key(kind, "w", "nobody"), contracts.OverlayDispatchOverride{Mode: contracts.OverrideOneTime, OverlayIDs: ids}, contracts.At(l.Clock.Now()))
			if err != nil {
				t.Errorf("%v as an override: %v", p, err)
			}
			said("as an override", packet.Warnings)
		}
		ws := fmt.Sprint("ws-", i)
		for _, id := range p {
			l.Must(ec.PinOverlay{Key: key(kind, ws, "pins"), OverlayID: id, Scope: contracts.PinWorkspace})
		}
		said("at the start", l.start(key(kind, ws, "new")).Warnings)
	}
	if met != len(soft) {
		t.Errorf("%d of 12 soft pairs met", met)
	}
}
