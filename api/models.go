package api

import (
	"context"
	"net/http"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
)

func (s *Server) modelRoutes() {
	const one = "/api/models/{model_name}"
	write := func(id, path, summary string) op {
		return op{id: id, method: http.MethodPost, path: one + path, summary: summary, only: ec.RoleOperator}
	}
	add(s, op{id: "list-models", method: http.MethodGet, path: "/api/models", summary: "The registry: what may answer under which name, and what waits to"}, s.models)
	add(s, op{id: "get-model", method: http.MethodGet, path: one, summary: "Read one model of the registry with its versions"}, s.model)
	add(s, write("activate-model", "/activate", "Use the configured version of a model, on the record of a job that it has answered"), s.activateModel)
	back, end := write("rollback-model", "/rollback", "Use the version before the active one again"), write("deprecate-model", "/deprecate", "Say that a model should not be relied on any more, or take that back")
	back.empty, end.empty = true, true
	add(s, back, s.rollbackModel)
	add(s, end, s.deprecateModel)
	add(s, op{id: "list-active-models", method: http.MethodGet, path: "/internal/doc17/models", summary: "Which version of each model may answer", only: ec.RoleSeam, peer: true}, s.activeModels)
}

func (s *Server) models(context.Context, call[none]) (reply[contracts.ModelList], error) {
	return reply[contracts.ModelList]{body: s.cfg.Service.View().Models()}, nil
}

func (s *Server) model(_ context.Context, c call[none]) (reply[contracts.RegisteredModel], error) {
	m, err := s.cfg.Service.View().Model(c.path("model_name"))
	return reply[contracts.RegisteredModel]{body: m}, err
}

func (s *Server) activeModels(context.Context, call[none]) (reply[contracts.ActiveModels], error) {
	return reply[contracts.ActiveModels]{body: s.cfg.Service.View().ActiveModels()}, nil
}

func (s *Server) activateModel(ctx context.Context, c call[contracts.ModelActivation]) (reply[contracts.RegisteredModel], error) {
	name := c.path("model_name")
	return s.changeModel(ctx, c.command(ec.ActivateModel{Name: name, In: c.body}, name), name)
}

func (s *Server) rollbackModel(ctx context.Context, c call[contracts.ModelRollback]) (reply[contracts.RegisteredModel], error) {
	name := c.path("model_name")
	return s.changeModel(ctx, c.command(ec.RollbackModel{Name: name, In: c.body}, name), name)
}

func (s *Server) deprecateModel(ctx context.Context, c call[contracts.ModelDeprecation]) (reply[contracts.RegisteredModel], error) {
	name := c.path("model_name")
	return s.changeModel(ctx, c.command(ec.DeprecateModel{Name: name, In: c.body}, name), name)
}

// changeModel carries a command out and shows the model after it.
func (s *Server) changeModel(ctx context.Context, cmd ec.Command, name string) (reply[contracts.RegisteredModel], error) {
	if _, err := s.cfg.Service.Do(ctx, cmd); err != nil {
		return reply[contracts.RegisteredModel]{}, err
	}
	m, err := s.cfg.Service.View().Model(name)
	return reply[contracts.RegisteredModel]{body: m}, err
}
