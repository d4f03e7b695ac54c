package ec_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/elnor/promptlab/presets"
)

// live is an EC with the preset pack and some overlays of a person's.
type live struct {
	*ectest.Env
	t *testing.T
}

func newLive(t *testing.T) live {
	t.Helper()
	l := live{ectest.New(t), t}
	l.Must(ec.InstallPresets{Pack: shipped(t)})
	return l
}

func shipped(t *testing.T) ec.Pack {
	t.Helper()
	p, err := presets.Load()
	if err != nil {
		t.Fatal(err)
	}
	out := ec.Pack{ID: p.ID, Version: p.Version}
	for _, o := range p.Overlays {
		out.Overlays = append(out.Overlays, ec.PackOverlay{Frontmatter: o.Frontmatter, Body: o.Body})
	}
	return out
}

func key(kind contracts.SupportedSurface, workspace, id string) contracts.OverlaySessionKey {
	k, err := contracts.OverlaySessionKey{WorkspaceID: workspace, SurfaceKind: kind, SurfaceID: id}.Canonical("")
	if err != nil {
		panic(err)
	}
	return k
}

func chat(id string) contracts.OverlaySessionKey { return key(contracts.SurfaceChat, "w", id) }

// own saves an overlay of a person's with a body of so many tokens.
func (l live) own(id string, tokens int, surfaces ...contracts.SupportedSurface) contracts.OverlayTemplateRecord {
	l.t.Helper()
	rec := ectest.Overlay(id, sized(id, tokens))
	if surfaces != nil {
		rec.Frontmatter.SupportedSurfaces = surfaces
	}
	rec.Frontmatter.LiveTokenTarget = 450
	l.Must(ec.CreateOverlay{Record: rec})
	return rec
}

// sized makes a body of so many estimated tokens.
func sized(id string, tokens int) string {
	head := "Follow rule " + id + ".\n"
	return head + strings.Repeat("plain ", tokens)[:tokens*4-len(head)-1] + "\n"
}

func (l live) on(k contracts.OverlaySessionKey, ids ...contracts.OverlayID) ec.Receipt {
	l.t.Helper()
	var r ec.Receipt
	for _, id := range ids {
		r = l.Must(ec.ActivateOverlay{Key: k, OverlayID: id, Source: contracts.FromManual})
	}
	return r
}

func (l live) state(k contracts.OverlaySessionKey) contracts.OverlaySessionState {
	l.t.Helper()
	r, _, err := l.View().Session(k, true)
	if err != nil {
		l.t.Fatal(err)
	}
	return r.SessionState
}

// set lists a session's overlays; those that are in no packet are in brackets.
func (l live) set(k contracts.OverlaySessionKey) string {
	var out []string
	for _, a := range l.state(k).ActiveOverlays {
		if a.ActiveForSurface {
			out = append(out, string(a.OverlayID))
		} else {
			out = append(out, "("+string(a.OverlayID)+")")
		}
	}
	return strings.Join(out, " ")
}

// packet reads a packet as the route does: a command where one is due.
func (l live) packet(k contracts.OverlaySessionKey, q ec.PacketQuery) (contracts.OverlayPromptPacket, ec.PacketBytes) {
	l.t.Helper()
	b, due, err := l.View().Packet(k, q)
	if due {
		b = q.Encode(*l.Must(ec.BuildPacket{Key: k, TurnID: q.TurnID, PlanID: q.PlanID, Force: q.Force}).Packet)
	}
	if err != nil {
		l.t.Fatalf("packet: %v", err)
	}
	p, err := contracts.Decode[contracts.OverlayPromptPacket](b.Body, contracts.Stored)
	if err != nil {
		l.t.Fatal(err)
	}
	return p, b
}

func blocks(p contracts.OverlayPromptPacket) string {
	var out []string
	for _, b := range p.OverlayBlocks {
		out = append(out, string(b.OverlayID))
	}
	return strings.Join(out, " ")
}

// refuses checks that a command is refused with a code and changes nothing.
func (l live) refuses(body ec.Body, kind fault.Kind, code string) *fault.Error {
	l.t.Helper()
	seq := l.View().Seq()
	_, err := l.Send(body)
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != kind || f.Code != code {
		l.t.Errorf("%+v: got %v, want %s", body, err, code)
		return &fault.Error{}
	}
	if l.View().Seq() != seq {
		l.t.Errorf("%+v: refused, and something changed", body)
	}
	return f
}

func activate(k contracts.OverlaySessionKey, id contracts.OverlayID) ec.ActivateOverlay {
	return ec.ActivateOverlay{Key: k, OverlayID: id, Source: contracts.FromManual}
}

func warned(st contracts.OverlaySessionState, code string) int {
	n := 0
	for _, w := range st.Warnings {
		if strings.HasPrefix(w, code+": ") {
			n++
		}
	}
	return n
}

// bytes are a session's packet as it is sent when nothing is due.
func (l live) bytes(k contracts.OverlaySessionKey) string {
	l.t.Helper()
	l.packet(k, ec.PacketQuery{TurnID: "bytes"})
	_, b := l.packet(k, ec.PacketQuery{})
	return string(b.Body)
}

func decode(t *testing.T, doc string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(doc), into); err != nil {
		t.Fatal(err)
	}
}
