package cli

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
)

const completionTime = 2 * time.Second

// source gives values that a shell may offer, each with a description after a tab.
type source func(context.Context, *client.Client) ([]string, error)

// complete offers values for a first argument.
func (a *app) complete(from source) cobra.CompletionFunc {
	offer := a.offer(from)
	return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return offer(c, args, begun)
	}
}

// offer asks the running server; without one nothing is offered.
func (a *app) offer(from source) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
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

// sessionsOffered bounds how many sessions a shell is shown.
const sessionsOffered = 100

func sessionTokens(ctx context.Context, cl *client.Client) ([]string, error) {
	list, err := cl.Sessions(ctx, client.SessionQuery{Most: sessionsOffered})
	var out []string
	for _, s := range list.Items {
		out = append(out, cobra.CompletionWithDesc(s.Token, placeOf(s.SessionKey)))
	}
	return out, err
}

// sessionNames offers the ids of sessions of the workspace that the flags name.
// An empty surface takes the one of the flags.
func sessionNames(f *sessionFlags, surface string) source {
	return func(ctx context.Context, cl *client.Client) ([]string, error) {
		list, err := cl.Sessions(ctx, client.SessionQuery{Workspace: f.workspace, Surface: cmp.Or(surface, f.surface), Most: sessionsOffered})
		var out []string
		for _, s := range list.Items {
			out = append(out, cobra.CompletionWithDesc(s.SessionKey.SurfaceID, placeOf(s.SessionKey)))
		}
		return out, err
	}
}

func workspaces(ctx context.Context, cl *client.Client) ([]string, error) {
	list, err := cl.Sessions(ctx, client.SessionQuery{Most: 10 * sessionsOffered})
	var out []string
	for _, s := range list.Items {
		if !slices.Contains(out, s.SessionKey.WorkspaceID) {
			out = append(out, s.SessionKey.WorkspaceID)
		}
	}
	return out, err
}

func sessionKeyIDs(ctx context.Context, cl *client.Client) ([]string, error) {
	list, err := cl.SessionKeys(ctx)
	var out []string
	for _, k := range list.Items {
		out = append(out, cobra.CompletionWithDesc(string(k.KeyID), orDash(k.Name)+" "+placeOf(k.SessionKey)))
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
