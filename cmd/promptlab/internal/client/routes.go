package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/elnor/promptlab/contracts"
)

// OverlayQuery narrows a list of overlays. Zero values leave everything visible in.
type OverlayQuery struct {
	Text            string
	Category        string
	Tier            string
	IncludeArchived bool
}

func (q OverlayQuery) values() url.Values {
	v := url.Values{}
	set(v, "query", q.Text)
	set(v, "category", q.Category)
	set(v, "visibility_tier", q.Tier)
	if q.IncludeArchived {
		v.Set("include_archived", "true")
	}
	return v
}

const maxPage = 1000 // entries of a list; the server allows no more at a time

// nextPage gives how many entries to ask for when there are so many already and
// limit (0: all) are wanted.
func nextPage(limit, have int) string {
	if limit > 0 {
		return strconv.Itoa(min(limit-have, maxPage))
	}
	return strconv.Itoa(maxPage)
}

func set(v url.Values, name, value string) {
	if value != "" {
		v.Set(name, value)
	}
}

// Overlays lists the library, all of it.
func (c *Client) Overlays(ctx context.Context, q OverlayQuery) (contracts.OverlayListResponse, error) {
	q.Text = ""
	return c.overlayPages(ctx, q, "api", "overlays")
}

// SearchOverlays lists all that matches all words of the query.
func (c *Client) SearchOverlays(ctx context.Context, q OverlayQuery) (contracts.OverlayListResponse, error) {
	return c.overlayPages(ctx, q, "api", "overlays", "search")
}

// overlayPages asks for all pages.
func (c *Client) overlayPages(ctx context.Context, q OverlayQuery, path ...string) (contracts.OverlayListResponse, error) {
	var out contracts.OverlayListResponse
	v := q.values()
	var err error
	out.Items, out.Total, err = pages(0, func(o contracts.OverlayIndexEntry) contracts.OverlayID { return o.OverlayID }, v, func() ([]contracts.OverlayIndexEntry, int, error) {
		var page contracts.OverlayListResponse
		_, err := c.do(ctx, request{method: http.MethodGet, path: path, query: v}, &page)
		out.EvidenceState = page.EvidenceState
		return page.Items, page.Total, err
	})
	return out, err
}

// Overlay gives one overlay and its ETag.
func (c *Client) Overlay(ctx context.Context, id string) (out contracts.OverlayDetail, etag string, err error) {
	etag, err = c.do(ctx, request{method: http.MethodGet, path: []string{"api", "overlays", id}}, &out)
	return out, etag, err
}

// OverlayText is what a client sends of an overlay.
type OverlayText struct {
	Frontmatter contracts.OverlayTemplateFrontmatter `json:"frontmatter"`
	Body        string                               `json:"body"`
	// DeclareReciprocal asks to write the other side of its hard conflicts too.
	DeclareReciprocal bool `json:"-"`
}

// CreateOverlay saves a new overlay.
func (c *Client) CreateOverlay(ctx context.Context, o OverlayText) (out contracts.OverlayDetail, err error) {
	_, err = c.do(ctx, request{method: http.MethodPost, path: []string{"api", "overlays"}, query: o.query(), body: o}, &out)
	return out, err
}

// UpdateOverlay replaces an overlay, if it still is the one with the ETag match.
func (c *Client) UpdateOverlay(ctx context.Context, o OverlayText, match string) (out contracts.OverlayDetail, err error) {
	_, err = c.do(ctx, request{method: http.MethodPut, path: []string{"api", "overlays", string(o.Frontmatter.ID)}, query: o.query(), body: o, match: match}, &out)
	return out, err
}

// SaveBundle saves several overlays at once, all of them or none.
func (c *Client) SaveBundle(ctx context.Context, b Bundle) (out contracts.OverlayBundleResponse, err error) {
	_, err = c.do(ctx, request{method: http.MethodPost, path: []string{"api", "overlay-bundles"}, body: b}, &out)
	return out, err
}

// Bundle is what a client sends of several overlays.
type Bundle struct {
	Items []BundleItem `json:"items"`
}

// BundleItem is one overlay of a bundle; Match is the ETag of the one that it
// replaces.
type BundleItem struct {
	Record  OverlayText `json:"record"`
	Replace bool        `json:"replace,omitempty"`
	Match   string      `json:"if_match,omitempty"`
}

func (o OverlayText) query() url.Values {
	if !o.DeclareReciprocal {
		return nil
	}
	return url.Values{"declare_reciprocal": {"true"}}
}

// ArchiveOverlay takes an overlay out of use; RestoreOverlay brings it back.
func (c *Client) ArchiveOverlay(ctx context.Context, id, match string) (out contracts.OverlayDetail, err error) {
	_, err = c.do(ctx, request{method: http.MethodPost, path: []string{"api", "overlays", id, "archive"}, match: match}, &out)
	return out, err
}

// RestoreOverlay brings an archived overlay back.
func (c *Client) RestoreOverlay(ctx context.Context, id, match string) (out contracts.OverlayDetail, err error) {
	_, err = c.do(ctx, request{method: http.MethodPost, path: []string{"api", "overlays", id, "restore"}, match: match}, &out)
	return out, err
}

// InstallPresets puts the pack into the library.
func (c *Client) InstallPresets(ctx context.Context) (out contracts.PresetInstallResponse, err error) {
	_, err = c.do(ctx, request{method: http.MethodPost, path: []string{"api", "presets", "install"}}, &out)
	return out, err
}

// DatasetText is what a client sends of a dataset.
type DatasetText struct {
	Name   string                 `json:"name"`
	Rows   []contracts.DatasetRow `json:"rows"`
	Rubric string                 `json:"rubric,omitempty"`
}

// CreateDataset saves a new version of a dataset.
func (c *Client) CreateDataset(ctx context.Context, d DatasetText) (contracts.DatasetSummary, error) {
	var raw struct { // the answer may be the summary or carry the rows
		contracts.DatasetSummary
		Rows json.RawMessage `json:"rows"`
	}
	_, err := c.do(ctx, request{method: http.MethodPost, path: []string{"api", "prompt-lab", "datasets"}, body: d}, &raw)
	raw.DatasetSummary.Rows = len(d.Rows)
	return raw.DatasetSummary, err
}

// Datasets lists dataset versions.
func (c *Client) Datasets(ctx context.Context) (out contracts.DatasetList, err error) {
	_, err = c.do(ctx, request{method: http.MethodGet, path: []string{"api", "prompt-lab", "datasets"}}, &out)
	return out, err
}

// Dataset gives one version with its rows.
func (c *Client) Dataset(ctx context.Context, ref string) (out contracts.Dataset, err error) {
	_, err = c.do(ctx, request{method: http.MethodGet, path: []string{"api", "prompt-lab", "datasets", ref}}, &out)
	return out, err
}

// JobText is what a client sends of a job.
type JobText struct {
	ArtifactKind      contracts.PromptArtifactKind        `json:"artifact_kind"`
	ArtifactID        string                              `json:"artifact_id"`
	Backend           contracts.PromptOptimizationBackend `json:"backend,omitempty"`
	DatasetRef        string                              `json:"dataset_ref,omitempty"`
	MinReplayExamples int                                 `json:"min_replay_examples,omitempty"`
	Options           JobOptions                          `json:"options"`
}

// JobOptions are the choices about a job; what is left out takes the server's default.
type JobOptions struct {
	OptimizationGoal string   `json:"optimization_goal,omitempty"`
	MaxCandidates    *int     `json:"max_candidates,omitempty"`
	PerJobBudgetUSD  *float64 `json:"per_job_budget_usd,omitempty"`
	BannedPhrases    []string `json:"banned_phrases,omitempty"`
	KeepSections     []string `json:"preserve_required_sections,omitempty"`
	Engine           string   `json:"engine,omitempty"`
	Seed             *int64   `json:"seed,omitempty"`
	ModelRoute       string   `json:"model_route,omitempty"`
	MaxSteps         *int     `json:"max_steps,omitempty"`
}

// CreateJob asks for an optimization.
func (c *Client) CreateJob(ctx context.Context, j JobText) (out contracts.PromptLabJob, err error) {
	_, err = c.do(ctx, request{method: http.MethodPost, path: []string{"api", "prompt-lab", "jobs"}, body: j}, &out)
	return out, err
}

// Jobs lists jobs, newest first, page by page; empty filters leave all in, as does
// limit 0.
func (c *Client) Jobs(ctx context.Context, status, artifact string, limit int) (out contracts.PromptLabJobList, err error) {
	q := url.Values{}
	set(q, "status", status)
	set(q, "artifact_id", artifact)
	out.Items, out.Total, err = pages(limit, func(j contracts.PromptLabJob) contracts.UUID { return j.JobID }, q, func() ([]contracts.PromptLabJob, int, error) {
		var page contracts.PromptLabJobList
		_, err := c.do(ctx, request{method: http.MethodGet, path: []string{"api", "prompt-lab", "jobs"}, query: q}, &page)
		return page.Items, page.Total, err
	})
	return out, err
}

// pages asks for pages until there are no more, or limit entries (0: all). A list
// that grows in between shifts; what comes twice is taken once.
func pages[T any, K comparable](limit int, key func(T) K, q url.Values, ask func() ([]T, int, error)) (out []T, total int, err error) {
	seen := map[K]bool{}
	for offset := 0; ; {
		q.Set("limit", nextPage(limit, len(out)))
		q.Set("offset", strconv.Itoa(offset))
		page, all, err := ask()
		if err != nil {
			return out, all, err
		}
		for _, x := range page {
			if k := key(x); !seen[k] {
				seen[k] = true
				out = append(out, x)
			}
		}
		if offset += len(page); len(page) == 0 || offset >= all || limit > 0 && len(out) >= limit {
			return out, all, nil
		}
	}
}

// Job gives one job.
func (c *Client) Job(ctx context.Context, id string) (out contracts.PromptLabJob, err error) {
	_, err = c.do(ctx, request{method: http.MethodGet, path: []string{"api", "prompt-lab", "jobs", id}}, &out)
	return out, err
}

// CancelJob ends a job.
func (c *Client) CancelJob(ctx context.Context, id string) (out contracts.PromptLabJob, err error) {
	_, err = c.do(ctx, request{method: http.MethodPost, path: []string{"api", "prompt-lab", "jobs", id, "cancel"}}, &out)
	return out, err
}

// Candidates lists candidates, of one job if job is given, page by page.
func (c *Client) Candidates(ctx context.Context, job string) (out contracts.PromptCandidateList, err error) {
	q := url.Values{}
	set(q, "job_id", job)
	out.Items, out.Total, err = pages(0, func(x contracts.PromptCandidate) contracts.UUID { return x.CandidateID }, q, func() ([]contracts.PromptCandidate, int, error) {
		var page contracts.PromptCandidateList
		_, err := c.do(ctx, request{method: http.MethodGet, path: []string{"api", "prompt-lab", "candidates"}, query: q}, &page)
		return page.Items, page.Total, err
	})
	return out, err
}

// Candidate gives one candidate beside its source.
func (c *Client) Candidate(ctx context.Context, id string) (out contracts.PromptCandidateDetail, err error) {
	_, err = c.do(ctx, request{method: http.MethodGet, path: []string{"api", "prompt-lab", "candidates", id}}, &out)
	return out, err
}

// Flags gives the lab's switches.
func (c *Client) Flags(ctx context.Context) (out contracts.Flags, err error) {
	_, err = c.do(ctx, request{method: http.MethodGet, path: []string{"api", "flags"}}, &out)
	return out, err
}

// SetFlags replaces all switches; it needs the operator's token.
func (c *Client) SetFlags(ctx context.Context, f contracts.Flags) (out contracts.Flags, err error) {
	_, err = c.do(ctx, request{method: http.MethodPut, path: []string{"api", "flags"}, body: f}, &out)
	return out, err
}

// Pruned says what was forgotten.
type Pruned struct {
	Sessions int `json:"sessions"`
	Plans    int `json:"plans"`
}

// PruneSessions forgets what nobody has used for long; it needs the operator's token.
func (c *Client) PruneSessions(ctx context.Context) (out Pruned, err error) {
	_, err = c.do(ctx, request{method: http.MethodPost, path: []string{"api", "maintenance", "prune-sessions"}}, &out)
	return out, err
}

// UsageQuery narrows usage and says what it is summed by; empty fields do not.
type UsageQuery struct {
	Job, Feature, Model, Since, Until string
	By                                []string // of day, feature, model, job
}

// Usage sums model calls, of one job if job is given.
func (c *Client) Usage(ctx context.Context, f UsageQuery) (out contracts.UsageResponse, err error) {
	q := url.Values{}
	for name, value := range map[string]string{"job_id": f.Job, "feature": f.Feature, "model": f.Model, "since": f.Since, "until": f.Until, "by": strings.Join(f.By, ",")} {
		set(q, name, value)
	}
	_, err = c.do(ctx, request{method: http.MethodGet, path: []string{"api", "usage"}, query: q}, &out)
	return out, err
}

// Status says how the system is.
func (c *Client) Status(ctx context.Context) (out contracts.Status, err error) {
	_, err = c.do(ctx, request{method: http.MethodGet, path: []string{"api", "doc17", "status"}}, &out)
	return out, err
}
