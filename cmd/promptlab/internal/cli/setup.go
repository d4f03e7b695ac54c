package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/cmd/promptlab/internal/config"
	"github.com/elnor/promptlab/cmd/promptlab/internal/home"
	"github.com/elnor/promptlab/cmd/promptlab/internal/term"
	"github.com/elnor/promptlab/contracts"
)

// flagSwitch is one of the lab's switches.
type flagSwitch struct {
	name, says string
	at         func(*contracts.Flags) *bool
}

func switches() []flagSwitch {
	return []flagSwitch{
		{"prompt_lab", "jobs may run", func(f *contracts.Flags) *bool { return &f.PromptLab }},
		{"promptolution", "the Promptolution optimizer may be used", func(f *contracts.Flags) *bool { return &f.Promptolution }},
		{"dspy", "the DSPy optimizer may be used", func(f *contracts.Flags) *bool { return &f.DSPy }},
		{"candidate_apply", "an approved candidate may replace a text", func(f *contracts.Flags) *bool { return &f.CandidateApply }},
		{"learned_recommendations", "recommendations may learn", func(f *contracts.Flags) *bool { return &f.LearnedRecommendations }},
		{"nightly_critic", "the critic may run at night", func(f *contracts.Flags) *bool { return &f.NightlyCritic }},
	}
}

func switchNames() []string {
	var names []string
	for _, s := range switches() {
		names = append(names, s.name)
	}
	return names
}

func (a *app) flags() *cobra.Command {
	c := a.talks(&cobra.Command{Use: "flags", Short: "The lab's switches; all are off on a fresh home"})
	c.AddCommand(&cobra.Command{
		Use: "list", Short: "Show all switches", Args: exactly(),
		Example: "  promptlab flags list --json",
		RunE: a.serving(func(c *cobra.Command, _ []string, cl *client.Client) error {
			f, err := cl.Flags(c.Context())
			if err != nil {
				return err
			}
			return a.showFlags(f)
		}),
	}, &cobra.Command{
		Use: "set NAME on|off", Short: "Turn one switch on or off (with the operator's token)", Args: exactly("NAME", "on or off"),
		Example: "  promptlab flags set prompt_lab on",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			list := [][]string{switchNames(), {"on", "off"}, nil}[min(len(args), 2)]
			return list, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			name := strings.ReplaceAll(args[0], "-", "_")
			i := slices.Index(switchNames(), name)
			if i < 0 {
				return misuse("there is no switch " + term.Short(args[0], 40) + "; the switches are " + strings.Join(switchNames(), ", "))
			}
			if args[1] != "on" && args[1] != "off" {
				return misuse("say on or off, not " + term.Short(args[1], 40))
			}
			cl, err := a.connect("operator")
			if err != nil {
				return err
			}
			f, err := cl.Flags(c.Context())
			if err != nil {
				return err
			}
			*switches()[i].at(&f) = args[1] == "on"
			if f, err = cl.SetFlags(c.Context(), f); err != nil {
				return err
			}
			return a.showFlags(f)
		},
	})
	return c
}

func (a *app) showFlags(f contracts.Flags) error {
	return a.answer(f, func(s term.Screen) {
		var rows [][]string
		for _, sw := range switches() {
			state := "off"
			if *sw.at(&f) {
				state = "on"
			}
			rows = append(rows, []string{sw.name, state, sw.says})
		}
		s.Table([]string{"FLAG", "STATE", "WHEN ON"}, rows)
	})
}

func (a *app) tokens() *cobra.Command {
	c := &cobra.Command{Use: "token", Short: "The home's tokens, one for each role"}
	open := func() (home.Home, error) {
		dir, _, err := config.HomeDir(a.configInput(nil))
		return home.Home{Dir: dir}, err
	}
	role := cobra.FixedCompletions(home.Roles(), cobra.ShellCompDirectiveNoFileComp)
	known := func(name string) error {
		if !slices.Contains(home.Roles(), name) {
			return misuse("there is no role " + term.Short(name, 40) + "; the roles are " + strings.Join(home.Roles(), ", "))
		}
		return nil
	}
	c.AddCommand(&cobra.Command{
		Use: "show ROLE", Short: "Print a role's token", Args: exactly("ROLE"), ValidArgsFunction: role,
		Example: "  curl -H \"Authorization: Bearer $(promptlab token show user)\" http://127.0.0.1:7717/api/overlays",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := known(args[0]); err != nil {
				return err
			}
			h, err := open()
			if err != nil {
				return err
			}
			token, err := h.Token(args[0])
			if missing(err) {
				return advice{err, "tokens are made at the first start: promptlab up"}
			}
			if err != nil {
				return err
			}
			return a.answer(map[string]string{"role": args[0], "token": token}, func(s term.Screen) { s.Printf("%s\n", token) })
		},
	}, &cobra.Command{
		Use: "rotate ROLE", Short: "Replace a role's token; servers take the new one when they start again", Args: exactly("ROLE"), ValidArgsFunction: role,
		Example: "  promptlab token rotate agent",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := known(args[0]); err != nil {
				return err
			}
			h, err := open()
			if err != nil {
				return err
			}
			if err := h.RotateToken(args[0]); err != nil {
				if missing(err) {
					return advice{err, "tokens are made at the first start: promptlab up"}
				}
				return err
			}
			return a.answer(map[string]string{"role": args[0], "file": h.TokenFile(args[0])}, func(s term.Screen) {
				s.Printf("The token of %s is new. A running server knows the old one until it is started again.\n", args[0])
			})
		},
	})
	return c
}

func (a *app) configCommand() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "How the program is set up"}
	var origins bool
	show := &cobra.Command{
		Use: "show", Short: "Show every setting", Args: exactly(),
		Long:    "Shows every setting. Flags win over PROMPTLAB_... variables, these over config.yaml in the home, that over defaults.",
		Example: "  promptlab config show --origin",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, origin, err := config.Load(a.configInput(c.Flags()))
			if err != nil {
				return err
			}
			type setting struct {
				Key    string `json:"key"`
				Value  string `json:"value"`
				Origin string `json:"origin,omitempty"`
				Env    string `json:"env"`
			}
			list := []setting{{"home", cfg.Home, origin["home"], "PROMPTLAB_HOME"}}
			for _, k := range config.Settings() {
				list = append(list, setting{k.Key, cfg.Value(k.Key), origin[k.Key], k.Env})
			}
			return a.answer(map[string]any{"settings": list}, func(s term.Screen) {
				var rows [][]string
				for _, k := range list {
					row := []string{k.Key, k.Value}
					if origins {
						row = append(row, k.Origin)
					}
					rows = append(rows, row)
				}
				s.Table([]string{"KEY", "VALUE", "ORIGIN"}[:len(rows[0])], rows)
			})
		},
	}
	show.Flags().BoolVar(&origins, "origin", false, "say where each value comes from")
	addSettings(show)
	c.AddCommand(show)
	return c
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Say which build this is", Args: exactly(),
		Example: "  promptlab version --json",
		RunE: func(*cobra.Command, []string) error {
			return a.answer(a.Version, func(s term.Screen) {
				s.Printf("promptlab %s (%s, %s)\n", a.Version.Version, a.Version.Go, a.Version.Platform)
			})
		},
	}
}
