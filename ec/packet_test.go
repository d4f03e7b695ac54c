package ec_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/fault"
)

func TestPacketsStayTheSame(t *testing.T) {
	l := newLive(t)
	k := chat("t")
	l.on(k, "legal-strict", "secure-code")
	first, one := l.packet(k, ec.PacketQuery{TurnID: "1"})
	if first.RefreshReason != contracts.RefreshActivation {
		t.Errorf("G-018 the packet after a change says %q", first.RefreshReason)
	}
	t.Run("R-PKT-19 G-020 the reason labels one turn", func(t *testing.T) {
		if _, again := l.packet(k, ec.PacketQuery{TurnID: "1"}); string(again.Body) != string(one.Body) || again.ETag != one.ETag {
			t.Error("a retry of the turn gets another packet")
		}
	})
	_, plain := l.packet(k, ec.PacketQuery{TurnID: "2"})
	t.Run("R-PKT-10 G-021 nothing changes, no byte changes", func(t *testing.T) {
		seq := l.View().Seq()
		for i := range 10 {
			p, b := l.packet(k, ec.PacketQuery{TurnID: string(rune('a' + i))})
			if string(b.Body) != string(plain.Body) || b.ETag != plain.ETag || p.RefreshReason != "" || p.PacketHash != first.PacketHash {
				t.Fatalf("turn %d: another packet: %s", i, b.Body)
			}
		}
		if l.View().Seq() != seq {
			t.Error("reading wrote something")
		}
		l.Restart()
		if _, b := l.packet(k, ec.PacketQuery{TurnID: "z"}); string(b.Body) != string(plain.Body) {
			t.Errorf("after a restart: %s", b.Body)
		}
		if st := l.state(k); st.PromptPacketHash != first.PacketHash {
			t.Errorf("R-PKT-27 the state holds the hash %q", st.PromptPacketHash)
		}
	})
	t.Run("R-PKT-11 force gives a new time and nothing else", func(t *testing.T) {
		p, b := l.packet(k, ec.PacketQuery{TurnID: "f", Force: true})
		if p.PacketHash != first.PacketHash || p.Revision != first.Revision || !p.GeneratedAt.After(first.GeneratedAt.Time) || b.ETag == plain.ETag {
			t.Errorf("forced: %+v", p)
		}
		if _, again := l.packet(k, ec.PacketQuery{TurnID: "f", Force: true}); again.ETag != b.ETag {
			t.Error("a retry of a forced turn was built anew")
		}
	})
	t.Run("R-PKT-25 G-045 whatever revision is named", func(t *testing.T) {
		for _, r := range []int{0, l.state(k).Revision, 99} {
			p, b := l.packet(k, ec.PacketQuery{TurnID: "r", Revision: &r})
			if p.Revision != l.state(k).Revision || blocks(p) != "legal-strict secure-code" || (len(p.Warnings) == 1) != (r == 99) {
				t.Errorf("revision %d: %+v", r, p)
			}
			if _, next := l.packet(k, ec.PacketQuery{TurnID: "r2"}); (next.ETag != b.ETag) != (r == 99) {
				t.Error("the warning was for that answer only")
			}
		}
	})
	t.Run("R-PKT-11 a title is part of what reaches the prompt", func(t *testing.T) {
		d, _, _ := l.View().Overlay("secure-code")
		rec := d.Record
		rec.Frontmatter.Title = "Another title"
		l.Must(ec.UpdateOverlay{OverlayID: "secure-code", Record: rec})
		if p, _ := l.packet(k, ec.PacketQuery{TurnID: "title"}); p.PacketHash == first.PacketHash || p.OverlayBlocks[1].Title != "Another title" || p.Revision != first.Revision+1 {
			t.Errorf("after the edit: %+v", p)
		}
	})
	t.Run("R-PKT-06 R-PKT-07 blocks and totals", func(t *testing.T) {
		p, _ := l.packet(k, ec.PacketQuery{})
		sum := 0
		for _, b := range p.OverlayBlocks {
			sum += b.TokenEstimate
			if b.PositionHint != contracts.PositionHint || b.BodyHash != contracts.Hash(b.Body) || b.TokenEstimate != contracts.EstimateTokens(b.Body) {
				t.Errorf("block %+v", b)
			}
		}
		if p.EstimatedTotalTokens != sum || p.SoftBudget != 800 || p.HardBudget != 1200 || p.PacketHash != p.Hash() {
			t.Errorf("totals of %+v", p)
		}
	})
}

// R-PKT-09, G-038: of equal rank, an earlier layer comes first, whatever the ids say.
func TestLayersOrderThePacket(t *testing.T) {
	l := newLive(t)
	l.own("z-workspace", 40)
	l.own("a-global", 40)
	l.Must(ec.PinOverlay{Key: chat("x"), OverlayID: "a-global", Scope: contracts.PinUntilOff})
	l.Must(ec.PinOverlay{Key: chat("x"), OverlayID: "z-workspace", Scope: contracts.PinWorkspace})
	l.start(chat("y"))
	p, _ := l.packet(chat("y"), ec.PacketQuery{TurnID: "1"})
	if got := blocks(p); got != "z-workspace a-global" {
		t.Errorf("pins of the workspace come before those for everywhere: got %q", got)
	}
}

// A file that somebody edited while EC was not running is what the next turn gets,
// and the session says so.
func TestTextEditedWhileStopped(t *testing.T) {
	l := newLive(t)
	k := chat("t")
	l.own("mine", 60)
	l.on(k, "mine")
	l.packet(k, ec.PacketQuery{TurnID: "1"})
	was, _ := l.packet(k, ec.PacketQuery{TurnID: "2"})
	l.While(func() {
		path := filepath.Join(l.Dir, "system/overlays/templates/mine.md")
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, append(b, "One more rule.\n"...), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	p, _ := l.packet(k, ec.PacketQuery{TurnID: "3"})
	st := l.state(k)
	if p.PacketHash == was.PacketHash || p.Revision != was.Revision+1 || p.RefreshReason != contracts.RefreshActivation || st.ActiveOverlays[0].OverlayBodyHash != p.OverlayBlocks[0].BodyHash {
		t.Errorf("R-LIB-09 packet %+v, state %+v", p, st)
	}
}

func TestRefreshReasons(t *testing.T) {
	l := newLive(t)
	report := func(k contracts.OverlaySessionKey, r contracts.OverlayRefreshReason) ec.Body {
		return ec.ReportSessionEvent{Event: contracts.OverlaySessionEvent{SessionKey: k, EventKind: r}}
	}
	ask := func(k contracts.OverlaySessionKey, r contracts.OverlayRefreshReason) ec.Body {
		return ec.RequestRefresh{Key: k, Reason: r}
	}
	t.Run("R-PKT-18 R-PKT-19 R-PKT-22 each reason once", func(t *testing.T) {
		k := chat("each")
		l.on(k, "secure-code")
		set := l.set(k)
		for i, b := range []ec.Body{ask(k, "manual"), ask(k, "model_switch"), ask(k, "session_rehydrate"), report(k, "compaction"), report(k, "packet_trim"), report(k, "model_switch")} {
			want := []string{"manual", "model_switch", "session_rehydrate", "compaction", "packet_trim", "model_switch"}[i]
			l.packet(k, ec.PacketQuery{TurnID: "before" + want})
			l.Must(b)
			if st := l.state(k); !st.ForceRefreshNextTurn || string(st.PendingRefreshReason) != want {
				t.Errorf("after %s: %+v", want, st)
			}
			turn := want + b.Type()
			p, _ := l.packet(k, ec.PacketQuery{TurnID: turn})
			st := l.state(k)
			if string(p.RefreshReason) != want || st.ForceRefreshNextTurn || st.PendingRefreshReason != "" || string(st.LastRefreshReason) != want || st.LastRefreshAt == nil {
				t.Errorf("%s: packet says %q, state %+v", want, p.RefreshReason, st)
			}
			if p, _ := l.packet(k, ec.PacketQuery{TurnID: turn + "next"}); p.RefreshReason != "" {
				t.Errorf("%s labels a second turn", want)
			}
			if l.set(k) != set { // R-PKT-20 R-SES-25 R-SES-26
				t.Errorf("%s changed the set to %q", want, l.set(k))
			}
		}
	})
	t.Run("R-PKT-19 a packet without a turn is labelled once", func(t *testing.T) {
		k := chat("no-turn")
		l.on(k, "secure-code")
		if p, _ := l.packet(k, ec.PacketQuery{}); p.RefreshReason != contracts.RefreshActivation {
			t.Errorf("first: %q", p.RefreshReason)
		}
		if p, _ := l.packet(k, ec.PacketQuery{}); p.RefreshReason != "" {
			t.Errorf("second: %q", p.RefreshReason)
		}
	})
	t.Run("R-PKT-19 R-PKT-22 a label goes out although the session changes before it is read", func(t *testing.T) {
		k := chat("meanwhile")
		l.on(k, "secure-code")
		l.Must(ask(k, "manual"))
		built := l.Must(ec.BuildPacket{Key: k, TurnID: "1"})
		l.on(k, "verify-first") // before the reader of turn 1 has its packet
		p := built.Packet
		if p.RefreshReason != contracts.RefreshManual || blocks(*p) != "secure-code" || p.Revision != 2 {
			t.Errorf("the receipt of the command holds %+v", p)
		}
		if p, _ := l.packet(k, ec.PacketQuery{TurnID: "2"}); p.RefreshReason != contracts.RefreshActivation || blocks(p) != "secure-code verify-first" {
			t.Errorf("the next turn: %+v", p)
		}
		again := l.Must(ec.BuildPacket{Key: k, TurnID: "2"}) // two that ask at once, for one turn
		other := l.Must(ec.BuildPacket{Key: k, TurnID: "3"})
		if again.Changed || again.Packet.RefreshReason != contracts.RefreshActivation || other.Changed || other.Packet.RefreshReason != "" {
			t.Errorf("a retry of turn 2 says %q, turn 3 %q", again.Packet.RefreshReason, other.Packet.RefreshReason)
		}
	})
	t.Run("R-PKT-23 the stronger reason wins in either order", func(t *testing.T) {
		for i, order := range [][]ec.Body{{report(chat("p0"), "compaction"), ask(chat("p0"), "manual")}, {ask(chat("p1"), "manual"), report(chat("p1"), "compaction")}} {
			k := chat([]string{"p0", "p1"}[i])
			l.on(k, "secure-code")
			for _, b := range order {
				l.Must(b)
			}
			if p, _ := l.packet(k, ec.PacketQuery{}); p.RefreshReason != contracts.RefreshManual {
				t.Errorf("order %d: %q", i, p.RefreshReason)
			}
		}
	})
	t.Run("R-PKT-24 G-018 reasons that are not the caller's", func(t *testing.T) {
		for _, r := range []contracts.OverlayRefreshReason{"compaction", "packet_trim", "activation_change", "deactivation_change", ""} {
			l.refuses(ask(chat("x"), r), fault.Invalid, "validation_failed")
		}
		l.refuses(report(chat("x"), "manual"), fault.Invalid, "validation_failed")
		_, err := l.Do(t.Context(), ec.Command{ID: "u", Actor: ec.Actor{Role: ec.RoleUser}, Body: report(chat("x"), "compaction")})
		if fault.Of(err) != fault.Forbidden {
			t.Errorf("a user reports a compaction: %v", err)
		}
	})
	t.Run("R-PKT-21 G-093 on an empty session", func(t *testing.T) {
		k := chat("empty")
		if r := l.Must(ask(k, "model_switch")); r.Changed || r.Session.ForceRefreshNextTurn {
			t.Errorf("model switch: %+v", r.Session)
		}
		if r := l.Must(ask(k, "manual")); !r.Changed || !r.Session.ForceRefreshNextTurn {
			t.Errorf("manual: %+v", r.Session)
		}
		if p, _ := l.packet(k, ec.PacketQuery{}); p.RefreshReason != contracts.RefreshManual || len(p.OverlayBlocks) != 0 {
			t.Errorf("packet %+v", p)
		}
	})
	t.Run("R-STO-08 a session in use is not forgotten for want of changes", func(t *testing.T) {
		k := chat("daily")
		l.on(k, "secure-code")
		l.packet(k, ec.PacketQuery{})
		_, was := l.packet(k, ec.PacketQuery{})
		for range 20 {
			l.Clock.Add(25 * time.Hour)
			if _, b := l.packet(k, ec.PacketQuery{Now: l.Clock.Now()}); b.ETag != was.ETag {
				t.Fatal("noting the use changed the packet")
			}
		}
		l.Must(ec.PruneSessions{})
		l.state(k)
	})
}

// R-PKT-09: the order of the stored list does not matter.
func TestPacketOrder(t *testing.T) {
	l := newLive(t)
	k := chat("t")
	for _, id := range []contracts.OverlayID{"verify-first", "secure-code"} {
		l.Must(ec.PinOverlay{Key: chat("x"), OverlayID: id, Scope: contracts.PinWorkspace})
	}
	l.start(k)
	l.on(k, "guided-verification")
	want, _ := l.packet(k, ec.PacketQuery{})
	for range 20 {
		got := ec.BuildForTest(l.View(), k, func(a []contracts.ActiveOverlay) { rand.Shuffle(len(a), func(i, j int) { a[i], a[j] = a[j], a[i] }) })
		if blocks(got) != blocks(want) || got.PacketHash != want.PacketHash {
			t.Fatalf("order %q, want %q", blocks(got), blocks(want))
		}
	}
	if blocks(want) != "secure-code verify-first guided-verification" { // pins of one instant by id, then what came later
		t.Errorf("order %q", blocks(want))
	}
}
