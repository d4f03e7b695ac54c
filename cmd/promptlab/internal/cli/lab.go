package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/cmd/promptlab/internal/term"
	"github.com/elnor/promptlab/contracts"
)

func (a *app) datasets() *cobra.Command {
	c := a.talks(&cobra.Command{Use: "datasets", Short: "Sets of examples", Aliases: []string{"dataset"}})
	var rubric string
	create := &cobra.Command{
		Use: "create NAME FILE", Short: "Save a new version of a dataset from a JSON-lines file (- reads standard input)", Args: exactly("NAME", "FILE"),
		Example: "  promptlab datasets create mine mine.jsonl\n  promptlab datasets create mine mine.jsonl --rubric \"an owner and a date are named\"",
		RunE: func(c *cobra.Command, args []string) error {
			data, err := a.readFile(args[1], maxExampleFile)
			if err != nil {
				return err
			}
			rows, err := readRows(args[1], data)
			if err != nil {
				return err
			}
			cl, err := a.connect("user")
			if err != nil {
				return err
			}
			d, err := cl.CreateDataset(c.Context(), client.DatasetText{Name: args[0], Rows: rows, Rubric: rubric})
			if err != nil {
				return err
			}
			return a.answer(d, func(s term.Screen) {
				s.Printf("%s has %d examples.\n", term.Line(d.DatasetRef), d.Rows)
				for _, w := range d.Warnings {
					s.Printf("%s %s\n", s.Paint(term.Yellow, "note:"), term.Line(w.Message))
				}
			})
		},
	}
	create.Flags().StringVar(&rubric, "rubric", "", "how a judge should grade answers without an expected signal")
	c.AddCommand(create, &cobra.Command{
		Use: "list", Short: "List datasets and their versions", Args: exactly(),
		Example: "  promptlab datasets list",
		RunE: a.serving(func(c *cobra.Command, _ []string, cl *client.Client) error {
			list, err := cl.Datasets(c.Context())
			if err != nil {
				return err
			}
			return a.answer(list, func(s term.Screen) {
				if len(list.Items) == 0 {
					s.Printf("There are no datasets. Make one with: promptlab datasets create NAME FILE\n")
					return
				}
				var rows [][]string
				for _, d := range list.Items {
					rows = append(rows, []string{d.DatasetRef, strconv.Itoa(d.Rows), strconv.Itoa(d.Distinct), d.CreatedAt.String()})
				}
				s.Table([]string{"DATASET", "ROWS", "DISTINCT", "CREATED"}, rows)
			})
		}),
	}, a.showDataset())
	return c
}

func (a *app) showDataset() *cobra.Command {
	return &cobra.Command{
		Use: "show REF", Short: "Show a dataset with its rows", Args: exactly("REF"), ValidArgsFunction: a.complete(datasetRefs),
		Example: "  promptlab datasets show ds:mine@1",
		RunE: a.serving(func(c *cobra.Command, args []string, cl *client.Client) error {
			d, err := cl.Dataset(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.answer(d, func(s term.Screen) {
				s.Printf("%s  %d rows  %s\n", s.Paint(term.Bold, term.Line(d.DatasetRef)), len(d.Rows), d.CreatedAt)
				if d.Rubric != "" {
					field(s, "Rubric", d.Rubric)
				}
				var rows [][]string
				for _, r := range d.Rows {
					rows = append(rows, []string{r.ExampleID, r.Slice, term.Short(r.InputText, 60), term.Short(r.ExpectedSignal, 30)})
				}
				s.Table([]string{"EXAMPLE", "SLICE", "INPUT", "EXPECTED"}, rows)
			})
		}),
	}
}

func (a *app) candidates() *cobra.Command {
	c := a.talks(&cobra.Command{Use: "candidates", Short: "Texts that wait for your decision", Aliases: []string{"candidate"}})
	var job string
	list := &cobra.Command{
		Use: "list", Short: "List candidates, newest and best first", Args: exactly(),
		Example: "  promptlab candidates list --job 7d0c…",
		RunE: a.serving(func(c *cobra.Command, _ []string, cl *client.Client) error {
			list, err := cl.Candidates(c.Context(), job)
			if err != nil {
				return err
			}
			return a.answer(list, func(s term.Screen) {
				if len(list.Items) == 0 {
					s.Printf("There are no candidates.\n")
					return
				}
				showCandidates(s, list.Items)
			})
		}),
	}
	list.Flags().StringVar(&job, "job", "", "only candidates of this job")
	_ = list.RegisterFlagCompletionFunc("job", a.complete(jobIDs)) // only fails for unknown flags
	var diff bool
	show := &cobra.Command{
		Use: "show CANDIDATE", Short: "Show a candidate, what is known about it, and what it changes", Args: exactly("CANDIDATE"), ValidArgsFunction: a.complete(candidateIDs),
		Example: "  promptlab candidates show 51be… --diff",
		RunE: a.serving(func(c *cobra.Command, args []string, cl *client.Client) error {
			d, err := cl.Candidate(c.Context(), args[0])
			if err != nil {
				return err
			}
			doc := struct {
				contracts.PromptCandidateDetail
				Diff []diffPiece `json:"diff,omitempty"`
			}{PromptCandidateDetail: d}
			if diff {
				doc.Diff = pieces(d.SourceText, d.Candidate.CandidateText)
			}
			return a.answer(doc, func(s term.Screen) { showCandidate(s, d, diff) })
		}),
	}
	show.Flags().BoolVar(&diff, "diff", false, "show the text as a word difference to the current one")
	c.AddCommand(list, show)
	return c
}

func showCandidate(s term.Screen, d contracts.PromptCandidateDetail, diff bool) {
	c := d.Candidate
	s.Printf("%s %s\n", s.Paint(term.Bold, "Candidate"), term.Line(string(c.CandidateID)))
	field(s, "Of", string(c.ArtifactKind)+" "+c.ArtifactID)
	state := string(c.State)
	if c.StateReason != "" {
		state += ": " + c.StateReason
	}
	if c.Reviewable {
		state += " (waits for your review)"
	}
	field(s, "State", state)
	showEvidence(s, c)
	for _, line := range c.DeltaSummary {
		field(s, "Changed", line)
	}
	s.Printf("\n")
	if diff {
		s.Diff(d.SourceText, c.CandidateText)
		return
	}
	s.Printf("%s\n", term.Clean(c.CandidateText))
}

func (a *app) status() *cobra.Command {
	return a.talks(&cobra.Command{
		Use: "status", Short: "What the running server says about itself", Args: exactly(),
		Example: "  promptlab status --json",
		RunE: a.serving(func(c *cobra.Command, _ []string, cl *client.Client) error {
			st, err := cl.Status(c.Context())
			if err != nil {
				return err
			}
			return a.answer(st, func(s term.Screen) {
				s.Printf("%d overlays, %d open jobs, revision %d\n", st.Overlays, st.JobsOpen, st.Revision)
				if st.Simulated {
					s.Printf("Answers come from the simulator: no model is configured.\n")
				}
				var rows [][]string
				for _, g := range st.Gates {
					state := "open"
					if !g.Open {
						state = "closed: " + g.Reason
					}
					rows = append(rows, []string{g.Name, state})
				}
				s.Table([]string{"GATE", "STATE"}, rows)
				if st.StoreError != "" {
					s.Printf("%s %s\n", s.Paint(term.Red, "store:"), term.Line(st.StoreError))
				}
				for _, w := range st.Warnings {
					s.Printf("%s %s: %s\n", s.Paint(term.Yellow, "note:"), term.Line(w.Subject), term.Line(w.Message))
				}
			})
		}),
	})
}
