package gateway

import (
	"cmp"
	"slices"
	"time"
)

// Reasoning is how much a model is meant to think before it answers.
type Reasoning string

// The efforts. Empty is not one of them: nothing is sent, and what then happens
// is the provider's choice.
const (
	ReasoningOff    Reasoning = "off"
	ReasoningLow    Reasoning = "low"
	ReasoningMedium Reasoning = "medium"
	ReasoningHigh   Reasoning = "high"
)

// Reasonings gives the efforts in ascending order.
func Reasonings() []Reasoning {
	return []Reasoning{ReasoningOff, ReasoningLow, ReasoningMedium, ReasoningHigh}
}

// above tells whether r is more than s. An effort that is not declared is none.
func (r Reasoning) above(s Reasoning) bool {
	return slices.Index(Reasonings(), r) > max(0, slices.Index(Reasonings(), s))
}

// ReasoningConfig declares that a model's answers may be reasoned about first,
// and what that may take. An effort other than off needs an evaluation made with
// the very same model: a live route is not changed on a hunch.
type ReasoningConfig struct {
	Effort         Reasoning `yaml:"effort" json:"effort"`                               // off is the switch to turn it off
	MaxTokens      int       `yaml:"max_tokens" json:"max_tokens,omitempty"`             // the most tokens of reasoning; required unless off
	LatencySeconds int       `yaml:"latency_seconds" json:"latency_seconds,omitempty"`   // the most that a call may take with it; required unless off
	MaxCostUSD     float64   `yaml:"max_cost_usd" json:"max_cost_usd,omitempty"`         // the most that one attempt may cost with it; required unless off
	Evaluation     string    `yaml:"evaluation" json:"evaluation,omitempty"`             // reference of the evaluation; required unless off
	EvaluatedModel string    `yaml:"evaluated_model" json:"evaluated_model,omitempty"`   // the model it was made with; must be the pinned one
	Evaluated      Reasoning `yaml:"evaluated_effort" json:"evaluated_effort,omitempty"` // the effort it was made with; must be the declared one
}

// ReasoningPolicy is a validated ReasoningConfig.
type ReasoningPolicy struct {
	Effort     Reasoning // empty: nothing is sent
	MaxTokens  int
	Latency    time.Duration
	MaxCost    int64 // nanoUSD
	Evaluation string
}

func (c *checker) reasoning(m ModelConfig) ReasoningPolicy {
	r := m.Reasoning
	if r == nil {
		return ReasoningPolicy{}
	}
	on := r.Effort != ReasoningOff
	c.require(slices.Contains(Reasonings(), r.Effort), "reasoning.effort", "enum", "must be off, low, medium or high")
	c.require(!on || r.MaxTokens > 0 && r.MaxTokens <= cmp.Or(m.Limits.MaxOutputTokens, defaultMaxOutput), "reasoning.max_tokens", "range",
		"must be at least 1 and within limits.max_output_tokens, unless the effort is off")
	c.require(!on || r.LatencySeconds > 0 && r.LatencySeconds <= 3600, "reasoning.latency_seconds", "range",
		"must lie between 1 and 3600, unless the effort is off")
	c.require(!on || FromUSD(r.MaxCostUSD) > 0, "reasoning.max_cost_usd", "range", "must be positive, unless the effort is off")
	c.require(!on || r.Evaluation != "", "reasoning.evaluation", "required", "must name the evaluation that allows it, unless the effort is off")
	c.require(!on || r.EvaluatedModel == m.Model, "reasoning.evaluated_model", "stale", "must be the pinned model: another one's evaluation says nothing about it")
	c.require(!on || r.Evaluated == r.Effort, "reasoning.evaluated_effort", "stale", "must be the declared effort")
	return ReasoningPolicy{
		Effort: r.Effort, MaxTokens: r.MaxTokens, Latency: time.Duration(r.LatencySeconds) * time.Second,
		MaxCost: FromUSD(r.MaxCostUSD), Evaluation: r.Evaluation,
	}
}
