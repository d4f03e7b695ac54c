package worker

import "github.com/prometheus/client_golang/prometheus"

// metrics are a worker's numbers.
type metrics struct {
	running prometheus.Gauge
	tasks   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "promptlab_worker_tasks_running", Help: "Tasks in hand."}),
		tasks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "promptlab_worker_tasks_total", Help: "Tasks by outcome: completed, cancelled, released, not_claimed, lost or a failure code."}, []string{"kind", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "promptlab_worker_task_seconds", Help: "Time from claim to the end of a task.", Buckets: prometheus.ExponentialBuckets(0.25, 2, 14)}, []string{"kind"}),
	}
	if r != nil {
		r.MustRegister(m.running, m.tasks, m.seconds)
	}
	return m
}
