package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/cmd/promptlab/internal/config"
	"github.com/elnor/promptlab/cmd/promptlab/internal/term"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/presets/examples"
)

const (
	demoOverlay = "guided-verification"
	demoDataset = "demo-notes"
	demoGoal    = "Every note states the decision, who owns it, the deadline and the main risk, each on a line of its own."
	stopTime    = time.Minute
)

// demoFlags are the choices of demo.
type demoFlags struct {
	exit, null, simulate bool
	seed                 int64
	budget               float64
}

func (a *app) demoCommand() *cobra.Command {
	var f demoFlags
	c := &cobra.Command{
		Use: "demo", Short: "The main job end to end, in a home of its own that goes away again", Args: exactly(),
		Long: `Starts everything in a temporary home, installs the presets, and searches for a
better text of the overlay guided-verification on the examples that come with the
program. Then it shows what changed and what the measurement says. Without --exit
everything keeps running, so that you can look around.

Without a configured model a simulator answers: its world has hidden rules, and some
instructions in the overlay really help. In the null world nothing helps.`,
		Example: "  promptlab demo\n  promptlab demo --exit --json\n  promptlab demo --exit --null-world",
		RunE:    func(c *cobra.Command, _ []string) error { return a.demo(c, f) },
	}
	fl := c.Flags()
	fl.BoolVar(&f.exit, "exit", false, "stop when the result is shown")
	fl.BoolVar(&f.null, "null-world", false, "play the world in which nothing helps")
	fl.BoolVar(&f.simulate, "simulate", false, "use the simulator although a model is configured")
	fl.Int64Var(&f.seed, "seed", 42, "chance of the search")
	fl.Float64Var(&f.budget, "budget-usd", 0, "most that a configured model may cost")
	addSettings(c)
	return c
}

// demo starts everything in a home of its own, does the job over the public API,
// and shows what came of it.
func (a *app) demo(c *cobra.Command, f demoFlags) (err error) {
	cfg, origin, err := config.Load(a.configInput(c.Flags()))
	if err != nil {
		return err
	}
	if f.simulate {
		cfg.Models = nil
	}
	switch {
	case f.null && !cfg.Simulated():
		return misuse("--null-world is a world of the simulator; add --simulate")
	case f.seed < 0:
		return misuse("--seed must not be negative")
	}
	if f.null {
		cfg.Simulator.World = "null"
	}
	if origin["listen"] == "default" {
		cfg.Listen = "127.0.0.1:0"
	}
	python := a.python(cfg) // of the real home
	if err := a.hasOptimizer(c.Context(), python); err != nil {
		return err // the job would try again for minutes before it said so
	}
	if cfg.Home, err = os.MkdirTemp(a.TempDir, "promptlab-demo-"); err != nil {
		return fmt.Errorf("make a temporary home: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cfg.Home)) }()
	cfg.Memory, cfg.Python = filepath.Join(cfg.Home, "ELNOR_MEMORY"), python
	if origin["log.level"] == "default" {
		cfg.Log.Level = 4 // warnings: the demo itself says what happens
	}
	run, err := a.prepareServer(cfg)
	if err != nil {
		return err
	}
	// the same seed seals the same examples, so that a demo can be repeated
	run.SplitKey = contracts.Hash(fmt.Sprintf("demo split %d", f.seed))
	return a.withServer(c.Context(), run, func(ctx context.Context, r Ready) error {
		report, err := a.demoJob(ctx, run, r, f)
		if err != nil {
			return err
		}
		if err := a.answer(report, func(s term.Screen) { showDemo(s, report, f) }); err != nil {
			return err
		}
		if !f.exit {
			a.demoStays(run, r)
			<-ctx.Done()
		}
		if report.Job.Status != contracts.JobCompleted {
			return silent{Failed}
		}
		return nil
	})
}

// withServer runs everything while do works, and stops it afterwards.
func (a *app) withServer(ctx context.Context, run ServerRun, do func(context.Context, Ready) error) error {
	a.note("Starting in %s", run.Home.Dir)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ready := make(chan Ready, 1) // one slot: Up goes on at once
	ended := make(chan error, 1)
	run.Ready = func(r Ready) error {
		if err := a.announce(run.Home, r); err != nil {
			return err
		}
		ready <- r
		return nil
	}
	go func() { ended <- a.Servers.Up(ctx, run); stop() }()
	select {
	case r := <-ready:
		err := do(ctx, r)
		stop()
		upErr := a.stopped(<-ended)
		if errors.Is(err, context.Canceled) && upErr != nil {
			return upErr // do ended because the server did
		}
		return errors.Join(err, upErr)
	case err := <-ended:
		if err = a.stopped(err); err == nil {
			err = context.Canceled
		}
		return err
	}
}

func (a *app) stopped(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (a *app) note(format string, args ...any) {
	a.err.Printf("%s\n", a.err.Paint(term.Dim, fmt.Sprintf(format, args...)))
}

// demoJob is the whole main job, as anybody could do it over the API.
func (a *app) demoJob(ctx context.Context, run ServerRun, r Ready, f demoFlags) (demoReport, error) {
	var clients [2]*client.Client
	for i, role := range []string{"user", "operator"} {
		token, err := run.Home.Token(role)
		if err != nil {
			return demoReport{}, err
		}
		if clients[i], err = a.client(r.API, token, run.Home); err != nil {
			return demoReport{}, err
		}
	}
	user, operator := clients[0], clients[1]
	pack, err := user.InstallPresets(ctx)
	if err != nil {
		return demoReport{}, err
	}
	a.note("Installed %d presets", len(pack.Installed))
	flags, err := operator.Flags(ctx)
	if err != nil {
		return demoReport{}, err
	}
	flags.PromptLab, flags.Promptolution = true, true
	if _, err := operator.SetFlags(ctx, flags); err != nil {
		return demoReport{}, err
	}
	rows, err := readRows("guided-verification.jsonl", examples.GuidedVerification)
	if err != nil {
		return demoReport{}, err
	}
	ds, err := user.CreateDataset(ctx, client.DatasetText{Name: demoDataset, Rows: rows})
	if err != nil {
		return demoReport{}, err
	}
	a.note("Saved %d examples as %s", ds.Rows, ds.DatasetRef)
	candidates := 3
	job, err := user.CreateJob(ctx, client.JobText{
		ArtifactKind: contracts.KindOverlay, ArtifactID: demoOverlay, DatasetRef: ds.DatasetRef,
		Options: client.JobOptions{OptimizationGoal: demoGoal, MaxCandidates: &candidates, PerJobBudgetUSD: &f.budget, Seed: &f.seed},
	})
	if err != nil {
		return demoReport{}, err
	}
	a.note("Job %s searches for a better text of %s", job.JobID, demoOverlay)
	if job, err = a.follow(ctx, user, string(job.JobID)); err != nil {
		return demoReport{}, err
	}
	return a.demoResult(ctx, user, job)
}

// demoStays says how to look around while everything keeps running.
func (a *app) demoStays(run ServerRun, r Ready) {
	s := a.out
	if a.json {
		s = a.err // standard output holds the document alone
	}
	s.Printf("\nEverything keeps running until Ctrl-C; then this home is removed:\n")
	field(s, "Home", run.Home.Dir)
	field(s, "API", r.API)
	if r.ConsoleLink != "" {
		field(s, "Console", r.ConsoleLink+" (works once)")
	}
	field(s, "Look around", "promptlab --home "+run.Home.Dir+" overlays list")
}

// demoReport is the one document of demo --json.
type demoReport struct {
	Job struct {
		ID       contracts.UUID               `json:"id"`
		Status   contracts.PromptLabJobStatus `json:"status"`
		Attempts int                          `json:"attempts"`
		Failure  string                       `json:"failure,omitempty"`
	} `json:"job"`
	Backend struct {
		Name    string `json:"name"`
		Version string `json:"version"`
		Python  string `json:"python"`
		Engine  string `json:"engine"`
	} `json:"backend"`
	Examples struct {
		Dev     int `json:"dev"`
		Holdout int `json:"holdout"`
	} `json:"examples"`
	Candidates []demoCandidate `json:"candidates"`
	Evidence   *demoEvidence   `json:"evidence"`
	Usage      demoUsage       `json:"usage"`
	Simulated  bool            `json:"simulated"`

	source string
	best   *contracts.PromptCandidate
	ended  contracts.PromptLabJob
}

type demoCandidate struct {
	Hash       string                                `json:"hash"`
	Delta      contracts.List[string]                `json:"delta"`
	Gates      contracts.List[contracts.GateFinding] `json:"gates"`
	ID         contracts.UUID                        `json:"id"`
	State      contracts.CandidateState              `json:"state"`
	Label      contracts.EvidenceLabel               `json:"label"`
	Difference *float64                              `json:"difference"`
	Text       string                                `json:"text"`
}

type demoEvidence struct {
	contracts.EvidenceBlock
	Label   contracts.EvidenceLabel `json:"label"`
	Reasons contracts.List[string]  `json:"reasons"`
}

type demoUsage struct {
	Calls        int                                 `json:"calls"`
	InputTokens  int64                               `json:"input_tokens"`
	OutputTokens int64                               `json:"output_tokens"`
	USD          float64                             `json:"usd"`
	Roles        contracts.List[contracts.RoleUsage] `json:"roles"`
}

// demoResult gathers what the job left behind; the best candidate comes first.
func (a *app) demoResult(ctx context.Context, cl *client.Client, job contracts.PromptLabJob) (demoReport, error) {
	r := demoReport{ended: job, Candidates: []demoCandidate{}}
	r.Job.ID, r.Job.Status = job.JobID, job.Status
	if d := job.Detail; d != nil {
		r.Job.Attempts, r.Job.Failure = d.Attempts, d.FailureCode
		r.Examples.Dev, r.Examples.Holdout = d.Split.Dev, d.Split.Holdout
		r.Simulated = d.Simulated
		r.Usage.Roles = d.Usage
		for _, u := range d.Usage {
			r.Usage.Calls += u.Calls
			r.Usage.InputTokens += u.InputTokens
			r.Usage.OutputTokens += u.OutputTokens
			r.Usage.USD += u.USD
		}
		if o := d.Optimizer; o != nil {
			r.Backend.Name, r.Backend.Version, r.Backend.Python, r.Backend.Engine = o.Name, o.Version, o.Python, o.Engine
		}
	}
	list, err := cl.Candidates(ctx, string(job.JobID))
	if err != nil {
		return r, err
	}
	for i, c := range list.Items {
		d := demoCandidate{Hash: c.CandidateHash, Delta: c.DeltaSummary, Gates: c.Gates, ID: c.CandidateID, State: c.State, Label: c.EvidenceLabel, Text: c.CandidateText}
		if e := c.Evidence; e != nil {
			d.Difference = &e.Difference
			if r.best == nil || e.Difference > r.best.Evidence.Difference {
				r.best = &list.Items[i]
			}
		}
		r.Candidates = append(r.Candidates, d)
	}
	if r.best == nil {
		return r, nil
	}
	r.Evidence = &demoEvidence{*r.best.Evidence, r.best.EvidenceLabel, r.best.LabelReasons}
	detail, err := cl.Candidate(ctx, string(r.best.CandidateID))
	r.source = detail.SourceText
	return r, err
}

func showDemo(s term.Screen, r demoReport, f demoFlags) {
	s.Printf("\n")
	showJob(s, r.ended, nil)
	if r.best != nil {
		s.Printf("\n%s\n\n", s.Paint(term.Bold, "The current text and the best candidate"))
		s.Diff(r.source, r.best.CandidateText)
		s.Printf("\n")
		showEvidence(s, *r.best)
	} else if r.Job.Status == contracts.JobCompleted {
		s.Printf("\nNo candidate was measured.\n")
	}
	s.Printf("\n")
	if r.Simulated {
		s.Printf("The model was simulated: the search, the checks and the measurement are real, the answers are not.\n")
		if f.null {
			s.Printf("In this world nothing helps, so no text should have earned a label.\n")
		}
	} else {
		s.Printf("A configured model answered; it cost %s.\n", money(r.Usage.USD))
	}
	s.Printf("What to do next:\n")
	s.Printf("  your own examples   promptlab up, then: promptlab jobs run --artifact overlay:%s --examples FILE.jsonl --follow\n", demoOverlay)
	if r.Simulated {
		s.Printf("  a real model        promptlab doctor says how to configure one\n")
	}
	s.Printf("  nothing has changed in any text; that is yours to decide (%s candidates wait)\n", strconv.Itoa(len(r.Candidates)))
}
