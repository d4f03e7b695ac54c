package ec

import (
	"fmt"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/frontmatter"
	"github.com/elnor/promptlab/ec/lint"
	"github.com/elnor/promptlab/internal/fault"
)

// SaveBundle saves several overlays as one library, all of them or none: what
// excludes each other among them may name each other from the start.
type SaveBundle struct{ Items []contracts.OverlayBundleItem }

// Type names the command in the audit.
func (SaveBundle) Type() string { return "overlay.save_bundle" }

// maxBundle bounds how many overlays one command saves.
const maxBundle = 1000

func (s *State) saveBundle(c Command, b SaveBundle) (decision, error) {
	if n := len(b.Items); n < 1 || n > maxBundle {
		return decision{}, fault.Validation([]fault.Detail{{Field: "items", Rule: "count", Message: fmt.Sprintf("must be 1 to %d overlays", maxBundle)}})
	}
	records := make([]contracts.OverlayTemplateRecord, len(b.Items))
	lib := packLibrary{library{s}, map[contracts.OverlayID]contracts.OverlayTemplateFrontmatter{}}
	var found lint.Result
	for i, item := range b.Items {
		old, err := s.bundleTarget(item)
		if err != nil {
			return decision{}, err
		}
		rec, err := s.cleanRecord(item.Record, old)
		if err != nil {
			return decision{}, within(i, err)
		}
		id := rec.Frontmatter.ID
		if _, twice := lib.pack[id]; twice {
			found.Errors = append(found.Errors, fault.Detail{Field: fmt.Sprintf("items[%d].record.frontmatter.id", i), Rule: "duplicate", Message: "is named twice"})
		}
		lib.pack[id] = s.inForce(rec.Frontmatter)
		records[i] = rec
	}
	for i, rec := range records {
		op := lint.Create
		if b.Items[i].Replace {
			op = lint.Update
		}
		own := bundleLibrary{lib, rec.Frontmatter.ID}
		res := lint.Validate(lint.Candidate{Frontmatter: lib.pack[rec.Frontmatter.ID], Body: rec.Body}, own, lint.Options{Operation: op, Origin: lint.Person})
		for _, d := range res.Errors {
			d.Field = fmt.Sprintf("items[%d].record.%s", i, d.Field)
			found.Errors = append(found.Errors, d)
		}
	}
	if err := found.Err(); err != nil {
		return decision{}, err
	}
	return s.putBundle(c, b.Items, records)
}

// bundleTarget gives the overlay that an item replaces; nil for a new one.
func (s *State) bundleTarget(item contracts.OverlayBundleItem) (*Overlay, error) {
	if !item.Replace {
		return nil, nil //nolint:nilnil // a new one replaces nothing
	}
	old, err := s.find(item.Record.Frontmatter.ID, item.IfMatch)
	if err == nil && old.Archived() {
		err = archivedFault(item.Record.Frontmatter.ID)
	}
	return old, err
}

// putBundle makes the events: the overlays first, the state of the pack behind
// them, since the audit's hashes follow its effects.
func (s *State) putBundle(c Command, items []contracts.OverlayBundleItem, records []contracts.OverlayTemplateRecord) (decision, error) {
	then := s.Copy()
	var puts, install []Event
	for i, rec := range records {
		var d decision
		var err error
		if items[i].Replace {
			old, _ := s.overlays.Get(string(rec.Frontmatter.ID))
			var file []byte
			if file, err = frontmatter.Update([]byte(old.File), rec.Frontmatter, rec.Body); err == nil {
				d, err = then.putOverlay(c, old, rec.Frontmatter, rec.Body, string(file))
			}
		} else {
			d, err = then.newOverlay(c, rec)
		}
		if err != nil {
			return decision{}, within(i, err)
		}
		for _, e := range d.events {
			then.Apply(e)
			if _, own := e.(InstallPut); own {
				install = []Event{e} // made on what the ones before it left: the last one holds them all
			} else {
				puts = append(puts, e)
			}
		}
	}
	if len(puts) == 0 {
		return unchanged("bundle", "")
	}
	return changed("bundle", append(puts, install...)...)
}

// within says in which item of a bundle something is wrong.
func within(i int, err error) error {
	f, ok := err.(*fault.Error) //nolint:errorlint // the rules of this package return the fault itself
	if !ok {
		return err
	}
	details := make([]fault.Detail, len(f.Details))
	for k, d := range f.Details {
		d.Field = fmt.Sprintf("items[%d].record.%s", i, d.Field)
		details[k] = d
	}
	return fault.New(f.Kind, f.Code, "%s", f.Message).With(details...)
}

// bundleLibrary is the library as it will be with a bundle in it, as one of the
// bundle's overlays sees it.
type bundleLibrary struct {
	packLibrary
	self contracts.OverlayID
}

// Frontmatter gives the header of another overlay; of itself the one there is now.
func (l bundleLibrary) Frontmatter(id contracts.OverlayID) (contracts.OverlayTemplateFrontmatter, bool, bool) {
	if id == l.self {
		return l.library.Frontmatter(id)
	}
	return l.packLibrary.Frontmatter(id)
}

// AliasOwner knows the earlier names that the bundle brings along.
func (l bundleLibrary) AliasOwner(alias string) (contracts.OverlayID, bool) {
	for id, fm := range l.pack {
		for _, a := range fm.DeprecatedAliases {
			if a == alias && id != l.self {
				return id, true
			}
		}
	}
	owner, ok := l.library.AliasOwner(alias)
	if _, own := l.pack[owner]; own && owner != l.self {
		return "", false // it is given up
	}
	return owner, ok
}

// OverlaysOf gives the details of overlays, such as those that a bundle saved.
func (v *View) OverlaysOf(ids []contracts.OverlayID) contracts.List[contracts.OverlayDetail] {
	var out contracts.List[contracts.OverlayDetail]
	for _, id := range ids {
		if d, _, err := v.Overlay(id); err == nil {
			d.Warnings = v.Warnings(id)
			out = append(out, d)
		}
	}
	return out
}
