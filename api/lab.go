package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
)

func (s *Server) labRoutes() {
	const (
		datasets   = "/api/prompt-lab/datasets"
		jobs       = "/api/prompt-lab/jobs"
		candidates = "/api/prompt-lab/candidates"
	)
	artifact := param{name: "artifact_id", kind: paramString, max: 200}
	jobQuery := append([]param{{name: "status", kind: paramString, enum: enumOf[contracts.PromptLabJobStatus]()}, artifact}, paging()...)
	candidateQuery := append([]param{
		{name: "job_id", kind: paramString, max: 36},
		artifact,
		{name: "state", kind: paramString, enum: enumOf[contracts.CandidateState]()},
	}, paging()...)

	add(s, op{id: "create-dataset", method: http.MethodPost, path: datasets, summary: "Save a version of a dataset", success: http.StatusCreated, limit: largeBody}, s.createDataset)
	add(s, op{id: "list-datasets", method: http.MethodGet, path: datasets, summary: "List dataset versions"}, s.datasets)
	add(s, op{id: "get-dataset", method: http.MethodGet, path: datasets + "/{dataset_ref}", summary: "Read one dataset version with its rows"}, s.dataset)
	add(s, op{id: "create-job", method: http.MethodPost, path: jobs, summary: "Search for a better text of a saved artifact", success: http.StatusCreated}, s.createJob)
	add(s, op{id: "list-jobs", method: http.MethodGet, path: jobs, summary: "List jobs, newest first", query: jobQuery}, s.jobs)
	add(s, op{id: "get-job", method: http.MethodGet, path: jobs + "/{job_id}", summary: "Read one job"}, s.job)
	add(s, op{id: "cancel-job", method: http.MethodPost, path: jobs + "/{job_id}/cancel", summary: "End a job", empty: true}, s.cancelJob)
	add(s, op{id: "list-candidates", method: http.MethodGet, path: candidates, summary: "List candidates, newest first", query: candidateQuery}, s.candidates)
	add(s, op{id: "get-candidate", method: http.MethodGet, path: candidates + "/{candidate_id}", summary: "Read one candidate beside its source"}, s.candidate)
}

func (s *Server) createDataset(ctx context.Context, c call[contracts.Dataset]) (reply[contracts.DatasetSummary], error) {
	receipt, err := s.cfg.Service.Do(ctx, c.command(ec.CreateDataset{Dataset: c.body}, ""))
	if err != nil {
		return reply[contracts.DatasetSummary]{}, err
	}
	summary, err := s.cfg.Service.View().DatasetSummary(receipt.Subject)
	return reply[contracts.DatasetSummary]{body: summary}, err
}

func (s *Server) datasets(context.Context, call[none]) (reply[contracts.DatasetList], error) {
	return reply[contracts.DatasetList]{body: s.cfg.Service.View().Datasets()}, nil
}

func (s *Server) dataset(_ context.Context, c call[none]) (reply[contracts.Dataset], error) {
	d, err := s.cfg.Service.View().Dataset(c.path("dataset_ref"))
	return reply[contracts.Dataset]{body: d}, err
}

func (s *Server) createJob(ctx context.Context, c call[contracts.PromptLabJob]) (reply[contracts.PromptLabJob], error) {
	return s.changeJob(ctx, c.command(ec.CreateJob{Job: c.body}, ""))
}

func (s *Server) cancelJob(ctx context.Context, c call[none]) (reply[contracts.PromptLabJob], error) {
	id := uuidOf(c.path("job_id"))
	return s.changeJob(ctx, c.command(ec.CancelJob{JobID: id}, string(id)))
}

// changeJob carries a command out and shows the job after it.
func (s *Server) changeJob(ctx context.Context, cmd ec.Command) (reply[contracts.PromptLabJob], error) {
	receipt, err := s.cfg.Service.Do(ctx, cmd)
	if err != nil {
		return reply[contracts.PromptLabJob]{}, err
	}
	job, err := s.cfg.Service.View().Job(contracts.UUID(receipt.Subject))
	return reply[contracts.PromptLabJob]{body: job}, err
}

func (s *Server) jobs(_ context.Context, c call[none]) (reply[contracts.PromptLabJobList], error) {
	list := s.cfg.Service.View().Jobs(ec.JobFilter{
		Status:     contracts.PromptLabJobStatus(c.query.str("status")),
		ArtifactID: c.query.str("artifact_id"),
		Limit:      int(c.query.number("limit")),  //nolint:gosec // bounded
		Offset:     int(c.query.number("offset")), //nolint:gosec // bounded
	})
	return reply[contracts.PromptLabJobList]{body: list}, nil
}

func (s *Server) job(_ context.Context, c call[none]) (reply[contracts.PromptLabJob], error) {
	job, err := s.cfg.Service.View().Job(uuidOf(c.path("job_id")))
	return reply[contracts.PromptLabJob]{body: job}, err
}

func (s *Server) candidates(_ context.Context, c call[none]) (reply[contracts.PromptCandidateList], error) {
	list := s.cfg.Service.View().Candidates(ec.CandidateFilter{
		JobID:      uuidOf(c.query.str("job_id")),
		ArtifactID: c.query.str("artifact_id"),
		State:      contracts.CandidateState(c.query.str("state")),
		Limit:      int(c.query.number("limit")),  //nolint:gosec // bounded
		Offset:     int(c.query.number("offset")), //nolint:gosec // bounded
	})
	return reply[contracts.PromptCandidateList]{body: list}, nil
}

func (s *Server) candidate(_ context.Context, c call[none]) (reply[contracts.PromptCandidateDetail], error) {
	detail, err := s.cfg.Service.View().Candidate(uuidOf(c.path("candidate_id")))
	return reply[contracts.PromptCandidateDetail]{body: detail}, err
}

// uuidOf gives the canonical form of an id from an address; a wrong one is
// simply not found.
func uuidOf(s string) contracts.UUID { return contracts.UUID(strings.ToLower(s)) }
