package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/cmd/promptlab/internal/term"
	"github.com/elnor/promptlab/contracts"
)

// sessionKeys are the commands about keys that programs name a session by.
func (a *app) sessionKeys(f *sessionFlags) *cobra.Command {
	c := &cobra.Command{Use: "key", Short: "Keys by which a program's chat turns belong to one session", Aliases: []string{"keys"}}
	c.AddCommand(a.createSessionKey(f), &cobra.Command{
		Use: "list", Short: "List the keys in force", Args: exactly(), Example: "  promptlab sessions key list",
		RunE: a.serving(func(c *cobra.Command, _ []string, cl *client.Client) error {
			list, err := cl.SessionKeys(c.Context())
			if err != nil {
				return err
			}
			return a.answer(list, func(out term.Screen) { writeSessionKeys(out, list) })
		}),
	}, &cobra.Command{
		Use: "revoke ID", Short: "Make a key worthless", Args: exactly("ID"), ValidArgsFunction: a.complete(sessionKeyIDs),
		Example: "  promptlab sessions key revoke 01890a5d-ac96-774b-bcce-b302099a8057",
		RunE: a.serving(func(c *cobra.Command, args []string, cl *client.Client) error {
			r, err := cl.RevokeSessionKey(c.Context(), args[0])
			if err != nil {
				return hint(err, "see which are in force: promptlab sessions key list")
			}
			return a.answer(r, func(out term.Screen) { out.Printf("%s is worthless now.\n", term.Line(string(r.KeyID))) })
		}),
	})
	return c
}

func (a *app) createSessionKey(f *sessionFlags) *cobra.Command {
	var thread, name string
	c := &cobra.Command{
		Use: "create", Short: "Make a key to a session and show it once", Args: exactly(),
		Long: `Makes a key for a program that speaks to the chat endpoint and cannot name its session in
a header: give it the key as its API key, and its turns belong to the session. The key is
shown once; only its hash is kept. It opens the chat endpoint for this one session and
nothing else.`,
		Example: "  promptlab sessions key create --workspace acme --thread editor --name \"my editor\"\n  promptlab sessions key create --workspace acme --surface room --id board",
		RunE: func(c *cobra.Command, _ []string) error {
			g := *f
			if thread != "" {
				if g.id != "" || g.key != "" || c.Flags().Changed("surface") {
					return misuse("--thread names a chat; leave --surface, --id and --key out")
				}
				g.surface, g.id = string(contracts.SurfaceChat), thread
			}
			if g.id == "" && g.key == "" {
				return misuse("--thread is missing: the conversation that the key is for (or --surface and --id, or --key)")
			}
			key, err := g.session(c)
			if err != nil {
				return err
			}
			cl, err := a.connect("user")
			if err != nil {
				return err
			}
			made, err := cl.CreateSessionKey(c.Context(), contracts.SessionAPIKeyRequest{SessionKey: key, Name: name})
			if err != nil {
				return err
			}
			return a.answer(made, func(out term.Screen) {
				out.Printf("%s\n", made.Key)
				a.err.Printf("Key %s to %s. It is not shown again; keep it where the program finds it. Take it back with: promptlab sessions key revoke %s\n",
					made.KeyID, placeOf(made.SessionKey), made.KeyID)
			})
		},
	}
	c.Flags().StringVar(&thread, "thread", "", "id of the conversation; short for --surface chat --id")
	c.Flags().StringVar(&name, "name", "", "what the key is called in lists")
	_ = c.RegisterFlagCompletionFunc("thread", a.offer(sessionNames(f, string(contracts.SurfaceChat)))) // only fails for unknown flags
	return c
}

func writeSessionKeys(out term.Screen, list contracts.SessionAPIKeyList) {
	if len(list.Items) == 0 {
		out.Printf("There is no session key. Make one with: promptlab sessions key create --workspace W --thread T\n")
		return
	}
	var rows [][]string
	for _, k := range list.Items {
		s := k.SessionKey
		rows = append(rows, []string{string(k.KeyID), orDash(k.Name), s.WorkspaceID, string(s.SurfaceKind), s.SurfaceID, k.CreatedAt.String(), k.CreatedBy})
	}
	out.Table([]string{"ID", "NAME", "WORKSPACE", "SURFACE", "SESSION", "MADE", "BY"}, rows)
}

// placeOf names a session for people.
func placeOf(k contracts.OverlaySessionKey) string {
	return term.Line(string(k.SurfaceKind) + " " + k.SurfaceID + " in workspace " + k.WorkspaceID)
}

// orCreate is what to do where there is no session yet.
const orCreate = "a session starts with its first turn, or when something is turned on in it: promptlab sessions activate OVERLAY --id THREAD"

func (a *app) listSessions(f *sessionFlags) *cobra.Command {
	var active bool
	var most int
	c := &cobra.Command{
		Use: "list", Short: "List sessions, the latest activity first", Args: exactly(),
		Long: `Lists sessions, the latest activity first. --workspace and --surface narrow the list
where they are given. With --json each has its token: what --key takes, and what
stands in addresses.`,
		Example: "  promptlab sessions list\n  promptlab sessions list --workspace acme --active\n  promptlab sessions list --surface room --limit 0 --json",
		RunE: func(c *cobra.Command, _ []string) error {
			for _, name := range []string{"id", "key"} {
				if c.Flags().Changed(name) {
					return misuse("--" + name + " names one session; look at it with: promptlab sessions show")
				}
			}
			if most < 0 {
				return misuse("--limit must be 0 or more")
			}
			q := client.SessionQuery{Active: active, Most: most}
			if c.Flags().Changed("workspace") {
				q.Workspace = f.workspace
			}
			if c.Flags().Changed("surface") {
				q.Surface = f.surface
			}
			cl, err := a.connect("user")
			if err != nil {
				return err
			}
			list, err := cl.Sessions(c.Context(), q)
			if err != nil {
				return err
			}
			if err := a.answer(list, func(out term.Screen) { writeSessions(out, list, q) }); err != nil {
				return err
			}
			if n := len(list.Items); n < list.Total {
				a.err.Printf("%d of %d are shown; all of them come with --limit 0.\n", n, list.Total)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&active, "active", false, "only those whose next turn has an overlay")
	c.Flags().IntVar(&most, "limit", 200, "how many at most; 0 is all")
	return c
}

func writeSessions(out term.Screen, list contracts.OverlaySessionList, q client.SessionQuery) {
	if len(list.Items) == 0 {
		if q.Workspace != "" || q.Surface != "" || q.Active {
			out.Printf("No session matches. All of them: promptlab sessions list\n")
			return
		}
		out.Printf("There is no session yet; %s\n", orCreate)
		return
	}
	var rows [][]string
	for _, s := range list.Items {
		on := ""
		for i, id := range s.ActiveOverlayIDs {
			if i > 0 {
				on += ","
			}
			on += string(id)
		}
		k := s.SessionKey
		rows = append(rows, []string{k.WorkspaceID, string(k.SurfaceKind), k.SurfaceID, strconv.Itoa(s.Revision), orDash(on), s.LastActivityAt.String()})
	}
	out.Table([]string{"WORKSPACE", "SURFACE", "SESSION", "REVISION", "ON", "LAST ACTIVITY"}, rows)
}
