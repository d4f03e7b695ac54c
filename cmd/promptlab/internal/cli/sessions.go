package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/cmd/promptlab/internal/term"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// sessionFlags name a session.
type sessionFlags struct{ workspace, surface, id, key string }

func (f *sessionFlags) add(a *app, c *cobra.Command, to *pflag.FlagSet) {
	to.StringVar(&f.workspace, "workspace", "default", "workspace of the session")
	to.StringVar(&f.surface, "surface", "chat", "where it is: chat, room, panel or task")
	to.StringVar(&f.id, "id", "", "id of the thread, room, panel or task")
	to.StringVar(&f.key, "key", "", "the session's key as it stands in addresses, instead of the other three")
	for name, offer := range map[string]cobra.CompletionFunc{
		"workspace": a.offer(workspaces), "id": a.offer(sessionNames(f, "")), "key": a.offer(sessionTokens),
		"surface": cobra.FixedCompletions([]string{"chat", "room", "panel", "task"}, cobra.ShellCompDirectiveNoFileComp),
	} {
		_ = c.RegisterFlagCompletionFunc(name, offer) // only fails for unknown flags
	}
}

// onSession makes the body of a command about one session: the session that the
// flags name, and a server that answers.
func (a *app) onSession(f *sessionFlags, do func(*cobra.Command, []string, *client.Client, contracts.OverlaySessionKey) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		key, err := f.session(c)
		if err != nil {
			return err
		}
		cl, err := a.connect("user")
		if err != nil {
			return err
		}
		return do(c, args, cl, key)
	}
}

// session gives the session that the flags name.
func (f *sessionFlags) session(c *cobra.Command) (contracts.OverlaySessionKey, error) {
	var none contracts.OverlaySessionKey
	if f.key != "" {
		for _, other := range []string{"workspace", "surface", "id"} {
			if flag := c.Flags().Lookup(other); flag != nil && flag.Changed {
				return none, misuse("--key says everything; leave --" + other + " out")
			}
		}
		key, err := contracts.ParseSessionToken(f.key)
		if err != nil {
			return none, misuse("--key is not a session's key; it is shown by: promptlab sessions show")
		}
		return key, nil
	}
	if f.id == "" {
		return none, misuse("--id is missing: the thread, room, panel or task (or name the session with --key)")
	}
	key, err := contracts.OverlaySessionKey{WorkspaceID: f.workspace, SurfaceKind: contracts.SupportedSurface(f.surface), SurfaceID: f.id}.Canonical("")
	var bad *fault.Error
	if errors.As(err, &bad) && len(bad.Details) > 0 {
		name := map[string]string{"workspace_id": "--workspace", "surface_kind": "--surface", "surface_id": "--id"}[bad.Details[0].Field]
		return none, misuse(name + " " + bad.Details[0].Message)
	}
	return key, err
}

// told is an error of the server's that shows its sentence alone.
type told struct {
	error
	sentence string
}

func (t told) Error() string { return t.sentence }

func (t told) Unwrap() error { return t.error }

// hint adds to what is not there where to look for it.
func hint(err error, todo string) error {
	var f *fault.Error
	if errors.As(err, &f) && f.Kind == fault.NotFound {
		return advice{told{err, f.Message}, todo}
	}
	return err
}

const lookForOverlays = "see what there is: promptlab overlays list"

func (a *app) sessions() *cobra.Command {
	c := a.talks(&cobra.Command{Use: "sessions", Short: "What is on in a chat, room or task, and why", Aliases: []string{"session"}})
	var f sessionFlags
	f.add(a, c, c.PersistentFlags())
	c.AddCommand(a.listSessions(&f), a.showReceipt(&f), a.sessionKeys(&f), a.showSession(&f), a.explainSession(&f), a.showTruth(&f), a.diffSession(&f), a.reanswer(&f),
		a.activate(&f), a.pin(&f, "pin", "Pin an overlay, and turn it on here where it is off"), a.pin(&f, "unpin", "Remove a pin; what is on stays on"))
	c.AddCommand(a.changeSession(&f, &cobra.Command{
		Use: "deactivate OVERLAY", Short: "Turn an overlay off here; pins stay", Args: exactly("OVERLAY"), ValidArgsFunction: a.complete(overlayIDs),
		Example: "  promptlab sessions deactivate guided-verification --id thread-1",
	}, func(args []string) any {
		return contracts.OverlayDeactivateRequest{OverlayID: contracts.OverlayID(args[0])}
	}))
	c.AddCommand(a.changeSession(&f, &cobra.Command{
		Use: "clear", Short: "Turn everything off here at once; pins stay", Args: exactly(), Example: "  promptlab sessions clear --id thread-1",
	}, func([]string) any { return struct{}{} }))
	var reason string
	refresh := a.changeSession(&f, &cobra.Command{
		Use: "refresh", Short: "Have the next turn composed anew", Args: exactly(), Example: "  promptlab sessions refresh --id thread-1",
	}, func([]string) any {
		return contracts.OverlayRefreshRequest{Reason: contracts.OverlayRefreshReason(reason)}
	})
	refresh.Flags().StringVar(&reason, "reason", "manual", "why: manual, model_switch or session_rehydrate")
	c.AddCommand(refresh)
	return c
}

func (a *app) activate(f *sessionFlags) *cobra.Command {
	var pin string
	var over bool
	c := a.changeSession(f, &cobra.Command{
		Use: "activate OVERLAY", Short: "Turn an overlay on, from the next turn on", Args: exactly("OVERLAY"), ValidArgsFunction: a.complete(overlayIDs),
		Example: "  promptlab sessions activate legal-research --workspace acme --surface room --id board",
	}, func(args []string) any {
		return contracts.OverlayActivateRequest{OverlayID: contracts.OverlayID(args[0]), Source: contracts.FromManual, PinScope: contracts.OverlayPinScope(pin), OverrideLimit: over}
	})
	c.Flags().StringVar(&pin, "pin", "", "pin it too: thread, workspace or until_off")
	c.Flags().BoolVar(&over, "override-limit", false, fmt.Sprintf("more than %d live overlays, on purpose", contracts.MaxOverlays))
	return c
}

func (a *app) pin(f *sessionFlags, verb, short string) *cobra.Command {
	var scope string
	c := a.changeSession(f, &cobra.Command{
		Use: verb + " OVERLAY", Short: short, Args: exactly("OVERLAY"), ValidArgsFunction: a.complete(overlayIDs),
		Example: "  promptlab sessions " + verb + " guided-verification --scope workspace --id thread-1",
	}, func(args []string) any {
		return contracts.OverlayPinRequest{OverlayID: contracts.OverlayID(args[0]), PinScope: contracts.OverlayPinScope(scope)}
	})
	c.Flags().StringVar(&scope, "scope", "thread", "how far it reaches: thread, workspace or until_off (everywhere)")
	return c
}

// changeSession makes a command that looks at a session, changes it if nobody
// else has meanwhile, and shows it.
func (a *app) changeSession(f *sessionFlags, c *cobra.Command, body func(args []string) any) *cobra.Command {
	verb, _, _ := strings.Cut(c.Use, " ")
	c.RunE = a.onSession(f, func(c *cobra.Command, args []string, cl *client.Client, key contracts.OverlaySessionKey) error {
		_, etag, err := cl.Session(c.Context(), key)
		if err != nil {
			return err
		}
		s, err := cl.ChangeSession(c.Context(), key, verb, body(args), etag)
		if err != nil {
			return hint(err, lookForOverlays)
		}
		return a.answer(s, func(out term.Screen) { writeSession(out, s) })
	})
	return c
}

func (a *app) showSession(f *sessionFlags) *cobra.Command {
	var debrief bool
	show := &cobra.Command{
		Use: "show", Short: "Show what is on in a session", Args: exactly(),
		Example: "  promptlab sessions show --id thread-1\n  promptlab sessions show --workspace acme --surface room --id board --json",
		RunE: a.onSession(f, func(c *cobra.Command, _ []string, cl *client.Client, key contracts.OverlaySessionKey) error {
			read := func() (s contracts.OverlaySessionResponse, err error) {
				if debrief {
					return cl.SessionForDebrief(c.Context(), key)
				}
				s, _, err = cl.Session(c.Context(), key)
				return s, err
			}
			s, err := read()
			if err != nil {
				return err
			}
			return a.answer(s, func(out term.Screen) { writeSession(out, s) })
		}),
	}
	show.Flags().BoolVar(&debrief, "debrief", false, "ask for a debrief: name the post-task templates too")
	return show
}

func writeSession(out term.Screen, s contracts.OverlaySessionResponse) {
	st := s.SessionState
	out.Printf("%s %s in workspace %s, revision %d\n", st.SessionKey.SurfaceKind, term.Line(st.SessionKey.SurfaceID), term.Line(st.SessionKey.WorkspaceID), st.Revision)
	out.Printf("Key: %s\n", st.SessionKey.Token())
	if len(st.ActiveOverlays) == 0 {
		out.Printf("Nothing is on. Turn something on with: promptlab sessions activate OVERLAY\n")
	} else {
		var rows [][]string
		for _, x := range st.ActiveOverlays {
			state := "in"
			if !x.ActiveForSurface {
				state = "out: " + x.InertReason
			}
			var pins []string
			for _, p := range x.PinScopes {
				pins = append(pins, string(p))
			}
			rows = append(rows, []string{string(x.OverlayID), state, string(x.Source), strings.Join(pins, ","), x.ActivatedBy})
		}
		out.Table([]string{"OVERLAY", "NEXT TURN", "SOURCE", "PINS", "BY"}, rows)
	}
	for _, w := range st.Warnings {
		out.Printf("%s %s\n", out.Paint(term.Yellow, "note:"), term.Line(w))
	}
	if st.PendingRefreshReason != "" {
		out.Printf("The next turn is composed anew: %s.\n", st.PendingRefreshReason)
	}
	for _, o := range s.PostTaskOffers {
		out.Printf("%s (%s) may be used now: %s.\n", term.Line(o.Title), o.OverlayID, o.Trigger)
	}
	switch t := s.RuntimeTruth; {
	case t != nil:
		out.Printf("The last turn applied %d of %d; see: promptlab sessions truth\n", len(t.AppliedOverlayIDs), len(t.RequestedOverlayIDs))
	case !s.PromptTruthAvailable:
		out.Printf("What turns apply is not known: nobody reports it.\n")
	}
}

func (a *app) explainSession(f *sessionFlags) *cobra.Command {
	return &cobra.Command{
		Use: "explain", Short: "Say of each overlay why it is in the next turn or out of it", Args: exactly(),
		Example: "  promptlab sessions explain --id thread-1",
		RunE: a.onSession(f, func(c *cobra.Command, _ []string, cl *client.Client, key contracts.OverlaySessionKey) error {
			e, err := cl.ExplainSession(c.Context(), key)
			if err != nil {
				return err
			}
			return a.answer(e, func(out term.Screen) {
				if len(e.Items) == 0 {
					out.Printf("No overlay concerns this session.\n")
				}
				once := -e.TotalTokens // what comes in beside the live ones
				for _, x := range e.Items {
					out.Printf("%s", term.Line(x.Sentence))
					if x.In {
						out.Printf(" %d tokens.", x.Tokens)
						once += x.Tokens
					}
					out.Printf("\n")
				}
				for _, w := range e.Warnings {
					out.Printf("%s %s\n", out.Paint(term.Yellow, "note:"), term.Line(w))
				}
				out.Printf("Revision %d: %d tokens of %d at most (a warning above %d).\n", e.Revision, e.TotalTokens, e.HardBudget, e.SoftBudget)
				if once > 0 {
					out.Printf("%d more tokens, of what is asked for one dispatch, do not count.\n", once)
				}
			})
		}),
	}
}

// feedback is a command of the overlays.
func (a *app) feedback() *cobra.Command {
	var f sessionFlags
	var category, comment string
	c := &cobra.Command{
		Use: "feedback OVERLAY helpful|not_helpful", Short: "Say whether an overlay helped in a session", Args: exactly("OVERLAY", "helpful|not_helpful"),
		ValidArgsFunction: a.complete(overlayIDs),
		Example:           "  promptlab overlays feedback guided-verification not_helpful --id thread-1 --category too_verbose",
		RunE: a.onSession(&f, func(c *cobra.Command, args []string, cl *client.Client, key contracts.OverlaySessionKey) error {
			id, err := uuid.NewV7()
			if err != nil {
				return fmt.Errorf("make an id: %w", err)
			}
			ack, err := cl.SubmitFeedback(c.Context(), client.FeedbackText{
				FeedbackID: contracts.UUID(id.String()), OverlayID: contracts.OverlayID(args[0]), WorkspaceID: key.WorkspaceID, SessionKey: key,
				OverlayHelpfulnessRating: args[1], FailureCategory: category, Comment: comment,
			})
			if err != nil {
				return hint(err, lookForOverlays)
			}
			return a.answer(ack, func(out term.Screen) { out.Printf("Noted: %s was %s.\n", term.Line(args[0]), args[1]) })
		}),
		PreRunE: func(_ *cobra.Command, args []string) error {
			if args[1] != "helpful" && args[1] != "not_helpful" {
				return misuse("the opinion must be helpful or not_helpful")
			}
			return nil
		},
	}
	f.add(a, c, c.Flags())
	c.Flags().StringVar(&category, "category", "", "what went wrong, with not_helpful: ignored_instructions, missed_context, hallucination_or_format_error, too_verbose, wrong_mode or other")
	c.Flags().StringVar(&comment, "comment", "", "in your words; stays on this machine")
	return c
}
