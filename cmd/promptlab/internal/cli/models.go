package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/cmd/promptlab/internal/term"
	"github.com/elnor/promptlab/contracts"
)

// models are the commands of the registry: which exact models may answer.
func (a *app) models() *cobra.Command {
	c := a.talks(&cobra.Command{
		Use: "models", Short: "Which exact models may answer, which did before, and which wait to", Aliases: []string{"model"},
		Long: `A model under models: in config.yaml is used as it was when its name was first seen. Once
its exact model or its parameters change, the new version waits: only jobs that name it
with --model-route are answered by it. A job that it has answered and that was measured is
the record on which an operator activates it.`,
	})
	c.AddCommand(a.listModels(), a.showModel(), a.activateModel(), a.rollbackModel(), a.deprecateModel())
	return c
}

func (a *app) listModels() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the registry", Args: exactly(), Example: "  promptlab models list",
		RunE: a.serving(func(c *cobra.Command, _ []string, cl *client.Client) error {
			list, err := cl.Models(c.Context())
			if err != nil {
				return err
			}
			return a.answer(list, func(s term.Screen) { writeModels(s, list) })
		}),
	}
}

func writeModels(s term.Screen, list contracts.ModelList) {
	if len(list.Items) == 0 {
		s.Printf("No model has been seen yet.\n")
		return
	}
	var rows [][]string
	for _, m := range list.Items {
		active, _ := m.Version(m.ActiveVersion)
		state := "active"
		switch {
		case m.ConfiguredVersion == "":
			state = "not configured"
		case m.ConfiguredVersion != m.ActiveVersion:
			state = "not used: " + m.ConfiguredVersion + " is configured"
		case m.Deprecated:
			state = "deprecated"
		}
		rows = append(rows, []string{m.Name, m.ActiveVersion, active.Model, m.Adapter, routes(m), state})
	}
	s.Table([]string{"NAME", "ACTIVE", "MODEL", "PROTOCOL", "ROUTES", "STATE"}, rows)
	for _, m := range list.Items {
		if m.Notice != "" && m.ConfiguredVersion != "" {
			s.Printf("%s %s: %s\n", s.Paint(term.Yellow, "note:"), term.Line(m.Name), term.Line(m.Notice))
		}
	}
}

func routes(m contracts.RegisteredModel) string {
	var out []string
	for _, r := range m.Routes {
		out = append(out, string(r))
	}
	return strings.Join(out, ", ")
}

func (a *app) showModel() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a model with its versions", Args: exactly("NAME"), ValidArgsFunction: a.complete(modelNames),
		Example: "  promptlab models show cloud",
		RunE: a.serving(func(c *cobra.Command, args []string, cl *client.Client) error {
			m, err := cl.Model(c.Context(), args[0])
			if err != nil {
				return hint(err, "promptlab models list")
			}
			return a.answer(m, func(s term.Screen) { writeModel(s, m) })
		}),
	}
}

func writeModel(s term.Screen, m contracts.RegisteredModel) {
	field := func(name, value string) {
		if value != "" {
			s.Printf("  %-13s %s\n", name, term.Line(value))
		}
	}
	s.Printf("%s\n", s.Paint(term.Bold, term.Line(m.DisplayName)))
	field("Name", m.Name)
	field("Type", string(m.Type)+", "+m.Adapter)
	field("Base model", m.BaseModel)
	field("Routes", routes(m))
	field("Active", m.ActiveVersion)
	field("Configured", m.ConfiguredVersion)
	field("Rollback to", m.RollbackTo)
	if m.Deprecated {
		field("Deprecated", strings.TrimSpace("yes. "+m.DeprecationNote))
	}
	for _, v := range slices.Backward(m.Versions) {
		s.Printf("\n%s  %s\n", s.Paint(term.Bold, term.Line(v.VersionID)), v.Status)
		field("Model", v.Model)
		for _, name := range slices.Sorted(maps.Keys(v.Parameters)) {
			if name != "model" {
				field(name, v.Parameters[name])
			}
		}
		field("After", v.ParentID)
		field("Seen", when(v.ObservedAt))
		if v.ActivatedAt != nil {
			field("Activated", when(*v.ActivatedAt)+" by "+v.ActivatedBy)
		}
		field("Replay", v.EvidenceRef)
		field("Change", v.Changelog)
		field("Docs", v.DocsPage)
		field("Docs read on", v.DocsChecked)
		if v.RetiredAt != nil {
			field("Rolled back", strings.TrimSpace(when(*v.RetiredAt)+" "+v.RetiredWhy))
		}
	}
	if m.Notice != "" {
		s.Printf("\n%s %s\n", s.Paint(term.Yellow, "note:"), term.Line(m.Notice))
	}
}

func when(t contracts.Time) string { return t.Format("2006-01-02 15:04") }

func (a *app) activateModel() *cobra.Command {
	var in contracts.ModelActivation
	var replay string
	c := &cobra.Command{
		Use: "activate NAME", Short: "Use the configured version of a model, on the record of a job that it has answered", Args: exactly("NAME"),
		ValidArgsFunction: a.complete(modelNames),
		Example: `  promptlab jobs run --model-route cloud --artifact overlay:guided-verification --examples mine.jsonl --follow
  promptlab models activate cloud --replay 7d0c… --changelog "cheaper, same results" --docs-page https://example.com/models`,
		PreRunE: func(_ *cobra.Command, args []string) error {
			if replay == "" {
				return misuse("--replay is missing: the job that the version has answered (make one with: promptlab jobs run --model-route " + args[0] + ")")
			}
			return nil
		},
		RunE: a.as("operator", func(c *cobra.Command, args []string, cl *client.Client) error {
			in.ReplayJobID = contracts.UUID(replay)
			m, err := cl.ActivateModel(c.Context(), args[0], in)
			if err != nil {
				return hint(err, "promptlab models show "+args[0])
			}
			return a.answer(m, func(s term.Screen) { writeActive(s, m) })
		}),
	}
	f := c.Flags()
	f.StringVar(&replay, "replay", "", "the job whose examples the version has answered")
	f.StringVar(&in.Changelog, "changelog", "", "what changed and why")
	f.StringVar(&in.DocsPage, "docs-page", "", "the page of the provider's documentation that was read")
	f.StringVar(&in.DocsChecked, "docs-checked", "", "the day it was read, such as 2026-01-31 (default: today)")
	_ = c.RegisterFlagCompletionFunc("replay", a.complete(jobIDs)) // only fails for unknown flags
	return c
}

func writeActive(s term.Screen, m contracts.RegisteredModel) {
	active, _ := m.Version(m.ActiveVersion)
	s.Printf("%s is %s (%s) now.\n", term.Line(m.Name), term.Line(active.VersionID), term.Line(active.Model))
	if m.Notice != "" {
		s.Printf("%s %s\n", s.Paint(term.Yellow, "note:"), term.Line(m.Notice))
	}
}

func (a *app) rollbackModel() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "rollback NAME", Short: "Use the version before the active one again", Args: exactly("NAME"), ValidArgsFunction: a.complete(modelNames),
		Long:    "Uses the version before the active one again; that needs no new record. While config.yaml still holds\nthe newer one, nobody uses the model.",
		Example: "  promptlab models rollback cloud --reason \"refuses too often\"",
		RunE: a.as("operator", func(c *cobra.Command, args []string, cl *client.Client) error {
			m, err := cl.RollbackModel(c.Context(), args[0], reason)
			if err != nil {
				return hint(err, "promptlab models show "+args[0])
			}
			return a.answer(m, func(s term.Screen) { writeActive(s, m) })
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "why")
	return c
}

func (a *app) deprecateModel() *cobra.Command {
	var in contracts.ModelDeprecation
	c := &cobra.Command{
		Use: "deprecate NAME", Short: "Say that a model should not be relied on any more", Args: exactly("NAME"), ValidArgsFunction: a.complete(modelNames),
		Long:    "The model goes on answering; the status says that it is deprecated, and no new version of it can be activated.",
		Example: "  promptlab models deprecate cloud --note \"the provider ends it in March\"\n  promptlab models deprecate cloud --undo",
		RunE: a.as("operator", func(c *cobra.Command, args []string, cl *client.Client) error {
			m, err := cl.DeprecateModel(c.Context(), args[0], in)
			if err != nil {
				return hint(err, "promptlab models list")
			}
			return a.answer(m, func(s term.Screen) {
				if m.Deprecated {
					s.Printf("%s is deprecated.\n", term.Line(m.Name))
				} else {
					s.Printf("%s is not deprecated.\n", term.Line(m.Name))
				}
			})
		}),
	}
	c.Flags().StringVar(&in.Note, "note", "", "what is to be known about it")
	c.Flags().BoolVar(&in.Undo, "undo", false, "take it back")
	return c
}

func modelNames(ctx context.Context, cl *client.Client) ([]string, error) {
	list, err := cl.Models(ctx)
	var out []string
	for _, m := range list.Items {
		out = append(out, cobra.CompletionWithDesc(m.Name, m.ActiveVersion))
	}
	return out, err
}
