package ec_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/google/go-cmp/cmp"
)

func item(id, body string, rivals ...contracts.OverlayID) contracts.OverlayBundleItem {
	rec := ectest.Overlay(id, body)
	rec.Frontmatter.ConflictsWith = rivals
	return contracts.OverlayBundleItem{Record: rec}
}

// Overlays that exclude each other can be saved at once, which no order of single
// commands can do.
func TestBundleSavesWhatExcludesEachOther(t *testing.T) { // R-CMD-07
	e := ectest.New(t)
	one := item("left", "Left.\n", "right")
	if _, err := e.Send(ec.CreateOverlay{Record: one.Record}); err == nil {
		t.Fatal("one side of a pair was saved alone")
	}
	e.Must(ec.SaveBundle{Items: []contracts.OverlayBundleItem{one, item("right", "Right.\n", "left", "middle"), item("middle", "Middle.\n", "right")}})
	k := chat("t")
	e.Must(ec.ActivateOverlay{Key: k, OverlayID: "left", Source: contracts.FromManual})
	if _, err := e.Send(ec.ActivateOverlay{Key: k, OverlayID: "right", Source: contracts.FromManual}); fault.Code(err) != "hard_conflict" {
		t.Errorf("the other side of the pair: got %v, want hard_conflict", err)
	}
	feed := e.View().RegistryEvents(0, 0)
	if len(feed.Events) != 3 || feed.Events[1].Event.OverlayID != "right" || feed.Events[1].Event.BodyHash != contracts.Hash("Right.\n") {
		t.Errorf("registry events: got %+v", feed.Events)
	}

	// Replacing is part of it, and sessions follow.
	left, etag, _ := e.View().Overlay("left")
	again := item("left", "Left, and better.\n", "right")
	again.Replace, again.IfMatch = true, `"`+etag+`"`
	e.Must(ec.SaveBundle{Items: []contracts.OverlayBundleItem{again, item("new", "New.\n")}})
	now, _, _ := e.View().Overlay("left")
	if now.Record.Body != "Left, and better.\n" || now.Record.CreatedAt != left.Record.CreatedAt {
		t.Errorf("after a replacement: got %+v", now.Record)
	}
	before := e.View().Overlays(ec.OverlayFilter{IncludeArchived: true})
	e.Restart()
	if d := cmp.Diff(mustEncode(before), mustEncode(e.View().Overlays(ec.OverlayFilter{IncludeArchived: true}))); d != "" {
		t.Errorf("after a restart (-before +after):\n%s", d)
	}
}

// R-CMD-08: a bundle of which one overlay cannot be saved changes nothing, and all
// that is wrong is named.
func TestBundleIsAllOrNothing(t *testing.T) {
	e := ectest.New(t)
	e.Must(ec.CreateOverlay{Record: ectest.Overlay("there", "There.\n")})
	e.Must(ec.CreateOverlay{Record: ectest.Overlay("old", "Old.\n")})
	e.Must(ec.ArchiveOverlay{OverlayID: "old"})
	replace := func(id, match string) contracts.OverlayBundleItem {
		x := item(id, "Again.\n")
		x.Replace, x.IfMatch = true, match
		return x
	}
	aliased := func(id string) contracts.OverlayBundleItem {
		x := item(id, "Text.\n")
		x.Record.Frontmatter.DeprecatedAliases = contracts.List[string]{"both"}
		return x
	}
	many := make([]contracts.OverlayBundleItem, 1001)
	for what, c := range map[string]struct {
		items []contracts.OverlayBundleItem
		code  string
		field string
	}{
		"nothing":              {nil, "validation_failed", "items"},
		"too many":             {many, "validation_failed", "items"},
		"an id that is taken":  {[]contracts.OverlayBundleItem{item("fine", "F.\n"), item("there", "T.\n")}, "conflict", "items[1].record.frontmatter.id"},
		"an id twice":          {[]contracts.OverlayBundleItem{item("x", "F.\n"), item("x", "G.\n")}, "", "items[1].record.frontmatter.id"},
		"one side of a pair":   {[]contracts.OverlayBundleItem{item("x", "F.\n", "y"), item("y", "G.\n")}, "validation_failed", "items[0].record.frontmatter.conflicts_with[0]"},
		"a pair with one more": {[]contracts.OverlayBundleItem{item("x", "F.\n", "there")}, "validation_failed", "items[0].record.frontmatter.conflicts_with[0]"},
		"an alias twice":       {[]contracts.OverlayBundleItem{aliased("x"), aliased("y")}, "conflict", "items[0].record.frontmatter.deprecated_aliases[0]"},
		"no body":              {[]contracts.OverlayBundleItem{item("x", "F.\n"), item("y", "")}, "validation_failed", "items[1].record.body"},
		"what is not there":    {[]contracts.OverlayBundleItem{item("x", "F.\n"), replace("nobody", "")}, "not_found", ""},
		"what has changed":     {[]contracts.OverlayBundleItem{item("x", "F.\n"), replace("there", `"abc"`)}, "precondition_failed", ""},
		"what is archived":     {[]contracts.OverlayBundleItem{replace("old", "")}, "overlay_archived", ""},
	} {
		before := e.View().Seq()
		_, err := e.Send(ec.SaveBundle{Items: c.items})
		var f *fault.Error
		if !errors.As(err, &f) || c.code != "" && f.Code != c.code {
			t.Errorf("R-CMD-08 %s: got %v, want %s", what, err, c.code)
			continue
		}
		if c.field != "" && !slices.ContainsFunc(f.Details, func(d fault.Detail) bool { return d.Field == c.field }) {
			t.Errorf("R-CMD-08 %s: details %+v do not name %s", what, f.Details, c.field)
		}
		if e.View().Seq() != before || e.View().Overlays(ec.OverlayFilter{IncludeArchived: true}).Total != 2 {
			t.Errorf("R-CMD-08 %s: something was saved", what)
		}
	}
	_, err := e.Send(ec.SaveBundle{Items: []contracts.OverlayBundleItem{item("x", ""), item("y", strings.Repeat("word ", 600))}})
	var f *fault.Error
	if !errors.As(err, &f) || len(f.Details) < 2 {
		t.Errorf("R-CMD-08 two wrong overlays: got %v, want both named", err)
	}
}
