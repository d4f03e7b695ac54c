package importer

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/frontmatter"
	"github.com/elnor/promptlab/ec/lint"
	"github.com/elnor/promptlab/internal/fault"
)

// Plan reads files and says what an import would make of them. The same files give
// the same ids whatever the library holds.
func Plan(files []File, o Options) Report {
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	p := plan{o: o, taken: map[contracts.OverlayID]bool{}, known: map[contracts.OverlayID]Known{}, next: map[string]int{}}
	for _, k := range o.Library {
		p.known[k.Frontmatter.ID] = k
	}
	var rep Report
	var readings []reading
	skills := skillFolders(files)
	for _, f := range files {
		r := read(f)
		skill := insideSkill(f.Path, skills)
		skipped := skill != "" && !f.Named && !r.foreign
		if skipped {
			r = refuse(r.format, "belongs to the skill in "+skill+"; a skill's further files have no place in an overlay")
		}
		if r.foreign && !f.Named {
			rep.Ignored++
			continue
		}
		rep.Files = append(rep.Files, FileReport{Path: f.Path, Format: r.format, Refused: r.refused, Skipped: skipped, Notes: r.notes, Lost: r.lost})
		readings = append(readings, r)
	}
	for _, exactOnes := range []bool{true, false} { // our own ids are not up for choice: they come first
		for i := range readings {
			p.name(&readings[i], exactOnes)
		}
	}
	for i, r := range readings {
		for _, d := range r.drafts {
			pr := p.propose(d, o.As)
			if r.format == FormatBundle {
				pr.Group = rep.Files[i].Path
			}
			rep.Files[i].Overlays = append(rep.Files[i].Overlays, pr)
		}
	}
	for i := range rep.Files {
		for j := range rep.Files[i].Overlays {
			p.all = append(p.all, &rep.Files[i].Overlays[j])
		}
	}
	p.index()
	for _, pr := range p.all {
		p.join(pr, pr.Frontmatter.ID)
	}
	for _, pr := range p.all {
		p.judge(pr)
	}
	return rep
}

// skillFolders lists the folders that hold a SKILL.md.
func skillFolders(files []File) map[string]bool {
	out := map[string]bool{}
	for _, f := range files {
		if strings.EqualFold(path.Base(f.Path), "skill.md") {
			out[path.Dir(f.Path)] = true
		}
	}
	return out
}

// insideSkill gives the folder of the skill that a file belongs to.
func insideSkill(p string, skills map[string]bool) string {
	if strings.EqualFold(path.Base(p), "skill.md") {
		return ""
	}
	for dir := path.Dir(p); ; dir = path.Dir(dir) {
		if skills[dir] {
			return dir
		}
		if dir == "." || dir == "/" {
			return ""
		}
	}
}

type plan struct {
	o     Options
	known map[contracts.OverlayID]Known
	taken map[contracts.OverlayID]bool
	all   []*Proposal
	byID  map[contracts.OverlayID]*Proposal
	alias map[string]contracts.OverlayID
	self  *Proposal // the one that is judged: it is not part of the library

	next   map[string]int // the number to try next for an id that is taken
	rivals []Known        // what names a hard conflict
}

// name gives the drafts of a file their ids.
func (p *plan) name(r *reading, exactOnes bool) {
	for i := range r.drafts {
		d := &r.drafts[i]
		switch {
		case d.exact != exactOnes:
		case d.exact:
			p.taken[d.fm.ID] = true
		default:
			id, word := idFor(*d, p.taken, p.next)
			if word != "" {
				d.note(word)
			}
			d.fm.ID = id
			p.taken[id] = true
		}
	}
}

// propose makes an overlay of a draft.
func (p *plan) propose(d draft, as contracts.OverlayArtifactClass) Proposal {
	tokens := contracts.EstimateTokens(d.body)
	pr := Proposal{Where: d.where, Frontmatter: d.fm, Body: d.body, Tokens: tokens}
	if !d.exact {
		class, why := guessClass(d)
		if as != "" {
			class, why = as, "you named it"
		}
		category, because := guessCategory(d, class)
		pr.ClassReason, pr.CategoryReason = why, because
		pr.Frontmatter = contracts.OverlayTemplateFrontmatter{
			ID: d.fm.ID, Title: d.shortTitle(), ArtifactClass: class, Category: category, Description: d.about(),
			VisibilityTier: contracts.TierAdvanced, SupportedSurfaces: surfaces(class),
			RecommendedModelClasses: contracts.List[contracts.ModelClass]{"unknown"}, LiveTokenTarget: tokenTarget(tokens),
			RequiresExplicitInvocation: class != contracts.ClassLive, ResearchTags: d.tags, Version: orWord(d.version, "1.0.0"),
		}
	}
	for _, name := range placeholders(d.body) {
		d.note(fmt.Sprintf("the text has the placeholder %s, which an overlay cannot fill; save it as a recipe instead", clip(name)))
	}
	if strings.Contains(d.body, "{%") {
		d.note("the text has template statements ({% ... %}), which nothing here runs")
	}
	if strings.Contains(d.body, "$ARGUMENTS") {
		d.note("the text waits for arguments ($ARGUMENTS), which an overlay does not get")
	}
	pr.Notes, pr.Lost = d.notes, d.lost
	return pr
}

func (d *draft) shortTitle() string {
	t := oneLine(d.title)
	if t == "" {
		t = orWord(humanTitle(d.name), "Imported text")
	}
	if short := cut(t, 200); short != t {
		d.lose("title: "+t, "a title has at most 200 characters; it was cut")
		return short
	}
	return t
}

// about gives the description: the source's, or what can be had from the text.
func (d *draft) about() string {
	if d.description == "" {
		d.description = firstSentence(d.body)
		if d.description == "" {
			d.description = d.shortTitle()
		}
		d.note("there is no description; the beginning of the text stands for it")
	}
	if short := cut(d.description, 2000); short != d.description {
		d.lose("description beyond 2000 characters", "a description has at most 2000 characters; it was cut")
		return short
	}
	return d.description
}

var placeholder = regexp.MustCompile(`\{\{[^{}\n]{1,200}\}\}`)

// placeholders lists a text's placeholders, each once, at most twenty.
func placeholders(body string) []string {
	var out []string
	for _, m := range placeholder.FindAllString(body, -1) {
		if !slices.Contains(out, m) && len(out) < 20 {
			out = append(out, m)
		}
	}
	return out
}

// index makes one library of what is there and what is proposed.
func (p *plan) index() {
	p.byID, p.alias = map[contracts.OverlayID]*Proposal{}, map[string]contracts.OverlayID{}
	for _, k := range p.o.Library {
		if len(k.Frontmatter.ConflictsWith) > 0 {
			p.rivals = append(p.rivals, k)
		}
		for _, a := range k.Frontmatter.DeprecatedAliases {
			p.alias[a] = k.Frontmatter.ID
		}
	}
	for a, id := range p.o.Aliases {
		p.alias[a] = id
	}
	for _, pr := range p.all {
		id := pr.Frontmatter.ID
		if _, twice := p.byID[id]; twice {
			pr.Conflict = "stands twice in this import; the first one counts"
			continue
		}
		p.byID[id] = pr
		if _, there := p.known[id]; !there && len(pr.Frontmatter.ConflictsWith) > 0 {
			p.rivals = append(p.rivals, Known{Frontmatter: pr.Frontmatter})
		}
		for _, a := range pr.Frontmatter.DeprecatedAliases {
			if _, taken := p.alias[a]; !taken {
				p.alias[a] = id
			}
		}
	}
}

// judge compares a proposal with the library and lints it.
func (p *plan) judge(pr *Proposal) {
	id := pr.Frontmatter.ID
	old, exists := p.known[id]
	switch {
	case pr.Conflict != "":
	case exists && old.Loaded && same(old, pr):
		pr.Same = true
	case exists && old.Loaded && old.Body == pr.Body:
		pr.Conflict = "is in the library with this text and another header"
		pr.Replaces = !old.Archived
	case exists && old.Archived:
		pr.Conflict = "is the id of an archived overlay"
	case exists:
		pr.Conflict, pr.Replaces = "is the id of an overlay with another text", true
	}
	if owner, was := p.alias[string(id)]; was && owner != id && pr.Conflict == "" {
		pr.Conflict = "was an earlier id of " + string(owner)
	}
	if pr.Same {
		return // it is there: nothing would be saved, so nothing is wrong with it
	}
	p.self = pr
	res := lint.Validate(lint.Candidate{Frontmatter: pr.Frontmatter, Body: pr.Body}, p, lint.Options{Operation: lint.Create, Origin: lint.Person})
	for _, e := range res.Errors {
		if (e.Rule != lint.RuleDuplicate || e.Field != "frontmatter.id") && !p.written(pr, e) {
			pr.Errors = append(pr.Errors, e)
		}
	}
	pr.Warnings = res.Warnings
	for i, other := range pr.Frontmatter.ConflictsWith {
		if _, there := p.known[other]; !there && p.byID[other] != nil && !p.together(id, other) {
			pr.Errors = append(pr.Errors, fault.Detail{
				Field: fmt.Sprintf("frontmatter.conflicts_with[%d]", i), Rule: lint.RuleConflict,
				Message: fmt.Sprintf("names %s, which is not in the library yet and does not come with it: what excludes each other must be there already, name each other in this import, or come in one bundle (presets come with: promptlab presets install)", other),
			})
		}
	}
}

// join puts loose overlays that exclude each other, and that the library does not
// have, into one group: neither of them could be saved before the other.
func (p *plan) join(pr *Proposal, group contracts.OverlayID) {
	id := pr.Frontmatter.ID
	if _, there := p.known[id]; there || pr.Group != "" || pr.Conflict != "" {
		return
	}
	for _, other := range pr.Frontmatter.ConflictsWith {
		mate := p.byID[other]
		_, there := p.known[other]
		if there || mate == nil || mate == pr || !slices.Contains(mate.Frontmatter.ConflictsWith, id) || mate.Group != "" && mate.Group != string(group) {
			continue
		}
		pr.Group = string(group)
		p.join(mate, group)
	}
}

// together says whether two overlays are saved at once.
func (p *plan) together(a, b contracts.OverlayID) bool {
	x, y := p.byID[a], p.byID[b]
	return x != nil && y != nil && x.Group != "" && x.Group == y.Group
}

// written says that an error will be none: the other side of the hard conflict is
// written in the same step.
func (p *plan) written(pr *Proposal, e fault.Detail) bool {
	if !p.o.Reciprocal || e.Rule != lint.RuleConflict || pr.Group != "" {
		return false
	}
	for i, other := range pr.Frontmatter.ConflictsWith {
		if e.Field == fmt.Sprintf("frontmatter.conflicts_with[%d]", i) {
			_, there := p.known[other]
			return there
		}
	}
	return e.Field == "frontmatter.conflicts_with" // that the other side leaves it out
}

// same says whether the library has a proposal as it stands. The mark of a preset
// makes no difference.
func same(old Known, pr *Proposal) bool {
	fm := old.Frontmatter
	fm.Preset = false
	return string(frontmatter.Format(fm, old.Body)) == string(frontmatter.Format(pr.Frontmatter, pr.Body))
}

// Frontmatter gives a header. With AliasOwner and Each it makes the plan the library
// that lint looks at: what is there, and what is proposed beside the one judged.
func (p *plan) Frontmatter(id contracts.OverlayID) (fm contracts.OverlayTemplateFrontmatter, archived, ok bool) {
	if k, there := p.known[id]; there {
		return k.Frontmatter, k.Archived, true
	}
	if pr := p.byID[id]; pr != nil && pr != p.self && pr.Frontmatter.ID != p.self.Frontmatter.ID {
		return pr.Frontmatter, false, true
	}
	return fm, false, false
}

// AliasOwner finds the overlay that had an id before.
func (p *plan) AliasOwner(alias string) (contracts.OverlayID, bool) {
	id, ok := p.alias[alias]
	return id, ok
}

// Each calls fn for what names a hard conflict, there or proposed. That is all lint
// goes through a library for; to go through everything for each of thousands of
// proposals would take minutes.
func (p *plan) Each(fn func(fm contracts.OverlayTemplateFrontmatter, archived bool) bool) {
	for _, k := range p.rivals {
		if k.Frontmatter.ID != p.self.Frontmatter.ID && !fn(k.Frontmatter, k.Archived) {
			return
		}
	}
}
