package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/cmd/promptlab/internal/term"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/importer"
	"github.com/elnor/promptlab/internal/fault"
)

// importFlags are the choices about an import.
type importFlags struct {
	apply, replace bool
	as, name       string
}

func (a *app) importOverlays() *cobra.Command {
	var f importFlags
	c := &cobra.Command{
		Use: "import PATH...", Short: "Make overlays of foreign prompt files, or take a bundle; without --apply it only shows what would happen",
		Long: `Reads prompt files of other tools leniently and says what an overlay cannot carry:
SKILL.md, Cursor rules (.mdc), *.instructions.md, AGENTS.md and other Markdown, documents
with blocks marked as ` + "```markdown installable" + `, JSON exports of Langfuse, MLflow and OpenAI
prompts, overlay files, and bundles made by overlays export. Folders are walked; symbolic
links are not followed. - reads standard input; --name says what it is, where that matters.

Without --apply nothing is changed. With it every overlay is created by itself, whole or not
at all; one whose id is taken is left alone unless --replace is given. A bundle is taken at
once, all of it or nothing, so that its overlays may exclude each other. The exit code is 1 when something could not be taken.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("PATH is missing; name files or folders")
			}
			return nil
		},
		Example: "  promptlab overlays import .cursor/rules AGENTS.md\n  promptlab overlays import skills --apply --as advisor_protocol\n  promptlab overlays import prompts.json --json\n  curl -s https://example.org/SKILL.md | promptlab overlays import - --name careful/SKILL.md",
		RunE:    func(c *cobra.Command, args []string) error { return a.runImport(c.Context(), args, f) },
	}
	c.Flags().BoolVar(&f.apply, "apply", false, "create the overlays")
	c.Flags().BoolVar(&f.replace, "replace", false, "with --apply: replace the text of live overlays that have the id already")
	c.Flags().StringVar(&f.name, "name", "", "what standard input would be called as a file; it says how it is read (else by what it looks like)")
	c.Flags().StringVar(&f.as, "as", "", "class of everything that names none: "+strings.Join(contracts.OverlayArtifactClass("").Values(), ", "))
	return c
}

// imported is what an import tells.
type imported struct {
	Applied bool `json:"applied"`
	importer.Report
	Outcomes contracts.List[outcome] `json:"outcomes"`
	Skipped  contracts.List[string]  `json:"skipped"` // what was not looked at, in words
}

// outcome is what became of one overlay, or would.
type outcome struct {
	Path    string                       `json:"path"`
	ID      contracts.OverlayID          `json:"id"`
	What    string                       `json:"outcome"` // created, replaced, exists, refused, untried; without --apply also would_create
	Reason  string                       `json:"reason,omitempty"`
	Details contracts.List[fault.Detail] `json:"details"`
}

func (a *app) runImport(ctx context.Context, args []string, f importFlags) error {
	if f.as != "" && !slices.Contains(contracts.OverlayArtifactClass("").Values(), f.as) {
		return misuse("--as must be one of " + strings.Join(contracts.OverlayArtifactClass("").Values(), ", "))
	}
	if f.name != "" && !slices.Contains(args, "-") {
		return misuse("--name belongs to -, which reads standard input")
	}
	if f.replace && !f.apply {
		return misuse("--replace belongs to --apply")
	}
	found, err := a.collect(args, f.name)
	if err != nil {
		return err
	}
	cl, err := a.connect("user")
	if err != nil {
		return err
	}
	o := importer.Options{As: contracts.OverlayArtifactClass(f.as)}
	seen, err := look(ctx, cl, importer.Plan(found.files, o))
	if err != nil {
		return err
	}
	o.Library, o.Aliases = seen.library, seen.aliases
	doc := imported{Applied: f.apply, Report: importer.Plan(found.files, o), Skipped: found.skipped}
	doc.Ignored += found.ignored
	var broken error
	for _, file := range doc.Files {
		var out []outcome
		if broken == nil {
			out, broken = takeFile(ctx, cl, file, seen, f)
		} else {
			out = untried(file, file.Overlays)
		}
		doc.Outcomes = append(doc.Outcomes, out...)
	}
	if err := a.answer(doc, func(s term.Screen) { showImport(s, doc) }); err != nil {
		return err
	}
	if broken != nil {
		return broken
	}
	refused := slices.ContainsFunc(doc.Outcomes, func(o outcome) bool { return o.What == "refused" || o.What == "untried" }) ||
		slices.ContainsFunc(doc.Files, func(r importer.FileReport) bool { return r.Refused != "" && !r.Skipped })
	if f.apply && refused {
		return silent{Failed}
	}
	return nil
}

// takeFile creates a file's overlays: one by one, or those of a bundle at once. An
// error means that the server could not be asked any more: what comes after is
// untried.
func takeFile(ctx context.Context, cl *client.Client, file importer.FileReport, seen *sight, f importFlags) ([]outcome, error) {
	ready := func(p importer.Proposal) bool { return p.Takeable() || f.replace && p.Replaceable() }
	together := file.Format == importer.FormatBundle
	blocked := together && slices.ContainsFunc(file.Overlays, func(p importer.Proposal) bool { return !p.Same && !ready(p) })
	var out []outcome
	var bundle client.Bundle
	for i, p := range file.Overlays {
		o := outcome{Path: file.Path, ID: p.Frontmatter.ID}
		text := client.OverlayText{Frontmatter: p.Frontmatter, Body: p.Body}
		var err error
		switch {
		case p.Same:
			o.What, o.Reason = "exists", "the library has it already, to the letter"
		case !ready(p):
			o.What, o.Reason, o.Details = "refused", whyNot(p), p.Errors
		case blocked:
			o.What, o.Reason = "refused", "another overlay of this bundle cannot be taken, so none of it is"
		case !f.apply:
			o.What = "would_create"
		case p.Replaces:
			o.What = "replaced"
			if !together {
				_, err = cl.UpdateOverlay(ctx, text, seen.etags[p.Frontmatter.ID])
			}
		default:
			o.What = "created"
			if !together {
				_, err = cl.CreateOverlay(ctx, text)
			}
		}
		if together && (o.What == "created" || o.What == "replaced") {
			item := client.BundleItem{Record: text, Replace: p.Replaces}
			if p.Replaces {
				item.Match = seen.etags[p.Frontmatter.ID]
			}
			bundle.Items = append(bundle.Items, item)
		}
		if no := refusal(err); no != nil {
			o.What, o.Reason, o.Details = "refused", "the server refuses it: "+no.Message, no.Details
		} else if err != nil {
			return append(out, untried(file, file.Overlays[i:])...), err
		}
		out = append(out, o)
	}
	if len(bundle.Items) == 0 {
		return out, nil
	}
	_, err := cl.SaveBundle(ctx, bundle)
	return takenAt(out, err)
}

// takenAt gives the outcomes of a bundle that was sent at once.
func takenAt(out []outcome, err error) ([]outcome, error) {
	no := refusal(err)
	if err == nil {
		return out, nil
	}
	sent := 0
	for i := range out {
		o := &out[i]
		if o.What != "created" && o.What != "replaced" {
			continue
		}
		if no == nil {
			o.What, o.Reason = "untried", "the server could not be asked; look whether it happened after all"
			continue
		}
		own := fmt.Sprintf("items[%d].record.", sent)
		sent++
		o.What, o.Reason = "refused", "the server refuses the bundle: "+no.Message
		for _, d := range no.Details {
			if field, mine := strings.CutPrefix(d.Field, own); mine {
				d.Field = field
				o.Details = append(o.Details, d)
			}
		}
	}
	if no != nil {
		return out, nil
	}
	return out, err
}

// refusal gives what the server says against an overlay; nil for any other error.
func refusal(err error) *fault.Error {
	var no *fault.Error
	if errors.As(err, &no) && (no.Kind == fault.Invalid || no.Kind == fault.Conflict || no.Kind == fault.PreconditionFailed || no.Kind == fault.Malformed) {
		return no
	}
	return nil
}

// untried lists what was not asked for any more.
func untried(file importer.FileReport, rest []importer.Proposal) []outcome {
	var out []outcome
	for _, p := range rest {
		out = append(out, outcome{Path: file.Path, ID: p.Frontmatter.ID, What: "untried", Reason: "something before it went wrong"})
	}
	return out
}

func whyNot(p importer.Proposal) string {
	if p.Conflict != "" {
		why := string(p.Frontmatter.ID) + " " + p.Conflict
		if p.Replaceable() {
			why += "; to put this one in its place: --apply --replace"
		}
		return why
	}
	return "it breaks " + count(len(p.Errors), "rule", "rules") + " of the library"
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// showImport tells a person: first the table, then file by file what there is to know.
func showImport(s term.Screen, doc imported) {
	var rows [][]string
	i := 0
	for _, file := range doc.Files {
		for _, p := range file.Overlays {
			rows = append(rows, []string{
				string(p.Frontmatter.ID), string(p.Frontmatter.ArtifactClass), strconv.Itoa(p.Tokens), findings(p),
				dash(term.Short(p.Conflict, 60)), strconv.Itoa(len(p.Lost)), strings.ReplaceAll(doc.Outcomes[i].What, "_", " "),
			})
			i++
		}
	}
	if len(rows) > 0 {
		s.Table([]string{"ID", "CLASS", "TOKENS", "FINDINGS", "CONFLICT", "LOST", "OUTCOME"}, rows)
	}
	i = 0
	for _, file := range doc.Files {
		s.Printf("\n%s\n", s.Paint(term.Bold, term.Line(file.Path)))
		if file.Refused != "" {
			s.Printf("  %s it %s\n", s.Paint(term.Yellow, "nothing taken:"), term.Line(file.Refused))
		}
		tell(s, "  ", file.Notes, file.Lost)
		for _, p := range file.Overlays {
			showProposal(s, p, doc.Outcomes[i])
			i++
		}
	}
	s.Printf("\n")
	for _, w := range doc.Skipped {
		s.Printf("%s\n", term.Line(w))
	}
	if doc.Ignored > 0 {
		s.Printf("%s in folders were no prompt files.\n", count(doc.Ignored, "file", "files"))
	}
	sums := map[string]int{}
	for _, o := range doc.Outcomes {
		sums[o.What]++
	}
	if !doc.Applied {
		s.Printf("%d would be created, %d are there already, %d cannot be taken. Nothing was changed; do it with --apply.\n", sums["would_create"], sums["exists"], sums["refused"])
		return
	}
	s.Printf("%d created, %d replaced, %d there already, %d not taken.\n", sums["created"], sums["replaced"], sums["exists"], sums["refused"]+sums["untried"])
}

func showProposal(s term.Screen, p importer.Proposal, o outcome) {
	from := ""
	if p.Where != "" {
		from = " from " + term.Line(p.Where)
	}
	s.Printf("  %s%s: %s\n", term.Line(string(p.Frontmatter.ID)), from, term.Line(p.Frontmatter.Title))
	if p.ClassReason != "" {
		s.Printf("    %s because %s; %s because %s\n", p.Frontmatter.ArtifactClass, term.Line(p.ClassReason), p.Frontmatter.Category, term.Line(p.CategoryReason))
	}
	if o.Reason != "" {
		s.Printf("    %s %s\n", s.Paint(term.Yellow, o.What+":"), term.Line(o.Reason))
	}
	for _, d := range o.Details {
		s.Printf("    %s %s: %s (%s)\n", s.Paint(term.Red, "error:"), term.Line(d.Field), term.Line(d.Message), term.Line(d.Rule))
	}
	for _, d := range p.Warnings {
		s.Printf("    %s %s: %s (%s)\n", s.Paint(term.Yellow, "warning:"), term.Line(d.Field), term.Line(d.Message), term.Line(d.Rule))
	}
	tell(s, "    ", p.Notes, p.Lost)
}

func tell(s term.Screen, indent string, notes []string, lost []importer.Loss) {
	for _, l := range lost {
		s.Printf("%s%s %s (%s)\n", indent, s.Paint(term.Yellow, "lost:"), term.Line(l.What), term.Line(l.Why))
	}
	for _, n := range notes {
		s.Printf("%snote: %s\n", indent, term.Line(n))
	}
}

func findings(p importer.Proposal) string {
	var parts []string
	if n := len(p.Errors); n > 0 {
		parts = append(parts, count(n, "error", "errors"))
	}
	if n := len(p.Warnings); n > 0 {
		parts = append(parts, count(n, "warning", "warnings"))
	}
	return dash(strings.Join(parts, ", "))
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// sight is what an import knows of the library.
type sight struct {
	library []importer.Known
	aliases map[string]contracts.OverlayID
	etags   map[contracts.OverlayID]string
}

// look lists the library and reads what has one of the ids that are proposed.
func look(ctx context.Context, cl *client.Client, rep importer.Report) (*sight, error) {
	list, err := wholeLibrary(ctx, cl)
	if err != nil {
		return nil, err
	}
	s := &sight{aliases: map[string]contracts.OverlayID{}, etags: map[contracts.OverlayID]string{}}
	known := map[contracts.OverlayID]importer.Known{}
	var order []contracts.OverlayID
	for _, e := range list {
		known[e.OverlayID] = importer.Known{Archived: e.Archived, Frontmatter: contracts.OverlayTemplateFrontmatter{
			ID: e.OverlayID, Title: e.Title, ArtifactClass: e.ArtifactClass, Category: e.Category, VisibilityTier: e.VisibilityTier,
			SupportedSurfaces: e.SupportedSurfaces, ConflictsWith: e.ConflictsWith, WarnsWith: e.WarnsWith, Preset: e.Preset,
		}}
		order = append(order, e.OverlayID)
	}
	asked := map[contracts.OverlayID]bool{}
	for _, f := range rep.Files {
		for _, p := range f.Overlays {
			id := p.Frontmatter.ID
			if asked[id] {
				continue
			}
			asked[id] = true
			d, etag, err := cl.Overlay(ctx, string(id))
			var no *fault.Error
			switch {
			case errors.As(err, &no) && no.Kind == fault.NotFound:
				continue
			case err != nil:
				return nil, fmt.Errorf("look for %s: %w", id, err)
			case d.Record.Frontmatter.ID != id:
				s.aliases[string(id)] = d.Record.Frontmatter.ID
				continue
			}
			if _, listed := known[id]; !listed {
				order = append(order, id)
			}
			known[id] = importer.Known{Frontmatter: d.Record.Frontmatter, Archived: d.Record.ArchivedAt != nil || known[id].Archived, Body: d.Record.Body, Loaded: true}
			s.etags[id] = etag
		}
	}
	for _, id := range order {
		s.library = append(s.library, known[id])
	}
	return s, nil
}

// wholeLibrary lists every overlay, hidden and archived ones too: a list without a
// tier leaves the hidden ones out.
func wholeLibrary(ctx context.Context, cl *client.Client) ([]contracts.OverlayIndexEntry, error) {
	var list []contracts.OverlayIndexEntry
	for _, tier := range contracts.OverlayVisibilityTier("").Values() {
		page, err := cl.Overlays(ctx, client.OverlayQuery{Tier: tier, IncludeArchived: true})
		if err != nil {
			return nil, err
		}
		list = append(list, page.Items...)
	}
	return list, nil
}
