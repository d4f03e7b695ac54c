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
	apply, replace, reciprocal bool
	as, name                   string
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
once, all of it or nothing, and so are overlay files that exclude each other. Where the other
side of a hard conflict is in the library already, --declare-reciprocal writes it there too.
The exit code is 1 when --apply could not take something.`,
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
	c.Flags().BoolVar(&f.reciprocal, "declare-reciprocal", false, "write the other side of hard conflicts with overlays of the library too")
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
	o := importer.Options{As: contracts.OverlayArtifactClass(f.as), Reciprocal: f.reciprocal}
	seen, err := look(ctx, cl, importer.Plan(found.files, o))
	if err != nil {
		return err
	}
	o.Library, o.Aliases = seen.library, seen.aliases
	doc := imported{Applied: f.apply, Report: importer.Plan(found.files, o), Skipped: found.skipped}
	doc.Ignored += found.ignored
	t := take{cl: cl, seen: seen, f: f, of: map[string][]*member{}}
	outcomes, broken := t.all(ctx, doc.Files)
	doc.Outcomes = outcomes
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
