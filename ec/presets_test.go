package ec_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/presets"
)

func pack(t *testing.T) ec.Pack {
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

func TestInstallAndRenewThePack(t *testing.T) {
	e := ectest.New(t)
	first := e.Must(ec.InstallPresets{Pack: pack(t)})
	if n := len(first.Install.Installed); n != 21 {
		t.Fatalf("R-PRE-01 installed %d, want 21", n)
	}
	t.Run("R-LIB-10 R-LIB-13 eighteen are shown, the core eight first", func(t *testing.T) {
		list := e.View().Overlays(ec.OverlayFilter{})
		if list.Total != 18 || list.Items[0].OverlayID != "guided-verification" || list.Items[7].OverlayID != "legal-strict" {
			t.Errorf("list of %d begins with %s", list.Total, list.Items[0].OverlayID)
		}
	})
	t.Run("R-PRE-07 a second install changes nothing", func(t *testing.T) {
		before, _, _ := e.View().Overlay("secure-code")
		again := e.Must(ec.InstallPresets{Pack: pack(t)})
		after, _, _ := e.View().Overlay("secure-code")
		if again.Changed || len(again.Install.Unchanged) != 21 || before.Record.UpdatedAt != after.Record.UpdatedAt {
			t.Errorf("again: %+v", again.Install)
		}
	})
	t.Run("R-PRE-08 an upgrade keeps what a person edited or archived", func(t *testing.T) {
		d, _, _ := e.View().Overlay("secure-code")
		edited := d.Record
		edited.Body += "- One rule of ours.\n"
		edited.BodyHash = ""
		e.Must(ec.UpdateOverlay{OverlayID: "secure-code", Record: edited})
		e.Must(ec.ArchiveOverlay{OverlayID: "creative-flow"})
		next := pack(t)
		next.ID = "another-pack"
		for i := range next.Overlays {
			next.Overlays[i].Body += "\nMore.\n"
			next.Overlays[i].Frontmatter.Version = "1.1.0"
		}
		got := e.Must(ec.InstallPresets{Pack: next}).Install
		slices.Sort(got.Kept)
		if len(got.Updated) != 19 || !slices.Equal(got.Kept, []contracts.OverlayID{"creative-flow", "secure-code"}) {
			t.Errorf("updated %d, kept %v", len(got.Updated), got.Kept)
		}
		kept, _, _ := e.View().Overlay("secure-code")
		gone, _, _ := e.View().Overlay("creative-flow")
		if !strings.HasSuffix(kept.Record.Body, "of ours.\n") || kept.Record.Source != contracts.SourcePreset || gone.Record.ArchivedAt == nil {
			t.Errorf("kept %q (%s), archived at %v", kept.Record.Body, kept.Record.Source, gone.Record.ArchivedAt)
		}
	})
}

// R-STO-11: an archived overlay's file is in one of the two folders, never both.
func TestArchivingMovesTheFile(t *testing.T) {
	e := ectest.New(t)
	e.Must(ec.CreateOverlay{Record: ectest.Overlay("mover", body)})
	where := func() (found []string) {
		if err := e.Store.Flush(); err != nil {
			t.Fatal(err)
		}
		for _, folder := range []string{"templates", "archived"} {
			if _, err := os.Stat(filepath.Join(e.Dir, "system", "overlays", folder, "mover.md")); err == nil {
				found = append(found, folder)
			}
		}
		return found
	}
	if got := where(); !slices.Equal(got, []string{"templates"}) {
		t.Errorf("new: %v", got)
	}
	e.Must(ec.ArchiveOverlay{OverlayID: "mover"})
	if got := where(); !slices.Equal(got, []string{"archived"}) {
		t.Errorf("R-STO-11 archived: %v", got)
	}
	e.Must(ec.RestoreOverlay{OverlayID: "mover"})
	if got := where(); !slices.Equal(got, []string{"templates"}) {
		t.Errorf("R-STO-11 restored: %v", got)
	}
}

// R-SRC-19, R-LAB-07, R-LAB-13: what EC owns is EC's, whatever a client sends.
func TestServerOwnedFieldsAreEC(t *testing.T) {
	e := ectest.New(t)
	ref := e.Lab(40)
	old := contracts.At(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC))
	rec := ectest.Overlay("dated", body)
	rec.CreatedAt, rec.UpdatedAt, rec.ArchivedAt = old, old, &old
	e.Must(ec.CreateOverlay{Record: rec})
	d, _, _ := e.View().Overlay("dated")
	if d.Record.CreatedAt == old || d.Record.UpdatedAt == old || d.Record.ArchivedAt != nil {
		t.Errorf("R-SRC-19 stored %+v", d.Record)
	}
	in := contracts.PromptLabJob{
		JobID: contracts.DeriveID("mine", "job", 0), ArtifactKind: contracts.KindOverlay, ArtifactID: "note-style", Backend: contracts.BackendPromptolution,
		RequestReason: contracts.ReasonManual, DatasetRef: ref, MinReplayExamples: 20, CreatedAt: old, RequestedBy: "somebody else",
		Detail: &contracts.JobDetail{SourceHash: "forged", ArtifactTitle: "forged"},
	}
	id := contracts.UUID(e.Must(ec.CreateJob{Job: in}).Subject)
	j := job(t, e, id)
	if id == in.JobID || j.CreatedAt == old || j.RequestedBy != ectest.User.Name || j.Detail.SourceHash == "forged" {
		t.Errorf("R-LAB-13 job %+v", j)
	}
	req := e.Claim(id).Request
	if src, _, _ := e.View().Overlay("note-style"); req.SourceText != src.Record.Body || req.SourceHash != src.Record.BodyHash || req.ArtifactTitle != src.Record.Frontmatter.Title {
		t.Errorf("R-LAB-13 request %+v", req)
	}
}

// R-LIB-02: every word of a query must be found, in whatever case, after a change
// too.
func TestSearchFindsEveryWord(t *testing.T) {
	e := ectest.New(t)
	e.Must(ec.InstallPresets{Pack: pack(t)})
	count := func(f ec.OverlayFilter) int { return e.View().Overlays(f).Total }
	if got := count(ec.OverlayFilter{Query: "LEGAL  research"}); got < 1 || got > 3 {
		t.Errorf("two words: %d overlays", got)
	}
	if got := count(ec.OverlayFilter{Query: "legal zebra"}); got != 0 {
		t.Errorf("a word that is nowhere: %d overlays", got)
	}
	if got := count(ec.OverlayFilter{Category: "legal"}); got != 2 {
		t.Errorf("category: %d overlays, want 2", got)
	}
	e.Must(ec.CreateOverlay{Record: ectest.Overlay("mine", body)})
	rec := ectest.Overlay("mine", body)
	rec.Frontmatter.Title = "Zebra crossing"
	e.Must(ec.UpdateOverlay{OverlayID: "mine", Record: rec})
	if got := count(ec.OverlayFilter{Query: "zebra"}); got != 1 {
		t.Errorf("after a change of title: %d overlays", got)
	}
}
