package lint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/frontmatter"
	"github.com/elnor/promptlab/internal/fault"
)

// Limits of bodies.
const (
	MaxLiveTokens = 450     // estimated tokens of a live overlay
	MaxOtherBody  = 8 << 10 // bytes of an advisor protocol or post-task template
)

// Library is what validation needs to know of the overlays there will be after
// the command, the candidate itself apart: other overlays that the same command
// writes are in it as they will be. Archived ones are in it too.
type Library interface {
	// Frontmatter gives the header in force: a preset's with its local edges.
	Frontmatter(id contracts.OverlayID) (fm contracts.OverlayTemplateFrontmatter, archived, ok bool)
	// AliasOwner gives the overlay that has alias among its deprecated aliases.
	AliasOwner(alias string) (contracts.OverlayID, bool)
	// Each calls fn at least for every overlay that declares a hard conflict, until
	// it returns false.
	Each(fn func(fm contracts.OverlayTemplateFrontmatter, archived bool) bool)
}

// Candidate is an overlay that somebody wants to save.
type Candidate struct {
	Frontmatter contracts.OverlayTemplateFrontmatter
	Body        string
}

// Operation says how a candidate would be saved.
type Operation int

// The operations.
const (
	Create  Operation = iota // a new overlay of a person's
	Update                   // in place of the overlay with its id
	Install                  // a preset, new or in place of an older one
)

// Options say how and from whom the candidate comes.
type Options struct {
	Operation Operation
	Origin    Origin
}

// Result holds everything that is wrong, and what is only worth knowing.
type Result struct {
	Errors   []fault.Detail
	Warnings []fault.Detail
}

// Err gives the fault for the errors: a conflict when an id or alias is taken
// and nothing else is wrong, else validation; nil without errors.
func (r Result) Err() error {
	if len(r.Errors) == 0 {
		return nil
	}
	for _, d := range r.Errors {
		if d.Rule != RuleDuplicate {
			return fault.Validation(r.Errors)
		}
	}
	return fault.New(fault.Conflict, "conflict", "the id or an alias is already in use; choose another").With(r.Errors...)
}

// Validate checks a candidate by the save-time rules V1 to V12.
func Validate(c Candidate, lib Library, o Options) Result {
	v := validation{c: c, lib: lib, o: o, id: c.Frontmatter.ID}
	v.shape()
	v.identity()
	v.class()
	v.conflicts()
	v.references()
	v.limits()
	v.texts()
	return v.Result
}

// References gives the warnings of Validate that depend on the library.
func References(fm contracts.OverlayTemplateFrontmatter, lib Library) []fault.Detail {
	v := validation{c: Candidate{Frontmatter: fm}, lib: lib, id: fm.ID}
	v.references()
	return v.Warnings
}

// Advice gives the other warnings of Validate: those about the candidate's own
// texts, which are the same for as long as these are.
func Advice(c Candidate, o Origin) []fault.Detail {
	v := validation{c: c, o: Options{Origin: o}, id: c.Frontmatter.ID}
	v.limits()
	v.texts()
	return v.Warnings
}

type validation struct {
	Result
	c   Candidate
	lib Library
	o   Options
	id  contracts.OverlayID
	// taken: there is an overlay with this id, and what others name is that one.
	taken bool
}

func (v *validation) refuse(field, rule, format string, args ...any) {
	v.Errors = append(v.Errors, fault.Detail{Field: field, Rule: rule, Message: fmt.Sprintf(format, args...)})
}

func (v *validation) warn(field, rule, format string, args ...any) {
	v.Warnings = append(v.Warnings, fault.Detail{Field: field, Rule: rule, Message: fmt.Sprintf(format, args...)})
}

// shape applies the contract's types and bounds (V1, V11).
func (v *validation) shape() {
	_, err := contracts.Check(v.c.Frontmatter, contracts.Stored)
	for _, d := range detailsOf(err) {
		d.Rule = frontmatter.SaveRule(d.Field, d.Rule)
		d.Field = "frontmatter." + d.Field
		v.Errors = append(v.Errors, d)
	}
	if strings.ContainsAny(v.c.Frontmatter.Title, "\n\t") {
		v.refuse("frontmatter.title", frontmatter.RuleText, "must be one line")
	}
	if v.c.Body == "" {
		v.refuse("body", frontmatter.RuleSchema, "must not be empty")
	}
}

// identity checks the id, its uniqueness, and who may claim to be a preset
// (V1, V4, V12).
func (v *validation) identity() {
	switch {
	case !strings.ContainsAny(string(v.id), "abcdefghijklmnopqrstuvwxyz0123456789"):
		v.refuse("frontmatter.id", frontmatter.RuleID, "needs a letter or a digit")
	case reserved(string(v.id)):
		v.refuse("frontmatter.id", frontmatter.RuleID, "is a reserved word")
	}
	stored, _, exists := v.lib.Frontmatter(v.id)
	if exists && v.o.Operation == Create {
		v.taken = true
		v.refuse("frontmatter.id", RuleDuplicate, "is already the id of an overlay, live or archived")
	}
	if owner, taken := v.lib.AliasOwner(string(v.id)); taken && owner != v.id {
		v.refuse("frontmatter.id", RuleDuplicate, "is an earlier name of the overlay %s", owner)
	}
	for i, a := range v.c.Frontmatter.DeprecatedAliases {
		field := fmt.Sprintf("frontmatter.deprecated_aliases[%d]", i)
		if _, _, taken := v.lib.Frontmatter(contracts.OverlayID(a)); taken && contracts.OverlayID(a) != v.id {
			v.refuse(field, RuleDuplicate, "is the id of an overlay")
		} else if owner, taken := v.lib.AliasOwner(a); taken && owner != v.id {
			v.refuse(field, RuleDuplicate, "is an earlier name of the overlay %s", owner)
		}
	}
	if v.c.Frontmatter.Preset && v.o.Operation != Install && (v.o.Operation == Create || !exists || !stored.Preset) {
		v.refuse("frontmatter.preset", RulePreset, "is set by the preset installer only")
	}
}

// reserved finds ids that a route or a file system means something else by.
func reserved(id string) bool {
	switch id {
	case "search", "con", "prn", "aux", "nul":
		return true
	}
	port := strings.TrimPrefix(strings.TrimPrefix(id, "com"), "lpt")
	return len(id) == 4 && len(port) == 1 && port[0] >= '0' && port[0] <= '9'
}

// class checks that class and surfaces fit (V9).
func (v *validation) class() {
	fm := v.c.Frontmatter
	only := func(allowed ...contracts.SupportedSurface) bool {
		for _, s := range fm.SupportedSurfaces {
			if !slices.Contains(allowed, s) {
				return false
			}
		}
		return true
	}
	const surfaces = "frontmatter.supported_surfaces"
	switch fm.ArtifactClass {
	case contracts.ClassLive:
		if slices.Contains(fm.SupportedSurfaces, contracts.SurfacePostTask) || only(contracts.SurfaceAdvisor) {
			v.refuse(surfaces, RuleClass, "of a live overlay need chat, room, panel or task, and no post_task")
		}
		if fm.RequiresExplicitInvocation {
			v.refuse("frontmatter.requires_explicit_invocation", RuleClass, "cannot be true for a live overlay")
		}
	case contracts.ClassAdvisor:
		if !only(contracts.SurfaceAdvisor, contracts.SurfaceTask) {
			v.refuse(surfaces, RuleClass, "of an advisor protocol are prompt_advisor and task only")
		}
	case contracts.ClassPostTask:
		if !only(contracts.SurfacePostTask) {
			v.refuse(surfaces, RuleClass, "of a post-task template are exactly post_task")
		}
	}
	if want, ok := PresetClass(v.id); ok && fm.ArtifactClass != want {
		v.refuse("frontmatter.artifact_class", RuleClass, "of %s is %s", v.id, want)
	}
}

// PresetClass gives the class that a preset's id is bound to.
func PresetClass(id contracts.OverlayID) (contracts.OverlayArtifactClass, bool) {
	switch id {
	case "spec-architect", "elicitation":
		return contracts.ClassAdvisor, true
	case "reflexion-learning":
		return contracts.ClassPostTask, true
	case "guided-verification", "concise-executive", "step-back-principles", "structured-decomposition", "secure-code",
		"legal-research", "dont-make-mistakes", "legal-strict", "pre-mortem-risk-analysis", "red-team-aggressive",
		"self-consistency-check", "spec-implementation", "tree-of-approaches", "creative-innovation",
		"counterargument-generator", "creative-flow", "verify-first", "diverse-sampling":
		return contracts.ClassLive, true
	default:
		return "", false
	}
}

// conflicts checks that hard conflicts stand on both sides (V7).
func (v *validation) conflicts() {
	mine := v.c.Frontmatter.ConflictsWith
	for i, other := range mine {
		field := fmt.Sprintf("frontmatter.conflicts_with[%d]", i)
		fm, _, exists := v.lib.Frontmatter(other)
		switch {
		case other == v.id:
			v.refuse(field, frontmatter.RuleSchema, "names the overlay itself")
		case !exists:
			v.refuse(field, RuleConflict, "names %s, which is not in the library", other)
		case !slices.Contains(fm.ConflictsWith, v.id):
			v.refuse(field, RuleConflict, "names %s, which does not name this overlay", other)
		}
	}
	v.lib.Each(func(fm contracts.OverlayTemplateFrontmatter, _ bool) bool {
		if !v.taken && slices.Contains(fm.ConflictsWith, v.id) && fm.ID != v.id && !slices.Contains(mine, fm.ID) {
			v.refuse("frontmatter.conflicts_with", RuleConflict, "leaves out %s, which names this overlay", fm.ID)
		}
		return true
	})
}

// references looks at warnings, which may stand on one side: they are read as
// undirected.
func (v *validation) references() {
	for i, other := range v.c.Frontmatter.WarnsWith {
		if _, _, exists := v.lib.Frontmatter(other); !exists || other == v.id {
			v.warn(fmt.Sprintf("frontmatter.warns_with[%d]", i), "unknown_reference", "names %s, which is not another overlay of the library", other)
		}
	}
}

// limits checks sizes by our own estimate; the author's is not trusted (V8).
func (v *validation) limits() {
	fm, body := v.c.Frontmatter, v.c.Body
	tokens := contracts.EstimateTokens(body)
	switch {
	case fm.ArtifactClass == contracts.ClassLive && tokens > MaxLiveTokens:
		v.refuse("body", RuleTooLong, "is estimated at %d tokens; a live overlay may have %d", tokens, MaxLiveTokens)
	case fm.ArtifactClass != contracts.ClassLive && len(body) > MaxOtherBody:
		v.refuse("body", frontmatter.RuleTooLarge, "has %d bytes; an overlay of this class may have %d", len(body), MaxOtherBody)
	case tokens > fm.LiveTokenTarget:
		v.warn("body", "over_token_target", "is estimated at %d tokens, over its own target of %d", tokens, fm.LiveTokenTarget)
	}
	opening := foldWords(body[:min(len(body), 200)])
	if len(opening) > 3 && opening[0] == "you" && opening[1] == "are" && (opening[2] == "a" || opening[2] == "an" || opening[2] == canon("the")) {
		v.warn("body", "persona_opening", "opens with a persona; concrete rules work better")
	}
}

// texts lints everything that a model or a person will read (V5, V6, V10).
func (v *validation) texts() {
	fm := v.c.Frontmatter
	v.lint("frontmatter.title", fm.Title)
	v.lint("frontmatter.description", fm.Description)
	v.lint("frontmatter.reasoning_model_caution", fm.ReasoningModelCaution)
	v.lint("frontmatter.version", fm.Version)
	for _, l := range []struct {
		name string
		list []string
	}{
		{"suggested_use_cases", fm.SuggestedUseCases}, {"avoid_when", fm.AvoidWhen}, {"structure_labels", fm.StructureLabels},
		{"research_tags", fm.ResearchTags}, {"research_basis", fm.ResearchBasis}, {"deprecated_aliases", fm.DeprecatedAliases},
	} {
		for i, s := range l.list {
			v.lint(fmt.Sprintf("frontmatter.%s[%d]", l.name, i), s)
		}
	}
	v.lint("body", v.c.Body)
}

func (v *validation) lint(field, text string) {
	for _, f := range Text(text, v.o.Origin, false).Findings {
		msg := f.Message
		if !strings.HasPrefix(msg, "line ") {
			msg = fmt.Sprintf("line %d: %s", 1+strings.Count(text[:f.Start], "\n"), msg)
		}
		if f.Severity == Block {
			v.refuse(field, f.Rule, "%s (%s)", msg, f.ID)
		} else {
			v.warn(field, f.Rule, "%s (%s); look again before you use it", msg, f.ID)
		}
	}
}

func detailsOf(err error) []fault.Detail {
	if err == nil {
		return nil
	}
	if f, ok := err.(*fault.Error); ok { //nolint:errorlint // contracts returns the fault itself
		return f.Details
	}
	return []fault.Detail{{Field: "frontmatter", Rule: frontmatter.RuleSchema, Message: "cannot be encoded"}}
}
