package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
)

const completionTime = 2 * time.Second

// source gives values that a shell may offer, each with a description after a tab.
type source func(context.Context, *client.Client) ([]string, error)

// complete asks the running server; without one nothing is offered.
func (a *app) complete(from source) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		cl, err := a.connect("user")
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), completionTime)
		defer cancel()
		list, err := from(ctx, cl)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}

func overlayIDs(ctx context.Context, cl *client.Client) ([]string, error) {
	list, err := cl.Overlays(ctx, client.OverlayQuery{IncludeArchived: true})
	var out []string
	for _, o := range list.Items {
		out = append(out, cobra.CompletionWithDesc(string(o.OverlayID), o.Title))
	}
	return out, err
}

func artifacts(ctx context.Context, cl *client.Client) ([]string, error) {
	list, err := overlayIDs(ctx, cl)
	for i := range list {
		list[i] = "overlay:" + list[i]
	}
	return list, err
}

func jobIDs(ctx context.Context, cl *client.Client) ([]string, error) {
	list, err := cl.Jobs(ctx, "", "", 50)
	var out []string
	for _, j := range list.Items {
		out = append(out, cobra.CompletionWithDesc(string(j.JobID), string(j.Status)+" "+j.ArtifactID))
	}
	return out, err
}

func candidateIDs(ctx context.Context, cl *client.Client) ([]string, error) {
	list, err := cl.Candidates(ctx, "")
	var out []string
	for _, c := range list.Items {
		out = append(out, cobra.CompletionWithDesc(string(c.CandidateID), string(c.EvidenceLabel)+" "+c.ArtifactID))
	}
	return out, err
}

func datasetRefs(ctx context.Context, cl *client.Client) ([]string, error) {
	list, err := cl.Datasets(ctx)
	var out []string
	for _, d := range list.Items {
		out = append(out, d.DatasetRef)
	}
	return out, err
}
