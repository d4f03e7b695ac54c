package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/cmd/promptlab/internal/term"
	"github.com/elnor/promptlab/contracts"
)

// maxRolePrompt bounds the file of a role prompt; the server has the last word.
const maxRolePrompt = 64 << 10

// roomView is a room with what its sessions start with.
type roomView struct {
	contracts.Room
	// Starts is what new sessions of the room start with; absent: with what all
	// rooms of the workspace do.
	Starts *contracts.SurfaceDefaults `json:"starts_with,omitempty"`
}

// rooms are who takes part in a room, with which role, and what it starts with.
func (a *app) rooms() *cobra.Command {
	c := a.talks(&cobra.Command{Use: "rooms", Short: "Rooms: who takes part, with which role, and what they start with", Aliases: []string{"room"}})
	var workspace string
	c.PersistentFlags().StringVar(&workspace, "workspace", "default", "workspace of the room")
	_ = c.RegisterFlagCompletionFunc("workspace", a.offer(workspaces)) // only fails for unknown flags
	c.AddCommand(a.listRooms(&workspace), a.showRoom(&workspace), a.setRoom(&workspace), a.joinRoom(&workspace), a.leaveRoom(&workspace),
		a.roomStarts(&workspace, "defaults", "overlay", "Show or set the overlays that a room starts with"),
		a.roomStarts(&workspace, "moderators", "moderator", "Show or set the moderators whose overlays a room starts with"))
	return c
}

// inRoom makes the body of a command about one room, its first argument.
func (a *app) inRoom(workspace *string, do func(c *cobra.Command, args []string, cl *client.Client, key contracts.OverlaySessionKey) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		f := sessionFlags{workspace: *workspace, surface: string(contracts.SurfaceRoom), id: args[0]}
		return a.onSession(&f, do)(c, args)
	}
}

func (a *app) listRooms(workspace *string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the rooms that something is set up for", Args: exactly(), Example: "  promptlab rooms list\n  promptlab rooms list --workspace acme",
		RunE: a.serving(func(c *cobra.Command, _ []string, cl *client.Client) error {
			only := ""
			if c.Flags().Changed("workspace") {
				only = *workspace
			}
			list, err := cl.Rooms(c.Context(), only)
			if err != nil {
				return err
			}
			return a.answer(list, func(out term.Screen) {
				if len(list.Items) == 0 {
					out.Printf("No room is set up. Set one up with: promptlab rooms set ROOM --role-prompt TEXT\n")
					return
				}
				var rows [][]string
				for _, r := range list.Items {
					var who []string
					for _, p := range r.Participants {
						who = append(who, p.ParticipantID)
					}
					rows = append(rows, []string{r.WorkspaceID, r.RoomID, strings.Join(who, ","), beginning(r.RolePrompt)})
				}
				out.Table([]string{"WORKSPACE", "ROOM", "PARTICIPANTS", "ROLE PROMPT"}, rows)
			})
		}),
	}
}

func (a *app) showRoom(workspace *string) *cobra.Command {
	return &cobra.Command{
		Use: "show ROOM", Short: "Show a room's role prompt, participants, and what it starts with", Args: exactly("ROOM"), ValidArgsFunction: a.complete(roomNames(workspace)),
		Example: "  promptlab rooms show board --workspace acme",
		RunE: a.inRoom(workspace, func(c *cobra.Command, _ []string, cl *client.Client, key contracts.OverlaySessionKey) error {
			room, err := cl.Room(c.Context(), key)
			if err != nil {
				return err
			}
			v := roomView{Room: room}
			if v.Starts, err = startsWith(c.Context(), cl, key); err != nil {
				return err
			}
			return a.answer(v, func(out term.Screen) { writeRoom(out, v) })
		}),
	}
}

// startsWith gives what a room's own defaults are; nil when it has none.
func startsWith(ctx context.Context, cl *client.Client, key contracts.OverlaySessionKey) (*contracts.SurfaceDefaults, error) {
	list, err := cl.SurfaceDefaults(ctx, key.WorkspaceID)
	if err != nil {
		return nil, err
	}
	for _, d := range list.Items {
		if d.SurfaceKind == contracts.SurfaceRoom && d.SurfaceID == key.SurfaceID {
			return &d, nil
		}
	}
	return nil, nil //nolint:nilnil // it has none
}

func writeRoom(out term.Screen, v roomView) {
	out.Printf("room %s in workspace %s\n", term.Line(v.RoomID), term.Line(v.WorkspaceID))
	if v.RolePrompt == "" && len(v.Participants) == 0 {
		out.Printf("Neither a role prompt nor participants. Set it up with: promptlab rooms set, promptlab rooms join\n")
	}
	if v.RolePrompt != "" {
		out.Printf("Role prompt: %s\n", term.Clean(v.RolePrompt))
	}
	if len(v.Participants) > 0 {
		var rows [][]string
		for _, p := range v.Participants {
			rows = append(rows, []string{p.ParticipantID, joined(p.OverlayIDs), beginning(p.RolePrompt)})
		}
		out.Table([]string{"PARTICIPANT", "OVERLAYS", "ROLE PROMPT"}, rows)
	}
	if v.Starts == nil {
		out.Printf("New sessions of it start with what all rooms of the workspace do: promptlab defaults list\n")
	} else {
		out.Printf("New sessions of it start with the overlays %s and the moderators %s.\n", orNothing(joined(v.Starts.OverlayIDs)), term.Line(orNobody(v.Starts.ModeratorIDs)))
	}
	out.Printf("What is on in it now: promptlab sessions show --surface room --id %s --workspace %s\n", term.Line(v.RoomID), term.Line(v.WorkspaceID))
}

// rolePrompt is a text that a flag or a file gives.
type rolePrompt struct{ text, file string }

func (r *rolePrompt) add(c *cobra.Command, of string) {
	c.Flags().StringVar(&r.text, "role-prompt", "", "role prompt of "+of+"; an empty one takes it away")
	c.Flags().StringVar(&r.file, "role-file", "", "file with it (- reads standard input)")
}

// into puts the text where it belongs, if the command line says one.
func (r *rolePrompt) into(a *app, c *cobra.Command, text *string) error {
	switch {
	case c.Flags().Changed("role-file") && c.Flags().Changed("role-prompt"):
		return misuse("--role-prompt and --role-file say the same thing; give one of them")
	case c.Flags().Changed("role-file"):
		b, err := a.readFile(r.file, maxRolePrompt)
		if err != nil {
			return err
		}
		*text = contracts.Normalize(string(b))
	case c.Flags().Changed("role-prompt"):
		*text = r.text
	}
	return nil
}

func (a *app) setRoom(workspace *string) *cobra.Command {
	var role rolePrompt
	c := &cobra.Command{
		Use: "set ROOM", Short: "Set a room's role prompt; who takes part stays", Args: exactly("ROOM"), ValidArgsFunction: a.complete(roomNames(workspace)),
		Example: "  promptlab rooms set board --workspace acme --role-prompt 'You speak in the monthly board meeting.'\n  promptlab rooms set board --role-file board.md",
		PreRunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("role-prompt") && !c.Flags().Changed("role-file") {
				return misuse("nothing to set: give --role-prompt or --role-file (participants come with: promptlab rooms join)")
			}
			return nil
		},
		RunE: a.changeRoom(workspace, func(c *cobra.Command, _ []string, r *contracts.Room) error { return role.into(a, c, &r.RolePrompt) }),
	}
	role.add(c, "the room")
	return c
}

// changeRoom reads a room, changes it and saves it.
func (a *app) changeRoom(workspace *string, change func(*cobra.Command, []string, *contracts.Room) error) func(*cobra.Command, []string) error {
	return a.inRoom(workspace, func(c *cobra.Command, args []string, cl *client.Client, key contracts.OverlaySessionKey) error {
		room, err := cl.Room(c.Context(), key)
		if err != nil {
			return err
		}
		if err := change(c, args, &room); err != nil {
			return err
		}
		room, err = cl.PutRoom(c.Context(), key, client.RoomText{RolePrompt: room.RolePrompt, Participants: append([]contracts.RoomParticipant{}, room.Participants...)})
		if err != nil {
			return hint(err, lookForOverlays)
		}
		v := roomView{Room: room}
		if v.Starts, err = startsWith(c.Context(), cl, key); err != nil {
			return err
		}
		return a.answer(v, func(out term.Screen) { writeRoom(out, v) })
	})
}

func (a *app) joinRoom(workspace *string) *cobra.Command {
	var role rolePrompt
	var overlays []string
	c := &cobra.Command{
		Use: "join ROOM PARTICIPANT", Short: "Add a participant to a room, or change what one brings", Args: exactly("ROOM", "PARTICIPANT"), ValidArgsFunction: a.complete(roomNames(workspace)),
		Example: "  promptlab rooms join board ann --workspace acme --overlay legal-strict --role-prompt 'You are counsel.'",
		RunE: a.changeRoom(workspace, func(c *cobra.Command, args []string, r *contracts.Room) error {
			i := slices.IndexFunc(r.Participants, func(p contracts.RoomParticipant) bool { return p.ParticipantID == args[1] })
			if i < 0 {
				r.Participants = append(r.Participants, contracts.RoomParticipant{ParticipantID: args[1]})
				i = len(r.Participants) - 1
			}
			p := &r.Participants[i]
			if c.Flags().Changed("overlay") {
				p.OverlayIDs = overlayList(overlays)
			}
			return role.into(a, c, &p.RolePrompt)
		}),
	}
	role.add(c, "the participant")
	c.Flags().StringSliceVar(&overlays, "overlay", nil, "an overlay of the participant's role; may be given several times; an empty one for none")
	_ = c.RegisterFlagCompletionFunc("overlay", a.offer(overlayIDs)) // only fails for unknown flags
	return c
}

func (a *app) leaveRoom(workspace *string) *cobra.Command {
	return &cobra.Command{
		Use: "leave ROOM PARTICIPANT", Short: "Take a participant out of a room", Args: exactly("ROOM", "PARTICIPANT"), ValidArgsFunction: a.complete(roomNames(workspace)),
		Example: "  promptlab rooms leave board ann --workspace acme",
		RunE: a.changeRoom(workspace, func(_ *cobra.Command, args []string, r *contracts.Room) error {
			i := slices.IndexFunc(r.Participants, func(p contracts.RoomParticipant) bool { return p.ParticipantID == args[1] })
			if i < 0 {
				return advice{fmt.Errorf("%s does not take part in %s", args[1], args[0]), "see who does: promptlab rooms show " + args[0] + " --workspace " + *workspace}
			}
			r.Participants = slices.Delete(r.Participants, i, i+1)
			return nil
		}),
	}
}

// roomStarts shows or sets one half of what a room starts with; the other stays.
func (a *app) roomStarts(workspace *string, verb, flag, short string) *cobra.Command {
	var names []string
	c := &cobra.Command{
		Use: verb + " ROOM", Short: short, Args: exactly("ROOM"), ValidArgsFunction: a.complete(roomNames(workspace)),
		Long:    short + ", for sessions of the room that start later. The rest stays as it was.",
		Example: "  promptlab rooms " + verb + " board --workspace acme\n  promptlab rooms " + verb + " board --workspace acme --" + flag + " " + map[string]string{"overlay": "legal-strict", "moderator": "chair"}[flag],
		RunE: a.inRoom(workspace, func(c *cobra.Command, _ []string, cl *client.Client, key contracts.OverlaySessionKey) error {
			d, err := startsWith(c.Context(), cl, key)
			if err != nil {
				return err
			}
			if c.Flags().Changed(flag) {
				next := client.SurfaceText{WorkspaceID: key.WorkspaceID, SurfaceKind: contracts.SurfaceRoom, SurfaceID: key.SurfaceID, OverlayIDs: []contracts.OverlayID{}, ModeratorIDs: []string{}}
				if d != nil {
					next.OverlayIDs, next.ModeratorIDs = append(next.OverlayIDs, d.OverlayIDs...), append(next.ModeratorIDs, d.ModeratorIDs...)
				}
				if flag == "overlay" {
					next.OverlayIDs = overlayList(names)
				} else {
					next.ModeratorIDs = slices.DeleteFunc(append([]string{}, names...), func(n string) bool { return n == "" })
				}
				saved, err := cl.PutSurfaceDefaults(c.Context(), next)
				if err != nil {
					return hint(err, lookForOverlays)
				}
				d = &saved
			}
			return a.answer(struct {
				Starts *contracts.SurfaceDefaults `json:"starts_with"`
			}{d}, func(out term.Screen) {
				if d == nil {
					out.Printf("The room %s has none of its own; it starts with what all rooms of the workspace do: promptlab defaults list\n", term.Line(key.SurfaceID))
					return
				}
				out.Printf("New sessions of the room %s in workspace %s start with the overlays %s and the moderators %s.\n",
					term.Line(d.SurfaceID), term.Line(d.WorkspaceID), orNothing(joined(d.OverlayIDs)), term.Line(orNobody(d.ModeratorIDs)))
			})
		}),
	}
	c.Flags().StringSliceVar(&names, flag, nil, "the "+flag+" to start with, in place of those before; may be given several times; an empty one for none")
	if flag == "overlay" {
		_ = c.RegisterFlagCompletionFunc(flag, a.offer(overlayIDs)) // only fails for unknown flags
	}
	return c
}

// roomNames offers the rooms of the workspace that the flags name.
func roomNames(workspace *string) source {
	return func(ctx context.Context, cl *client.Client) ([]string, error) {
		list, err := cl.Rooms(ctx, *workspace)
		var out []string
		for _, r := range list.Items {
			out = append(out, cobra.CompletionWithDesc(r.RoomID, strconv.Itoa(len(r.Participants))+" participants"))
		}
		return out, err
	}
}

// beginning gives the first words of a text on one line.
func beginning(text string) string { return term.Short(strings.Join(strings.Fields(text), " "), 40) }

func orNobody(names []string) string {
	if len(names) == 0 {
		return "nobody"
	}
	return strings.Join(names, ",")
}
