package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/elnor/promptlab/cmd/promptlab/internal/config"
	"github.com/elnor/promptlab/cmd/promptlab/internal/home"
	"github.com/elnor/promptlab/cmd/promptlab/internal/term"
	"github.com/elnor/promptlab/gateway"
)

// Check is one thing that doctor looks at. Without a required one that is ok
// nothing useful runs.
type Check struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Required bool   `json:"required"`
	Detail   string `json:"detail"`
	Fix      string `json:"fix"`
}

// sandboxState is how well the optimizer's process is locked in on this machine.
type sandboxState struct {
	Level    string `json:"level"`
	MinLevel string `json:"min_level"`
	Detail   string `json:"detail"`
}

type doctorReport struct {
	OK      bool         `json:"ok"`
	Sandbox sandboxState `json:"sandbox"`
	Checks  []Check      `json:"checks"`
}

const (
	probeTime   = 2 * time.Second  // for something on this machine
	pythonTime  = 60 * time.Second // a cold import of the optimizer
	leastFree   = 200 << 20
	enoughFree  = 2 << 30
	ollamaModel = "http://127.0.0.1:11434"
)

func (a *app) doctorCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "doctor", Short: "Say what is missing or degraded on this machine, and how to fix it", Args: exactly(),
		Long:    "Looks at everything that the program needs and says how to get what is missing.\nExit code 1 when something is missing without which nothing useful runs.",
		Example: "  promptlab doctor\n  promptlab doctor --json | jq '.checks[] | select(.ok | not)'",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, _, err := config.Load(a.configInput(c.Flags()))
			if err != nil {
				return err
			}
			r := a.examine(c.Context(), cfg)
			if err := a.answer(r, func(s term.Screen) { showDoctor(s, r) }); err != nil {
				return err
			}
			if !r.OK {
				return silent{Failed}
			}
			return nil
		},
	}
	addSettings(c)
	return c
}

func showDoctor(s term.Screen, r doctorReport) {
	for _, c := range r.Checks {
		mark := s.Paint(term.Green, "ok      ")
		switch {
		case !c.OK && c.Required:
			mark = s.Paint(term.Red, "missing ")
		case !c.OK:
			mark = s.Paint(term.Yellow, "degraded")
		}
		s.Printf("%s  %-13s %s\n", mark, c.Name, term.Line(c.Detail))
		if !c.OK && c.Fix != "" {
			s.Printf("          %-13s fix: %s\n", "", term.Line(c.Fix))
		}
	}
	if r.OK {
		s.Printf("\nReady. Try: promptlab demo\n")
		return
	}
	s.Printf("\nSomething is missing without which nothing useful runs.\n")
}

// examine makes the report.
func (a *app) examine(ctx context.Context, cfg config.Config) doctorReport {
	r := doctorReport{OK: true, Sandbox: sandbox(cfg)}
	r.Checks = append(r.Checks, a.checkHome(cfg))
	r.Checks = append(r.Checks, a.checkPython(ctx, cfg)...)
	r.Checks = append(r.Checks, checkSandbox(r.Sandbox), checkRedis(ctx, cfg), a.checkModels(ctx, cfg), a.checkRegistry(cfg), checkDisk(cfg), checkClock())
	for _, c := range r.Checks {
		r.OK = r.OK && (c.OK || !c.Required)
	}
	return r
}

func (a *app) checkHome(cfg config.Config) Check {
	c := Check{Name: "home", Required: true, Detail: cfg.Home, Fix: "choose another place with --home DIR and --memory DIR"}
	for _, dir := range []string{cfg.Home, cfg.Memory} {
		if err := home.Guard(a.UserHome, dir); err != nil {
			c.Detail = err.Error()
			return c
		}
		if err := writable(dir); err != nil {
			c.Detail = err.Error()
			return c
		}
	}
	c.OK = true
	return c
}

// writable tells whether a directory can be written, or made where it is missing.
func writable(dir string) error {
	at := existing(dir)
	f, err := os.CreateTemp(at, ".promptlab-*")
	if err != nil {
		return fmt.Errorf("%s cannot be written", at)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// existing gives the nearest directory above a path that is there.
func existing(path string) string {
	for path != filepath.Dir(path) {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return path
		}
		path = filepath.Dir(path)
	}
	return path
}

// probe asks the interpreter what it has. Versions come from package metadata, and
// both packages are really imported.
const probe = `
import importlib, importlib.metadata, json, platform, sys
out = {"python": platform.python_version(), "enough": sys.version_info >= (3, 11)}
for name in ("promptolution", "promptlab_adapter"):
    try:
        importlib.import_module(name)
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            version = ""
        out[name] = {"ok": True, "version": version}
    except BaseException as e:
        out[name] = {"ok": False, "error": type(e).__name__}
print(json.dumps(out))
`

type found struct {
	OK      bool   `json:"ok"`
	Version string `json:"version"`
	Error   string `json:"error"`
}

func (a *app) checkPython(ctx context.Context, cfg config.Config) []Check {
	const install = "run: make setup (or name a Python that has the optimizer with --python)"
	python := a.python(cfg)
	out := []Check{
		{Name: "python", Required: true, Detail: python + " does not run", Fix: "install Python 3.11 or newer with venv; then " + install},
		{Name: "promptolution", Required: true, Detail: "not known without Python", Fix: install},
		{Name: "adapter", Required: true, Detail: "not known without Python", Fix: install},
	}
	ctx, cancel := context.WithTimeout(ctx, pythonTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-I", "-B", "-c", probe)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/nonexistent"} // nothing of ours
	cmd.WaitDelay = time.Second
	raw, err := cmd.Output()
	var got struct {
		Python        string `json:"python"`
		Enough        bool   `json:"enough"`
		Promptolution found  `json:"promptolution"`
		Adapter       found  `json:"promptlab_adapter"`
	}
	if lines := strings.Split(strings.TrimSpace(string(raw)), "\n"); err != nil || json.Unmarshal([]byte(lines[len(lines)-1]), &got) != nil {
		return out
	}
	out[0].OK, out[0].Detail = got.Enough, got.Python+" ("+python+")"
	if !got.Enough {
		out[0].Detail += " is older than 3.11"
	}
	for i, f := range []found{got.Promptolution, got.Adapter} {
		c := &out[i+1]
		c.OK, c.Detail = f.OK, strings.TrimSpace("installed "+f.Version)
		if !f.OK {
			c.Detail = "cannot be imported (" + f.Error + ")"
		}
	}
	return out
}

// hasOptimizer tells in a moment whether the interpreter has the optimizer, without
// importing it; doctor looks closer.
func (a *app) hasOptimizer(ctx context.Context, python string) error {
	const look = `import importlib.util as u, sys
sys.exit(0 if sys.version_info >= (3, 11) and all(u.find_spec(n) for n in ("promptolution", "promptlab_adapter")) else 3)`
	ctx, cancel := context.WithTimeout(ctx, pythonTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-I", "-B", "-c", look)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/nonexistent"} // nothing of ours
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		return advice{errors.New("the optimizer is not installed for " + python), "run: make setup (or name a Python that has it with --python); promptlab doctor looks closer"}
	}
	return nil
}

func sandbox(cfg config.Config) sandboxState {
	return sandboxState{Level: "L0", MinLevel: cfg.Sandbox.MinLevel,
		Detail: "the optimizer runs as a process of its own with an empty environment and no key; it is not locked in further"}
}

func checkSandbox(s sandboxState) Check {
	return Check{Name: "sandbox", Required: true, OK: s.MinLevel == s.Level,
		Detail: "level " + s.Level + ": " + s.Detail, Fix: "sandbox.min_level asks for " + s.MinLevel + "; this version reaches " + s.Level}
}

func checkRedis(ctx context.Context, cfg config.Config) Check {
	c := Check{Name: "redis", Detail: "promptlab up brings its own queue"}
	if cfg.RedisURL == "" {
		path, err := exec.LookPath("redis-server")
		c.OK = err == nil
		c.Fix = "only needed to run serve and worker apart: install redis-server"
		if c.OK {
			c.Detail += "; redis-server is at " + path
		} else {
			c.Detail += "; there is no redis-server"
		}
		return c
	}
	c.Required = true
	u, err := url.Parse(cfg.RedisURL)
	if err != nil {
		c.Detail = "redis_url is not an address"
		return c
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), "6379")
	}
	c.Detail, c.Fix = host+" does not answer", "start it, or correct redis_url"
	dialer := net.Dialer{Timeout: probeTime}
	conn, err := dialer.DialContext(ctx, "tcp", host)
	if err != nil {
		return c
	}
	c.OK, c.Detail = true, host+" answers"
	_ = conn.Close() // nothing was sent
	return c
}

func (a *app) checkModels(ctx context.Context, cfg config.Config) Check {
	c := Check{Name: "model", Fix: "name a model under models: in " + filepath.Join(cfg.Home, "config.yaml")}
	if len(cfg.Models) > 0 {
		c.Required = true
		var names []string
		for _, m := range cfg.Models {
			names = append(names, m.Name)
			if m.APIKeyEnv == "" || m.Protocol == gateway.ProtocolSimulator {
				continue
			}
			if key, ok := a.Env(m.APIKeyEnv); !ok || key == "" {
				c.Detail, c.Fix = "model "+m.Name+" has no key: "+m.APIKeyEnv+" is not set", "set "+m.APIKeyEnv+" where the server starts"
				return c
			}
		}
		c.OK, c.Detail = true, "configured: "+strings.Join(names, ", ")
		return c
	}
	c.Detail = "none is configured; the simulator answers"
	for _, known := range []struct{ name, protocol, address string }{
		{"OPENAI_API_KEY", "openai", gateway.OpenAIBaseURL}, {"ANTHROPIC_API_KEY", "anthropic", gateway.AnthropicBaseURL},
	} {
		if key, ok := a.Env(known.name); ok && key != "" {
			c.Detail += "; " + known.name + " is set"
			c.Fix += " with protocol " + known.protocol + ", base_url " + known.address + " and api_key_env " + known.name
			return c
		}
	}
	if ollama(ctx) {
		c.Detail += "; Ollama runs on this machine"
		c.Fix += " with protocol openai and base_url " + ollamaModel + "/v1"
	}
	return c
}

func ollama(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, ollamaModel+"/api/tags", nil)
	if err != nil {
		return false
	}
	resp, err := (&http.Client{}).Do(req) // ctx has the limit
	if err != nil {
		return false
	}
	_ = resp.Body.Close() // only whether it answers matters
	return resp.StatusCode == http.StatusOK
}

func checkDisk(cfg config.Config) Check {
	c := Check{Name: "disk", Required: true, Fix: "free some space, or put the data elsewhere with --memory DIR"}
	at := existing(cfg.Memory)
	var fs syscall.Statfs_t
	if err := syscall.Statfs(at, &fs); err != nil {
		c.Detail = "the free space of " + at + " is not known"
		return c
	}
	free := fs.Bavail * uint64(fs.Bsize) //nolint:gosec // block sizes are positive
	c.Detail = fmt.Sprintf("%.1f GB free in %s", float64(free)/1e9, at)
	switch {
	case free < leastFree:
	case free < enoughFree:
		c.Required = false
	default:
		c.OK = true
	}
	return c
}

// checkClock compares the clock with a time before which no build of this program
// exists: certificates, schedules and the audit need a clock that is roughly right.
func checkClock() Check {
	c := Check{Name: "clock", Fix: "set the clock, for instance with: timedatectl set-ntp true"}
	now := time.Now()
	c.Detail = now.UTC().Format(time.RFC3339)
	built := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c.OK = now.After(built)
	if !c.OK {
		c.Detail += " lies before this program was made"
	}
	return c
}
