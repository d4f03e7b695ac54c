package dispatch

import "github.com/prometheus/client_golang/prometheus"

// metrics are the dispatcher's numbers.
type metrics struct {
	up         prometheus.Gauge
	waiting    prometheus.Gauge
	underWay   prometheus.Gauge
	dispatched *prometheus.CounterVec
	lost       *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		up:         prometheus.NewGauge(prometheus.GaugeOpts{Name: "promptlab_dispatch_broker_up", Help: "1 while the broker answers."}),
		waiting:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "promptlab_dispatch_tasks_waiting", Help: "Tasks that could be handed out at the last look."}),
		underWay:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "promptlab_dispatch_tasks_under_way", Help: "Tasks in the broker or with a worker."}),
		dispatched: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "promptlab_dispatch_deliveries_total", Help: "Tasks handed out."}, []string{"kind"}),
		lost:       prometheus.NewCounterVec(prometheus.CounterOpts{Name: "promptlab_dispatch_lost_total", Help: "Deliveries that did not come back."}, []string{"why"}),
	}
	if r != nil {
		r.MustRegister(m.up, m.waiting, m.underWay, m.dispatched, m.lost)
	}
	return m
}
