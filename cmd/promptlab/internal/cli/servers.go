package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/elnor/promptlab/cmd/promptlab/internal/config"
	"github.com/elnor/promptlab/cmd/promptlab/internal/home"
	"github.com/elnor/promptlab/cmd/promptlab/internal/term"
)

func (a *app) serverCommands() []*cobra.Command {
	up := &cobra.Command{
		Use: "up", Short: "Run everything in one process", Args: exactly(),
		Long:    "Runs the EC with its API, a queue of its own (or the one that --redis names) and a worker in one process,\nuntil it is told to stop. The first SIGTERM or Ctrl-C stops in order, the second at once.",
		Example: "  promptlab up\n  promptlab up --listen 127.0.0.1:0 --json",
		RunE: func(c *cobra.Command, _ []string) error {
			run, err := a.openServer(c)
			if err != nil {
				return err
			}
			a.warn(c.Context(), run.Config)
			return a.serve(c.Context(), run, a.Servers.Up)
		},
	}
	serve := &cobra.Command{
		Use: "serve", Short: "Run the EC with its API; workers run elsewhere", Args: exactly(),
		Example: "  promptlab serve --redis redis://127.0.0.1:6379/0",
		RunE: func(c *cobra.Command, _ []string) error {
			run, err := a.openServer(c)
			if err != nil {
				return err
			}
			if run.Config.RedisURL == "" {
				return needsRedis("serve")
			}
			return a.serve(c.Context(), run, a.Servers.Serve)
		},
	}
	worker := &cobra.Command{
		Use: "worker", Short: "Run a worker; it keeps nothing", Args: exactly(),
		Long:    "Runs a worker that takes tasks from the queue server and reports to a serve.\nWithout --ec and --worker-token-file both are looked for in the home.",
		Example: "  promptlab worker --redis redis://127.0.0.1:6379/0\n  promptlab worker --redis redis://queue:6379/0 --ec https://lab.example --worker-token-file worker.token",
		RunE: func(c *cobra.Command, _ []string) error {
			run, err := a.openWorker(c)
			if err != nil {
				return err
			}
			a.warn(c.Context(), run.Config)
			return a.finished(a.Servers.Worker(c.Context(), run), c.Context())
		},
	}
	chat := &cobra.Command{
		Use: "chat", Short: "Run the chat endpoint: OpenAI's protocol, with a session's overlays", Args: exactly(),
		Long: "Runs an endpoint that any program for OpenAI's chat completions can talk to by changing its base URL.\n" +
			"The API key is the user token or a session key (promptlab sessions key create); the headers X-PromptLab-Session,\n" +
			"or X-PromptLab-Workspace and X-PromptLab-Thread, name the session. While serve is away turns are answered\n" +
			"without overlays, and say so. promptlab up runs this endpoint as well.",
		Example: "  promptlab chat\n  promptlab chat --ec https://lab.example --chat-listen 127.0.0.1:8080",
		RunE: func(c *cobra.Command, _ []string) error {
			run, err := a.openChat(c)
			if err != nil {
				return err
			}
			return a.finished(errors.Join(a.Servers.Chat(c.Context(), run), run.Home.RemoveChat(a.PID)), c.Context())
		},
	}
	list := []*cobra.Command{up, serve, worker, chat}
	for _, c := range list {
		addSettings(c)
	}
	return list
}

// warn says what will make every job fail; the library can be used all the same.
func (a *app) warn(ctx context.Context, cfg config.Config) {
	say := func(what, todo string) {
		a.err.Printf("%s %s. Jobs will fail until this is done: %s\n", a.err.Paint(term.Yellow, "note:"), term.Line(what), term.Line(todo))
	}
	var adv advice
	if errors.As(a.hasOptimizer(ctx, cfg.Python), &adv) {
		say(adv.Error(), adv.todo)
	}
	if len(cfg.Models) > 0 {
		if c := a.checkModels(ctx, cfg); !c.OK {
			say(c.Detail, c.Fix)
		}
	}
}

func needsRedis(command string) error {
	return &config.Error{Problems: []config.Problem{{Key: "redis_url", Reason: "is needed by promptlab " + command + "; give --redis redis://host:6379/0"}}}
}

// openServer reads the set-up and opens the home.
func (a *app) openServer(c *cobra.Command) (ServerRun, error) {
	cfg, _, err := config.Load(a.configInput(c.Flags()))
	if err != nil {
		return ServerRun{}, err
	}
	return a.prepareServer(cfg)
}

func (a *app) prepareServer(cfg config.Config) (ServerRun, error) {
	h := home.Home{Dir: cfg.Home, Memory: cfg.Memory}
	if err := home.Open(h, a.UserHome); err != nil {
		return ServerRun{}, err
	}
	cfg.Python = a.python(cfg)
	return ServerRun{Config: cfg, Home: h, Env: a.Env, Log: a.logger(cfg)}, nil
}

// openWorker finds the serve that a worker reports to. It makes nothing.
func (a *app) openWorker(c *cobra.Command) (ServerRun, error) {
	cfg, _, err := config.Load(a.configInput(c.Flags()))
	if err != nil {
		return ServerRun{}, err
	}
	if cfg.RedisURL == "" {
		return ServerRun{}, needsRedis("worker")
	}
	run := ServerRun{Config: cfg, Home: home.Home{Dir: cfg.Home, Memory: cfg.Memory}, Env: a.Env, Log: a.logger(cfg), ECURL: cfg.Worker.ECURL}
	run.Config.Python = a.python(cfg)
	if run.ECURL == "" {
		ready, err := run.Home.ReadReady()
		if err != nil || ready.API == "" {
			return ServerRun{}, advice{notRunning{cfg.Home}, "start promptlab serve first, or say where it is with --ec"}
		}
		run.ECURL = ready.API
	}
	if cfg.Worker.TokenFile != "" {
		run.Token, err = home.ReadToken(cfg.Worker.TokenFile)
	} else {
		run.Token, err = run.Home.Token("worker")
	}
	if missing(err) {
		return ServerRun{}, advice{errors.New("there is no worker token"), "copy run/worker.token from the home of promptlab serve and name it with --worker-token-file"}
	}
	if err != nil {
		return ServerRun{}, err
	}
	run.Ready = func(Ready) error {
		return a.answer(map[string]any{"worker": "ready", "ec": run.ECURL, "pid": a.PID}, func(s term.Screen) {
			s.Printf("The worker is ready and reports to %s.\n", run.ECURL)
		})
	}
	return run, nil
}

// openChat finds the serve whose sessions a chat endpoint applies. It makes nothing.
func (a *app) openChat(c *cobra.Command) (ServerRun, error) {
	cfg, _, err := config.Load(a.configInput(c.Flags()))
	if err != nil {
		return ServerRun{}, err
	}
	run := ServerRun{Config: cfg, Home: home.Home{Dir: cfg.Home, Memory: cfg.Memory}, Env: a.Env, Log: a.logger(cfg), ECURL: cfg.Worker.ECURL}
	if run.ECURL == "" {
		ready, err := run.Home.ReadReady()
		if err != nil || ready.API == "" {
			return ServerRun{}, advice{notRunning{cfg.Home}, "start promptlab serve first, or say where it is with --ec"}
		}
		run.ECURL = ready.API
	}
	for _, role := range home.Roles() {
		if _, err := run.Home.Token(role); missing(err) {
			return ServerRun{}, advice{fmt.Errorf("there is no %s token", role), "copy the token files from run/ in the home of promptlab serve"}
		} else if err != nil {
			return ServerRun{}, err
		}
	}
	run.Ready = func(r Ready) error {
		if err := run.Home.AddChat(a.withPID(r)); err != nil {
			return err
		}
		return a.answer(map[string]any{"chat": r.Chat, "ec": run.ECURL, "pid": a.PID, "simulated": r.Simulated}, func(s term.Screen) {
			s.Printf("The chat endpoint answers at %s/v1 with the sessions of %s.\n", r.Chat, run.ECURL)
			if r.Simulated {
				s.Printf("No model is configured: answers come from the simulator. promptlab doctor says how to change that.\n")
			}
		})
	}
	return run, nil
}

// serve runs a server and tells people and programs where it answers.
func (a *app) serve(ctx context.Context, run ServerRun, start func(context.Context, ServerRun) error) error {
	run.Ready = func(r Ready) error {
		if err := a.announce(run.Home, r); err != nil {
			return err
		}
		return a.answer(struct {
			home.Ready
			ConsoleLink string `json:"console_link,omitempty"`
			Simulated   bool   `json:"simulated"`
		}{a.withPID(r), r.ConsoleLink, r.Simulated}, func(s term.Screen) { a.welcome(s, run, r) })
	}
	err := start(ctx, run)
	return a.finished(errors.Join(err, run.Home.RemoveReady(a.PID)), ctx)
}

func (a *app) withPID(r Ready) home.Ready {
	r.PID = a.PID
	return r.Ready
}

func (a *app) announce(h home.Home, r Ready) error { return h.WriteReady(a.withPID(r)) }

// finished makes a stop that was asked for a success.
func (a *app) finished(err error, ctx context.Context) error {
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil
	}
	return err
}

func (a *app) welcome(s term.Screen, run ServerRun, r Ready) {
	s.Printf("%s is ready in %s\n", s.Paint(term.Bold, "Prompt Lab"), run.Home.Dir)
	for _, part := range [][2]string{{"API", r.API}, {"Console", r.Console}, {"Chat", r.Chat}, {"Dashboard", r.Dashboard}} {
		if part[1] != "" {
			field(s, part[0], part[1])
		}
	}
	if r.ConsoleLink != "" {
		field(s, "Log in", r.ConsoleLink+" (works once)")
	}
	if r.Simulated {
		s.Printf("No model is configured: answers come from the simulator. promptlab doctor says how to change that.\n")
	}
	if r.Notices > 0 {
		s.Printf("There is something for you to read once: promptlab notices\n")
	}
}

func (a *app) logger(cfg config.Config) *slog.Logger {
	opt := &slog.HandlerOptions{Level: cfg.Log.Level}
	if cfg.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(a.Stderr, opt))
	}
	return slog.New(slog.NewTextHandler(a.Stderr, opt))
}

// python gives the interpreter that has the optimizer: the configured one, else the
// environment beside the program or in the home, else whatever python3 is.
func (a *app) python(cfg config.Config) string {
	if cfg.Python != "" {
		if filepath.IsAbs(cfg.Python) {
			return cfg.Python
		}
		if p, err := exec.LookPath(cfg.Python); err == nil {
			return p
		}
		return cfg.Python
	}
	var places []string
	if a.Executable != "" {
		places = append(places, filepath.Join(filepath.Dir(a.Executable), "..", ".venv", "bin", "python"))
	}
	places = append(places, filepath.Join(cfg.Home, "venv", "bin", "python"))
	i := slices.IndexFunc(places, func(p string) bool { _, err := exec.LookPath(p); return err == nil })
	if i >= 0 {
		return filepath.Clean(places[i])
	}
	if p, err := exec.LookPath("python3"); err == nil {
		return p
	}
	return "python3"
}
