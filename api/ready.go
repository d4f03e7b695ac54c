package api

import (
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
)

// ready is what the answers of one route have in common, made once: what is
// asked for with every turn should not make it each time.
type ready struct {
	lines    []byte       // headers of every answer, as they stand on the wire
	log      *slog.Logger // knows method, route and role
	ok, held prometheus.Counter
	took     prometheus.Observer
}

func (s *Server) readyFor(o op) *ready {
	count := func(status int) prometheus.Counter {
		return s.meters.requests.WithLabelValues(o.path, o.method, classOf(status))
	}
	return &ready{
		lines: headLines(areaOf(o.path)),
		log:   s.cfg.Log.With(slog.String("method", o.method), slog.String("route", o.path), slog.String("role", string(o.only))),
		ok:    count(http.StatusOK), held: count(http.StatusNotModified),
		took: s.meters.duration.WithLabelValues(o.path),
	}
}

// counter gives that of a status, nil for one that is not made once.
func (r *ready) counter(status int) prometheus.Counter {
	switch {
	case r != nil && status == http.StatusOK:
		return r.ok
	case r != nil && status == http.StatusNotModified:
		return r.held
	default:
		return nil
	}
}
