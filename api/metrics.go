package api

import (
	"fmt"
	"strconv"
	"time"

	"github.com/elnor/promptlab/internal/fault"
	"github.com/prometheus/client_golang/prometheus"
)

// meters are the package's metrics. Every label has a fixed set of values.
type meters struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	denials  *prometheus.CounterVec
	streams  prometheus.Gauge
}

func newMeters(reg prometheus.Registerer) (meters, error) {
	m := meters{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "promptlab_http_requests_total", Help: "Requests by route template, method and class of status."},
			[]string{"route", "method", "class"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "promptlab_http_request_duration_seconds", Help: "Time to answer by route template, streams included.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}},
			[]string{"route"}),
		denials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "promptlab_http_denials_total", Help: "Requests refused by a security check, by reason."},
			[]string{"reason"}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "promptlab_http_streams", Help: "Open event streams."}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.duration, m.denials, m.streams} {
		if err := reg.Register(c); err != nil {
			return meters{}, fmt.Errorf("register api metrics: %w", err)
		}
	}
	return m, nil
}

func (m meters) request(x *exchange, took time.Duration) {
	if counter := x.ready.counter(x.status); counter != nil {
		counter.Inc()
		x.ready.took.Observe(took.Seconds())
	} else {
		m.requests.WithLabelValues(x.route, x.method, classOf(x.status)).Inc()
		m.duration.WithLabelValues(x.route).Observe(took.Seconds())
	}
	if x.denied != "" {
		m.denials.WithLabelValues(x.denied).Inc()
	}
}

func classOf(status int) string { return strconv.Itoa(status/100) + "xx" }

// Reasons of denials besides the wall's own.
const (
	denyPath       = "path"
	denyTokenInURL = "token_in_url"
	denyNoToken    = "no_credentials"
	denyBadToken   = "bad_credentials"
	denyRole       = "wrong_role"
	denyMedia      = "content_type"
	denySize       = "too_large"
)

// denialOf finds the reason of a refusal that was not the wall's.
func denialOf(err error) string {
	if err == nil {
		return ""
	}
	switch fault.Of(err) {
	case fault.Unauthenticated:
		return denyBadToken
	case fault.Forbidden:
		return denyRole
	case fault.UnsupportedMedia:
		return denyMedia
	case fault.TooLarge:
		return denySize
	default:
		return ""
	}
}
