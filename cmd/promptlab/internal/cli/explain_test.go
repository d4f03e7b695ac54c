package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/elnor/promptlab/internal/fault"
)

// R-HTTP-12, R-SES-12, R-SES-15, R-SES-16: a refusal says what the person can do
// about it, in the session that the command was about.
func TestWhatToDoAboutRefusals(t *testing.T) {
	pair := func(where string) *fault.Error {
		return fault.New(fault.Conflict, "hard_conflict", "a and b exclude each other").With(
			fault.Detail{Field: "a", Message: "asked for, source manual"}, fault.Detail{Field: "b", Message: where})
	}
	for name, c := range map[string]struct {
		parent, verb string
		err          *fault.Error
		want         []string
		never        string
	}{
		"a hard pair names the command for the one that is on": {"sessions", "activate", pair("on, source manual"),
			[]string{"promptlab sessions deactivate b --workspace acme --id t1"}, "as it was"},
		"a pin that excludes another pin": {"sessions", "pin", pair("pinned, scope workspace"),
			[]string{"promptlab sessions unpin b --workspace acme --id t1"}, "deactivate"},
		"a list of defaults": {"defaults", "set", pair("in the list"), []string{"leave one of the two out"}, "sessions"},
		"too many": {"sessions", "activate", fault.New(fault.Conflict, "live_limit_exceeded", "3 are on"),
			[]string{"deactivate OVERLAY --workspace acme --id t1", "--override-limit"}, "as it was"},
		"too many, where the limit cannot be lifted": {"sessions", "pin", fault.New(fault.Conflict, "live_limit_exceeded", "3 are on"),
			[]string{"deactivate OVERLAY"}, "--override-limit"},
		"the budget": {"sessions", "activate", fault.New(fault.Conflict, "hard_budget_exceeded", "1293 tokens"),
			[]string{"deactivate OVERLAY", "sessions explain --workspace acme --id t1"}, "--override-limit"},
		"an archived one": {"sessions", "activate", fault.New(fault.Conflict, "overlay_archived", "it is archived"), []string{"overlays restore"}, "as it was"},
		"a wrong surface": {"sessions", "activate", fault.New(fault.Invalid, "surface_unsupported", "does not work on task"), []string{"overlays list"}, "as it was"},
		"an id that is taken": {"overlays", "create", fault.New(fault.Conflict, "conflict", "in use").With(fault.Detail{Rule: "duplicate_id"}),
			[]string{"another id", "overlays update"}, "as it was"},
		"somebody else was faster": {"sessions", "activate", fault.New(fault.PreconditionFailed, "precondition_failed", "has changed"), []string{"not as it was"}, "deactivate"},
	} {
		t.Run(name, func(t *testing.T) {
			root, parent, cmd := &cobra.Command{Use: "promptlab"}, &cobra.Command{Use: c.parent}, &cobra.Command{Use: c.verb}
			root.AddCommand(parent)
			parent.AddCommand(cmd)
			for _, f := range []string{"workspace", "surface", "id", "key"} {
				cmd.Flags().String(f, "", "")
			}
			if c.verb == "activate" {
				cmd.Flags().Bool("override-limit", false, "")
			}
			if err := cmd.ParseFlags([]string{"--id", "t1", "--workspace", "acme"}); err != nil {
				t.Fatal(err)
			}
			todo, code := remedy(cmd, c.err)
			for _, want := range c.want {
				if !strings.Contains(todo, want) {
					t.Errorf("what to do: %q, want it to say %q", todo, want)
				}
			}
			if strings.Contains(todo, c.never) || code != Failed {
				t.Errorf("what to do: %q with exit code %d; it must not say %q", todo, code, c.never)
			}
		})
	}
}
