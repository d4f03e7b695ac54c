package ec_test

import (
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/internal/fault"
)

const body = "Check the claim first.\n\n- Never guess a date.\n"

func TestOverlayLifecycle(t *testing.T) {
	e := ectest.New(t)
	e.Must(ec.CreateOverlay{Record: ectest.Overlay("claim-check", body)})
	detail, etag, err := e.View().Overlay("claim-check")
	if err != nil {
		t.Fatal(err)
	}
	if got := detail.Record; got.BodyHash != contracts.Hash(body) || got.Source != contracts.SourceUser || got.Body != body {
		t.Errorf("R-SRC-06 R-LIB-04 stored %+v", got)
	}

	t.Run("R-SRC-08 an id is taken for ever", func(t *testing.T) {
		if _, err := e.Send(ec.CreateOverlay{Record: ectest.Overlay("claim-check", body)}); fault.Of(err) != fault.Conflict {
			t.Errorf("created twice: got %v, want a conflict", err)
		}
	})
	t.Run("R-LIB-06 an id never changes", func(t *testing.T) {
		if _, err := e.Send(ec.UpdateOverlay{OverlayID: "claim-check", Record: ectest.Overlay("other", body)}); fault.Of(err) != fault.Invalid {
			t.Errorf("updated with another id: got %v, want 422", err)
		}
	})
	t.Run("G-073 If-Match that does not match changes nothing", func(t *testing.T) {
		_, err := e.Send(ec.UpdateOverlay{OverlayID: "claim-check", Record: ectest.Overlay("claim-check", body+"x\n"), IfMatch: `"nope"`})
		if fault.Of(err) != fault.PreconditionFailed {
			t.Errorf("got %v, want 412", err)
		}
	})
	t.Run("R-LIB-05 update, archive, restore", func(t *testing.T) {
		e.Must(ec.UpdateOverlay{OverlayID: "claim-check", Record: ectest.Overlay("claim-check", body+"- Cite.\n"), IfMatch: `"` + etag + `"`})
		if d, _, _ := e.View().Overlay("claim-check"); !strings.HasSuffix(d.Record.Body, "- Cite.\n") {
			t.Errorf("after update: body %q", d.Record.Body)
		}
		if !e.Must(ec.ArchiveOverlay{OverlayID: "claim-check"}).Changed {
			t.Error("archive changed nothing")
		}
		if e.Must(ec.ArchiveOverlay{OverlayID: "claim-check"}).Changed {
			t.Error("R-LIB-08 a second archive changed something")
		}
		if _, err := e.Send(ec.UpdateOverlay{OverlayID: "claim-check", Record: ectest.Overlay("claim-check", body)}); fault.Code(err) != "overlay_archived" {
			t.Errorf("R-LIB-07 updated an archived overlay: got %v", err)
		}
		if n := e.View().Overlays(ec.OverlayFilter{}).Total; n != 0 {
			t.Errorf("R-LIB-03 default list shows %d, want 0", n)
		}
		if n := e.View().Overlays(ec.OverlayFilter{IncludeArchived: true}).Total; n != 1 {
			t.Errorf("R-LIB-03 list with archived shows %d, want 1", n)
		}
		e.Must(ec.RestoreOverlay{OverlayID: "claim-check"})
		if n := e.View().Overlays(ec.OverlayFilter{}).Total; n != 1 {
			t.Errorf("after restore the list shows %d, want 1", n)
		}
	})
	t.Run("R-STO-12 R-TRU-12 everything is there after a restart", func(t *testing.T) {
		before, etag, _ := e.View().Overlay("claim-check")
		seq := e.View().Seq()
		e.Restart()
		after, again, err := e.View().Overlay("claim-check")
		if err != nil || after.Record.Body != before.Record.Body || etag != again || after.Record.CreatedAt != before.Record.CreatedAt || after.Record.UpdatedAt != before.Record.UpdatedAt {
			t.Errorf("restarted: got %+v, %v; want %+v", after.Record, err, before.Record)
		}
		if e.View().Seq() != seq {
			t.Errorf("revision %d after restart, want %d", e.View().Seq(), seq)
		}
	})
}
