package gateway

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// Parameter is an optional part of a request that a server may not take.
type Parameter string

// The optional parameters, as drop_parameters spells them.
const (
	ParamTemperature      Parameter = "temperature"
	ParamSeed             Parameter = "seed"
	ParamStop             Parameter = "stop"
	ParamResponseFormat   Parameter = "response_format" // strict JSON by Request.Schema, or any JSON object
	ParamTopP             Parameter = "top_p"
	ParamPresencePenalty  Parameter = "presence_penalty"
	ParamFrequencyPenalty Parameter = "frequency_penalty"
	ParamParallelTools    Parameter = "parallel_tool_calls"
	ParamStreamUsage      Parameter = "stream_options" // the wish for usage at the end of a stream
	ParamTools            Parameter = "tools"          // never removed from a request: it is refused instead
	ParamJSONObject       Parameter = "json_object"    // the wish for JSON of no particular shape

	// ParamReasoning is sent where a target declares reasoning, and nowhere else.
	ParamReasoning Parameter = "reasoning"
)

// Parameters gives every optional parameter that drop_parameters may name, in
// the order of the rows.
func Parameters() []Parameter {
	return []Parameter{
		ParamTemperature, ParamSeed, ParamStop, ParamResponseFormat, ParamTopP, ParamPresencePenalty,
		ParamFrequencyPenalty, ParamParallelTools, ParamStreamUsage, ParamTools, ParamJSONObject,
	}
}

// parameterNames gives the names, for messages.
func parameterNames() string {
	var out []string
	for _, p := range Parameters() {
		out = append(out, string(p))
	}
	return strings.Join(out, ", ")
}

// samples tells whether a parameter steers how the next word is chosen, which
// reasoning models do not let anybody do.
func (p Parameter) samples() bool {
	switch p {
	case ParamTemperature, ParamSeed, ParamStop, ParamTopP, ParamPresencePenalty, ParamFrequencyPenalty:
		return true
	default:
		return false
	}
}

// drop takes an optional parameter out, and tells whether it was there.
func (r *Request) drop(p Parameter) (was bool) {
	switch p {
	case ParamTemperature:
		was, r.Temperature = r.Temperature != nil, nil
	case ParamSeed:
		was, r.Seed = r.Seed != nil, nil
	case ParamStop:
		was, r.Stop = r.Stop != nil, nil
	case ParamResponseFormat:
		was, r.Schema, r.JSONObject = r.Schema != nil || r.JSONObject, nil, false
	case ParamTopP:
		was, r.TopP = r.TopP != nil, nil
	case ParamPresencePenalty:
		was, r.PresencePenalty = r.PresencePenalty != nil, nil
	case ParamFrequencyPenalty:
		was, r.FrequencyPenalty = r.FrequencyPenalty != nil, nil
	case ParamParallelTools:
		was, r.ParallelToolCalls = r.ParallelToolCalls != nil, nil
	case ParamJSONObject:
		was, r.JSONObject = r.JSONObject, false
	case ParamReasoning:
		was, r.Reasoning = r.Reasoning != "", ""
	}
	return was
}

// Profile is what is known about one kind of server behind a protocol: what it
// takes, how it wants the key, and what its errors mean beyond the common
// table. The zero value is a server that nothing is known about.
type Profile struct {
	Name           string
	Protocol       Protocol // the one it is spoken to by
	Takes          []Parameter
	MaxTokensField string // unless the model's own says otherwise; empty: the protocol has one name for it
	KeyHeader      string // header that holds the bare key; empty: Authorization with Bearer
	Developer      bool   // knows messages of a developer; to others they go as the system's
	Preamble       int64  // tokens that the server adds to a request with tools or a schema, at most
	ColdReasoning  bool   // takes temperature and top_p only while it does not reason
	ThinkingBudget bool   // reasoning is bounded by a number of tokens and not by an effort

	rules     []rule // looked at before the common ones
	nestedRaw bool   // error.metadata.raw holds the error of a server further behind
}

// DefaultProfile is taken when a model of the protocol openai names none: it
// expects nothing that is not in use everywhere.
const DefaultProfile = "compatible"

// The profiles that models of the other protocols take when they name none.
const (
	ProfileAnthropic = "anthropic"
	ProfileResponses = "responses"
)

// defaultProfile gives the profile of a model that names none.
func defaultProfile(p Protocol) string {
	switch p {
	case ProtocolAnthropic:
		return ProfileAnthropic
	case ProtocolResponses:
		return ProfileResponses
	default:
		return DefaultProfile
	}
}

// Profiles gives the profiles that models[].profile may name.
func Profiles() []Profile {
	all := Parameters()
	common := slices.DeleteFunc(Parameters(), func(p Parameter) bool { return p == ParamResponseFormat })
	out := []Profile{
		{Name: DefaultProfile, Takes: common, MaxTokensField: "max_tokens"},
		{Name: "openai", Takes: all, MaxTokensField: "max_completion_tokens", Developer: true, rules: []rule{
			// Larger than a minute's allowance: it will not fit in any other minute.
			{class: ClassContextOverflow, where: is(http.StatusTooManyRequests), phrases: []string{"must be reduced in order to run"}},
			{class: ClassContentFilter, codes: []string{"invalid_prompt"}},
		}},
		{Name: "azure", Takes: all, MaxTokensField: "max_tokens", KeyHeader: "Api-Key", Developer: true, rules: []rule{
			// The deployment is of a model without chat: no other request will work.
			{class: ClassModelNotFound, codes: []string{"operationnotsupported"}},
		}},
		{Name: "ollama", Takes: all, MaxTokensField: "max_tokens", rules: []rule{
			// No retry makes the machine larger.
			{class: ClassModelNotFound, where: any4xx5xx, phrases: []string{"requires more system memory"}},
			{class: ClassProviderQuota, where: any4xx5xx, phrases: []string{"usage limit, please upgrade"}},
		}},
		{Name: "vllm", Takes: all, MaxTokensField: "max_tokens", rules: []rule{
			// What is left of the window after the messages is below nothing.
			{class: ClassContextOverflow, where: only4xx, phrases: []string{"max_tokens must be at least 1, got -"}},
		}},
		{Name: "llamacpp", Takes: all, MaxTokensField: "max_tokens", rules: []rule{
			{class: ClassBadRequest, codes: []string{"not_supported_error"}}, // a 501 that is not the server's trouble
		}},
		{Name: "openrouter", Takes: common, MaxTokensField: "max_tokens", nestedRaw: true, rules: []rule{
			{class: ClassProviderQuota, where: is(http.StatusTooManyRequests), phrases: []string{"per-day"}},
			{class: ClassContentFilter, where: is(http.StatusForbidden), phrases: []string{"flagged"}},
		}},
	}
	for i := range out {
		out[i].Protocol = ProtocolOpenAI
	}
	return append(out, otherProfiles()...)
}

// otherProfiles gives the profiles of the other protocols.
func otherProfiles() []Profile {
	messages := []Parameter{ParamTemperature, ParamStop, ParamResponseFormat, ParamTopP, ParamParallelTools, ParamStreamUsage, ParamTools}
	anthropic := Profile{Name: ProfileAnthropic, Protocol: ProtocolAnthropic, Takes: messages, KeyHeader: "X-Api-Key", Preamble: 1000, ColdReasoning: true, rules: []rule{
		{class: ClassContextOverflow, where: not429, phrases: []string{"exceed context limit"}},
		{class: ClassProviderQuota, where: any4xx5xx, phrases: []string{"specified api usage limits"}},
		{class: ClassContentFilter, where: any4xx5xx, phrases: []string{"content filtering policy"}},
		{class: ClassEntitlement, where: only4xx, phrases: []string{"organization has been disabled"}},
	}}
	budget := anthropic
	budget.Name, budget.ThinkingBudget = "anthropic-budget", true
	return []Profile{anthropic, budget, {
		Name: ProfileResponses, Protocol: ProtocolResponses, Developer: true, ColdReasoning: true,
		Takes: []Parameter{ParamTemperature, ParamResponseFormat, ParamTopP, ParamParallelTools, ParamStreamUsage, ParamTools, ParamJSONObject},
		rules: []rule{
			{class: ClassContextOverflow, where: is(http.StatusTooManyRequests), phrases: []string{"must be reduced in order to run"}},
			{class: ClassContentFilter, codes: []string{"invalid_prompt"}},
		},
	}}
}

func is(status int) func(int) bool { return func(s int) bool { return s == status } }

// profileNames gives the names, for messages.
func profileNames() []string {
	var out []string
	for _, p := range Profiles() {
		out = append(out, p.Name)
	}
	return out
}

// profileOf finds a profile by its name.
func profileOf(name string) (Profile, bool) {
	for _, p := range Profiles() {
		if p.Name == name {
			return p, true
		}
	}
	return Profile{}, false
}

// dropped gives the parameters that are never sent to a model: those that its
// kind of server does not take and those that its configuration names.
func (p Profile) dropped(m ModelConfig) []Parameter {
	var out []Parameter
	for _, q := range Parameters() {
		sampling := m.DropSampling && q.samples()
		if !slices.Contains(p.Takes, q) || slices.Contains(m.DropParameters, q) || sampling {
			out = append(out, q)
		}
	}
	return out
}

// Classify maps an error answer of this kind of server to an Error, as the
// function of the same name does for servers that nothing is known about.
func (p Profile) Classify(status int, header http.Header, body []byte, now time.Time) *Error {
	return classify(p, status, header, body, now)
}
