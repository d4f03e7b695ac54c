package chat

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// meters count; labels come from fixed sets, never from a request.
type meters struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	packets  *prometheus.CounterVec
	turns    *prometheus.CounterVec
	waiting  prometheus.Gauge
	lost     prometheus.Counter
	refused  prometheus.Counter
	ecAway   prometheus.Gauge
}

func newMeters(reg prometheus.Registerer) (meters, error) {
	m := meters{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "promptlab_chat_requests_total", Help: "Requests answered."}, []string{"route", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "promptlab_chat_request_duration_seconds", Help: "Time to the end of the answer.",
			Buckets: []float64{.005, .02, .1, .5, 1, 2, 5, 10, 30, 60, 120, 300}}, []string{"route"}),
		packets: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "promptlab_chat_packets_asked_total", Help: "Overlay packets asked of EC, by why."}, []string{"trigger"}),
		turns:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "promptlab_chat_turns_total", Help: "Turns answered, by the way they were composed and whether overlays could be had."}, []string{"path", "overlays"}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{Name: "promptlab_chat_receipts_waiting", Help: "Receipts and reports that wait for EC."}),
		lost:    prometheus.NewCounter(prometheus.CounterOpts{Name: "promptlab_chat_receipts_lost_total", Help: "Receipts and reports that EC will never hear."}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: "promptlab_chat_receipts_refused_total", Help: "Receipts, reports and bills that EC did not take."}),
		ecAway:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "promptlab_chat_ec_away", Help: "1 while EC does not answer."}),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.requests, m.duration, m.packets, m.turns, m.waiting, m.lost, m.refused, m.ecAway} {
		errs = append(errs, reg.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return m, fmt.Errorf("register chat metrics: %w", err)
	}
	return m, nil
}

func (m meters) asked(why trigger) { m.packets.WithLabelValues(string(why)).Inc() }

func (m meters) away(away bool) {
	if away {
		m.ecAway.Set(1)
	} else {
		m.ecAway.Set(0)
	}
}
