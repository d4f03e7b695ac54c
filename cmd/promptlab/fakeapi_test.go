package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/elnor/promptlab/internal/problem"
)

const (
	jobID       = "11111111-1111-4111-8111-111111111111"
	candidateID = "22222222-2222-4222-8222-222222222222"
	betterText  = "Check every claim.\nAdd an `Owner:` line.\n"
	sourceText  = "Check each claim.\n"
)

// fakeAPI answers like the public API, just enough for a command line: one job that
// completes after a few looks, one candidate, one overlay that can be changed.
type fakeAPI struct {
	tokens map[string]string // token -> role

	mu       sync.Mutex
	flags    contracts.Flags
	overlays map[string]contracts.OverlayTemplateRecord
	archived map[string]bool
	datasets []contracts.Dataset
	jobs     []contracts.PromptLabJob
	looks    int
	bodies   []string // of the requests that changed something
}

func newFakeAPI(tokens map[string]string) *fakeAPI {
	fm := contracts.OverlayTemplateFrontmatter{
		ID: "guided-verification", Title: "Guided Verification", ArtifactClass: "live_overlay", Category: "quality",
		Description: "A checklist.", VisibilityTier: "core", SupportedSurfaces: contracts.List[contracts.SupportedSurface]{"chat"},
		RecommendedModelClasses: contracts.List[contracts.ModelClass]{"unknown"}, LiveTokenTarget: 100, Preset: true, Version: "1.0.0",
	}
	return &fakeAPI{tokens: tokens, archived: map[string]bool{},
		overlays: map[string]contracts.OverlayTemplateRecord{string(fm.ID): {Frontmatter: fm, Body: sourceText}}}
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// A path in front of the API turns the event stream off or makes it odd.
	mood, rest := "", r.URL.Path
	if !strings.HasPrefix(rest, "/api/") {
		mood, rest, _ = strings.Cut(strings.TrimPrefix(rest, "/"), "/")
		rest = "/" + rest
	}
	r = r.WithContext(problem.WithRequestID(r.Context(), "req-7"))
	role := f.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	answer, status, err := any(nil), http.StatusOK, error(nil)
	switch {
	case mood == "broken":
		err = errors.New("SECRET of the server")
	case mood == "foreign":
		w.WriteHeader(http.StatusBadGateway)
		return
	case mood == "redirect":
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
		return
	case role == "":
		err = fault.New(fault.Unauthenticated, "unauthenticated", "the token is not known")
	case rest == "/api/events" && mood == "":
		f.stream(w, r)
		return
	default:
		answer, status, err = f.route(w, r, rest, role)
	}
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func (f *fakeAPI) route(w http.ResponseWriter, r *http.Request, path, role string) (any, int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	raw, _ := io.ReadAll(r.Body)
	if r.Method != http.MethodGet {
		f.bodies = append(f.bodies, r.Method+" "+path+" "+string(raw))
	}
	parts := strings.Split(strings.TrimPrefix(path, "/api/"), "/")
	switch {
	case parts[0] == "overlays":
		return f.overlayRoutes(w, r, parts[1:], raw)
	case path == "/api/presets/install":
		return contracts.PresetInstallResponse{PackID: "p", Installed: contracts.List[contracts.OverlayID]{"guided-verification"}, Kept: contracts.List[contracts.OverlayID]{"mine"}}, 200, nil
	case path == "/api/flags" && r.Method == http.MethodPut:
		if role != "operator" {
			return nil, 0, fault.New(fault.Forbidden, "forbidden", "this needs the role operator")
		}
		return &f.flags, 200, json.Unmarshal(raw, &f.flags)
	case path == "/api/flags":
		return f.flags, 200, nil
	case path == "/api/usage":
		return contracts.UsageResponse{Rows: contracts.List[contracts.UsageSum]{{Day: "2026-11-30", Feature: "task", Model: "m", Calls: 3, InputTokens: 30, OutputTokens: 6, USD: 0.25}},
			Total: contracts.UsageTotal{Calls: 3, InputTokens: 30, OutputTokens: 6, USD: 0.25}}, 200, nil
	case path == "/api/doc17/status":
		return contracts.Status{Flags: f.flags, Overlays: 1, Simulated: true, Gates: contracts.List[contracts.Gate]{{Name: "prompt_lab", Reason: "the flag is off"}}}, 200, nil
	case strings.HasPrefix(path, "/api/prompt-lab/"):
		return f.labRoutes(r, parts[1:], raw)
	}
	return nil, 0, fault.New(fault.NotFound, "not_found", "there is nothing at this address")
}

func (f *fakeAPI) overlayRoutes(w http.ResponseWriter, r *http.Request, parts []string, raw []byte) (any, int, error) {
	switch {
	case r.Method == http.MethodGet && (len(parts) == 0 || parts[0] == "search"):
		var list contracts.OverlayListResponse
		for id, o := range f.overlays {
			if strings.Contains(id, r.URL.Query().Get("query")) && (r.URL.Query().Get("visibility_tier") == "" || r.URL.Query().Get("visibility_tier") == string(o.Frontmatter.VisibilityTier)) {
				list.Items = append(list.Items, contracts.OverlayIndexEntry{OverlayID: o.Frontmatter.ID, Title: o.Frontmatter.Title, Category: o.Frontmatter.Category, Preset: o.Frontmatter.Preset, Archived: f.archived[id]})
			}
		}
		list.Total = len(list.Items)
		return list, 200, nil
	case r.Method == http.MethodPost && len(parts) == 0:
		o, err := contracts.Decode[contracts.OverlayTemplateRecord](raw, contracts.Client)
		if err != nil {
			return nil, 0, err
		}
		id := string(o.Frontmatter.ID)
		if _, ok := f.overlays[id]; ok {
			return nil, 0, fault.New(fault.Conflict, "already_exists", "there is an overlay %q already", id)
		}
		f.overlays[id] = o
		return contracts.OverlayDetail{Record: o, Warnings: contracts.List[contracts.Warning]{{Code: "long", Message: "it is long"}}}, 201, nil
	}
	id := parts[0]
	o, ok := f.overlays[id]
	if !ok {
		return nil, 0, fault.New(fault.NotFound, "not_found", "there is no overlay %q", id)
	}
	etag := `"` + contracts.Hash(o.Body)[:8] + `"`
	if m := r.Header.Get("If-Match"); r.Method != http.MethodGet && (m != etag || id == "raced") {
		return nil, 0, fault.New(fault.PreconditionFailed, "precondition_failed", "the overlay has changed")
	}
	if r.Method == http.MethodPut {
		var err error
		if o, err = contracts.Decode[contracts.OverlayTemplateRecord](raw, contracts.Client); err != nil {
			return nil, 0, err
		}
		f.overlays[id] = o
	}
	if len(parts) > 1 {
		f.archived[id] = parts[1] == "archive"
	}
	w.Header().Set("ETag", etag)
	return contracts.OverlayDetail{Record: o}, 200, nil
}

func (f *fakeAPI) labRoutes(r *http.Request, parts []string, raw []byte) (any, int, error) {
	switch {
	case parts[0] == "datasets" && r.Method == http.MethodPost:
		d, err := contracts.Decode[contracts.Dataset](raw, contracts.Client)
		if err != nil {
			return nil, 0, err
		}
		d.Version, d.DatasetRef = 1, "ds:"+d.Name+"@1"
		f.datasets = append(f.datasets, d)
		return contracts.DatasetSummary{Name: d.Name, Version: 1, DatasetRef: d.DatasetRef, Rows: len(d.Rows), Distinct: len(d.Rows),
			Warnings: contracts.List[contracts.Warning]{{Code: "few", Message: "28 distinct examples are needed for a label"}}}, 201, nil
	case parts[0] == "datasets" && len(parts) == 1:
		var list contracts.DatasetList
		for _, d := range f.datasets {
			list.Items = append(list.Items, contracts.DatasetSummary{Name: d.Name, DatasetRef: d.DatasetRef, Rows: len(d.Rows)})
		}
		return list, 200, nil
	case parts[0] == "datasets":
		for _, d := range f.datasets {
			if d.DatasetRef == parts[1] {
				return d, 200, nil
			}
		}
	case parts[0] == "candidates" && len(parts) == 1:
		return contracts.PromptCandidateList{Items: contracts.List[contracts.PromptCandidate]{candidate()}, Total: 1}, 200, nil
	case parts[0] == "candidates" && parts[1] == candidateID:
		return contracts.PromptCandidateDetail{Candidate: candidate(), SourceText: sourceText}, 200, nil
	case parts[0] == "jobs" && r.Method == http.MethodPost && len(parts) == 1:
		if !f.flags.PromptLab {
			return nil, 0, fault.New(fault.Gate, "gate_closed", "the flag prompt_lab is off; turn it on with: promptlab flags set prompt_lab on")
		}
		j, err := contracts.Decode[contracts.PromptLabJob](raw, contracts.Client)
		if err != nil {
			return nil, 0, err
		}
		j.JobID, j.Status, f.looks = jobID, contracts.JobQueued, 0
		f.jobs = append(f.jobs, j)
		return f.job(j), 201, nil
	case parts[0] == "jobs" && len(parts) == 1:
		var list contracts.PromptLabJobList
		for _, j := range f.jobs {
			list.Items = append(list.Items, f.job(j))
		}
		return list, 200, nil
	case parts[0] == "jobs" && len(f.jobs) > 0 && parts[1] == jobID:
		f.looks++
		j := f.job(f.jobs[len(f.jobs)-1])
		if len(parts) == 3 {
			j.Status = contracts.JobCancelled
		}
		return j, 200, nil
	}
	return nil, 0, fault.New(fault.NotFound, "not_found", "there is no %s %q", strings.TrimSuffix(parts[0], "s"), parts[len(parts)-1])
}

// job gives the job as it is after so many looks; a goal of "fail" makes it fail.
func (f *fakeAPI) job(j contracts.PromptLabJob) contracts.PromptLabJob {
	d := &contracts.JobDetail{ArtifactTitle: "Guided Verification", Attempts: 1, Simulated: true,
		Split: contracts.SplitInfo{Dev: 48, Holdout: 30, Distinct: 78}, Phase: contracts.PhaseOptimizing}
	j.Detail = d
	switch {
	case f.looks == 0:
	case f.looks == 1:
		j.Status = contracts.JobRunning
	case j.Options != nil && j.Options.OptimizationGoal == "fail":
		j.Status, d.FailureCode, d.FailureMessage = contracts.JobFailed, "temporary_backend_error", "the optimizer crashed"
	default:
		j.Status, d.Phase, d.EndedBy = contracts.JobCompleted, "", contracts.EndedBySteps
		d.Optimizer = &contracts.OptimizerInfo{Name: "promptolution", Version: "2.3.0", Python: "3.11.7", Engine: "capo", Steps: 4}
		d.Usage = contracts.List[contracts.RoleUsage]{{Role: "meta", Calls: 8, InputTokens: 800, OutputTokens: 80}, {Role: "task", Calls: 200, InputTokens: 9000, OutputTokens: 900}}
		d.CandidateIDs = contracts.List[contracts.UUID]{candidateID}
	}
	return j
}

func candidate() contracts.PromptCandidate {
	return contracts.PromptCandidate{
		CandidateID: candidateID, ArtifactKind: contracts.KindOverlay, ArtifactID: "guided-verification", CandidateText: betterText,
		EvidenceLabel: contracts.LabelEstablished, SourceJobID: jobID, CandidateHash: contracts.Hash(betterText), State: contracts.CandidatePending,
		Reviewable: true, Simulated: true, DeltaSummary: contracts.List[string]{"adds 1 line\x1b[2J"},
		Gates:        contracts.List[contracts.GateFinding]{{Rule: "length_growth", Severity: "note", Message: "1.2 times as long"}},
		Evidence:     &contracts.EvidenceBlock{N: 30, MeanArm: 0.75, MeanAgainst: 0.35, Difference: 0.4, LowerBound: 0.31, UpperBound: 0.49, Verdict: "improves", Wins: 25, Losses: 2},
		LabelReasons: contracts.List[string]{"lower bound above 0 on 30 pairs"},
	}
}

// stream sends two steps of progress and the end of the job, each when the job has
// been looked at so often that it fits.
func (f *fakeAPI) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	best := 0.61
	send := func(e contracts.LiveEvent) {
		b, _ := json.Marshal(e)
		_, _ = fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", e.Seq, e.Type, b)
		_ = rc.Flush()
	}
	_, _ = fmt.Fprint(w, ": hello\n\ndata: {\"seq\":\n\n") // a comment and something unreadable
	send(contracts.LiveEvent{Seq: 1, Type: "job.progress", JobID: "someone-elses", Progress: &contracts.TaskProgress{Phase: contracts.PhaseOptimizing}})
	send(contracts.LiveEvent{Seq: 1, Type: "job.progress", JobID: jobID, Progress: &contracts.TaskProgress{Phase: contracts.PhaseOptimizing, Step: 2, Steps: 4, Best: &best, Calls: 77}})
	send(contracts.LiveEvent{Seq: 2, Type: "job.changed", JobID: jobID, Status: "running"})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for seq := uint64(3); ; seq++ {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
			send(contracts.LiveEvent{Seq: seq, Type: "job.changed", JobID: jobID, Status: "running"})
		}
	}
}
