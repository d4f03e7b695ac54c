package ec

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/elnor/promptlab/contracts"
)

// rejectedSuffix names the file that says why the file beside it was not taken in.
const rejectedSuffix = ".rejected.txt"

// refused is a file of a person's that was not taken in.
type refused struct {
	why  string
	body []byte // nil: the file is gone
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
			if x, ok := s.externals.Get(path); ok && !over[path] {
				out, over[path] = append(out, ExternalRefused{Path: path, Replaced: x.body}), true
			}
		}
	}
	return out
}

// refuseEdit leaves a hand edit alone and says why. The same refusal again is
// no news.
func (s *State) refuseEdit(b ExternalEdit, why string) (decision, error) {
	if old, _ := s.externals.Get(b.Path); old.why == why && bytes.Equal(old.body, b.Body) && !b.AtStart {
		return unchanged(b.Path, why)
	}
	d, err := changed(b.Path, ExternalRefused{Path: b.Path, Why: why, Body: b.Body})
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

// reason is the text beside a file that was not taken in; nil where there is no
// such file, or nothing to say.
func (e ExternalRefused) reason() []byte {
	if e.Why == "" || e.Body == nil {
		return nil
	}
	name := e.Path[strings.LastIndexByte(e.Path, '/')+1:]
	return fmt.Appendf(nil, "%s was changed by hand and could not be taken in:\n\n  %s\n\n"+
		"The file is as you left it, and the library keeps the last good text.\n"+
		"Correct the file; this note goes when the file is good again.\n", name, strings.ReplaceAll(e.Why, "\n", "\n  "))
}

// RefusedFiles lists the files of people that are not taken in.
func (v *View) RefusedFiles() []string { return v.s.externals.Keys() }

// OverlayFile says whether a path is one where an overlay's file lies.
func OverlayFile(path string) bool {
	_, _, ok := overlayOfPath(path)
	return ok
}
