package gateway

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics is everything the gateway counts. All names stand in this file: the
// gen_ai_* ones follow the OpenTelemetry GenAI conventions 1.41, which are
// still moving. Labels are closed sets: configured names, roles, classes.
type Metrics struct {
	duration       *prometheus.HistogramVec
	tokens         *prometheus.HistogramVec
	input          *prometheus.CounterVec
	firstChunk     *prometheus.HistogramVec
	perChunk       *prometheus.HistogramVec
	badChunks      *prometheus.CounterVec
	idle           *prometheus.CounterVec
	cutStreams     *prometheus.CounterVec
	attempts       *prometheus.CounterVec
	retries        *prometheus.CounterVec
	fallbacks      *prometheus.CounterVec
	breaker        *prometheus.GaugeVec
	inflight       *prometheus.GaugeVec
	queueWait      *prometheus.HistogramVec
	cost           *prometheus.CounterVec
	usageUnknown   *prometheus.CounterVec
	budgetRefusals *prometheus.CounterVec
	budgetOverrun  prometheus.Counter
	callerGone     prometheus.Counter
	drift          *prometheus.CounterVec
	truncated      *prometheus.CounterVec
	rowsLost       prometheus.Counter
	overhead       prometheus.Histogram
	perAttempt     *prometheus.GaugeVec
	perOutput      *prometheus.GaugeVec

	mu   sync.Mutex
	sums map[sumKey]*sum // as many as there are models and roles
}

type sumKey struct{ provider, model, role string }

// sum is what the prices of attempts and of outputs are made of.
type sum struct{ cost, attempts, outputs float64 }

// NewMetrics registers the metrics; a nil registerer gives metrics that nobody
// reads.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "promptlab_gateway_" + name, Help: help}, labels)
		register(reg, c)
		return c
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		register(reg, h)
		return h
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "promptlab_gateway_" + name, Help: help}, labels)
		register(reg, g)
		return g
	}
	seconds := prometheus.ExponentialBuckets(0.01, 2, 14)
	short := prometheus.ExponentialBuckets(0.0001, 4, 10)
	return &Metrics{
		duration: histogram("gen_ai_client_operation_duration_seconds", "Time of one attempt at a model.",
			seconds, "gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "error_type"),
		tokens: histogram("gen_ai_client_token_usage", "Tokens of one attempt, by kind.",
			prometheus.ExponentialBuckets(1, 4, 14), "gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "gen_ai_token_type"),
		firstChunk: histogram("gen_ai_client_operation_time_to_first_chunk_seconds", "Time from a request to the first piece of its answer.",
			seconds, "gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"),
		perChunk: histogram("gen_ai_client_operation_time_per_output_chunk_seconds", "Time from one piece of an answer to the next.",
			prometheus.ExponentialBuckets(0.001, 2, 17), "gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"),
		input:          counter("input_tokens_total", "Tokens of requests, by whether the provider's cache had them.", "provider", "model", "feature", "cache"),
		badChunks:      counter("stream_malformed_chunks_total", "Events of streams that were not understood and passed over.", "model"),
		idle:           counter("stream_idle_total", "Streams that were given up because nothing came for too long.", "model", "limit"),
		cutStreams:     counter("stream_truncated_total", "Streams that ended before their answer did.", "model"),
		attempts:       counter("attempts_total", "Attempts and refusals, by class; ok for answers.", "provider", "model", "feature", "class"),
		retries:        counter("retries_total", "Attempts made because the one before failed.", "provider", "model", "class"),
		fallbacks:      counter("fallbacks_total", "Calls that went to the route's second model.", "from", "to", "class"),
		breaker:        gauge("breaker_state", "0 closed, 1 half-open, 2 open.", "model"),
		inflight:       gauge("inflight", "Attempts that are at a provider.", "model"),
		queueWait:      histogram("promptlab_gateway_queue_wait_seconds", "Wait for a turn at the model.", short, "model"),
		cost:           counter("cost_usd_total", "Money booked.", "provider", "model", "feature"),
		usageUnknown:   counter("usage_unknown_total", "Attempts that may have cost something and whose usage was not told.", "provider", "model"),
		budgetRefusals: counter("budget_refusals_total", "Calls not sent for money reasons.", "reason"),
		budgetOverrun:  single(reg, "budget_overrun_usd_total", "Money booked above the bound."),
		callerGone:     single(reg, "caller_gone_total", "Calls whose caller left."),
		drift:          counter("model_drift_total", "Answers by another model than the pinned one.", "model"),
		truncated:      counter("truncated_total", "Answers cut at the token cap.", "model", "feature"),
		rowsLost:       single(reg, "ledger_write_failures_total", "Attempt rows that the sink did not take."),
		perAttempt:     gauge("cost_per_attempt_usd", "Money booked since the start, by attempt.", "provider", "model", "feature"),
		perOutput:      gauge("cost_per_output_usd", "Money booked since the start, by complete answer; what failed, was cut or malformed is paid by the others.", "provider", "model", "feature"),
		sums:           map[sumKey]*sum{},
		overhead:       singleHistogram(reg, "promptlab_gateway_overhead_seconds", "Time of a call minus its time at providers and in waits.", short),
	}
}

func single(reg prometheus.Registerer, name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "promptlab_gateway_" + name, Help: help})
	register(reg, c)
	return c
}

func singleHistogram(reg prometheus.Registerer, name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	register(reg, h)
	return h
}

func register(reg prometheus.Registerer, c prometheus.Collector) {
	if reg != nil {
		reg.MustRegister(c)
	}
}

// row counts what an attempt's row says.
func (m *Metrics) row(a Attempt) {
	provider, model, role := a.Provider, a.Target, string(a.Role)
	class := string(a.Class)
	m.duration.WithLabelValues("chat", provider, model, class).Observe(a.Duration.Seconds())
	if class == "" {
		class = "ok"
	}
	m.attempts.WithLabelValues(provider, model, role, class).Inc()
	m.cost.WithLabelValues(provider, model, role).Add(USD(a.CostNanoUSD))
	m.budgetOverrun.Add(USD(a.OverrunNanoUSD))
	if a.Usage.Known {
		m.tokens.WithLabelValues("chat", provider, model, "input").Observe(float64(a.Usage.Input + a.Usage.CacheRead + a.Usage.CacheWrite))
		m.tokens.WithLabelValues("chat", provider, model, "output").Observe(float64(a.Usage.Output))
		for cache, n := range map[string]int64{"none": a.Usage.Input, "read": a.Usage.CacheRead, "write": a.Usage.CacheWrite} {
			m.input.WithLabelValues(provider, model, role, cache).Add(float64(n))
		}
	} else if a.Class == "" || !a.CostKnown {
		m.usageUnknown.WithLabelValues(provider, model).Inc()
	}
	if a.Finish == FinishLength {
		m.truncated.WithLabelValues(model, role).Inc()
	}
	if a.Class == "" && a.ServedModel != a.Model && !a.Simulated {
		m.drift.WithLabelValues(model).Inc()
	}
	switch a.Class {
	case ClassCallerGone:
		m.callerGone.Inc()
	case ClassStreamIdle:
		m.idle.WithLabelValues(model, "idle").Inc()
	case ClassAttemptTimeout:
		if a.Reason == reasonFirstToken {
			m.idle.WithLabelValues(model, "first_token").Inc()
		}
	case ClassStreamTruncated:
		m.cutStreams.WithLabelValues(model).Inc()
	}
	m.price(sumKey{provider, model, role}, a)
}

// stream counts how a streamed answer came.
func (m *Metrics) stream(a Attempt) {
	if a.Chunks > 0 {
		m.firstChunk.WithLabelValues("chat", a.Provider, a.Target).Observe(a.FirstChunk.Seconds())
	}
	m.badChunks.WithLabelValues(a.Target).Add(float64(a.MalformedChunks))
}

// gap counts the time from one piece of a target's answers to the next.
func (m *Metrics) gap(t Target) func(time.Duration) {
	o := m.perChunk.WithLabelValues("chat", t.Provider, t.Name)
	return func(d time.Duration) { o.Observe(d.Seconds()) }
}

// price keeps cost per attempt and cost per useful answer side by side.
func (m *Metrics) price(k sumKey, a Attempt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sums[k]
	if s == nil {
		s = new(sum)
		m.sums[k] = s
	}
	s.cost += USD(a.CostNanoUSD)
	s.attempts++
	if a.Class == "" && (a.Finish == FinishStop || a.Finish == FinishToolCalls) && !a.Malformed {
		s.outputs++
	}
	m.perAttempt.WithLabelValues(k.provider, k.model, k.role).Set(s.cost / s.attempts)
	if s.outputs > 0 {
		m.perOutput.WithLabelValues(k.provider, k.model, k.role).Set(s.cost / s.outputs)
	}
}

// refused counts a call that did not reach an adapter.
func (m *Metrics) refused(t Target, role Role, class ErrorClass) {
	m.attempts.WithLabelValues(t.Provider, t.Name, string(role), string(class)).Inc()
	switch class {
	case ClassJobBudget, ClassPriceUnknown:
		m.budgetRefusals.WithLabelValues(string(class)).Inc()
	case ClassCallerGone:
		m.callerGone.Inc()
	}
}

func (m *Metrics) waited(t Target, d time.Duration) {
	m.queueWait.WithLabelValues(t.Name).Observe(d.Seconds())
}
