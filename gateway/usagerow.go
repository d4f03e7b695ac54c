package gateway

import "github.com/elnor/promptlab/contracts"

// UsageRow makes the contract's row of an attempt.
func (a Attempt) UsageRow() contracts.UsageRow {
	return contracts.UsageRow{
		AttemptID: contracts.DeriveID(a.AttemptID, "attempt", 0), RequestID: clip(a.RequestID, 100),
		ProviderRequestID: clip(a.ProviderRequestID, 200), JobID: contracts.UUID(a.JobID),
		Feature: contracts.ModelRole(a.Role), Target: clip(a.Target, 100), Provider: clip(a.Provider, 50),
		Model: clip(a.Model, 200), Fingerprint: clip(a.Fingerprint, 64), ServedModel: clip(a.ServedModel, 200),
		PromptKey: clip(a.PromptKey, 200), PromptVersion: clip(a.PromptVersion, 100), RequestDigest: clip(a.RequestDigest, 64),
		Attempt: min(max(a.Number, 1), 100), Success: a.Class == "", Class: clip(string(a.Class), 50), Finish: clip(string(a.Finish), 50),
		UsageKnown: a.Usage.Known, InputTokens: max(a.Usage.Input, 0), OutputTokens: max(a.Usage.Output, 0),
		ReasoningTokens: max(a.Usage.Reasoning, 0), CacheReadTokens: max(a.Usage.CacheRead, 0), CacheWriteTokens: max(a.Usage.CacheWrite, 0),
		CostKnown: a.CostKnown, Cost: contracts.NanoUSD(max(a.CostNanoUSD, 0)), LatencyMS: a.Duration.Milliseconds(),
		Simulated: a.Simulated, At: contracts.At(a.StartedAt),
	}
}

// clip cuts a text to so many characters.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	r := []rune(s)
	return string(r[:min(len(r), most)])
}
