package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/elnor/promptlab/internal/wall"
	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
)

// Feed is the live news, numbered by Seq, which grows, also across restarts.
type Feed interface {
	// After gives the events with a Seq greater than seq that are still kept.
	After(seq uint64) []contracts.LiveEvent
	// Last gives the greatest Seq so far; before the first event, what comes
	// before it.
	Last() uint64
	// Wait returns nil as soon as After(seq) has something, or ctx's error.
	Wait(ctx context.Context, seq uint64) error
}

// Check is one condition of being ready.
type Check struct {
	Name   string // fixed, lower snake case
	OK     bool
	Detail string // for authenticated readers; never prompt text
}

// Config is what the API needs. Door, Dashboard, Console and Ready may be nil.
type Config struct {
	Service ec.Service
	Feed    Feed
	Presets func() (ec.Pack, error) // the pack to install, verified

	Door      http.Handler // answers /internal/worker/...; callers have the role worker
	Dashboard http.Handler // answers /dashboard/...; callers have the role operator
	Console   http.Handler // answers everything else; callers are users or operators

	Tokens map[ec.Role][sha256.Size]byte // SHA-256 of each role's token
	Hosts  []string                      // allowed Host values, the one for links first; see wall.LoopbackHosts
	TLS    bool                          // the listener speaks TLS

	Simulated bool // no model is configured: the simulator answers

	// TruthInside says that a seam in this process will tell what happens to
	// packets; Retrieval that similar cases can be looked up; Evidence that
	// candidates are measured. Each may be nil, which is the same as false.
	TruthInside func() bool
	Retrieval   func() bool
	Evidence    func() bool

	Ready   func(ctx context.Context) []Check
	Metrics *prometheus.Registry
	Log     *slog.Logger
	Version string
	Now     func() time.Time
	NewID   func() string // UUID version 7
}

// Server answers HTTP. It starts nothing; hand Handler to life.HTTP.
type Server struct {
	cfg     Config
	wall    *wall.Wall
	keys    *keyring
	router  *gin.Engine
	doc     huma.API
	schemas schemas
	spec    []byte
	docs    []byte // the document as a page
	meters  meters
	streams chan struct{} // one place each open stream

	packetOp    op // of the packet, which is answered in front of the router too
	packetReady *ready

	seamStreams chan struct{} // likewise, of the seam

	seamSeen atomic.Int64 // when the seam was last here, in Unix nanoseconds
}

// New makes a server. Something missing in the configuration is an error.
func New(cfg Config) (*Server, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	gin.SetMode(gin.ReleaseMode)
	s := &Server{
		cfg:     cfg,
		wall:    wall.New(cfg.Hosts, cfg.TLS),
		keys:    newKeyring(cfg.Tokens, cfg.Hosts[0]),
		router:  newRouter(),
		schemas: schemas{defs: map[string]contracts.Schema{}},
		streams: make(chan struct{}, maxStreams),

		seamStreams: make(chan struct{}, maxNotices),
	}
	var err error
	if s.meters, err = newMeters(cfg.Metrics); err != nil {
		return nil, err
	}
	s.doc = humagin.New(s.router, s.humaConfig())
	s.overlayRoutes()
	s.sessionRoutes()
	s.signalRoutes()
	s.roomRoutes()
	s.sessionKeyRoutes()
	s.seamRoutes()
	s.chatSeamRoutes()
	s.labRoutes()
	s.noticeRoutes()
	s.modelRoutes()
	s.systemRoutes()
	s.maintenanceRoutes()
	s.router.NoRoute(func(c *gin.Context) {
		s.fail(c.Writer, c.Request, fault.New(fault.NotFound, "not_found", "there is nothing at this address"))
	})
	s.router.NoMethod(func(c *gin.Context) {
		s.fail(c.Writer, c.Request, fault.New(fault.MethodNotAllowed, "method_not_allowed", "this address does not take the method; the Allow header says which it takes"))
	})
	if s.spec, err = s.doc.OpenAPI().MarshalJSON(); err != nil {
		return nil, fmt.Errorf("write openapi document: %w", err)
	}
	if s.docs, err = renderDocs(s.spec, cfg.Version); err != nil {
		return nil, err
	}
	return s, nil
}

func newRouter() *gin.Engine {
	r := gin.New()
	r.RedirectTrailingSlash = false
	r.RedirectFixedPath = false
	r.HandleMethodNotAllowed = true
	r.ForwardedByClientIP = false
	if err := r.SetTrustedProxies(nil); err != nil {
		panic(fmt.Sprintf("api: trust no proxies: %v", err)) // nothing to parse
	}
	return r
}

func (c Config) check() error {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New("api needs "+what))
		}
	}
	need(c.Service != nil, "Service")
	need(c.Feed != nil, "Feed")
	need(c.Presets != nil, "Presets")
	need(len(c.Tokens) > 0, "Tokens")
	need(len(c.Hosts) > 0, "Hosts")
	need(c.Metrics != nil, "Metrics")
	need(c.Log != nil, "Log")
	need(c.Now != nil, "Now")
	need(c.NewID != nil, "NewID")
	roles := []ec.Role{ec.RoleUser, ec.RoleOperator, ec.RoleSeam, ec.RoleWorker, ec.RoleAgent}
	for role := range c.Tokens {
		need(slices.Contains(roles, role), "tokens of known roles only, not of "+string(role))
	}
	return errors.Join(errs...)
}

// Handler gives the whole server behind its wall.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// serve is the whole way of a request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	x := s.newExchange(w, r)
	defer func(r *http.Request) { s.finish(x, r, recover()) }(r)
	where := areaOf(r.URL.Path)
	x.route = where.label
	if where.kind == areaSeam && s.packetAtOnce(x, r, where) {
		return
	}
	setHeaders(x.Header(), where)
	r = r.WithContext(x.context(r.Context()))
	if done, err := s.guard(x, r, where); err != nil {
		s.refuse(x, r, where, err)
		return
	} else if done {
		return
	}
	r.Body = http.MaxBytesReader(x, r.Body, where.limit)
	s.dispatch(x, r, where)
}

func (s *Server) dispatch(x *exchange, r *http.Request, where area) {
	var h http.Handler
	switch where.kind {
	case areaDoor:
		h = s.cfg.Door
	case areaDashboard:
		if !reads(r.Method) { // whatever the dashboard itself would let through
			x.Header().Set("Allow", "GET, HEAD")
			s.fail(x, r, fault.New(fault.MethodNotAllowed, "method_not_allowed", "the queue is only shown here; cancel a job with: promptlab jobs cancel"))
			return
		}
		h = withScriptHashes(s.cfg.Dashboard)
	case areaConsole:
		if h = s.cfg.Console; h == nil {
			h = http.HandlerFunc(s.page)
		}
	default:
		h = s.router
	}
	if h == nil {
		s.fail(x, r, fault.New(fault.NotFound, "not_found", "there is nothing at this address"))
		return
	}
	h.ServeHTTP(x, r)
}
