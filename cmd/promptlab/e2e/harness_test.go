package e2e

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/cmd/promptlab/internal/home"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/gateway/simulator"
	"github.com/elnor/promptlab/gateway/simulator/simserver"
)

var kills = flag.Int("kills", 2, "kill -9 each of worker, EC, Python and Redis so many times")

// program is the built binary, python the interpreter of the optimizer's venv.
var program, python string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	flag.Parse()
	dir, err := os.MkdirTemp("", "promptlab-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "promptlab")
	if out, err := exec.Command("go", "build", "-o", program, "..").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the program: %v\n%s", err, out)
		return 1
	}
	python, err = filepath.Abs("../../../.venv/bin/python")
	if err == nil {
		_, err = os.Stat(python)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "the optimizer's environment is not there; run: make setup (%v)\n", err)
		return 1
	}
	return m.Run()
}

// proc is a process that can be killed and started again.
type proc struct {
	t    *testing.T
	name string
	make func() *exec.Cmd

	mu  sync.Mutex
	cmd *exec.Cmd
	log *os.File
	end chan struct{}
}

func (s *system) process(name string, mk func() *exec.Cmd) *proc {
	s.t.Helper()
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		s.t.Fatal(err)
	}
	p := &proc{t: s.t, name: name, make: mk, log: log}
	p.start()
	s.t.Cleanup(func() {
		p.kill(syscall.SIGKILL)
		if s.t.Failed() {
			b, _ := os.ReadFile(log.Name())
			s.t.Logf("--- %s:\n%s", name, tail(b, 3000))
		}
		_ = log.Close()
	})
	return p
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

func (p *proc) start() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd = p.make()
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatalf("start %s: %v", p.name, err)
	}
	p.end = make(chan struct{})
	go func(c *exec.Cmd, end chan struct{}) { _ = c.Wait(); close(end) }(p.cmd, p.end)
}

// kill sends a signal to the process alone and waits for its end.
func (p *proc) kill(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.cmd.Process.Signal(sig)
	<-p.end
}

// signal sends a signal to the process and does not wait.
func (p *proc) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.cmd.Process.Signal(sig)
}

// system is a running serve and Redis with a worker or a chat endpoint, and a
// model beside them.
type system struct {
	t     *testing.T
	dir   string
	home  home.Home
	model *simserver.Server
	url   string // of the model
	redis *proc
	serve *proc
	work  *proc
	chat  *proc
	user  *client.Client
	oper  *client.Client
	port  int // of serve, kept over restarts
	roots *x509.CertPool

	chatURL string // of the chat endpoint, without /v1
}

// options choose what a system is like.
type options struct {
	world  simulator.Kind
	delay  time.Duration // of every model call
	prices string        // YAML map; empty: free
	extra  string        // more lines for config.yaml
	model  string        // base URL of another model server
	models string        // entries of models in config.yaml; empty: one by the name of local
	chat   bool          // run the chat endpoint instead of a worker
	tls    bool          // every listener speaks TLS with a certificate that nobody signed
}

// freePort gives a port that nobody listens on and that no outgoing connection is
// given by the system, so that it stays free until a process takes it, and while
// that is being started again.
func freePort(t *testing.T) int {
	t.Helper()
	const first, last, tries = 10_000, 32_000, 100 // systems give connections those from 32,768 on
	for range tries {
		port := first + rand.IntN(last-first)
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = l.Close() // it was only asked for
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

func newSystem(t *testing.T, o options) *system {
	t.Helper()
	s := &system{t: t, dir: t.TempDir(), port: freePort(t)}
	if o.model == "" {
		kind := o.world
		if kind == "" {
			kind = simulator.Helpful
		}
		world, err := simulator.New(kind, 2)
		if err != nil {
			t.Fatal(err)
		}
		s.model = simserver.New(simserver.Config{World: world, Key: modelKey, Always: simserver.Fault{Delay: o.delay}})
		srv := httptest.NewServer(s.model)
		t.Cleanup(srv.Close)
		o.model = srv.URL + "/v1"
	}
	s.url = o.model
	s.home = home.Home{Dir: filepath.Join(s.dir, "home"), Memory: filepath.Join(s.dir, "home", "ELNOR_MEMORY")}
	if err := os.MkdirAll(s.home.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	// a fixed split: what a test asserts of a label is no matter of chance
	keys := filepath.Join(s.home.Memory, "system", "keys.json")
	if err := errors.Join(os.MkdirAll(filepath.Dir(keys), 0o700), os.WriteFile(keys, []byte(`{"schema_version":1,"split_key":"`+splitKey+`"}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	if o.prices == "" {
		o.prices = "{input_per_mtok_usd: 0, output_per_mtok_usd: 0}"
	}
	if o.models == "" {
		o.models = fmt.Sprintf("  - name: local\n    protocol: openai\n    base_url: %s\n    model: local-model\n    api_key_env: E2E_MODEL_KEY\n    prices: %s\n    routes: [chat, task, meta, judge]\n", o.model, o.prices)
	}
	if o.tls {
		o.extra += s.certify()
	}
	config := fmt.Sprintf("models:\n%sworker:\n  lease: 3s\n  concurrency: 2\n  grace: 5s\n%s", o.models, o.extra)
	if err := os.WriteFile(filepath.Join(s.home.Dir, "config.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	redisPort := freePort(t)
	s.redis = s.process("redis", func() *exec.Cmd {
		return exec.Command("redis-server", "--port", strconv.Itoa(redisPort), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.dir)
	})
	redis := fmt.Sprintf("redis://127.0.0.1:%d/0", redisPort)
	s.serve = s.process("serve", func() *exec.Cmd {
		return s.command("serve", "--redis", redis, "--listen", fmt.Sprintf("127.0.0.1:%d", s.port))
	})
	s.waitReady()
	if o.chat {
		s.startChat()
		return s
	}
	s.work = s.process("worker", func() *exec.Cmd {
		return s.command("worker", "--redis", redis, "--ec", s.address(s.port))
	})
	return s
}

// address is that of a listener on this machine.
func (s *system) address(port int) string {
	scheme := "http"
	if s.roots != nil {
		scheme = "https"
	}
	return fmt.Sprintf("%s://127.0.0.1:%d", scheme, port)
}

// splitKey seals examples on which the source does not differ from itself by chance.
const splitKey = "0123456789abcdef0123456789abcdef"

const modelKey = "sk-e2e-canary-5f1d"

func (s *system) command(args ...string) *exec.Cmd {
	cmd := exec.Command(program, append(args, "--home", s.home.Dir)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + s.dir, "PROMPTLAB_PYTHON=" + python, "E2E_MODEL_KEY=" + modelKey}
	return cmd
}

// waitReady waits until serve answers, and makes the clients.
func (s *system) waitReady() {
	s.t.Helper()
	s.until(60*time.Second, "serve answers", func() bool {
		for _, c := range []struct {
			role string
			to   **client.Client
		}{{"user", &s.user}, {"operator", &s.oper}} {
			if *c.to != nil { // of an earlier start: the address and the tokens stay
				continue
			}
			token, err := s.home.Token(c.role)
			if err != nil {
				return false
			}
			*c.to, err = client.New(client.Config{API: s.address(s.port), Token: token, Roots: s.roots})
			if err != nil {
				s.t.Fatal(err)
			}
		}
		_, err := s.user.Status(s.t.Context())
		return err == nil
	})
}

// until asks again and again, 20 times a second, until cond holds.
func (s *system) until(limit time.Duration, what string, cond func() bool) {
	s.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	end := time.After(limit)
	for !cond() {
		select {
		case <-tick.C:
		case <-end:
			s.t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

const overlayText = "# Notes\n\nWrite short notes about releases and changes for people who decide.\n\n" +
	"- Say what changed and why it matters.\n- Keep to what the request says.\n- Never guess a date.\n- Prefer plain words to jargon and short sentences to long ones.\n" +
	"- Put the most important thing first.\n"

func overlay(body string) client.OverlayText {
	fm, err := contracts.Decode[contracts.OverlayTemplateFrontmatter]([]byte(`{"id":"notes","title":"Notes","artifact_class":"live_overlay","category":"quality",
		"description":"Short notes","supported_surfaces":["chat"],"live_token_target":300}`), contracts.Client)
	if err != nil {
		panic(err)
	}
	return client.OverlayText{Frontmatter: fm, Body: body}
}

// lab readies the library: flags on, the overlay "notes", n examples.
func (s *system) lab(n int) string {
	s.t.Helper()
	ctx := s.t.Context()
	if _, err := s.oper.SetFlags(ctx, contracts.Flags{PromptLab: true, Promptolution: true}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.user.CreateOverlay(ctx, overlay(overlayText)); err != nil {
		s.t.Fatal(err)
	}
	var rows contracts.List[contracts.DatasetRow]
	for _, ex := range simulator.Examples(n, 7) {
		rows = append(rows, contracts.DatasetRow{ExampleID: ex.ID, InputText: ex.Input, ExpectedSignal: ex.ExpectedSignal})
	}
	ds, err := s.user.CreateDataset(ctx, client.DatasetText{Name: "notes", Rows: rows})
	if err != nil {
		s.t.Fatal(err)
	}
	return ds.DatasetRef
}

func (s *system) job(ref string, o client.JobOptions) contracts.PromptLabJob {
	s.t.Helper()
	j, err := s.user.CreateJob(s.t.Context(), client.JobText{ArtifactKind: contracts.KindOverlay, ArtifactID: "notes", DatasetRef: ref, Options: o})
	if err != nil {
		s.t.Fatal(err)
	}
	return j
}

// ended waits for a job's end.
func (s *system) ended(limit time.Duration, id contracts.UUID) contracts.PromptLabJob {
	s.t.Helper()
	var j contracts.PromptLabJob
	s.until(limit, "job "+string(id)+" has ended", func() bool {
		var err error
		j, err = s.user.Job(s.t.Context(), string(id))
		return err == nil && j.Status.Terminal()
	})
	return j
}

// pythons lists the optimizer processes of this system: those whose temporary
// folder is ours.
func (s *system) pythons() []int {
	var out []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		cmd, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		env, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if bytes.Contains(cmd, []byte("promptlab_adapter")) && bytes.Contains(env, []byte("TMPDIR="+s.dir)) {
			out = append(out, pid)
		}
	}
	return out
}

// run runs the program once and gives its output and exit code.
func run(t *testing.T, ctx context.Context, env []string, args ...string) (stdout, stderr string, code int) { //nolint:revive // t first
	t.Helper()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "PROMPTLAB_PYTHON=" + python}, env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), code
}

func has(list []string, s string) bool {
	for _, v := range list {
		if strings.Contains(v, s) {
			return true
		}
	}
	return false
}
