package api

import (
	"context"
	"net/http"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/fault"
)

func (s *Server) overlayRoutes() {
	filters := append([]param{
		{name: "query", kind: paramString, max: 500, about: "Words that must all occur."},
		{name: "category", kind: paramString, enum: enumOf[contracts.OverlayCategory]()},
		{name: "visibility_tier", kind: paramString, enum: enumOf[contracts.OverlayVisibilityTier]()},
		{name: "artifact_class", kind: paramString, enum: enumOf[contracts.OverlayArtifactClass]()},
		{name: "include_archived", kind: paramBool, deflt: "false"},
	}, paging()...)
	const one = "/api/overlays/{overlay_id}"
	both := []param{{name: "declare_reciprocal", kind: paramBool, deflt: "false", about: "Write the other side of its hard conflicts too, or nothing at all."}}
	add(s, op{id: "list-overlays", method: http.MethodGet, path: "/api/overlays", summary: "List the library", query: filters}, s.overlays)
	add(s, op{id: "search-overlays", method: http.MethodGet, path: "/api/overlays/search", summary: "Search the library", query: filters}, s.overlays)
	add(s, op{id: "get-overlay", method: http.MethodGet, path: one, summary: "Read one overlay", etag: true}, s.overlay)
	add(s, op{id: "create-overlay", method: http.MethodPost, path: "/api/overlays", summary: "Save a new overlay", query: both, success: http.StatusCreated, etag: true, match: true}, s.createOverlay)
	add(s, op{id: "save-overlay-bundle", method: http.MethodPost, path: "/api/overlay-bundles", summary: "Save several overlays as one library, all of them or none", success: http.StatusCreated, limit: largeBody}, s.saveBundle)
	add(s, op{id: "update-overlay", method: http.MethodPut, path: one, summary: "Replace an overlay's text and header", query: both, etag: true, match: true}, s.updateOverlay)
	add(s, op{id: "archive-overlay", method: http.MethodPost, path: one + "/archive", summary: "Take an overlay out of use", empty: true, etag: true, match: true}, s.archiveOverlay)
	add(s, op{id: "restore-overlay", method: http.MethodPost, path: one + "/restore", summary: "Bring an archived overlay back", empty: true, etag: true, match: true}, s.restoreOverlay)
	add(s, op{id: "install-presets", method: http.MethodPost, path: "/api/presets/install", summary: "Install or upgrade the preset pack", empty: true}, s.installPresets)
}

func (s *Server) overlays(_ context.Context, c call[none]) (reply[contracts.OverlayListResponse], error) {
	list := s.cfg.Service.View().Overlays(ec.OverlayFilter{
		Query:           c.query.str("query"),
		Category:        contracts.OverlayCategory(c.query.str("category")),
		Tier:            contracts.OverlayVisibilityTier(c.query.str("visibility_tier")),
		Class:           contracts.OverlayArtifactClass(c.query.str("artifact_class")),
		IncludeArchived: c.query.flag("include_archived"),
		Limit:           int(c.query.number("limit")),  //nolint:gosec // bounded
		Offset:          int(c.query.number("offset")), //nolint:gosec // bounded
	})
	return reply[contracts.OverlayListResponse]{body: list}, nil
}

func (s *Server) overlay(_ context.Context, c call[none]) (reply[contracts.OverlayDetail], error) {
	return s.showOverlay(c.path("overlay_id"))
}

func (s *Server) showOverlay(id string) (reply[contracts.OverlayDetail], error) {
	view := s.cfg.Service.View()
	detail, hash, err := view.Overlay(contracts.OverlayID(id))
	if err == nil {
		detail.Warnings = view.Warnings(contracts.OverlayID(id))
	}
	return reply[contracts.OverlayDetail]{body: detail, etag: hash}, err
}

func (s *Server) createOverlay(ctx context.Context, c call[contracts.OverlayTemplateRecord]) (reply[contracts.OverlayDetail], error) {
	if c.ifMatch != "" {
		return reply[contracts.OverlayDetail]{}, fault.New(fault.PreconditionFailed, "precondition_failed", "what is to be made has no version yet")
	}
	return s.changeOverlay(ctx, c.command(ec.CreateOverlay{Record: c.body, DeclareReciprocal: c.query.flag("declare_reciprocal")}, ""))
}

func (s *Server) updateOverlay(ctx context.Context, c call[contracts.OverlayTemplateRecord]) (reply[contracts.OverlayDetail], error) {
	id := c.path("overlay_id")
	return s.changeOverlay(ctx, c.command(ec.UpdateOverlay{
		OverlayID: contracts.OverlayID(id), Record: c.body, IfMatch: c.ifMatch, DeclareReciprocal: c.query.flag("declare_reciprocal"),
	}, id))
}

func (s *Server) archiveOverlay(ctx context.Context, c call[none]) (reply[contracts.OverlayDetail], error) {
	id := c.path("overlay_id")
	return s.changeOverlay(ctx, c.command(ec.ArchiveOverlay{OverlayID: contracts.OverlayID(id), IfMatch: c.ifMatch}, id))
}

func (s *Server) restoreOverlay(ctx context.Context, c call[none]) (reply[contracts.OverlayDetail], error) {
	id := c.path("overlay_id")
	return s.changeOverlay(ctx, c.command(ec.RestoreOverlay{OverlayID: contracts.OverlayID(id), IfMatch: c.ifMatch}, id))
}

func (s *Server) saveBundle(ctx context.Context, c call[contracts.OverlayBundleRequest]) (reply[contracts.OverlayBundleResponse], error) {
	if _, err := s.cfg.Service.Do(ctx, c.command(ec.SaveBundle{Items: c.body.Items}, "")); err != nil {
		return reply[contracts.OverlayBundleResponse]{}, err
	}
	ids := make([]contracts.OverlayID, 0, len(c.body.Items))
	for _, item := range c.body.Items {
		ids = append(ids, item.Record.Frontmatter.ID)
	}
	return reply[contracts.OverlayBundleResponse]{body: contracts.OverlayBundleResponse{Items: s.cfg.Service.View().OverlaysOf(ids)}}, nil
}

// changeOverlay carries a command out and shows the overlay after it.
func (s *Server) changeOverlay(ctx context.Context, cmd ec.Command) (reply[contracts.OverlayDetail], error) {
	receipt, err := s.cfg.Service.Do(ctx, cmd)
	if err != nil {
		return reply[contracts.OverlayDetail]{}, err
	}
	return s.showOverlay(receipt.Subject)
}

func (s *Server) installPresets(ctx context.Context, c call[none]) (reply[contracts.PresetInstallResponse], error) {
	var out reply[contracts.PresetInstallResponse]
	pack, err := s.cfg.Presets()
	if err != nil {
		return out, err
	}
	receipt, err := s.cfg.Service.Do(ctx, c.command(ec.InstallPresets{Pack: pack}, pack.ID))
	if err == nil && receipt.Install != nil {
		out.body = *receipt.Install
	}
	return out, err
}
