package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// health answers /healthz and /readyz.
type health struct {
	Status string                     `json:"status"`
	Checks contracts.List[healthLine] `json:"checks"`
	// Warnings are codes of what keeps nobody from working and wants a person, such
	// as a hand edit that was refused; the status says more.
	Warnings contracts.List[string] `json:"warnings"`
}

type healthLine struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
}

func (s *Server) systemRoutes() {
	job := param{name: "job_id", kind: paramString, max: 36, about: "Only this job's calls."}
	add(s, op{id: "get-flags", method: http.MethodGet, path: "/api/flags", summary: "Read the lab's switches"}, s.flags)
	add(s, op{id: "set-flags", method: http.MethodPut, path: "/api/flags", summary: "Set all of the lab's switches; one that is left out is off", only: ec.RoleOperator}, s.setFlags)
	add(s, op{id: "get-status", method: http.MethodGet, path: "/api/doc17/status", summary: "How things are: flags, gates, warnings"}, s.status)
	add(s, op{id: "get-usage", method: http.MethodGet, path: "/api/usage", summary: "Model calls, tokens and money", query: []param{
		job, {name: "feature", enum: contracts.RoleMeta.Values()}, {name: "model", max: 200},
		{name: "since", max: 10, about: "A day; earlier ones are left out."}, {name: "until", max: 10, about: "A day; later ones are left out."},
		{name: "by", max: 40, about: "What is summed by: some of day, feature, model, job, with commas between them; without it all four."},
	}}, s.usage)
	add(s, op{id: "healthz", method: http.MethodGet, path: "/healthz", summary: "Alive", public: true}, s.healthz)
	add(s, op{id: "readyz", method: http.MethodGet, path: "/readyz", summary: "Ready for work", public: true}, s.readyz)
	s.eventRoutes()
	s.loginRoutes()
	s.docsRoutes()

	metrics := promhttp.HandlerFor(s.cfg.Metrics, promhttp.HandlerOpts{})
	s.register(op{id: "metrics", method: http.MethodGet, path: "/metrics", summary: "Metrics for Prometheus", only: ec.RoleOperator, media: "text/plain"},
		func(w http.ResponseWriter, r *http.Request, _ values) error { metrics.ServeHTTP(w, r); return nil })
	s.register(op{id: "openapi", method: http.MethodGet, path: "/openapi.json", summary: "This document"},
		func(w http.ResponseWriter, _ *http.Request, _ values) error {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(s.spec) // the reader may be gone
			return nil
		})
}

func (s *Server) flags(context.Context, call[none]) (reply[contracts.Flags], error) {
	return reply[contracts.Flags]{body: s.cfg.Service.View().Flags()}, nil
}

func (s *Server) setFlags(ctx context.Context, c call[contracts.Flags]) (reply[contracts.Flags], error) {
	if _, err := s.cfg.Service.Do(ctx, c.command(ec.SetFlags{Flags: c.body}, "")); err != nil {
		return reply[contracts.Flags]{}, err
	}
	return reply[contracts.Flags]{body: s.cfg.Service.View().Flags()}, nil
}

// statusNow adds to the domain's answer what only this process knows.
func (s *Server) statusNow() contracts.Status {
	st := s.cfg.Service.View().Status()
	st.Simulated = s.cfg.Simulated
	st.Gates = s.gates(st.Gates, st.Flags)
	return st
}

func (s *Server) status(ctx context.Context, _ call[none]) (reply[contracts.Status], error) {
	st := s.statusNow()
	for _, c := range s.checks(ctx) {
		if !c.OK {
			st.Warnings = append(st.Warnings, contracts.Warning{Code: "not_ready", Subject: c.Name, Message: c.Detail})
		}
	}
	return reply[contracts.Status]{body: st}, nil
}

func (s *Server) usage(_ context.Context, c call[none]) (reply[contracts.UsageResponse], error) {
	f := ec.UsageFilter{
		Job: uuidOf(c.query.str("job_id")), Feature: contracts.ModelRole(c.query.str("feature")), Model: c.query.str("model"),
		Since: c.query.str("since"), Until: c.query.str("until"),
	}
	var details []fault.Detail
	for _, name := range []string{"since", "until"} {
		if day := c.query.str(name); day != "" {
			if _, err := time.Parse(time.DateOnly, day); err != nil {
				details = append(details, fault.Detail{Field: name, Rule: "date", Message: "must be a day such as 2026-01-31"})
			}
		}
	}
	for by := range strings.SplitSeq(c.query.str("by"), ",") {
		if by != "" && !slices.Contains(ec.UsageBys(), by) {
			details = append(details, fault.Detail{Field: "by", Rule: "enum", Message: "must be some of " + strings.Join(ec.UsageBys(), ", ") + ", with commas between them"})
			break
		}
		if by != "" {
			f.By = append(f.By, ec.UsageBy(by))
		}
	}
	if details != nil {
		return reply[contracts.UsageResponse]{}, badRequest(details)
	}
	return reply[contracts.UsageResponse]{body: s.cfg.Service.View().Usage(f)}, nil
}

func (s *Server) healthz(context.Context, call[none]) (reply[health], error) {
	return reply[health]{body: health{Status: "ok"}}, nil
}

// readyz tells anybody who asks no more than names.
func (s *Server) readyz(ctx context.Context, _ call[none]) (reply[health], error) {
	out := health{Status: "ready"}
	var missing []fault.Detail
	for _, c := range s.checks(ctx) {
		out.Checks = append(out.Checks, healthLine{c.Name, c.OK})
		if !c.OK {
			missing = append(missing, fault.Detail{Field: c.Name, Rule: "not_ready", Message: "is not ready"})
		}
	}
	for _, w := range s.cfg.Service.View().Status().Warnings {
		if !slices.Contains(out.Warnings, w.Code) {
			out.Warnings = append(out.Warnings, w.Code)
		}
	}
	if len(missing) > 0 {
		return reply[health]{}, fault.New(fault.Unavailable, "not_ready", "not everything is ready").With(missing...)
	}
	return reply[health]{body: out}, nil
}

func (s *Server) checks(ctx context.Context) []Check {
	if s.cfg.Ready == nil {
		return nil
	}
	return s.cfg.Ready(ctx)
}
