package writer

import "github.com/prometheus/client_golang/prometheus"

// metrics are the writer's figures; nil registers nothing.
type metrics struct {
	commands prometheus.Counter   // taken from the queue, refused ones included
	commits  prometheus.Counter   // accepted and made durable
	size     prometheus.Histogram // commands in a batch
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		commands: prometheus.NewCounter(prometheus.CounterOpts{Name: "promptlab_ec_commands_total", Help: "Commands taken from the queue."}),
		commits:  prometheus.NewCounter(prometheus.CounterOpts{Name: "promptlab_ec_commits_total", Help: "Commands accepted and made durable."}),
		size:     prometheus.NewHistogram(prometheus.HistogramOpts{Name: "promptlab_ec_batch_commands", Help: "Commands that shared one journal write.", Buckets: prometheus.ExponentialBuckets(1, 2, 9)}),
	}
	if reg != nil {
		reg.MustRegister(m.commands, m.commits, m.size)
	}
	return m
}

func (m *metrics) batch(taken, changes int) {
	m.commands.Add(float64(taken))
	m.commits.Add(float64(changes))
	m.size.Observe(float64(taken))
}
