package ec

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/frontmatter"
	"github.com/elnor/promptlab/ec/lint"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/tidwall/btree"
)

// Migrate brings a library of release R3 to this one, one bounded step a
// command. It is EC's own: the start sends it until View.UpgradeDue says that
// nothing is left. Each step happens as a whole or not at all, so that a start
// after a kill goes on where the last one ended.
type Migrate struct{ Pack Pack }

// Type names the command in the audit.
func (Migrate) Type() string { return "maintenance.migrate" }

// MigrationStep says how far a migration has come: what is named has been done.
type MigrationStep string

// The steps, in order.
const (
	StepBegun   MigrationStep = "begun"   // documents are being copied to the backup
	StepSaved   MigrationStep = "saved"   // the backup is whole; nothing else has changed
	StepLibrary MigrationStep = "library" // overlays, pins and defaults are of this release
	StepDone    MigrationStep = "done"
)

// Migration is the record of a migration in the install state.
type Migration struct {
	From      string          `json:"from"`
	Step      MigrationStep   `json:"step" enum:"begun,saved,library,done"`
	StartedAt contracts.Time  `json:"started_at"`
	DoneAt    *contracts.Time `json:"done_at,omitempty"`
	// Removed counts, by overlay, the sessions, pin lists and defaults that it was taken out of.
	Removed  contracts.Map[int]                  `json:"removed" default:"{}"`
	Added    contracts.List[contracts.OverlayID] `json:"added" default:"[]"`     // new presets
	Replaced contracts.List[contracts.OverlayID] `json:"replaced" default:"[]"`  // presets with another text than the pack's; theirs is in the history
	SetAside contracts.List[string]              `json:"set_aside" default:"[]"` // documents that could not be understood
	Notices  contracts.List[NoticeRecord]        `json:"notices" default:"[]"`
}

// legacy is what is left to do of a library of an older release.
type legacy struct {
	on    bool
	docs  btree.Map[string, []byte]   // by path; not taken over yet
	saved btree.Map[string, struct{}] // paths with a copy in the backup
}

// reclassified lists the presets that were live overlays in R3 and are not now.
func reclassified() []contracts.OverlayID {
	return []contracts.OverlayID{"spec-architect", "elicitation", "reflexion-learning"}
}

// defaultUpgradeBatch is how many documents one command takes on.
const defaultUpgradeBatch = 200

// UpgradeDue says whether the library is of an older release and waits for
// Migrate. Until then it takes no other command.
func (v *View) UpgradeDue() bool { return v.s.legacy.on }

// upgrading refuses what may not happen to a half-migrated library.
func (s *State) upgrading(b Body) error {
	if _, ours := b.(Migrate); ours || !s.legacy.on {
		return nil
	}
	return fault.New(fault.Unavailable, "upgrade_pending", "the library is being brought to this release; try again in a moment")
}

func (s *State) migrate(c Command, b Migrate) (decision, error) {
	if !s.legacy.on {
		return unchanged("migration", "")
	}
	u := &upgrade{c: c, s: s.Copy(), m: Migration{From: "R3", Step: StepBegun, StartedAt: c.At}}
	if m := s.install.Migration; m != nil {
		u.m = *m
		u.m.Removed = maps.Clone(m.Removed)
	}
	if u.m.Removed == nil {
		u.m.Removed = contracts.Map[int]{}
	}
	switch u.m.Step {
	case StepBegun:
		u.save()
	case StepSaved:
		if err := u.library(b.Pack); err != nil {
			return decision{}, err
		}
	case StepLibrary:
		u.sessions()
	case StepDone: // such a library is not legacy
	}
	next := u.s.install
	next.Migration = &u.m
	u.apply(InstallPut{next})
	d, err := changed("migration", u.events...)
	d.receipt.Note = string(u.m.Step)
	return d, err
}

// upgrade is one step of a migration on its way.
type upgrade struct {
	c      Command
	s      *State // as the events so far leave it
	m      Migration
	events []Event
}

func (u *upgrade) apply(events ...Event) {
	for _, e := range events {
		u.s.Apply(e)
		u.events = append(u.events, e)
	}
}

func (u *upgrade) batch() int { return cmp.Or(u.s.policy.UpgradeBatch, defaultUpgradeBatch) }

// save copies documents to the backup, before anything else is touched.
func (u *upgrade) save() {
	var list []Event
	whole := true
	u.s.legacy.docs.Scan(func(p string, body []byte) bool {
		if _, have := u.s.legacy.saved.Get(p); have {
			return true
		}
		if whole = len(list) < u.batch(); whole {
			list = append(list, BackupPut{p, body})
		}
		return whole
	})
	u.apply(list...)
	if whole {
		u.m.Step = StepSaved
	}
}

// library takes over overlays, then pins and defaults, in one step.
func (u *upgrade) library(pack Pack) error {
	presets := map[contracts.OverlayID]PackOverlay{}
	for _, o := range pack.Overlays {
		presets[o.Frontmatter.ID] = o
	}
	own := u.shelve(presets)
	d, err := u.s.installPresets(u.c, InstallPresets{pack})
	if err != nil {
		return err
	}
	for _, e := range d.events {
		if _, last := e.(InstallPut); last { // the step ends with one; the registry wants overlays first
			u.s.Apply(e)
		} else {
			u.apply(e)
		}
	}
	u.m.Added, u.m.Replaced = d.receipt.Install.Installed, append(u.m.Replaced, d.receipt.Install.Updated...)
	for _, p := range own {
		u.adopt(p)
	}
	for _, folder := range []string{dirPins, pathDefaults} {
		for _, p := range u.below(folder) {
			u.pinsOrDefaults(p)
		}
	}
	for _, p := range u.all() { // index, metadata and the like are made anew
		if !strings.HasPrefix(p, dirSessions) {
			u.apply(LegacyTaken{Path: p})
		}
	}
	u.m.Step = StepLibrary
	return nil
}

func (u *upgrade) all() []string { return u.below("") }

func (u *upgrade) below(prefix string) (out []string) {
	u.s.legacy.docs.Ascend(prefix, func(p string, _ []byte) bool {
		if strings.HasPrefix(p, prefix) {
			out = append(out, p)
		}
		return strings.HasPrefix(p, prefix)
	})
	return out
}

// shelve puts the old texts of presets into the library, as what the pack is
// about to renew, and gives the files of a person's own overlays.
func (u *upgrade) shelve(presets map[contracts.OverlayID]PackOverlay) (own []string) {
	for _, folder := range Watched() {
		for _, p := range u.below(folder) {
			id, archived, ok := overlayOfPath(p)
			if !ok {
				continue // a person's own file of another kind
			}
			if preset, is := presets[slug(string(id))]; is {
				u.shelvePreset(p, preset, archived)
			} else {
				own = append(own, p)
			}
		}
	}
	return own
}

func (u *upgrade) shelvePreset(p string, preset PackOverlay, archived bool) {
	id := preset.Frontmatter.ID
	if _, twice := u.s.overlays.Get(string(id)); twice { // it lies in both folders, or under two spellings
		u.apply(LegacyTaken{Path: p, Remove: true})
		u.setAside(p)
		return
	}
	file, _ := u.s.legacy.docs.Get(p)
	old := u.preset(preset.Frontmatter, bodyOf(file), string(file), archived)
	put := OverlayPut{Overlay: old, What: contracts.EventOverlayInstalled}
	if archived { // the pack leaves it alone, so its header is brought up to date here
		body := old.Record.Body
		if slices.Contains(reclassified(), id) { // brought back, it must not say what it said as a live one
			body = preset.Body
			u.m.Replaced = append(u.m.Replaced, id)
		}
		now := u.preset(preset.Frontmatter, body, string(frontmatter.Format(preset.Frontmatter, body)), true)
		now.Revision = old.Revision + 1
		put = OverlayPut{Overlay: now, Previous: old, What: contracts.EventOverlayUpdated}
	}
	u.apply(put, LegacyTaken{Path: p, Remove: p != overlayPath(old)})
}

// preset makes a preset with the pack's header and a text.
func (u *upgrade) preset(fm contracts.OverlayTemplateFrontmatter, body, file string, archived bool) *Overlay {
	o := u.s.makeOverlay(fm, body, file)
	o.Record.Source, o.Record.CreatedAt, o.Record.UpdatedAt = contracts.SourcePreset, u.c.At, u.c.At
	if archived {
		o.Record.ArchivedAt = &u.c.At
	}
	return o
}

// adopt takes over a person's own overlay where the rules of this release allow
// it; else its file stays where it is, and the status says why.
func (u *upgrade) adopt(p string) {
	body, _ := u.s.legacy.docs.Get(p)
	name, archived, _ := overlayOfPath(p)
	file := modernFile(body, slug(string(name)))
	doc, err := frontmatter.Parse(file)
	if err == nil {
		err = u.s.validate(contracts.OverlayTemplateRecord{Frontmatter: doc.Frontmatter, Body: doc.Body}, lint.Create)
	}
	if err != nil {
		u.apply(ExternalRefused{Path: p, Why: err.Error(), Body: body}, LegacyTaken{Path: p})
		u.setAside(p)
		return
	}
	o := u.s.makeOverlay(doc.Frontmatter, doc.Body, string(file))
	o.Record.Source, o.Record.CreatedAt, o.Record.UpdatedAt = contracts.SourceUser, u.c.At, u.c.At
	if archived {
		o.Record.ArchivedAt = &u.c.At
	}
	u.apply(OverlayPut{Overlay: o, What: contracts.EventOverlayInstalled}, LegacyTaken{Path: p, Remove: p != overlayPath(o)})
}

func (u *upgrade) setAside(p string) { u.m.SetAside = append(u.m.SetAside, p) }

// leaves says whether an id of R3 is one of the presets that are not live any
// more, by its id or by a name it has had.
func (u *upgrade) leaves(id contracts.OverlayID) bool {
	if o, ok := u.s.resolve(id); ok {
		id = o.Record.Frontmatter.ID
	}
	return slices.Contains(reclassified(), id)
}

// clean takes what is not live any more out of a list of pins or defaults.
func (u *upgrade) clean(ids []contracts.OverlayID) (out contracts.List[contracts.OverlayID], less bool) {
	for _, id := range ids {
		o, known := u.s.resolve(id)
		if known {
			id = o.Record.Frontmatter.ID
		}
		switch {
		case u.leaves(id):
			u.m.Removed[string(id)]++
			less = true
		case !slices.Contains(out, id):
			out = append(out, id)
		}
	}
	return out, less
}

func (u *upgrade) pinsOrDefaults(p string) {
	body, _ := u.s.legacy.docs.Get(p)
	var home string
	if p == pathDefaults {
		home = p
		if d, ok := oldDefaults(body, u.c.At); ok {
			u.cleanDefaults(&d)
			u.apply(DefaultsPut{d})
		} else {
			u.setAside(p)
		}
	} else if store, ok := oldPins(p, body, u.c.At); ok {
		var less bool
		if store.OverlayIDs, less = u.clean(store.OverlayIDs); less {
			store.UpdatedAt, store.UpdatedBy = u.c.At, string(RoleSystem)
		}
		home = dirPins + pinKey(store.Scope, store.WorkspaceID) + ".json"
		if _, taken := u.s.pins.Get(pinKey(store.Scope, store.WorkspaceID)); taken {
			u.setAside(p)
		} else {
			u.apply(PinsPut{&store})
		}
	} else {
		u.setAside(p)
	}
	u.apply(LegacyTaken{Path: p, Remove: home != p})
}

func (u *upgrade) cleanDefaults(d *Defaults) {
	for i := range d.Moderators {
		d.Moderators[i].OverlayIDs, _ = u.clean(d.Moderators[i].OverlayIDs)
	}
	for i := range d.Surfaces {
		d.Surfaces[i].OverlayIDs, _ = u.clean(d.Surfaces[i].OverlayIDs)
	}
}
