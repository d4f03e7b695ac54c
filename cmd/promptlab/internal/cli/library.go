package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/cmd/promptlab/internal/term"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/frontmatter"
)

const maxOverlayFile = 256 << 10

func (a *app) overlays() *cobra.Command {
	c := a.talks(&cobra.Command{Use: "overlays", Short: "The library of overlays", Aliases: []string{"overlay"}})
	var q client.OverlayQuery
	list := &cobra.Command{
		Use: "list", Short: "List overlays", Args: exactly(),
		Example: "  promptlab overlays list\n  promptlab overlays list --tier hidden --json",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.listOverlays(func(cl *client.Client) (contracts.OverlayListResponse, error) {
				return cl.Overlays(c.Context(), q)
			})
		},
	}
	search := &cobra.Command{
		Use: "search WORD...", Short: "Find overlays whose title, description or tags hold all words",
		Args:    cobra.MinimumNArgs(1),
		Example: "  promptlab overlays search risk plan",
		RunE: func(c *cobra.Command, args []string) error {
			q.Text = strings.Join(args, " ")
			return a.listOverlays(func(cl *client.Client) (contracts.OverlayListResponse, error) {
				return cl.SearchOverlays(c.Context(), q)
			})
		},
	}
	for _, l := range []*cobra.Command{list, search} {
		l.Flags().StringVar(&q.Category, "category", "", "only this category")
		l.Flags().StringVar(&q.Tier, "tier", "", "only this tier: core, advanced or hidden")
		l.Flags().BoolVar(&q.IncludeArchived, "archived", false, "archived ones too")
	}
	c.AddCommand(list, search, a.showOverlay(), a.createOverlay(), a.updateOverlay(), a.diffOverlay(), a.importOverlays(), a.exportOverlays(), a.feedback(),
		a.moveOverlay("archive", "Take an overlay out of use; it stays readable", (*client.Client).ArchiveOverlay),
		a.moveOverlay("restore", "Bring an archived overlay back", (*client.Client).RestoreOverlay))
	return c
}

func (a *app) listOverlays(get func(*client.Client) (contracts.OverlayListResponse, error)) error {
	cl, err := a.connect("user")
	if err != nil {
		return err
	}
	list, err := get(cl)
	if err != nil {
		return err
	}
	return a.answer(list, func(s term.Screen) {
		if len(list.Items) == 0 {
			s.Printf("No overlay matches. The preset pack comes with: promptlab presets install\n")
			return
		}
		var rows [][]string
		for _, o := range list.Items {
			state := ""
			if o.Archived {
				state = "archived"
			}
			rows = append(rows, []string{string(o.OverlayID), o.Title, string(o.Category), string(o.VisibilityTier), strconv.Itoa(o.EstimatedTokens), state})
		}
		s.Table([]string{"ID", "TITLE", "CATEGORY", "TIER", "TOKENS", ""}, rows)
	})
}

func (a *app) showOverlay() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show an overlay as its file", Args: exactly("ID"), ValidArgsFunction: a.complete(overlayIDs),
		Example: "  promptlab overlays show guided-verification > mine.md",
		RunE: a.serving(func(c *cobra.Command, args []string, cl *client.Client) error {
			o, _, err := cl.Overlay(c.Context(), args[0])
			if err != nil {
				return err
			}
			a.tellAlias(args[0], o)
			return a.answer(o, func(s term.Screen) {
				text := string(frontmatter.Format(o.Record.Frontmatter, o.Record.Body))
				if s.TTY {
					text = term.Clean(text)
				}
				s.Printf("%s", text)
			})
		}),
	}
}

func (a *app) diffOverlay() *cobra.Command {
	return &cobra.Command{
		Use: "diff ID FILE", Short: "Compare an overlay's text with a file's, word by word", Args: exactly("ID", "FILE"), ValidArgsFunction: a.complete(overlayIDs),
		Example: "  promptlab overlays diff guided-verification mine.md",
		RunE: func(c *cobra.Command, args []string) error {
			o, err := a.readOverlay(args[1])
			if err != nil {
				return err
			}
			cl, err := a.connect("user")
			if err != nil {
				return err
			}
			now, _, err := cl.Overlay(c.Context(), args[0])
			if err != nil {
				return err
			}
			a.tellAlias(args[0], now)
			same := now.Record.Body == o.Body
			doc := struct {
				Equal  bool        `json:"equal"`
				Pieces []diffPiece `json:"pieces"`
			}{same, pieces(now.Record.Body, o.Body)}
			return a.answer(doc, func(s term.Screen) {
				if same {
					s.Printf("The texts are equal.\n")
					return
				}
				s.Diff(now.Record.Body, o.Body)
			})
		},
	}
}

func (a *app) moveOverlay(verb, short string, move func(*client.Client, context.Context, string, string) (contracts.OverlayDetail, error)) *cobra.Command {
	return &cobra.Command{
		Use: verb + " ID", Short: short, Args: exactly("ID"), ValidArgsFunction: a.complete(overlayIDs),
		Example: "  promptlab overlays " + verb + " my-overlay",
		RunE: a.serving(func(c *cobra.Command, args []string, cl *client.Client) error {
			now, etag, err := cl.Overlay(c.Context(), args[0])
			if err != nil {
				return err
			}
			a.tellAlias(args[0], now)
			o, err := move(cl, c.Context(), string(now.Record.Frontmatter.ID), etag)
			if err != nil {
				return err
			}
			return a.saved(o, verb+"d")
		}),
	}
}

// readFile reads a file that a person named; - is standard input.
func (a *app) readFile(path string, most int64) ([]byte, error) {
	in := a.Stdin
	if path != "-" {
		f, err := os.Open(a.absolute(path))
		if err != nil {
			if missing(err) {
				return nil, advice{errors.New("there is no file " + path), "check the path, or give - to read standard input"}
			}
			return nil, advice{fmt.Errorf("%s cannot be opened: %w", path, cause(err)), "make it readable, or name another file"}
		}
		defer func() { _ = f.Close() }() // read only
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return nil, advice{fmt.Errorf("%s cannot be read: %w", path, cause(err)), "name a file that can be read, or give - to read standard input"}
	}
	if int64(len(b)) > most {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, most)
	}
	return b, nil
}

// cause takes the path out of an error that is told with it.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func (a *app) presets() *cobra.Command {
	c := a.talks(&cobra.Command{Use: "presets", Short: "The overlays that come with the program"})
	c.AddCommand(&cobra.Command{
		Use: "install", Short: "Install or renew the preset pack; edited and archived ones are left alone", Args: exactly(),
		Example: "  promptlab presets install",
		RunE: a.serving(func(c *cobra.Command, _ []string, cl *client.Client) error {
			r, err := cl.InstallPresets(c.Context())
			if err != nil {
				return err
			}
			return a.answer(r, func(s term.Screen) {
				s.Printf("Installed %d, updated %d, unchanged %d, left alone %d.\n", len(r.Installed), len(r.Updated), len(r.Unchanged), len(r.Kept))
				for _, id := range r.Kept {
					s.Printf("  left alone: %s (edited or archived)\n", term.Line(string(id)))
				}
			})
		}),
	}, &cobra.Command{
		Use: "list", Short: "List installed presets, hidden and archived ones too", Args: exactly(),
		Example: "  promptlab presets list --json",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.listOverlays(func(cl *client.Client) (contracts.OverlayListResponse, error) {
				return presetList(c.Context(), cl)
			})
		},
	})
	return c
}

// presetList asks once per visibility: the plain list leaves hidden ones out.
func presetList(ctx context.Context, cl *client.Client) (contracts.OverlayListResponse, error) {
	all, err := cl.Overlays(ctx, client.OverlayQuery{IncludeArchived: true})
	if err != nil {
		return all, err
	}
	hidden, err := cl.Overlays(ctx, client.OverlayQuery{Tier: string(contracts.TierHidden), IncludeArchived: true})
	if err != nil {
		return all, err
	}
	for _, o := range hidden.Items {
		if !slices.ContainsFunc(all.Items, func(x contracts.OverlayIndexEntry) bool { return x.OverlayID == o.OverlayID }) {
			all.Items = append(all.Items, o)
		}
	}
	all.Items = slices.DeleteFunc(all.Items, func(o contracts.OverlayIndexEntry) bool { return !o.Preset })
	all.Total = len(all.Items)
	return all, nil
}
