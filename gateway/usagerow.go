package gateway

import "github.com/elnor/promptlab/contracts"

// UsageRow makes the contract's row of an attempt.
func (a Attempt) UsageRow() contracts.UsageRow {
	return contracts.UsageRow{
		AttemptID: contracts.DeriveID(a.AttemptID, "attempt", 0), RequestID: contracts.Clip(a.RequestID, 100),
		ProviderRequestID: contracts.Clip(a.ProviderRequestID, 200), JobID: contracts.UUID(a.JobID),
		Feature: contracts.ModelRole(a.Role), Target: contracts.Clip(a.Target, 100), Provider: contracts.Clip(a.Provider, 50),
		Model: contracts.Clip(a.Model, 200), Fingerprint: contracts.Clip(a.Fingerprint, 64), ServedModel: contracts.Clip(a.ServedModel, 200),
		PromptKey: contracts.Clip(a.PromptKey, 200), PromptVersion: contracts.Clip(a.PromptVersion, 100), RequestDigest: contracts.Clip(a.RequestDigest, 64),
		Attempt: min(max(a.Number, 1), 100), Success: a.Class == "", Class: contracts.Clip(string(a.Class), 50), Finish: contracts.Clip(string(a.Finish), 50),
		UsageKnown: a.Usage.Known, InputTokens: max(a.Usage.Input, 0), OutputTokens: max(a.Usage.Output, 0),
		ReasoningTokens: max(a.Usage.Reasoning, 0), CacheReadTokens: max(a.Usage.CacheRead, 0), CacheWriteTokens: max(a.Usage.CacheWrite, 0),
		CostKnown: a.CostKnown, Cost: contracts.NanoUSD(max(a.CostNanoUSD, 0)), LatencyMS: a.Duration.Milliseconds(),
		Simulated: a.Simulated, At: contracts.At(a.StartedAt),
	}
}
