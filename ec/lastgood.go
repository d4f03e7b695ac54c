package ec

import (
	"bytes"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/frontmatter"
)

// What follows makes a start independent of what people did to the files of
// overlays while EC was not running: the last good text lies in the history too.

// onto puts what is kept beside its file into an overlay.
func (k overlayKept) onto(o *Overlay) *Overlay {
	o.Record.Source, o.Record.CreatedAt, o.Record.UpdatedAt, o.Record.ArchivedAt = k.Source, k.CreatedAt, k.UpdatedAt, k.ArchivedAt
	o.Revision = k.Revision
	o.Meta.LastLabTestedAt = k.LastLabTestedAt
	return o
}

// lastGood gives an overlay with the last text that was taken in; nil when the
// history does not have it.
func (l loader) lastGood(id contracts.OverlayID, kept overlayKept) (*Overlay, error) {
	file, ok, err := l.src.Read(historyPath(id, kept.Revision))
	if err != nil || !ok || kept.FileHash != contracts.HashBytes(file) {
		return nil, err
	}
	doc, err := frontmatter.Parse(file)
	if err != nil || doc.Frontmatter.ID != id {
		return nil, nil //nolint:nilerr // not the text that was kept
	}
	return kept.onto(l.s.makeOverlay(doc.Frontmatter, doc.Body, string(file))), nil
}

// noted reads what is left of an overlay beside whose path a reason lies: the
// file may be good by now, or gone.
func (l loader) noted(path string) (foundOverlay, error) {
	f := foundOverlay{at: path, refused: refused{why: "the file was not taken in; it is looked at again"}}
	id, archived, _ := overlayOfPath(path)
	if _, there, err := l.src.Read(path); there || err != nil {
		return f, nil //nolint:nilerr // the file itself is read too
	}
	kept, known, err := one[overlayKept](l, keptPath(id))
	if err != nil || !known || archived != (kept.ArchivedAt != nil) {
		return f, err
	}
	f.refused.kept = &kept
	if f.overlay, err = l.lastGood(id, kept); f.overlay != nil {
		f.refused.why = whyRemoved
	}
	return f, err
}

// removed finds the overlays whose files went away while EC was not running, by
// the index of the last run. As long as nothing is missing it is not read closely.
func (l loader) removed() error {
	index, ok, err := l.src.Read(pathIndex)
	if err != nil || !ok || bytes.Count(index, []byte(`"overlay_id"`)) <= l.s.overlays.Len() {
		return nil //nolint:nilerr // it is derived, and made anew
	}
	entries, err := contracts.Decode[contracts.List[contracts.OverlayIndexEntry]](index, contracts.Stored)
	if err != nil {
		return nil //nolint:nilerr // likewise
	}
	for _, e := range entries {
		if _, there := l.s.overlays.Get(string(e.OverlayID)); there {
			continue
		}
		kept, known, err := one[overlayKept](l, keptPath(e.OverlayID))
		if err != nil {
			return err
		}
		if !known {
			continue
		}
		o, err := l.lastGood(e.OverlayID, kept)
		if err != nil {
			return err
		}
		if o != nil {
			l.found(foundOverlay{overlay: o, at: overlayPath(o), refused: refused{why: whyRemoved, kept: &kept}})
		}
	}
	return nil
}
