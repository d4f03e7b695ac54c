package ec_test

import (
	"slices"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/internal/fault"
)

// G-003, R-SRC-11: a new overlay and one that is there can exclude each other,
// both sides in one command or neither.
func TestDeclaringBothSides(t *testing.T) {
	l := newLive(t)
	l.own("there", 60)
	rec := ectest.Overlay("new", sized("new", 60))
	rec.Frontmatter.ConflictsWith = contracts.List[contracts.OverlayID]{"there", "secure-code"}
	f := l.refuses(ec.CreateOverlay{Record: rec}, fault.Invalid, "validation_failed")
	if len(f.Details) != 2 || f.Details[0].Rule != "asymmetric_conflict" {
		t.Errorf("without the flag: %v", f)
	}
	preset, _, _ := l.View().Overlay("secure-code")
	events := l.View().RegistryEvents(0, 0).Next
	l.Must(ec.CreateOverlay{Record: rec, DeclareReciprocal: true})
	check := func(when string) {
		t.Helper()
		there, _, _ := l.View().Overlay("there")
		now, _, _ := l.View().Overlay("secure-code")
		if !slices.Contains(there.Record.Frontmatter.ConflictsWith, "new") {
			t.Errorf("%s: the other overlay's file says %v", when, there.Record.Frontmatter.ConflictsWith)
		}
		if now.Record.BodyHash != preset.Record.BodyHash || slices.Contains(now.Record.Frontmatter.ConflictsWith, "new") {
			t.Errorf("%s: the preset's file was changed", when)
		}
		if !slices.ContainsFunc(l.View().Warnings("secure-code"), func(w contracts.Warning) bool { return w.Code == "local_conflict" && w.Subject == "new" }) {
			t.Errorf("%s: the preset's local conflict is not told", when)
		}
		for _, other := range []contracts.OverlayID{"there", "secure-code"} { // R-SES-13
			k := chat(when + string(other))
			l.on(k, other)
			l.refuses(activate(k, "new"), fault.Conflict, "hard_conflict")
		}
	}
	check("at once")
	if got := l.View().RegistryEvents(events, 0).Events; len(got) != 2 || got[0].Event.OverlayID != "there" || got[1].Event.OverlayID != "new" {
		t.Errorf("registry events %+v", got)
	}
	l.Restart()
	check("after a restart")
	if r := l.Must(ec.InstallPresets{Pack: shipped(t)}); r.Changed {
		t.Error("R-PRE an install of the same pack changes something")
	}
	d, _, _ := l.View().Overlay("secure-code")
	d.Record.Frontmatter.Title = "Mine"
	l.Must(ec.UpdateOverlay{OverlayID: "secure-code", Record: d.Record}) // the local conflict stands beside the edit
	check("after an edit of the preset")
	rec.Frontmatter.ConflictsWith = nil
	l.refuses(ec.UpdateOverlay{OverlayID: "new", Record: rec}, fault.Invalid, "validation_failed")
	l.Must(ec.UpdateOverlay{OverlayID: "new", Record: rec, DeclareReciprocal: true})
	l.on(chat("end"), "there", "secure-code", "new")
}
