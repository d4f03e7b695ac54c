package cli

import (
	"context"
	"encoding/hex"
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

func (a *app) showReceipt(f *sessionFlags) *cobra.Command {
	return &cobra.Command{
		Use: "receipt ID", Short: "Show one turn's receipt: what was asked for, applied and dropped, and why", Args: exactly("ID"),
		Long: `Shows the receipt of one turn. ID is what the chat endpoint answers in the header
X-PromptLab-Receipt; it names session and turn. With --id or --key it may also be a turn
of that session alone, or the hash of a packet. Only the last receipts of a session are kept.`,
		Example: "  promptlab sessions receipt eyJzdXJm...ifQ.turn-4\n  promptlab sessions receipt turn-4 --id thread-1 --json",
		RunE: func(c *cobra.Command, args []string) error {
			key, turn, err := receiptID(c, f, args[0])
			if err != nil {
				return err
			}
			cl, err := a.connect("user")
			if err != nil {
				return err
			}
			t, err := findReceipt(c.Context(), cl, key, turn)
			if err != nil {
				return err
			}
			return a.answer(t, func(out term.Screen) { writeReceipt(out, t) })
		},
	}
}

// receiptID gives the session and turn that an argument and the flags name.
func receiptID(c *cobra.Command, f *sessionFlags, id string) (key contracts.OverlaySessionKey, turn string, err error) {
	if token, rest, ok := strings.Cut(id, "."); ok && rest != "" {
		if key, err := contracts.ParseSessionToken(token); err == nil {
			if f.id != "" || f.key != "" {
				return key, "", misuse("the receipt's id names its session; leave --id and --key out")
			}
			return key, rest, nil
		}
	}
	if f.id == "" && f.key == "" {
		return key, "", misuse("ID must be what the header X-PromptLab-Receipt said (SESSION.TURN), or a turn together with --id or --key")
	}
	key, err = f.session(c)
	return key, id, err
}

// findReceipt looks for a turn, then for a packet with that hash.
func findReceipt(ctx context.Context, cl *client.Client, key contracts.OverlaySessionKey, turn string) (contracts.OverlayRuntimeTruthSummary, error) {
	t, err := cl.Receipt(ctx, key, turn)
	var no *fault.Error
	if !errors.As(err, &no) || no.Kind != fault.NotFound {
		return t, err
	}
	if raw, bad := hex.DecodeString(turn); bad == nil && len(raw) == 32 {
		list, err := cl.TruthHistory(ctx, key)
		if err != nil {
			return t, err
		}
		for _, t := range slices.Backward(list.Items) {
			if t.PacketHash == turn || t.AppliedPacketHash == turn {
				return t, nil
			}
		}
	}
	todo := "see which are kept: promptlab sessions truth --history --key " + key.Token()
	if no.Code == "truth_not_recorded" {
		todo = "a receipt comes with the session's next turn"
	}
	return t, hint(err, todo)
}

// reasonOf says in words why an overlay was not applied.
func reasonOf(why contracts.OverlayDropReason) string {
	switch why {
	case contracts.DropHardBudget:
		return "the overlays together would have passed their budget"
	case contracts.DropArchived, "overlay_archived":
		return "it had been archived"
	case contracts.DropConflict:
		return "it and another one that was on exclude each other"
	case contracts.DropSurface:
		return "it does not support this surface"
	case contracts.DropUnavailable:
		return "the overlays could not be had when the turn was composed"
	case contracts.DropSeam:
		return "the side that composes the prompt left it out"
	case "overlay_limit":
		return "three live overlays were on already"
	case "unknown_overlay":
		return "it is not in the library"
	default:
		return "a reason of a later version"
	}
}

// shortHash gives as much of a hash as a person compares.
func shortHash(hash string) string { return hash[:min(12, len(hash))] }

func writeReceipt(out term.Screen, t contracts.OverlayRuntimeTruthSummary) {
	out.Printf("Turn %s of %s, revision %d\n", term.Line(orDash(t.TurnID)), placeOf(t.SessionKey), t.Revision)
	if len(t.RequestedOverlayIDs) == 0 {
		out.Printf("No overlay was asked for.\n")
	} else {
		var rows [][]string
		for _, id := range t.RequestedOverlayIDs {
			outcome, why := "applied", t.SourcesByOverlay[string(id)]
			if code, dropped := t.DropReasonsByOverlay[string(id)]; dropped {
				outcome, why = "dropped", string(code)+": "+reasonOf(code)
				switch t.DroppedBy[string(id)] {
				case contracts.DroppedByEC:
					why += ", before the packet"
				case contracts.DroppedByPlan:
					why += ", when the prompt was composed"
				}
			}
			tokens := ""
			if n := t.TokensByOverlay[string(id)]; n > 0 {
				tokens = strconv.Itoa(n)
			}
			rows = append(rows, []string{string(id), outcome, tokens, shortHash(t.BodyHashByOverlay[string(id)]), why})
		}
		out.Table([]string{"ASKED FOR", "OUTCOME", "TOKENS", "TEXT", "WHY"}, rows)
	}
	line := func(name, value string) {
		if value != "" {
			out.Printf("%-16s%s\n", name, term.Line(value))
		}
	}
	if t.TotalOverlayTokens > 0 || t.TotalPromptTokens > 0 {
		line("Tokens", fmt.Sprintf("%d of overlays, %d of the whole prompt", t.TotalOverlayTokens, t.TotalPromptTokens))
	}
	line("Model", t.Model)
	line("Composed", t.PathID)
	line("Composed anew", string(t.RefreshReason))
	if t.OverrideMode != contracts.OverrideNone {
		line("For this turn", string(t.OverrideMode))
	}
	line("Re-answer plan", string(t.ReanswerPlanID))
	for _, id := range t.CandidateIDs {
		line("Candidate", string(id))
	}
	line("Packet", orDash(t.PacketHash))
	line("As applied", t.AppliedPacketHash)
	if t.GeneratedAt != nil {
		line("Packet built", t.GeneratedAt.String())
	}
	if t.AppliedAt != nil {
		line("Reported", t.AppliedAt.String())
	}
	out.Printf("Check it against the files: promptlab verify --session %s\n", t.SessionKey.Token())
}
