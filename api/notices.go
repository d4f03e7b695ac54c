package api

import (
	"context"
	"net/http"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
)

func (s *Server) noticeRoutes() {
	add(s, op{id: "list-notices", method: http.MethodGet, path: "/api/notices", summary: "What a person should read once and has not put away yet"}, s.notices)
	add(s, op{id: "dismiss-notice", method: http.MethodPost, path: "/api/notices/{notice_id}/dismiss", summary: "Put a notice away for good; the answer lists what is left", empty: true}, s.dismiss)
}

func (s *Server) notices(context.Context, call[none]) (reply[contracts.NoticeList], error) {
	return reply[contracts.NoticeList]{body: s.cfg.Service.View().Notices()}, nil
}

func (s *Server) dismiss(ctx context.Context, c call[none]) (reply[contracts.NoticeList], error) {
	id := c.path("notice_id")
	if _, err := s.cfg.Service.Do(ctx, c.command(ec.DismissNotice{ID: id}, id)); err != nil {
		return reply[contracts.NoticeList]{}, err
	}
	return s.notices(ctx, c)
}
