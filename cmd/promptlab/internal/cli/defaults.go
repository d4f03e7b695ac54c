package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/cmd/promptlab/internal/term"
	"github.com/elnor/promptlab/contracts"
)

// defaults are what sessions start with before anybody has turned anything on.
func (a *app) defaults() *cobra.Command {
	c := a.talks(&cobra.Command{Use: "defaults", Short: "What rooms, panels and tasks start with", Aliases: []string{"default"}})
	c.AddCommand(a.listDefaults(), a.setDefaults(), a.moderatorDefaults())
	return c
}

func (a *app) listDefaults() *cobra.Command {
	var workspace string
	c := &cobra.Command{
		Use: "list", Short: "List what rooms, panels and tasks start with", Args: exactly(), Example: "  promptlab defaults list --workspace acme",
		RunE: a.serving(func(c *cobra.Command, _ []string, cl *client.Client) error {
			list, err := cl.SurfaceDefaults(c.Context(), workspace)
			if err != nil {
				return err
			}
			return a.answer(list, func(out term.Screen) {
				if len(list.Items) == 0 {
					out.Printf("Nothing starts with anything. Set something with: promptlab defaults set room --overlay ID\n")
					return
				}
				var rows [][]string
				for _, d := range list.Items {
					rows = append(rows, []string{d.WorkspaceID, string(d.SurfaceKind), orAll(d.SurfaceID), joined(d.OverlayIDs), strings.Join(d.ModeratorIDs, ",")})
				}
				out.Table([]string{"WORKSPACE", "SURFACE", "ID", "OVERLAYS", "MODERATORS"}, rows)
			})
		}),
	}
	c.Flags().StringVar(&workspace, "workspace", "", "only this workspace's")
	return c
}

func (a *app) setDefaults() *cobra.Command {
	var workspace, id string
	var overlays, moderators []string
	c := &cobra.Command{
		Use: "set room|panel|task", Short: "Set what a room, panel or task starts with, in place of what was set", Args: exactly("room|panel|task"),
		Example: "  promptlab defaults set room --workspace acme --id board --overlay legal-strict --moderator chair\n  promptlab defaults set task --overlay spec-implementation",
		RunE: a.serving(func(c *cobra.Command, args []string, cl *client.Client) error {
			d, err := cl.PutSurfaceDefaults(c.Context(), client.SurfaceText{
				WorkspaceID: workspace, SurfaceKind: contracts.SupportedSurface(args[0]), SurfaceID: id, OverlayIDs: overlayList(overlays), ModeratorIDs: append([]string{}, moderators...),
			})
			if err != nil {
				return hint(err, lookForOverlays)
			}
			return a.answer(d, func(out term.Screen) {
				out.Printf("New sessions of the %s %s in workspace %s start with: %s\n", d.SurfaceKind, term.Line(orAll(d.SurfaceID)), term.Line(d.WorkspaceID), orNothing(joined(d.OverlayIDs)))
			})
		}),
	}
	c.Flags().StringVar(&workspace, "workspace", "default", "workspace of the surface")
	c.Flags().StringVar(&id, "id", "", "the room, panel or task; without it all of the kind that have none of their own")
	c.Flags().StringSliceVar(&overlays, "overlay", nil, "an overlay to start with; may be given several times")
	c.Flags().StringSliceVar(&moderators, "moderator", nil, "a moderator whose defaults come too; may be given several times")
	return c
}

func (a *app) moderatorDefaults() *cobra.Command {
	var overlays []string
	var applies string
	c := &cobra.Command{
		Use: "moderator ID", Short: "Show what a moderator brings along, or set it", Args: exactly("ID"),
		Example: "  promptlab defaults moderator chair\n  promptlab defaults moderator chair --overlay legal-strict --applies-to rooms",
		RunE: a.serving(func(c *cobra.Command, args []string, cl *client.Client) error {
			var d contracts.ModeratorDefaults
			var err error
			if c.Flags().Changed("overlay") || c.Flags().Changed("applies-to") {
				d, err = cl.PutModeratorDefaults(c.Context(), client.ModeratorText{ModeratorID: args[0], OverlayIDs: overlayList(overlays), AppliesTo: applies})
			} else {
				d, err = cl.ModeratorDefaults(c.Context(), args[0])
			}
			if err != nil {
				return hint(err, lookForOverlays)
			}
			return a.answer(d, func(out term.Screen) {
				out.Printf("%s brings along, to %s: %s\n", term.Line(d.ModeratorID), map[string]string{"both": "rooms and panels", "rooms": "rooms", "panels": "panels"}[d.AppliesTo], orNothing(joined(d.OverlayIDs)))
			})
		}),
	}
	c.Flags().StringSliceVar(&overlays, "overlay", nil, "an overlay to bring along; may be given several times; an empty one for none")
	c.Flags().StringVar(&applies, "applies-to", "both", "rooms, panels or both")
	return c
}

// overlayList makes ids of what flags say; an empty one stands for none.
func overlayList(names []string) []contracts.OverlayID {
	out := []contracts.OverlayID{}
	for _, n := range names {
		if n != "" {
			out = append(out, contracts.OverlayID(n))
		}
	}
	return out
}

func joined(ids []contracts.OverlayID) string {
	var out []string
	for _, id := range ids {
		out = append(out, string(id))
	}
	return strings.Join(out, ",")
}

func orAll(id string) string {
	if id == "" {
		return "(all others)"
	}
	return id
}

func orNothing(list string) string {
	if list == "" {
		return "nothing"
	}
	return list
}
