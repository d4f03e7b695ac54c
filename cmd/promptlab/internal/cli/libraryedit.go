package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/cmd/promptlab/internal/term"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/frontmatter"
	"github.com/elnor/promptlab/ec/lint"
	"github.com/elnor/promptlab/internal/fault"
)

const aboutReciprocal = `

A hard conflict (conflicts_with) has to stand on both sides. With --declare-reciprocal the
other overlays get their side in the same step; without it they must have it already.`

func (a *app) createOverlay() *cobra.Command {
	var both bool
	c := &cobra.Command{
		Use: "create FILE", Short: "Save a new overlay from a file with front matter (- reads standard input)", Args: exactly("FILE"),
		Long:    "Saves a new overlay from a file with front matter; - reads standard input." + aboutReciprocal,
		Example: "  promptlab overlays create mine.md\n  promptlab overlays create mine.md --declare-reciprocal\n  promptlab overlays show concise-executive | sed 's/^id:.*/id: mine/' | promptlab overlays create -",
		RunE: func(c *cobra.Command, args []string) error {
			o, err := a.readOverlay(args[0])
			if err != nil {
				return err
			}
			cl, err := a.connect("user")
			if err != nil {
				return err
			}
			o.DeclareReciprocal = both
			saved, err := cl.CreateOverlay(c.Context(), o)
			if err != nil {
				return reciprocalHint(err, both)
			}
			return a.saved(saved, "saved")
		},
	}
	c.Flags().BoolVar(&both, "declare-reciprocal", false, "write the other side of its hard conflicts too")
	return c
}

func (a *app) updateOverlay() *cobra.Command {
	var both bool
	var body string
	c := &cobra.Command{
		Use: "update FILE | ID --body FILE", Short: "Replace the overlay that a file names, or its text alone (- reads standard input)", Args: exactly("FILE"),
		Long:              "Replaces the overlay that a file with front matter names. With --body the argument is an\noverlay's id: its text is replaced by that file, its header stays. - reads standard input." + aboutReciprocal,
		Example:           "  promptlab overlays update mine.md\n  pbpaste | promptlab overlays update mine --body -",
		ValidArgsFunction: a.fileOrOverlay,
		RunE: func(c *cobra.Command, args []string) error {
			var o client.OverlayText
			id := args[0]
			var err error
			if body != "" {
				var text []byte
				if text, err = a.readFile(body, frontmatter.MaxBody); err == nil && len(text) == 0 {
					err = errors.New("the new text is empty")
				}
				o.Body = string(text)
			} else if o, err = a.readOverlay(args[0]); err == nil {
				id = string(o.Frontmatter.ID)
			}
			if err != nil {
				return err
			}
			cl, err := a.connect("user")
			if err != nil {
				return err
			}
			now, etag, err := cl.Overlay(c.Context(), id)
			switch owner := now.Record.Frontmatter.ID; {
			case err != nil:
				return err
			case body != "":
				a.tellAlias(id, now)
				o.Frontmatter = now.Record.Frontmatter
			case string(owner) != id:
				return advice{errors.New(id + " is an earlier name of " + string(owner)), "write id: " + string(owner) + " into the file, or choose another id and create it"}
			}
			o.DeclareReciprocal = both
			saved, err := cl.UpdateOverlay(c.Context(), o, etag)
			if err != nil {
				return reciprocalHint(err, both)
			}
			return a.saved(saved, "saved")
		},
	}
	c.Flags().BoolVar(&both, "declare-reciprocal", false, "write the other side of its hard conflicts too, or take it away there")
	c.Flags().StringVar(&body, "body", "", "replace only the text, by this file's (- reads standard input); the argument is the overlay's id")
	return c
}

// fileOrOverlay offers files, or with --body the overlays.
func (a *app) fileOrOverlay(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if !c.Flags().Changed("body") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return a.complete(overlayIDs)(c, args, begun)
}

// reciprocalHint says what helps against a hard conflict that stands on one side.
func reciprocalHint(err error, both bool) error {
	var f *fault.Error
	if !both && errors.As(err, &f) {
		for _, d := range f.Details {
			if d.Rule == lint.RuleConflict {
				return advice{told{err, f.Message}, "correct conflicts_with, or have the other side written too with: --declare-reciprocal"}
			}
		}
	}
	return err
}

// tellAlias says that an overlay was asked for by a name that it once had.
func (a *app) tellAlias(asked string, o contracts.OverlayDetail) {
	if now := o.Record.Frontmatter.ID; string(now) != asked {
		a.err.Printf("%s is an earlier name of %s.\n", term.Line(asked), term.Line(string(now)))
	}
}

// saved tells what became of an overlay, warnings included.
func (a *app) saved(o contracts.OverlayDetail, what string) error {
	return a.answer(o, func(s term.Screen) {
		s.Printf("%s %s.\n", term.Line(string(o.Record.Frontmatter.ID)), what)
		for _, w := range o.Warnings {
			s.Printf("%s %s\n", s.Paint(term.Yellow, "note:"), term.Line(w.Message))
		}
	})
}

// readOverlay reads an overlay file.
func (a *app) readOverlay(path string) (client.OverlayText, error) {
	src, err := a.readFile(path, maxOverlayFile)
	if err != nil {
		return client.OverlayText{}, err
	}
	doc, err := frontmatter.Parse(src)
	if err != nil {
		return client.OverlayText{}, err
	}
	return client.OverlayText{Frontmatter: doc.Frontmatter, Body: doc.Body}, nil
}
