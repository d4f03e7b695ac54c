package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/elnor/promptlab/cmd/promptlab/internal/term"
	"github.com/elnor/promptlab/cmd/promptlab/internal/worddiff"
	"github.com/elnor/promptlab/contracts"
)

// showJob writes everything that matters about a job.
func showJob(s term.Screen, j contracts.PromptLabJob, candidates []contracts.PromptCandidate) {
	state := string(j.Status)
	d := j.Detail
	if d == nil {
		d = &contracts.JobDetail{}
	}
	if j.Status == contracts.JobRunning && d.Phase != "" {
		state += ", " + phaseWords(d.Phase)
	}
	title := j.ArtifactID
	if d.ArtifactTitle != "" {
		title += " (" + d.ArtifactTitle + ")"
	}
	s.Printf("%s %s\n", s.Paint(term.Bold, "Job"), term.Line(string(j.JobID)))
	field(s, "Text", title)
	field(s, "Status", state)
	if d.FailureCode != "" {
		field(s, "Failed", d.FailureCode+": "+d.FailureMessage)
	}
	if d.EndedBy != "" {
		field(s, "Search ended", endedWords(d.EndedBy))
	}
	if o := d.Optimizer; o != nil {
		field(s, "Optimizer", fmt.Sprintf("%s %s (%s), Python %s, %d steps", o.Name, o.Version, o.Engine, o.Python, o.Steps))
	}
	if d.Split.Distinct > 0 {
		field(s, "Examples", fmt.Sprintf("%d for the search, %d sealed for measuring (%s)", d.Split.Dev, d.Split.Holdout, j.DatasetRef))
	}
	if d.Simulated {
		field(s, "Model", "simulated; nothing from this job can be promoted")
	}
	if len(d.Usage) > 0 {
		field(s, "Calls", usageWords(d.Usage, d.SpentUSD, d.BudgetUSD))
	}
	for _, w := range d.Warnings {
		field(s, "Note", w.Message)
	}
	for _, n := range d.Notes {
		field(s, "Note", n.Text)
	}
	if len(candidates) > 0 {
		s.Printf("\n")
		showCandidates(s, candidates)
		s.Printf("\nLook at one with: promptlab candidates show %s --diff\n", term.Line(string(candidates[0].CandidateID)))
	}
	if n := len(d.FailedOutcomes); n > 0 {
		s.Printf("\n%d more texts were refused before measuring:\n", n)
		for _, o := range d.FailedOutcomes {
			for _, f := range o.Findings {
				s.Printf("  %s  %s: %s\n", term.Short(o.CandidateHash, 12), term.Line(f.Rule), term.Line(f.Message))
			}
		}
	}
}

func field(s term.Screen, name, value string) {
	s.Printf("  %s %s\n", s.Paint(term.Dim, fmt.Sprintf("%-13s", name)), term.Line(value))
}

func usageWords(roles []contracts.RoleUsage, spent, budget float64) string {
	var parts []string
	for _, u := range roles {
		parts = append(parts, fmt.Sprintf("%s %d", u.Role, u.Calls))
	}
	out := strings.Join(parts, ", ") + "; spent " + money(spent)
	if budget > 0 {
		out += " of " + money(budget)
	}
	return out
}

func endedWords(e contracts.EndedBy) string {
	switch e {
	case contracts.EndedBySteps:
		return "after all its steps"
	case contracts.EndedByBudget:
		return "because the budget ran out; what was found until then counts"
	case contracts.EndedByCancel:
		return "because it was cancelled"
	case contracts.EndedByTimeLimit:
		return "at its time limit; what was found until then counts"
	case contracts.EndedByNoSeeds:
		return "at once: there were too few texts to start from"
	}
	return string(e)
}

func showCandidates(s term.Screen, list []contracts.PromptCandidate) {
	var rows [][]string
	for _, c := range list {
		result, n := "not measured", ""
		if e := c.Evidence; e != nil {
			result, n = signed(e.Difference)+" ["+signed(e.LowerBound)+", "+signed(e.UpperBound)+"]", strconv.Itoa(e.N)
		}
		rows = append(rows, []string{string(c.CandidateID), string(c.EvidenceLabel), result, n, string(c.State)})
	}
	s.Table([]string{"CANDIDATE", "LABEL", "DIFFERENCE", "PAIRS", "STATE"}, rows)
}

func signed(f float64) string { return fmt.Sprintf("%+.3f", f) }

// labelWords says what a label means.
func labelWords(l contracts.EvidenceLabel) string {
	switch l {
	case contracts.LabelNone:
		return "no local evidence: the measurement does not show that it is better"
	case contracts.LabelPromising:
		return "promising: better than the current text, shown on few examples"
	case contracts.LabelEstablished:
		return "established: better than the current text, shown on 30 or more examples"
	case contracts.LabelNeedsTuning:
		return "needs tuning: worse than the current text, or it failed a case that must pass"
	}
	return string(l)
}

// showEvidence writes the paired result, the label and its reasons.
func showEvidence(s term.Screen, c contracts.PromptCandidate) {
	field(s, "Label", labelWords(c.EvidenceLabel))
	if e := c.Evidence; e != nil {
		equal := e.N - e.Wins - e.Losses
		field(s, "Result", fmt.Sprintf("%s on %d sealed examples: mean score %.3f instead of %.3f", signed(e.Difference), e.N, e.MeanArm, e.MeanAgainst))
		field(s, "Certainty", fmt.Sprintf("between %s and %s (95 %% each way); better in %d, worse in %d, equal in %d", signed(e.LowerBound), signed(e.UpperBound), e.Wins, e.Losses, equal))
		if e.Unscored > 0 {
			field(s, "Unscored", fmt.Sprintf("%d pairs could not be scored and are left out", e.Unscored))
		}
	} else {
		field(s, "Result", "not measured")
	}
	for _, r := range c.LabelReasons {
		field(s, "Why", r)
	}
	for _, g := range c.Gates {
		field(s, "Gate", g.Severity+": "+g.Message+" ("+g.Rule+")")
	}
	if c.Simulated {
		field(s, "Model", "simulated; this text can be read and learned from, never promoted")
	}
}

// diffPiece is a piece of a word difference as JSON.
type diffPiece struct {
	Op   string `json:"op"`
	Text string `json:"text"`
}

func pieces(from, to string) []diffPiece {
	out := []diffPiece{}
	for _, p := range worddiff.Diff(from, to) {
		out = append(out, diffPiece{map[worddiff.Op]string{worddiff.Same: "same", worddiff.Deleted: "deleted", worddiff.Added: "added"}[p.Op], p.Text})
	}
	return out
}
