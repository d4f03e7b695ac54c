// Package cli is the program as a person or a script meets it: commands, flags,
// help, output and exit codes. Everything about the process comes in by Process, so
// the whole program runs inside a test.
//
// It deliberately does not know how servers are composed (see Servers), and it
// reaches data only through the public API.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/elnor/promptlab/cmd/promptlab/internal/config"
	"github.com/elnor/promptlab/cmd/promptlab/internal/term"
)

// Process is the process that runs the program.
type Process struct {
	Args           []string // without the program's name
	Env            func(string) (string, bool)
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	StdoutTTY      bool
	StderrTTY      bool
	UserHome       string // the person's home directory, may be empty
	WorkDir        string
	Executable     string // path of the program, may be empty
	TempDir        string
	PID            int
	Version        Version
	Servers        Servers
}

// Version says which build this is.
type Version struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Exit codes.
const (
	Done    = 0
	Failed  = 1
	Usage   = 2
	Refused = 3 // by a flag or gate that is closed
)

// app is one run of the program.
type app struct {
	Process
	out, err term.Screen
	json     bool
	home     string // --home
	api      string // --api
	token    string // --token-file
	role     string // --role
}

// Run runs the program and gives its exit code. It returns soon after ctx ends.
func Run(ctx context.Context, p Process) int {
	a := &app{Process: p}
	color := a.colorWanted()
	a.out = term.Screen{W: p.Stdout, TTY: p.StdoutTTY, Color: color && p.StdoutTTY}
	a.err = term.Screen{W: p.Stderr, TTY: p.StderrTTY, Color: color && p.StderrTTY}
	root := a.root()
	root.SetArgs(p.Args)
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return Done
	}
	return a.explain(cmd, err)
}

func (a *app) colorWanted() bool {
	if v, ok := a.Env("NO_COLOR"); ok && v != "" {
		return false
	}
	v, _ := a.Env("TERM")
	return v != "dumb"
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "promptlab",
		Short: "Keep prompt overlays, measure better texts for them, decide yourself",
		Long: `Prompt Lab keeps reusable prompt text, lets an optimizer propose better texts away
from live work, measures them on examples the optimizer never saw, and leaves the
decision to you. It never changes a text by itself.

Start with:  promptlab demo          the main job end to end, nothing needed
             promptlab doctor        what is missing on this machine
             promptlab up            everything in one process`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	pf := root.PersistentFlags()
	pf.BoolVar(&a.json, "json", false, "print one JSON document instead of text for people")
	pf.StringVar(&a.home, "home", "", "home directory (else PROMPTLAB_HOME, else promptlab in the user's data directory)")
	root.AddGroup(&cobra.Group{ID: "run", Title: "Run it"}, &cobra.Group{ID: "work", Title: "Work with it"}, &cobra.Group{ID: "set", Title: "Set it up"})
	for id, list := range map[string][]*cobra.Command{
		"run":  append(a.serverCommands(), a.demoCommand(), a.doctorCommand(), a.verifyCommand()),
		"work": {a.overlays(), a.presets(), a.sessions(), a.rooms(), a.defaults(), a.datasets(), a.jobs(), a.candidates(), a.models(), a.usage(), a.status()},
		"set":  {a.notices(), a.maintenance(), a.flags(), a.tokens(), a.configCommand(), a.version()},
	} {
		for _, c := range list {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	root.SetHelpCommandGroupID("set")
	root.SetCompletionCommandGroupID("set")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	prepare(root)
	return root
}

// prepare gives every command without an own rule the usual ones: a group shows its
// help and knows no arguments, wrong arguments are usage errors.
func prepare(c *cobra.Command) {
	if c.HasSubCommands() && c.RunE == nil {
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		c.Args = func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			c.SuggestionsMinimumDistance = 2
			msg := "there is no command " + c.CommandPath() + " " + term.Short(args[0], 40)
			if s := c.SuggestionsFor(args[0]); len(s) > 0 {
				msg += "; did you mean " + s[0] + "?"
			}
			return errors.New(msg)
		}
	}
	if args := c.Args; args != nil {
		c.Args = func(c *cobra.Command, list []string) error {
			if err := args(c, list); err != nil {
				return usageError{err}
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		prepare(sub)
	}
}

// answer writes v as JSON, or for people.
func (a *app) answer(v any, people func(term.Screen)) error {
	if !a.json {
		people(a.out)
		return nil
	}
	return a.document(v, "  ")
}

func (a *app) document(v any, indent string) error {
	enc := json.NewEncoder(a.Stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	return enc.Encode(v)
}

// configInput is what configuration is made from; set are the flags of a command
// that takes settings, nil for others.
func (a *app) configInput(set *pflag.FlagSet) config.Input {
	in := config.Input{Flags: map[string]string{}, Env: a.Env, UserHome: a.UserHome, WorkDir: a.WorkDir, ReadFile: os.ReadFile}
	if a.home != "" {
		in.Flags["home"] = a.home
	}
	if set == nil {
		return in
	}
	for _, s := range config.Settings() {
		if f := set.Lookup(s.Flag); f != nil && f.Changed {
			in.Flags[s.Key] = f.Value.String()
		}
	}
	return in
}

// addSettings gives a command one flag per setting.
func addSettings(c *cobra.Command) {
	for _, s := range config.Settings() {
		usage := s.Usage
		if s.Switch {
			c.Flags().Bool(s.Flag, false, usage)
			continue
		}
		if s.Default != "" {
			usage += " (default " + s.Default + ")"
		}
		c.Flags().String(s.Flag, "", usage)
	}
}

// exactly and friends are cobra's rules with words for people.
func exactly(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return errors.New(names[len(args)] + " is missing; usage: " + c.UseLine())
		case len(args) > len(names):
			return errors.New("too many arguments; usage: " + c.UseLine())
		}
		return nil
	}
}
