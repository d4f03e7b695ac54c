package ec

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/frontmatter"
	"github.com/elnor/promptlab/ec/lint"
	"github.com/elnor/promptlab/internal/fault"
)

// makeOverlay builds an overlay from its file; times and source are the caller's.
func (s *State) makeOverlay(fm contracts.OverlayTemplateFrontmatter, body, file string) *Overlay {
	o := newOverlay(fm, body, file)
	s.classify(o)
	return o
}

// newOverlay is makeOverlay without what a classifier says.
func newOverlay(fm contracts.OverlayTemplateFrontmatter, body, file string) *Overlay {
	if strings.HasSuffix(file, body) {
		body = file[len(file)-len(body):] // kept once
	}
	o := bareOverlay(fm, body, file)
	o.Record.BodyHash, o.FileHash = contracts.Hash(body), contracts.HashBytes([]byte(file))
	return o
}

// bareOverlay is newOverlay without the hashes.
func bareOverlay(fm contracts.OverlayTemplateFrontmatter, body, file string) *Overlay {
	return &Overlay{
		Record: contracts.OverlayTemplateRecord{Frontmatter: fm, Body: body},
		Meta: contracts.OverlayMetadata{
			OverlayID: fm.ID, StructureLabels: slices.Clone(fm.StructureLabels),
			EvidenceLabel: contracts.LabelNone, RecommendationEligible: !fm.RequiresExplicitInvocation,
			PromptLabEligible: true,
		},
		Revision: 1, File: file, found: foundBy(fm), place: shelfPlace(fm), advised: &advised{},
	}
}

// resolve finds an overlay by id or by an alias it once had.
func (s *State) resolve(id contracts.OverlayID) (*Overlay, bool) {
	if o, ok := s.overlays.Get(string(id)); ok {
		return o, true
	}
	if now, ok := s.aliases.Get(string(id)); ok {
		return s.overlays.Get(string(now))
	}
	return nil, false
}

// library lets lint look at the overlays of a state.
type library struct{ s *State }

// Frontmatter gives the header of an overlay, archived or not.
func (l library) Frontmatter(id contracts.OverlayID) (fm contracts.OverlayTemplateFrontmatter, archived, ok bool) {
	o, ok := l.s.overlays.Get(string(id))
	if !ok {
		return fm, false, false
	}
	return l.s.inForce(o.Record.Frontmatter), o.Archived(), true
}

// AliasOwner gives the overlay that once had this id.
func (l library) AliasOwner(alias string) (contracts.OverlayID, bool) { return l.s.aliases.Get(alias) }

// Each calls fn for every overlay that declares a hard conflict, in its file or
// in this library only, until it returns false.
func (l library) Each(fn func(contracts.OverlayTemplateFrontmatter, bool) bool) {
	visit := func(id string) bool {
		o, ok := l.s.overlays.Get(id)
		return !ok || fn(l.s.inForce(o.Record.Frontmatter), o.Archived())
	}
	for _, id := range slices.Sorted(maps.Keys(l.s.install.Presets)) {
		if _, listed := l.s.declaring.Get(id); !listed && len(l.s.install.Presets[id].LocalConflicts) > 0 && !visit(id) {
			return
		}
	}
	l.s.declaring.Scan(func(id string, _ struct{}) bool { return visit(id) })
}

func (s *State) createOverlay(c Command, b CreateOverlay) (decision, error) {
	rec, wrong := s.cleanRecord(b.Record, nil)
	then, puts, install := s, []Event(nil), []Event(nil)
	if b.DeclareReciprocal {
		var err error
		if then, puts, install, err = s.reciprocal(c, rec.Frontmatter); err != nil {
			return decision{}, together(wrong, err)
		}
	}
	if err := together(wrong, then.validate(rec, lint.Create)); err != nil {
		return decision{}, err
	}
	d, err := s.newOverlay(c, rec)
	return weave(d, puts, install), err
}

// newOverlay saves an accepted record of a person's.
func (s *State) newOverlay(c Command, rec contracts.OverlayTemplateRecord) (decision, error) {
	o := s.makeOverlay(rec.Frontmatter, rec.Body, string(frontmatter.Format(rec.Frontmatter, rec.Body)))
	o.Record.Source, o.Record.CreatedAt, o.Record.UpdatedAt = contracts.SourceUser, c.At, c.At
	return changed(string(rec.Frontmatter.ID), OverlayPut{Overlay: o, What: contracts.EventOverlayInstalled})
}

// cleanRecord brings a client's record into stored form: what EC owns is EC's. The
// error says what the client claims that it may not, or that is wrong; the record
// is clean all the same.
func (s *State) cleanRecord(rec contracts.OverlayTemplateRecord, old *Overlay) (contracts.OverlayTemplateRecord, error) {
	var wrong []fault.Detail
	rec.Body = contracts.Normalize(rec.Body)
	hash := contracts.Hash(rec.Body)
	if rec.BodyHash != "" && rec.BodyHash != hash {
		wrong = append(wrong, fault.Detail{Field: "body_hash", Rule: codeHash, Message: "is not the hash of the body; leave it out or send the right one"})
	}
	rec.BodyHash = hash
	preset := old != nil && old.Record.Frontmatter.Preset
	if rec.Frontmatter.Preset && !preset {
		wrong = append(wrong, fault.Detail{Field: "frontmatter.preset", Rule: "preset_reserved", Message: "only the preset pack may say that it is a preset"})
	}
	if rec.Source == contracts.SourcePreset && old == nil {
		wrong = append(wrong, fault.Detail{Field: "source", Rule: "preset_reserved", Message: "only the preset pack may say that it is a preset"})
	}
	rec.Frontmatter.Preset = preset
	return rec, refusal(wrong)
}

// codeHash says that a hash is not that of the text beside it.
const codeHash = "hash_mismatch"

// refusal makes one fault of everything that is wrong with a record.
func refusal(wrong []fault.Detail) error {
	if len(wrong) == 0 {
		return nil
	}
	for _, d := range wrong {
		if d.Rule != codeHash {
			return fault.Validation(wrong)
		}
	}
	return fault.New(fault.Invalid, codeHash, "body_hash is not the hash of the body").With(wrong...)
}

// together tells at once what two checks of one record have found.
func together(a, b error) error {
	var x, y *fault.Error
	if !errors.As(a, &x) || !errors.As(b, &y) || len(y.Details) == 0 {
		return cmp.Or(a, b)
	}
	return fault.Validation(slices.Concat(x.Details, y.Details))
}

// validate runs the save-time rules against the library as it is.
func (s *State) validate(rec contracts.OverlayTemplateRecord, op lint.Operation) error {
	return lint.Validate(lint.Candidate{Frontmatter: s.inForce(rec.Frontmatter), Body: rec.Body}, library{s},
		lint.Options{Operation: op, Origin: lint.Person}).Err()
}

// Warnings says what is worth knowing about a stored overlay.
func (v *View) Warnings(id contracts.OverlayID) contracts.List[contracts.Warning] {
	o, ok := v.s.resolve(id)
	if !ok {
		return nil
	}
	var out contracts.List[contracts.Warning]
	for _, other := range v.s.install.Presets[string(o.Record.Frontmatter.ID)].LocalConflicts {
		out = append(out, contracts.Warning{Code: "local_conflict", Subject: string(other), Message: "declares a hard conflict with this preset; it counts here as if the preset declared it too"})
	}
	for _, w := range slices.Concat(lint.References(o.Record.Frontmatter, library{v.s}), o.advice()) {
		out = append(out, contracts.Warning{Code: w.Rule, Subject: w.Field, Message: w.Message})
	}
	return out
}

// advice gives the warnings about an overlay's texts, which are looked at once.
func (o *Overlay) advice() []fault.Detail {
	o.advised.Do(func() {
		o.advised.found = lint.Advice(lint.Candidate{Frontmatter: o.Record.Frontmatter, Body: o.Record.Body}, lint.Person)
	})
	return o.advised.found
}

func (s *State) find(id contracts.OverlayID, ifMatch string) (*Overlay, error) {
	o, ok := s.overlays.Get(string(id))
	if !ok {
		return nil, noOverlay(id)
	}
	if ifMatch != "" && strings.Trim(strings.TrimPrefix(ifMatch, "W/"), `"`) != o.FileHash {
		return nil, fault.New(fault.PreconditionFailed, "precondition_failed", "the overlay has changed since you read it; read it again")
	}
	return o, nil
}

func (s *State) updateOverlay(c Command, b UpdateOverlay) (decision, error) {
	old, err := s.find(b.OverlayID, b.IfMatch)
	if err != nil {
		return decision{}, err
	}
	if b.Record.Frontmatter.ID != b.OverlayID {
		return decision{}, fault.Validation([]fault.Detail{{Field: "frontmatter.id", Rule: "id_mismatch", Message: "is not the id in the path; ids never change"}})
	}
	if old.Archived() {
		return decision{}, fault.New(fault.Conflict, "overlay_archived", "the overlay is archived; restore it first")
	}
	rec, wrong := s.cleanRecord(b.Record, old)
	then, puts, install := s, []Event(nil), []Event(nil)
	if b.DeclareReciprocal {
		if then, puts, install, err = s.reciprocal(c, rec.Frontmatter); err != nil {
			return decision{}, together(wrong, err)
		}
	}
	if err := together(wrong, then.validate(rec, lint.Update)); err != nil {
		return decision{}, err
	}
	file, err := frontmatter.Update([]byte(old.File), rec.Frontmatter, rec.Body)
	if err != nil {
		return decision{}, err
	}
	d, err := then.putOverlay(c, old, rec.Frontmatter, rec.Body, string(file))
	return weave(d, puts, install), err
}

// putOverlay replaces an overlay's text by an accepted one.
func (s *State) putOverlay(c Command, old *Overlay, fm contracts.OverlayTemplateFrontmatter, body, file string) (decision, error) {
	if file == old.File {
		return unchanged(string(fm.ID), "")
	}
	o := s.makeOverlay(fm, body, file)
	o.Record.Source, o.Record.CreatedAt, o.Record.UpdatedAt = old.Record.Source, old.Record.CreatedAt, c.At
	o.Record.ArchivedAt = old.Record.ArchivedAt
	o.Revision = old.Revision + 1
	o.Meta.LastLabTestedAt, o.Meta.LastFeedbackAt = old.Meta.LastLabTestedAt, old.Meta.LastFeedbackAt
	events := []Event{OverlayPut{Overlay: o, Previous: old, What: contracts.EventOverlayUpdated}}
	return changed(string(fm.ID), append(events, s.modified(o)...)...)
}

// modified marks a preset that a person has changed: the pack leaves it alone.
func (s *State) modified(o *Overlay) []Event {
	p, ok := s.install.Presets[string(o.Record.Frontmatter.ID)]
	if !ok || p.UserModified == (p.FileHash != o.FileHash) {
		return nil
	}
	p.UserModified = p.FileHash != o.FileHash
	next := s.install
	next.Presets = contracts.Map[InstalledPreset]{}
	for k, v := range s.install.Presets {
		next.Presets[k] = v
	}
	next.Presets[string(o.Record.Frontmatter.ID)] = p
	return []Event{InstallPut{next}}
}

func (s *State) archiveOverlay(c Command, b ArchiveOverlay) (decision, error) {
	old, err := s.find(b.OverlayID, b.IfMatch)
	if err != nil {
		return decision{}, err
	}
	if old.Archived() {
		return unchanged(string(b.OverlayID), "")
	}
	o := *old
	o.Record.ArchivedAt, o.Record.UpdatedAt = &c.At, c.At
	return changed(string(b.OverlayID), OverlayPut{Overlay: &o, Previous: old, What: contracts.EventOverlayArchived})
}

func (s *State) restoreOverlay(c Command, b RestoreOverlay) (decision, error) {
	old, err := s.find(b.OverlayID, b.IfMatch)
	if err != nil {
		return decision{}, err
	}
	if !old.Archived() {
		return unchanged(string(b.OverlayID), "")
	}
	o := *old
	o.Record.ArchivedAt, o.Record.UpdatedAt = nil, c.At
	return changed(string(b.OverlayID), OverlayPut{Overlay: &o, Previous: old, What: contracts.EventOverlayRestored})
}
