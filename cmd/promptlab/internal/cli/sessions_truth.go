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
	"github.com/elnor/promptlab/internal/fault"
)

func (a *app) showTruth(f *sessionFlags) *cobra.Command {
	var history bool
	c := &cobra.Command{
		Use: "truth", Short: "Show what the last turn did with the overlays", Args: exactly(),
		Example: "  promptlab sessions truth --id thread-1\n  promptlab sessions truth --history --id thread-1",
		RunE: a.onSession(f, func(c *cobra.Command, _ []string, cl *client.Client, key contracts.OverlaySessionKey) error {
			if history {
				return a.truthHistory(c.Context(), cl, key)
			}
			t, err := cl.Truth(c.Context(), key)
			if err != nil {
				if fault.Code(err) == "truth_unavailable" {
					return advice{told{err, "nobody reports what turns apply"}, "see what is asked for: promptlab sessions explain"}
				}
				return hint(err, "a receipt comes with the session's next turn")
			}
			return a.answer(t, func(out term.Screen) { writeReceipt(out, t) })
		}),
	}
	c.Flags().BoolVar(&history, "history", false, "list the receipts that are kept instead")
	return c
}

func (a *app) truthHistory(ctx context.Context, cl *client.Client, key contracts.OverlaySessionKey) error {
	list, err := cl.TruthHistory(ctx, key)
	if err != nil {
		return err
	}
	return a.answer(list, func(out term.Screen) {
		if len(list.Items) == 0 {
			out.Printf("No turn of this session has been reported yet.\n")
			return
		}
		var rows [][]string
		for _, t := range list.Items {
			at := ""
			if t.AppliedAt != nil {
				at = t.AppliedAt.String()
			}
			rows = append(rows, []string{t.TurnID, strconv.Itoa(t.Revision), fmt.Sprint(len(t.AppliedOverlayIDs)), fmt.Sprint(len(t.DroppedOverlayIDs)), string(t.RefreshReason), at})
		}
		out.Table([]string{"TURN", "REVISION", "APPLIED", "DROPPED", "BUILT ANEW", "AT"}, rows)
	})
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// moment is one side of a comparison: a turn that was reported, or the next one.
type moment struct {
	Name       string                                     `json:"name"`
	Revision   int                                        `json:"revision"`
	PacketHash string                                     `json:"packet_hash,omitempty"`
	Tokens     int                                        `json:"tokens"`
	In         contracts.List[contracts.OverlayID]        `json:"in"`
	Out        contracts.Map[contracts.OverlayDropReason] `json:"out"`
	Texts      contracts.Map[string]                      `json:"body_hash_by_overlay"` // as far as they are known
}

// sessionDiff says what differs between two moments of a session.
type sessionDiff struct {
	From       moment                              `json:"from"`
	To         moment                              `json:"to"`
	Added      contracts.List[contracts.OverlayID] `json:"added"`
	Removed    contracts.List[contracts.OverlayID] `json:"removed"`
	Changed    contracts.List[contracts.OverlayID] `json:"changed"` // in both, with another text
	SamePacket bool                                `json:"same_packet"`
}

func (a *app) diffSession(f *sessionFlags) *cobra.Command {
	return &cobra.Command{
		Use: "diff A B", Short: "Compare two turns or revisions of a session; next is the coming turn", Args: exactly("A", "B"),
		Long: `Compares what two turns did with the overlays. A and B are turns or revisions that
have been reported; next is what the coming turn will be composed with.`,
		Example: "  promptlab sessions diff turn-4 turn-5 --id thread-1\n  promptlab sessions diff 3 next --id thread-1",
		RunE: a.onSession(f, func(c *cobra.Command, args []string, cl *client.Client, key contracts.OverlaySessionKey) error {
			list, err := cl.TruthHistory(c.Context(), key)
			if err != nil {
				return err
			}
			var sides [2]moment
			for i, name := range args {
				if name != "next" {
					sides[i], err = reported(list.Items, name)
				} else {
					sides[i], err = coming(c.Context(), cl, key)
				}
				if err != nil {
					return err
				}
			}
			d := compare(sides[0], sides[1])
			return a.answer(d, func(out term.Screen) { writeDiff(out, d) })
		}),
	}
}

// reported finds the last receipt of a turn or of a revision.
func reported(list []contracts.OverlayRuntimeTruthSummary, name string) (moment, error) {
	for _, t := range slices.Backward(list) {
		if t.TurnID != name && strconv.Itoa(t.Revision) != name {
			continue
		}
		hash := t.PacketHash
		if t.AppliedPacketHash != "" {
			hash = t.AppliedPacketHash
		}
		return moment{Name: name, Revision: t.Revision, PacketHash: hash, Tokens: t.TotalOverlayTokens, In: t.AppliedOverlayIDs, Out: t.DropReasonsByOverlay, Texts: t.BodyHashByOverlay}, nil
	}
	var kept []string
	for _, t := range list {
		kept = append(kept, fmt.Sprintf("%s (revision %d)", orDash(t.TurnID), t.Revision))
	}
	if kept == nil {
		return moment{}, advice{fmt.Errorf("there is no receipt of %s: no turn of this session has been reported yet", name), "a receipt comes with each turn; next is the coming turn"}
	}
	return moment{}, advice{errors.New("no receipt of " + name + " is kept"), "there are receipts of: " + strings.Join(kept, ", ")}
}

// coming gives what the next turn will be composed with.
func coming(ctx context.Context, cl *client.Client, key contracts.OverlaySessionKey) (moment, error) {
	e, err := cl.ExplainSession(ctx, key)
	out := moment{Name: "next", Revision: e.Revision, PacketHash: e.PacketHash, Tokens: e.TotalTokens, Out: contracts.Map[contracts.OverlayDropReason]{}, Texts: contracts.Map[string]{}}
	for _, x := range e.Items {
		if x.BodyHash != "" {
			out.Texts[string(x.OverlayID)] = x.BodyHash
		}
		if x.In {
			out.In = append(out.In, x.OverlayID)
		} else {
			out.Out[string(x.OverlayID)] = contracts.OverlayDropReason(x.Code)
		}
	}
	return out, err
}

func compare(from, to moment) sessionDiff {
	d := sessionDiff{From: from, To: to, SamePacket: from.PacketHash != "" && from.PacketHash == to.PacketHash}
	for _, id := range to.In {
		if !slices.Contains(from.In, id) {
			d.Added = append(d.Added, id)
		} else if a, b := from.Texts[string(id)], to.Texts[string(id)]; a != "" && b != "" && a != b {
			d.Changed = append(d.Changed, id)
		}
	}
	for _, id := range from.In {
		if !slices.Contains(to.In, id) {
			d.Removed = append(d.Removed, id)
		}
	}
	return d
}

func writeDiff(out term.Screen, d sessionDiff) {
	for _, id := range d.Removed {
		why := "it was turned off"
		if code, dropped := d.To.Out[string(id)]; dropped {
			why = string(code) + ": " + reasonOf(code)
		}
		out.Printf("%s is out now (%s)\n", out.Paint(term.Red, "- "+term.Line(string(id))), term.Line(why))
	}
	for _, id := range d.Added {
		why := "it was turned on"
		if code, dropped := d.From.Out[string(id)]; dropped {
			why = "it was out before, " + string(code) + ": " + reasonOf(code)
		}
		out.Printf("%s is in now (%s)\n", out.Paint(term.Green, "+ "+term.Line(string(id))), term.Line(why))
	}
	for _, id := range d.Changed {
		from, to := d.From.Texts[string(id)], d.To.Texts[string(id)]
		out.Printf("%s has another text (%s, before %s)\n", out.Paint(term.Yellow, "~ "+term.Line(string(id))), shortHash(to), shortHash(from))
	}
	same := len(d.Added)+len(d.Removed)+len(d.Changed) == 0
	switch {
	case d.SamePacket:
		out.Printf("The prompt text of the overlays is the same.\n")
	case same:
		out.Printf("The same overlays, with another text or order.\n")
	}
	out.Printf("Revision %d to %d, %d to %d tokens of overlays.\n", d.From.Revision, d.To.Revision, d.From.Tokens, d.To.Tokens)
}

func (a *app) reanswer(f *sessionFlags) *cobra.Command {
	var overlays []string
	var only, keep bool
	var mode string
	c := &cobra.Command{
		Use: "reanswer MESSAGE...", Short: "Prepare a second answer to selected messages", Args: cobra.MinimumNArgs(1),
		Long: `Prepares a second answer to one to eight messages. The session stays as it is, unless
--keep says otherwise; the plan holds for a quarter of an hour and for one dispatch.`,
		Example: "  promptlab sessions reanswer m-17 m-18 --overlay legal-research --id thread-1\n  promptlab sessions reanswer m-17 --overlay concise-executive --only --id thread-1",
		PreRunE: func(*cobra.Command, []string) error {
			if only && len(overlays) == 0 {
				return misuse("--only needs --overlay: it names what is used instead of the session's")
			}
			return nil
		},
		RunE: a.onSession(f, func(c *cobra.Command, args []string, cl *client.Client, key contracts.OverlaySessionKey) error {
			r := contracts.OverlayReanswerPlanRequest{
				SelectedMessageIDs: args, ContextMode: contracts.ReanswerContextMode(mode), OverrideMode: contracts.OverrideUseActive, KeepOverlayActiveAfterDispatch: keep,
			}
			for _, id := range overlays {
				r.OverlayIDs = append(r.OverlayIDs, contracts.OverlayID(id))
				r.OverrideMode = contracts.OverrideActivePlus
			}
			if only {
				r.OverrideMode = contracts.OverrideOneTime
			}
			var etag string
			var err error
			if keep { // else nothing of the session changes, and looking at it could start it
				if _, etag, err = cl.Session(c.Context(), key); err != nil {
					return err
				}
			}
			plan, err := cl.PrepareReanswer(c.Context(), key, r, etag)
			if err != nil {
				return hint(err, lookForOverlays)
			}
			return a.answer(plan, func(out term.Screen) {
				out.Printf("Plan %s for %d messages: %s", plan.PlanID, len(plan.SelectedMessageIDs), plan.OverlayOverride.Mode)
				for _, id := range plan.OverlayOverride.OverlayIDs {
					out.Printf(" %s", term.Line(string(id)))
				}
				out.Printf("\nIt can be dispatched once, until %s.\n", plan.ExpiresAt)
			})
		}),
	}
	c.Flags().StringArrayVar(&overlays, "overlay", nil, "overlay for this answer, beside those that are on (repeat for more)")
	c.Flags().BoolVar(&only, "only", false, "use nothing but --overlay")
	c.Flags().BoolVar(&keep, "keep", false, "leave --overlay on afterwards")
	c.Flags().StringVar(&mode, "context", "selected_turns_only", "what else is read: "+strings.Join(contracts.ReanswerContextMode("").Values(), ", "))
	_ = c.RegisterFlagCompletionFunc("overlay", a.offer(overlayIDs)) // only fails for unknown flags
	return c
}
