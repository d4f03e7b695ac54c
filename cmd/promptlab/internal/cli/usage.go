package cli

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/cmd/promptlab/internal/term"
	"github.com/elnor/promptlab/contracts"
)

func (a *app) usage() *cobra.Command {
	var q client.UsageQuery
	c := a.talks(&cobra.Command{
		Use: "usage", Short: "Model calls, tokens and money", Args: exactly(),
		Long:    "Sums what model calls took: by day, feature, model and job, or by what --by names. A call whose provider\ndid not tell its tokens counts in NOT TOLD; its cost is then the most that it may have been.",
		Example: "  promptlab usage\n  promptlab usage --by feature,model --since 2026-01-01\n  promptlab usage --job 7d0c… --json",
		RunE: a.serving(func(c *cobra.Command, _ []string, cl *client.Client) error {
			if len(q.By) == 0 && !a.json { // a program gets everything apart
				q.By = []string{"day", "feature", "model"}
			}
			u, err := cl.Usage(c.Context(), q)
			if err != nil {
				return err
			}
			return a.answer(u, func(s term.Screen) { showUsage(s, q, u) })
		}),
	})
	f := c.Flags()
	f.StringVar(&q.Job, "job", "", "only this job")
	f.StringVar(&q.Feature, "feature", "", "only calls for this: "+strings.Join(contracts.RoleMeta.Values(), ", "))
	f.StringVar(&q.Model, "model", "", "only this model")
	f.StringVar(&q.Since, "since", "", "only from this day on, such as 2026-01-31")
	f.StringVar(&q.Until, "until", "", "only up to this day")
	f.StringSliceVar(&q.By, "by", nil, "what to sum by, of day, feature, model, job (default: day, feature and model)")
	_ = c.RegisterFlagCompletionFunc("job", a.complete(jobIDs))                                                                                    // only fails for unknown flags
	_ = c.RegisterFlagCompletionFunc("feature", cobra.FixedCompletions(contracts.RoleMeta.Values(), cobra.ShellCompDirectiveNoFileComp))           // likewise
	_ = c.RegisterFlagCompletionFunc("by", cobra.FixedCompletions([]string{"day", "feature", "model", "job"}, cobra.ShellCompDirectiveNoFileComp)) // likewise
	return c
}

func showUsage(s term.Screen, q client.UsageQuery, u contracts.UsageResponse) {
	if len(u.Rows) == 0 {
		s.Printf("No model call has been booked yet.\n")
		return
	}
	cells := map[string]func(contracts.UsageSum) string{
		"day":     func(r contracts.UsageSum) string { return r.Day },
		"feature": func(r contracts.UsageSum) string { return string(r.Feature) },
		"model":   func(r contracts.UsageSum) string { return r.Model },
		"job":     func(r contracts.UsageSum) string { return string(r.JobID) },
	}
	titles := map[string]string{"day": "DAY", "feature": "FOR", "model": "MODEL", "job": "JOB"}
	by := slices.DeleteFunc(slices.Clone(q.By), func(b string) bool { return cells[b] == nil })
	var head []string
	for _, b := range by {
		head = append(head, titles[b])
	}
	line := func(first []string, calls, unknown int, in, out int64, usd float64) []string {
		not := ""
		if unknown > 0 {
			not = strconv.Itoa(unknown)
		}
		return append(first, strconv.Itoa(calls), not, strconv.FormatInt(in, 10), strconv.FormatInt(out, 10), money(usd))
	}
	var rows [][]string
	unknown := 0
	for _, r := range u.Rows {
		var first []string
		for _, b := range by {
			first = append(first, cells[b](r))
		}
		unknown += r.Unknown
		rows = append(rows, line(first, r.Calls, r.Unknown, r.InputTokens, r.OutputTokens, r.USD))
	}
	total := make([]string, len(by))
	if len(total) > 0 {
		total[0] = "total"
	}
	rows = append(rows, line(total, u.Total.Calls, unknown, u.Total.InputTokens, u.Total.OutputTokens, u.Total.USD))
	s.Table(append(head, "CALLS", "NOT TOLD", "TOKENS IN", "TOKENS OUT", "COST"), rows)
}
