package ec

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/frontmatter"
	"github.com/elnor/promptlab/ec/lint"
	"github.com/elnor/promptlab/internal/fault"
)

// whyRemoved is said of a file that is not there any more.
const whyRemoved = "the file was removed by hand; its text is kept: write the file again (promptlab overlays show ID), or archive the overlay"

// rejectedSuffix names the file that says why the file beside it was not taken in.
const rejectedSuffix = ".rejected.txt"

// refused is a file of a person's that was not taken in.
type refused struct {
	why  string       // one reason a line
	body []byte       // nil: there is no file
	kept *overlayKept // what is kept of an overlay of which no good text is left
	// blocked: a text of ours cannot take the place, it waits.
	blocked bool
}

func rejectedPath(id contracts.OverlayID, body []byte) string {
	return fmt.Sprintf("%s%s/rejected-%s.md", dirHistory, id, contracts.HashBytes(body)[:16])
}

// writesFile says whether an overlay's source file changes or moves.
func (e OverlayPut) writesFile() bool {
	return e.Previous == nil || e.Previous.FileHash != e.Overlay.FileHash || overlayPath(e.Previous) != overlayPath(e.Overlay)
}

// displaced finds refused texts whose place these events take, because a person
// has saved, archived or restored the overlay: the refusal is over, and the text
// is kept.
func (s *State) displaced(events []Event) []Event {
	if s.externals.Len() == 0 {
		return nil
	}
	var out []Event
	over := map[string]bool{}
	for _, ev := range events {
		if x, ok := ev.(ExternalRefused); ok {
			over[x.Path] = true // by the person's own hand
		}
	}
	for _, ev := range events {
		p, ok := ev.(OverlayPut)
		if !ok || !p.writesFile() {
			continue
		}
		paths := []string{overlayPath(p.Overlay)}
		if p.Previous != nil {
			paths = append(paths, overlayPath(p.Previous))
		}
		for _, path := range paths {
			if x, ok := s.externals.Get(path); ok && !over[path] && !x.blocked {
				out, over[path] = append(out, ExternalRefused{Path: path, Replaced: x.body}), true
			}
		}
	}
	return out
}

// externalEdit takes in what somebody did to a file with an editor, or says why
// it cannot: the file stays as the person left it, the library keeps the last
// good text.
func (s *State) externalEdit(c Command, b ExternalEdit) (decision, error) {
	id, archived, ok := overlayOfPath(b.Path)
	if !ok {
		return unchanged(b.Path, "not an overlay file")
	}
	old, known := s.overlays.Get(string(id))
	here := known && old.Archived() == archived // the library keeps that overlay at this path
	switch {
	case b.Settled:
		return s.editResolved(decision{receipt: Receipt{Subject: b.Path}}, b)
	case b.Blocked:
		return s.refuseEdit(b, "a link, a folder or something else that is no plain file lies here; put a plain file in its place", here)
	case b.Gone && here:
		return s.refuseEdit(b, whyRemoved, true)
	case b.Gone: // nothing of the library's was here
		return s.editResolved(decision{receipt: Receipt{Subject: b.Path}}, b)
	}
	rec, err := readEdit(id, b.Body)
	if err == nil && known && !here {
		err = errors.New("an overlay is moved with the archive and restore commands, not by moving its file")
	}
	if err == nil {
		rec, err = s.acceptable(rec, old, b.Path)
	}
	if err != nil {
		return s.refuseEdit(b, strings.Join(reasons(err), "\n"), here)
	}
	var d decision
	if known {
		d, err = s.putOverlay(c, old, rec.Frontmatter, rec.Body, string(b.Body))
	} else {
		d, err = s.newByHand(c, b, rec, archived)
	}
	if err != nil {
		return decision{}, err
	}
	return s.editResolved(d, b)
}

// newByHand takes in the file of an overlay that the library does not have. One
// that it had, and of which no good text was left, goes on where it was.
func (s *State) newByHand(c Command, b ExternalEdit, rec contracts.OverlayTemplateRecord, archived bool) (decision, error) {
	o := s.makeOverlay(rec.Frontmatter, rec.Body, string(b.Body))
	o.Record.Source, o.Record.CreatedAt, o.Record.UpdatedAt = contracts.SourceUser, c.At, c.At
	what := contracts.EventOverlayInstalled
	if x, _ := s.externals.Get(b.Path); x.kept != nil {
		x.kept.onto(o)
		o.Revision++
		o.Record.UpdatedAt, o.Record.ArchivedAt = c.At, nil
		what = contracts.EventOverlayUpdated
	}
	if archived {
		o.Record.ArchivedAt = &c.At
	}
	return changed(string(rec.Frontmatter.ID), OverlayPut{Overlay: o, What: what})
}

// readEdit reads the file of an overlay that a person has written.
func readEdit(id contracts.OverlayID, file []byte) (contracts.OverlayTemplateRecord, error) {
	doc, err := frontmatter.Parse(file)
	if err == nil && doc.Frontmatter.ID != id {
		err = wrongName(id, doc.Frontmatter.ID)
	}
	return contracts.OverlayTemplateRecord{Frontmatter: doc.Frontmatter, Body: doc.Body}, err
}

func wrongName(file, header contracts.OverlayID) error {
	return fmt.Errorf("the file is named %s.md and the id in its header is %s; make them the same", file, header)
}

// acceptable runs the rules of a save over a hand edit; old is nil for a file of
// which the library has no text.
func (s *State) acceptable(rec contracts.OverlayTemplateRecord, old *Overlay, path string) (contracts.OverlayTemplateRecord, error) {
	op := lint.Update
	if old == nil {
		op = lint.Create
		if x, _ := s.externals.Get(path); x.kept != nil && x.kept.Source == contracts.SourcePreset {
			old = &Overlay{Record: contracts.OverlayTemplateRecord{Frontmatter: contracts.OverlayTemplateFrontmatter{Preset: true}}}
		}
	}
	rec, wrong := s.cleanRecord(rec, old)
	return rec, together(wrong, s.validate(rec, op))
}

// onOneLine gives reasons, of which each has a line, for those who show one line.
func onOneLine(why string) string { return strings.ReplaceAll(why, "\n", "; ") }

// reasons says why a file is not good: one sentence for each thing in it.
func reasons(err error) []string {
	var f *fault.Error
	if !errors.As(err, &f) {
		return []string{err.Error()}
	}
	var out []string
	for _, d := range f.Details {
		if one := strings.TrimPrefix(d.Field+": "+d.Message, "frontmatter: "); !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	if out == nil {
		return []string{f.Message}
	}
	return out
}

// editResolved ends what was said about a file, if anything was or may have been.
func (s *State) editResolved(d decision, b ExternalEdit) (decision, error) {
	if _, told := s.externals.Get(b.Path); told || b.AtStart {
		d.events = append(d.events, ExternalRefused{Path: b.Path})
		d.receipt.Changed = true
	}
	return d, nil
}

// refuseEdit leaves a hand edit alone and says why. The same refusal again is
// no news. Kept says that the library has a good text for that path.
func (s *State) refuseEdit(b ExternalEdit, why string, kept bool) (decision, error) {
	if old, _ := s.externals.Get(b.Path); old.why == why && bytes.Equal(old.body, b.Body) && !b.AtStart {
		return unchanged(b.Path, why)
	}
	d, err := changed(b.Path, ExternalRefused{Path: b.Path, Why: why, Body: b.Body, Kept: kept, Blocked: b.Blocked})
	d.receipt.Note = why
	return d, err
}

// what names the event for the audit and for watchers.
func (e ExternalRefused) what() string {
	if e.Why == "" {
		return "hand_edit.resolved"
	}
	return "hand_edit.refused"
}

// reason is the text beside a file that was not taken in; nil where there is
// nothing to say.
func (e ExternalRefused) reason() []byte {
	if e.Why == "" {
		return nil
	}
	name := e.Path[strings.LastIndexByte(e.Path, '/')+1:]
	what, file, library := "was changed by hand and could not be taken in", "The file is as you left it, and the library ", "has no text of that name yet"
	if e.Body == nil {
		what, file = "cannot be read as the file of an overlay", "The library "
	}
	if e.Kept {
		library = "keeps the last good text"
	}
	return fmt.Appendf(nil, "%s %s:\n\n  %s\n\n%s%s.\nThis note goes when the file is good again.\n",
		name, what, strings.ReplaceAll(e.Why, "\n", "\n  "), file, library)
}

// RefusedFiles lists the files of people that are not taken in.
func (v *View) RefusedFiles() []string { return v.s.externals.Keys() }

// OverlayFile says whether a path is one where an overlay's file lies.
func OverlayFile(path string) bool {
	_, _, ok := overlayOfPath(path)
	return ok
}
