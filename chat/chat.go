package chat

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/semaphore"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/internal/wall"
)

// Seam is where packets come from. While EC is away its methods give faults of
// kind Unavailable.
type Seam interface {
	Notices(ctx context.Context, after uint64) (contracts.EventList, error)
	Packet(ctx context.Context, q PacketQuery) (contracts.OverlayPromptPacket, error)
	Plan(ctx context.Context, id contracts.UUID) (contracts.OverlayReanswerPlan, error)
	SessionOf(ctx context.Context, sha256Hex string) (contracts.SessionAPIKeyOwner, error)
	Room(ctx context.Context, key contracts.OverlaySessionKey) (contracts.RoomState, error)
}

// Ledger is where receipts, reports and bills go.
type Ledger interface {
	Report(ctx context.Context, e contracts.OverlaySessionEvent) error
	Truth(ctx context.Context, t contracts.OverlayRuntimeTruthSummary) error
	Usage(ctx context.Context, rows []contracts.UsageRow) error
}

// PacketQuery says which packet a turn needs.
type PacketQuery struct {
	Session  contracts.OverlaySessionKey
	TurnID   string
	Revision *int                               // that is held
	PlanID   contracts.UUID                     // of a re-answer
	Override *contracts.OverlayDispatchOverride // of this turn alone
}

// Models makes calls to models.
type Models interface {
	Do(ctx context.Context, req gateway.Request, budget gateway.Budget) (gateway.Response, error)
	Stream(ctx context.Context, req gateway.Request, budget gateway.Budget, emit func(gateway.Event) error) (gateway.Response, error)
	Targets(role gateway.Role) []gateway.Target
}

// Config is what a Server needs.
type Config struct {
	Seam   Seam
	Ledger Ledger
	Models Models
	Rows   *Rows // the same that the gateway writes to

	// Refresh asks EC, with each heartbeat that it answers, for what else this side
	// has to know; nil: nothing.
	Refresh func(ctx context.Context) error

	UserToken [sha256.Size]byte                    // SHA-256 of the user's token
	Others    map[string][sha256.Size]byte         // of roles that have no business here, by name
	Hosts     []string                             // allowed Host values
	TLS       bool                                 // the listener speaks TLS
	Ready     func(context.Context) (string, bool) // may be nil

	Metrics *prometheus.Registry
	Log     *slog.Logger
	Now     func() time.Time
	NewID   func() string // UUID version 7

	SeamTimeout time.Duration // 0: 2 s; how long a turn waits for EC before it goes on without
}

const (
	defaultSeamTimeout = 2 * time.Second
	maxBody            = 32 << 20
	maxTurns           = 512       // at a time
	maxBytes           = 512 << 20 // of the bodies of those turns
)

// Server answers HTTP. Hand Handler to life.HTTP and run Run beside it.
type Server struct {
	cfg     Config
	wall    *wall.Wall
	packets *packets
	outbox  *outbox
	keys    *keys
	turns   *semaphore.Weighted
	bytes   *semaphore.Weighted
	meters  meters
}

// New makes a server. Something missing in the configuration is an error.
func New(cfg Config) (*Server, error) {
	switch {
	case cfg.Seam == nil, cfg.Ledger == nil, cfg.Models == nil, cfg.Rows == nil:
		return nil, errors.New("chat needs Seam, Ledger, Models and Rows")
	case len(cfg.Hosts) == 0, cfg.UserToken == [sha256.Size]byte{}:
		return nil, errors.New("chat needs Hosts and UserToken")
	case cfg.Log == nil, cfg.Now == nil, cfg.NewID == nil, cfg.Metrics == nil:
		return nil, errors.New("chat needs Log, Now, NewID and Metrics")
	}
	if cfg.SeamTimeout == 0 {
		cfg.SeamTimeout = defaultSeamTimeout
	}
	m, err := newMeters(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	return &Server{
		cfg: cfg, wall: wall.New(cfg.Hosts, cfg.TLS), meters: m, turns: semaphore.NewWeighted(maxTurns), bytes: semaphore.NewWeighted(maxBytes),
		packets: newPackets(cfg.Seam, cfg.SeamTimeout, m),
		outbox:  newOutbox(cfg.Ledger, cfg.Rows, cfg.SeamTimeout, cfg.Log, m),
		keys:    newKeys(cfg),
	}, nil
}

// Run delivers what waits for EC and lets it know that this side is there. It
// ends with ctx, after a last try to deliver: turns that were cut off are given a
// moment to hand over what they have to tell.
func (s *Server) Run(ctx context.Context) error {
	until, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() {
		soon, cancel := context.WithTimeout(until, lastTry)
		defer cancel()
		if s.turns.Acquire(soon, maxTurns) == nil {
			s.turns.Release(maxTurns)
		}
		end()
	})()
	return s.outbox.run(until, s.beat)
}

// beat is a sign of life to EC, and hears its news.
func (s *Server) beat(ctx context.Context) error {
	if err := s.packets.sync(ctx); err != nil || s.cfg.Refresh == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.SeamTimeout)
	defer cancel()
	if err := s.cfg.Refresh(ctx); err != nil {
		s.cfg.Log.WarnContext(ctx, "what ec says about models not heard", "error", err)
	}
	return nil
}

// Heard is closed when EC has answered for the first time since Run began.
func (s *Server) Heard() <-chan struct{} { return s.outbox.heard }

// Handler gives the whole endpoint behind its wall.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.asking("/v1/chat/completions", completions{}))
	mux.HandleFunc("POST /v1/responses", s.asking("/v1/responses", responses{}))
	mux.HandleFunc("POST /v1/messages", s.asking("/v1/messages", messages{}))
	mux.HandleFunc("GET /v1/models", s.guarded("/v1/models", s.models))
	mux.HandleFunc("GET /v1/models/{id...}", s.guarded("/v1/models/{id}", s.model))
	exported := promhttp.HandlerFor(s.cfg.Metrics, promhttp.HandlerOpts{})
	mux.HandleFunc("GET /metrics", s.handle("/metrics", nil, func(x *exchange) error {
		exported.ServeHTTP(x, x.r)
		return nil
	}, s.operator))
	mux.HandleFunc("GET /healthz", s.open("/healthz", s.health))
	mux.HandleFunc("GET /readyz", s.open("/readyz", s.ready))
	mux.HandleFunc("/", s.guarded("unmatched", func(*exchange) error {
		return &apiError{status: http.StatusNotFound, kind: kindRequest, code: "unknown_url", message: "there is nothing at this address; chat completions are at /v1/chat/completions"}
	}))
	unclean := s.open("unmatched", func(*exchange) error {
		return &apiError{status: http.StatusBadRequest, kind: kindRequest, code: "bad_request", message: "the path is not in its plain form"}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !wall.CleanPath(r.URL) { // the mux would redirect
			unclean(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}
