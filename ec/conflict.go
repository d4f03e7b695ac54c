package ec

import (
	"fmt"
	"slices"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// excludes says whether two overlays must not be on together, whichever of them
// declares it.
func (s *State) excludes(a, b contracts.OverlayID) bool {
	return s.edge(a, b, func(o *Overlay) []contracts.OverlayID { return o.Record.Frontmatter.ConflictsWith })
}

// strains says whether two overlays are better not on together.
func (s *State) strains(a, b contracts.OverlayID) bool {
	return s.edge(a, b, func(o *Overlay) []contracts.OverlayID { return o.Record.Frontmatter.WarnsWith })
}

func (s *State) edge(a, b contracts.OverlayID, of func(*Overlay) []contracts.OverlayID) bool {
	if a == b {
		return false
	}
	one, ok := s.overlays.Get(string(a))
	if ok && slices.Contains(of(one), b) {
		return true
	}
	other, ok := s.overlays.Get(string(b))
	return ok && slices.Contains(of(other), a)
}

// pairOf names two overlays in the order of their ids.
func pairOf(a, b contracts.OverlayID) contracts.OverlayPair {
	if a > b {
		a, b = b, a
	}
	return contracts.OverlayPair{a, b}
}

// side is one end of a hard pair, and where it comes from.
type side struct {
	id    contracts.OverlayID
	where string
	on    bool // in the session: it can be turned off
}

// hardConflict is the refusal of a hard pair: both ids, the reason, and where
// each comes from.
func hardConflict(a, b side) error {
	todo := fmt.Sprintf("leave one of them out (%s is %s)", b.id, b.where)
	if b.on {
		todo = fmt.Sprintf("turn %s off first", b.id)
	}
	return fault.New(fault.Conflict, "hard_conflict", "%s and %s exclude each other: they give contrary instructions; %s", a.id, b.id, todo).With(
		fault.Detail{Field: string(a.id), Rule: "hard_conflict", Message: a.where},
		fault.Detail{Field: string(b.id), Rule: "hard_conflict", Message: b.where},
	)
}

// checkList refuses a list of overlays that could not be on together, or that
// must not be turned on without a person's word: pins and defaults.
func (s *State) checkList(field string, ids []contracts.OverlayID) error {
	var details []fault.Detail
	for i, id := range ids {
		at := fmt.Sprintf("%s[%d]", field, i)
		o, ok := s.overlays.Get(string(id))
		switch {
		case !ok:
			details = append(details, fault.Detail{Field: at, Rule: "unknown_overlay", Message: "names an overlay that is not in the library"})
		case slices.Index(ids, id) != i:
			details = append(details, fault.Detail{Field: at, Rule: "duplicate", Message: "is named twice"})
		case o.Archived():
			return archivedFault(id)
		default:
			if rule, msg := standing(o); rule != "" {
				details = append(details, fault.Detail{Field: at, Rule: rule, Message: msg})
			}
		}
	}
	if details != nil {
		return fault.Validation(details)
	}
	for i, a := range ids {
		for _, b := range ids[i+1:] {
			if s.excludes(a, b) {
				return hardConflict(side{id: b, where: "in the list"}, side{id: a, where: "in the list"})
			}
		}
	}
	return nil
}

// standing says why an overlay may not be turned on without being asked for each
// time: it is not a live one, or wants an explicit word.
func standing(o *Overlay) (rule, message string) {
	switch fm := o.Record.Frontmatter; {
	case fm.ArtifactClass == contracts.ClassPostTask:
		return "class_not_activatable", "is a post-task template; such a template is never on in a session"
	case fm.ArtifactClass == contracts.ClassAdvisor, fm.RequiresExplicitInvocation:
		return "explicit_invocation_required", "works only when it is asked for explicitly; it cannot be pinned or be a default"
	}
	return "", ""
}

func archivedFault(id contracts.OverlayID) error {
	return fault.New(fault.Conflict, "overlay_archived", "the overlay %s is archived; restore it first", id)
}
