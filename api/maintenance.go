package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/elnor/promptlab/ec"
)

// Pruned says what was forgotten because nobody had used it for long enough.
type Pruned struct {
	Sessions int `json:"sessions"` // with their receipts
	Plans    int `json:"plans"`
}

func (s *Server) maintenanceRoutes() {
	add(s, op{id: "prune-sessions", method: http.MethodPost, path: "/api/maintenance/prune-sessions", only: ec.RoleOperator, empty: true,
		summary: "Forget sessions that nobody has used for two weeks, and re-answer plans that have long expired; pins stay"}, s.pruneSessions)
}

// pruneSessions sends commands until nothing is left to forget: each of them
// removes no more than lets others go on.
func (s *Server) pruneSessions(ctx context.Context, c call[none]) (reply[Pruned], error) {
	before := s.kept()
	for i := 0; ; i++ {
		receipt, err := s.cfg.Service.Do(ctx, c.command(ec.PruneSessions{}, strconv.Itoa(i)))
		if err != nil {
			return reply[Pruned]{}, err
		}
		if !receipt.Changed {
			break
		}
	}
	now := s.kept()
	return reply[Pruned]{body: Pruned{max(0, before.Sessions-now.Sessions), max(0, before.Plans-now.Plans)}}, nil
}

func (s *Server) kept() Pruned {
	sessions, plans := s.cfg.Service.View().Kept()
	return Pruned{sessions, plans}
}
