package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/cmd/promptlab/internal/term"
	"github.com/elnor/promptlab/contracts"
)

func (a *app) jobs() *cobra.Command {
	c := a.talks(&cobra.Command{Use: "jobs", Short: "Search for better texts", Aliases: []string{"job"}})
	c.AddCommand(a.runJob(), a.listJobs(), a.showJob(), a.watchJob(), a.cancelJob())
	return c
}

// jobFlags are the choices of jobs run.
type jobFlags struct {
	artifact, examples, dataset, name, rubric string
	options                                   client.JobOptions
	candidates, steps, minExamples            int
	budget                                    float64
	seed                                      int64
	backend                                   string
	follow                                    bool
}

func (a *app) runJob() *cobra.Command {
	var f jobFlags
	c := &cobra.Command{
		Use: "run", Short: "Search for a better text of a saved overlay", Args: exactly(),
		Long: `Asks the optimizer for better texts of one overlay and measures them against it.

Examples are one JSON object a line: input_text (or input), and where they can be
checked expected_signal; also example_id, slice, rubric_ref and metadata. Some of
them are sealed: the optimizer never sees them, and the result rests on them alone.
28 distinct examples are needed for any label, 38 for the strongest.

Without --budget-usd nothing that costs money is called.`,
		Example: `  promptlab jobs run --artifact overlay:guided-verification --examples mine.jsonl --follow
  promptlab jobs run --artifact overlay:guided-verification --dataset ds:mine@2 \
      --goal "name an owner and a date" --max-candidates 4 --budget-usd 0.50`,
		RunE: func(c *cobra.Command, _ []string) error { return a.doRunJob(c, &f) },
	}
	fl := c.Flags()
	fl.StringVar(&f.artifact, "artifact", "", "what to improve, as overlay:ID")
	fl.StringVar(&f.examples, "examples", "", "JSON-lines file with examples (- reads standard input)")
	fl.StringVar(&f.dataset, "dataset", "", "dataset to use instead, as ds:NAME@VERSION")
	fl.StringVar(&f.name, "dataset-name", "", "name of the dataset made of --examples (default: the file's)")
	fl.StringVar(&f.rubric, "rubric", "", "how a judge should grade answers without an expected signal")
	fl.StringVar(&f.options.OptimizationGoal, "goal", "", "what a better text should achieve, in words")
	fl.IntVar(&f.candidates, "max-candidates", 3, "candidates to keep, 1 to 8")
	fl.Float64Var(&f.budget, "budget-usd", 0, "most that may be spent; 0 calls nothing that costs money")
	fl.StringVar(&f.options.Engine, "engine", "auto", "search algorithm: "+strings.Join(contracts.Engine("").Values(), ", "))
	fl.StringVar(&f.backend, "backend", "", "optimizer family: promptolution or dspy")
	fl.Int64Var(&f.seed, "seed", 42, "chance of the search")
	fl.IntVar(&f.steps, "max-steps", 0, "steps of the search (default: the server's)")
	fl.IntVar(&f.minExamples, "min-examples", 0, "refuse the job with fewer distinct examples (default: the server's)")
	fl.StringArrayVar(&f.options.BannedPhrases, "ban", nil, "phrase that no candidate may hold (repeat for more)")
	fl.StringArrayVar(&f.options.KeepSections, "keep-section", nil, "heading that every candidate must keep (repeat for more)")
	fl.StringVar(&f.options.ModelRoute, "model-route", "", "model route to use")
	fl.BoolVar(&f.follow, "follow", false, "wait for the end and show the result")
	_ = c.RegisterFlagCompletionFunc("artifact", a.complete(artifacts)) // only fails for unknown flags
	_ = c.RegisterFlagCompletionFunc("dataset", a.complete(datasetRefs))
	_ = c.RegisterFlagCompletionFunc("engine", cobra.FixedCompletions(contracts.Engine("").Values(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) doRunJob(c *cobra.Command, f *jobFlags) error {
	job, err := f.job(c)
	if err != nil {
		return err
	}
	var rows []contracts.DatasetRow
	if f.examples != "" {
		data, err := a.readFile(f.examples, maxExampleFile)
		if err != nil {
			return err
		}
		if rows, err = readRows(f.examples, data); err != nil {
			return err
		}
	}
	cl, err := a.connect("user")
	if err != nil {
		return err
	}
	if rows != nil {
		if f.name == "" {
			f.name = datasetName(f.examples)
		}
		ds, err := cl.CreateDataset(c.Context(), client.DatasetText{Name: f.name, Rows: rows, Rubric: f.rubric})
		if err != nil {
			return err
		}
		job.DatasetRef = ds.DatasetRef
	}
	made, err := cl.CreateJob(c.Context(), job)
	if err != nil {
		return err
	}
	if !f.follow {
		return a.answer(made, func(s term.Screen) {
			s.Printf("Job %s is %s, with %s.\n", made.JobID, made.Status, job.DatasetRef)
			s.Printf("Watch it with: promptlab jobs watch %s\n", made.JobID)
		})
	}
	end, err := a.follow(c.Context(), cl, string(made.JobID))
	if err != nil {
		return err
	}
	return a.jobResult(c.Context(), cl, end)
}

// job makes the request of the flags; only what was given is sent.
func (f *jobFlags) job(c *cobra.Command) (client.JobText, error) {
	var j client.JobText
	kind, id, ok := strings.Cut(f.artifact, ":")
	j.ArtifactKind, j.ArtifactID = artifactKind(kind), id
	switch {
	case !ok || id == "" || j.ArtifactKind == "":
		return j, misuse("--artifact is needed, as KIND:ID, such as overlay:guided-verification")
	case (f.examples == "") == (f.dataset == ""):
		return j, misuse("give either --examples FILE or --dataset REF")
	case f.examples == "" && (f.name != "" || f.rubric != ""):
		return j, misuse("--dataset-name and --rubric belong to --examples; a dataset that exists is not changed")
	case !(f.budget >= 0) || math.IsInf(f.budget, 0): // not a number is not right either
		return j, misuse("--budget-usd must be an amount in dollars, 0 or more")
	}
	j.DatasetRef = f.dataset
	j.MinReplayExamples = f.minExamples
	j.Backend = contracts.PromptOptimizationBackend(f.backend)
	j.Options = f.options
	j.Options.MaxCandidates, j.Options.PerJobBudgetUSD, j.Options.Seed = &f.candidates, &f.budget, &f.seed
	if c.Flags().Changed("max-steps") {
		j.Options.MaxSteps = &f.steps
	}
	return j, nil
}

// artifactKind takes the short names of kinds and the full ones.
func artifactKind(s string) contracts.PromptArtifactKind {
	switch s {
	case "overlay", string(contracts.KindOverlay):
		return contracts.KindOverlay
	case "recipe", string(contracts.KindRecipe):
		return contracts.KindRecipe
	case "rewrite", string(contracts.KindRewriteTemplate):
		return contracts.KindRewriteTemplate
	}
	return ""
}

// follow shows progress on the error stream until the job has ended.
func (a *app) follow(ctx context.Context, cl *client.Client, id string) (contracts.PromptLabJob, error) {
	p := term.NewProgress(a.err)
	defer p.End()
	return cl.Watch(ctx, id, func(s client.Seen) { showProgress(p, s) })
}

func showProgress(p *term.Progress, s client.Seen) {
	switch {
	case s.Event != nil && s.Event.Progress != nil:
		g := s.Event.Progress
		var facts []string
		if g.Best != nil {
			facts = append(facts, fmt.Sprintf("best score %.3f", *g.Best))
		}
		if g.Calls > 0 {
			facts = append(facts, fmt.Sprintf("%d calls", g.Calls))
		}
		facts = append(facts, money(g.USD))
		done, total := g.Step, g.Steps
		if g.Phase == contracts.PhaseMeasuring {
			done, total = g.Done, g.Total
		}
		p.Show(phaseWords(g.Phase), done, total, facts...)
	case s.Job != nil:
		j := s.Job
		stage := string(j.Status)
		var facts []string
		if d := j.Detail; d != nil {
			if j.Status == contracts.JobRunning && d.Phase != "" {
				stage = phaseWords(d.Phase)
			}
			if j.Status == contracts.JobQueued && d.FailureCode != "" {
				stage = "waiting for another try, after " + d.FailureCode
				if d.FailureMessage != "" {
					facts = append(facts, term.Line(d.FailureMessage))
				}
			}
			if d.SpentUSD > 0 {
				facts = append(facts, money(d.SpentUSD))
			}
		}
		p.Show(stage, 0, 0, facts...)
	}
}

func phaseWords(p contracts.JobPhase) string {
	switch p {
	case contracts.PhaseOptimizing:
		return "searching for better texts"
	case contracts.PhaseMeasuring:
		return "measuring on sealed examples"
	}
	return term.Line(string(p))
}

func money(usd float64) string {
	if usd == 0 {
		return "$0"
	}
	return "$" + strconv.FormatFloat(usd, 'f', 4, 64)
}

// jobResult shows an ended job with its candidates; anything but completed fails.
func (a *app) jobResult(ctx context.Context, cl *client.Client, job contracts.PromptLabJob) error {
	list, err := cl.Candidates(ctx, string(job.JobID))
	if err != nil {
		return err
	}
	doc := struct {
		contracts.PromptLabJob
		Candidates contracts.List[contracts.PromptCandidate] `json:"candidates"`
	}{job, list.Items}
	if err := a.answer(doc, func(s term.Screen) { showJob(s, job, list.Items) }); err != nil {
		return err
	}
	if job.Status != contracts.JobCompleted {
		return silent{Failed}
	}
	return nil
}

func (a *app) listJobs() *cobra.Command {
	var status, artifact string
	var limit int
	c := &cobra.Command{
		Use: "list", Short: "List jobs, newest first", Args: exactly(),
		Example: "  promptlab jobs list --status running",
		RunE: a.serving(func(c *cobra.Command, _ []string, cl *client.Client) error {
			list, err := cl.Jobs(c.Context(), status, artifact, limit)
			if err != nil {
				return err
			}
			return a.answer(list, func(s term.Screen) {
				if len(list.Items) == 0 {
					s.Printf("There are no jobs. Start one with: promptlab jobs run --help\n")
					return
				}
				var rows [][]string
				for _, j := range list.Items {
					phase, n := "", "0"
					if j.Detail != nil {
						phase, n = string(j.Detail.Phase), strconv.Itoa(len(j.Detail.CandidateIDs))
					}
					rows = append(rows, []string{string(j.JobID), j.ArtifactID, string(j.Status), phase, n, j.CreatedAt.String()})
				}
				s.Table([]string{"JOB", "ARTIFACT", "STATUS", "PHASE", "CANDIDATES", "CREATED"}, rows)
				if list.Total > len(list.Items) {
					s.Printf("%d of %d; the rest comes with a larger --limit, or without it.\n", len(list.Items), list.Total)
				}
			})
		}),
	}
	c.Flags().StringVar(&status, "status", "", "only jobs with this status")
	c.Flags().StringVar(&artifact, "artifact-id", "", "only jobs of this artifact")
	c.Flags().IntVar(&limit, "limit", 0, "at most so many; 0 is all")
	return c
}

func (a *app) showJob() *cobra.Command {
	return &cobra.Command{
		Use: "show JOB", Short: "Show a job and its candidates", Args: exactly("JOB"), ValidArgsFunction: a.complete(jobIDs),
		Example: "  promptlab jobs show 7d0c… --json",
		RunE: a.serving(func(c *cobra.Command, args []string, cl *client.Client) error {
			job, err := cl.Job(c.Context(), args[0])
			if err != nil {
				return err
			}
			var list contracts.PromptCandidateList
			if !a.json {
				if list, err = cl.Candidates(c.Context(), args[0]); err != nil {
					return err
				}
			}
			return a.answer(job, func(s term.Screen) { showJob(s, job, list.Items) })
		}),
	}
}

func (a *app) watchJob() *cobra.Command {
	return &cobra.Command{
		Use: "watch JOB", Short: "Follow a job to its end (--json: one JSON document a line)", Args: exactly("JOB"), ValidArgsFunction: a.complete(jobIDs),
		Example: "  promptlab jobs watch 7d0c…\n  promptlab jobs watch 7d0c… --json | jq .progress.best",
		RunE: a.serving(func(c *cobra.Command, args []string, cl *client.Client) error {
			if !a.json {
				job, err := a.follow(c.Context(), cl, args[0])
				if err != nil {
					return err
				}
				return a.jobResult(c.Context(), cl, job)
			}
			var broken error
			enc := json.NewEncoder(a.Stdout)
			enc.SetEscapeHTML(false)
			job, err := cl.Watch(c.Context(), args[0], func(s client.Seen) {
				var werr error
				if s.Event != nil {
					werr = enc.Encode(s.Event)
				} else {
					werr = enc.Encode(struct {
						Type string                  `json:"type"`
						Job  *contracts.PromptLabJob `json:"job"`
					}{"job.state", s.Job})
				}
				broken = errors.Join(broken, werr)
			})
			if err := errors.Join(err, broken); err != nil {
				return err
			}
			if job.Status != contracts.JobCompleted {
				return silent{Failed}
			}
			return nil
		}),
	}
}

func (a *app) cancelJob() *cobra.Command {
	return &cobra.Command{
		Use: "cancel JOB", Short: "End a job that has not ended", Args: exactly("JOB"), ValidArgsFunction: a.complete(jobIDs),
		Example: "  promptlab jobs cancel 7d0c…",
		RunE: a.serving(func(c *cobra.Command, args []string, cl *client.Client) error {
			job, err := cl.CancelJob(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.answer(job, func(s term.Screen) { s.Printf("Job %s is %s.\n", job.JobID, job.Status) })
		}),
	}
}
