package gateway

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/elnor/promptlab/internal/fault"
)

// Protocol is how a model server is spoken to: its API surface. Another one is
// another target to every record and comparison.
type Protocol string

// The protocols that models[].protocol may name. New refuses one that has no
// adapter.
const (
	ProtocolOpenAI    Protocol = "openai"    // Chat Completions
	ProtocolResponses Protocol = "responses" // OpenAI's Responses
	ProtocolAnthropic Protocol = "anthropic" // Messages
	ProtocolSimulator Protocol = "simulator"
)

// Protocols gives every protocol.
func Protocols() []Protocol {
	return []Protocol{ProtocolOpenAI, ProtocolResponses, ProtocolAnthropic, ProtocolSimulator}
}

// ModelConfig is one entry of models[]: a pinned model at one server.
type ModelConfig struct {
	Name           string   `yaml:"name" json:"name"`
	Protocol       Protocol `yaml:"protocol" json:"protocol"`
	BaseURL        string   `yaml:"base_url" json:"base_url,omitempty"` // up to and including the version, such as http://127.0.0.1:8000/v1
	Model          string   `yaml:"model" json:"model"`
	APIKeyEnv      string   `yaml:"api_key_env" json:"api_key_env,omitempty"`
	Prices         *Prices  `yaml:"prices" json:"prices,omitempty"` // nil: unknown, usable only where no budget applies
	Limits         Limits   `yaml:"limits" json:"limits"`
	Routes         []Role   `yaml:"routes" json:"routes"`
	Profile        string   `yaml:"profile" json:"profile,omitempty"`                   // kind of server; empty: compatible
	MaxTokensField string   `yaml:"max_tokens_field" json:"max_tokens_field,omitempty"` // max_tokens or max_completion_tokens; empty: the profile's
	DropSampling   bool     `yaml:"drop_sampling" json:"drop_sampling,omitempty"`       // never send temperature, seed, stop (reasoning models)

	DropParameters []Parameter `yaml:"drop_parameters" json:"drop_parameters,omitempty"` // never send these, although the profile takes them

	Reasoning *ReasoningConfig `yaml:"reasoning" json:"reasoning,omitempty"` // nil: nothing about reasoning is ever sent

	DisplayName string `yaml:"display_name" json:"display_name,omitempty"`       // empty: the name
	DocsPage    string `yaml:"docs_page" json:"docs_page,omitempty"`             // what was read about the model before it was pinned
	DocsChecked string `yaml:"docs_checked_on" json:"docs_checked_on,omitempty"` // and the day, such as 2026-01-31
}

// Prices are US dollars per million tokens. Input and output must both be
// given; a missing cache price counts as the input price.
type Prices struct {
	Input      *float64 `yaml:"input_per_mtok_usd" json:"input_per_mtok_usd"`
	Output     *float64 `yaml:"output_per_mtok_usd" json:"output_per_mtok_usd"`
	CacheRead  *float64 `yaml:"cache_read_per_mtok_usd" json:"cache_read_per_mtok_usd,omitempty"`
	CacheWrite *float64 `yaml:"cache_write_per_mtok_usd" json:"cache_write_per_mtok_usd,omitempty"`
}

// Limits bound one model. Zero takes the default.
type Limits struct {
	MaxOutputTokens       int `yaml:"max_output_tokens" json:"max_output_tokens,omitempty"`             // default 4096
	MaxInputBytes         int `yaml:"max_input_bytes" json:"max_input_bytes,omitempty"`                 // default 1 MiB
	Concurrency           int `yaml:"concurrency" json:"concurrency,omitempty"`                         // default 8
	RequestsPerMinute     int `yaml:"requests_per_minute" json:"requests_per_minute,omitempty"`         // default: no limit
	AttemptTimeoutSeconds int `yaml:"attempt_timeout_seconds" json:"attempt_timeout_seconds,omitempty"` // default 60
	TotalTimeoutSeconds   int `yaml:"total_timeout_seconds" json:"total_timeout_seconds,omitempty"`     // default: the role's
	ImageTokens           int `yaml:"image_tokens" json:"image_tokens,omitempty"`                       // the most that one image counts; default: no images are sent

	StreamLimits `yaml:",inline"`
	ByRoute      map[Role]StreamLimits `yaml:"by_route" json:"by_route,omitempty"` // over the model's own
}

// StreamLimits bound the silence of a streamed answer. They take the place of
// the attempt's timeout; the total one holds as well. Zero takes the default.
type StreamLimits struct {
	FirstTokenTimeoutSeconds int `yaml:"first_token_timeout_seconds" json:"first_token_timeout_seconds,omitempty"` // from the request to the first piece; default 90
	IdleTimeoutSeconds       int `yaml:"idle_timeout_seconds" json:"idle_timeout_seconds,omitempty"`               // from one piece to the next; default 60
}

// Target is a validated ModelConfig.
type Target struct {
	Name           string
	Provider       string // host of the base URL, or "simulator"
	Protocol       Protocol
	BaseURL        string // no slash at the end
	Model          string
	KeyName        string
	Price          Price
	Routes         []Role
	Profile        Profile
	MaxTokensField string
	Drop           []Parameter // never sent
	MaxOutput      int
	MaxInputBytes  int
	Concurrency    int
	PerMinute      int
	AttemptTimeout time.Duration
	TotalTimeout   time.Duration // 0: the role's
	ImageTokens    int           // 0: no images
	Reasoning      ReasoningPolicy
	Fingerprint    string // of everything that can change an answer

	silence map[Role]silence
}

// Sends tells whether an optional parameter may be sent to the target.
func (t Target) Sends(p Parameter) bool { return !slices.Contains(t.Drop, p) }

// Silence gives how long a streamed answer for a role may take to its first
// piece, and from one piece to the next.
func (t Target) Silence(r Role) (first, idle time.Duration) {
	s := t.silence[r]
	return s.first, s.idle
}

// hurried gives the target with other limits of patience.
func (t Target) hurried(change func(time.Duration) time.Duration) Target {
	t.AttemptTimeout = change(t.AttemptTimeout)
	silences := map[Role]silence{}
	for r, s := range t.silence {
		silences[r] = silence{first: change(s.first), idle: change(s.idle)}
	}
	t.silence = silences
	return t
}

type silence struct{ first, idle time.Duration }

// defaultMaxOutput is the cap on the tokens of an answer when none is configured.
const defaultMaxOutput = 4096

// The sane range of a price that is not 0. Below it somebody typed dollars per
// token, above it dollars per billion.
const (
	minPrice = 0.001
	maxPrice = 2000
)

var (
	namePattern  = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	envPattern   = regexp.MustCompile(`^[A-Z_][A-Z0-9_]{0,127}$`)
	modelPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}$`)
)

// families gives names that public providers move from one model to another.
// With a date or a revision behind them they are exact.
func families() []string {
	return []string{
		"gpt-4", "gpt-4o", "gpt-4o-mini", "gpt-4-turbo", "gpt-4.1", "gpt-4.1-mini", "gpt-4.1-nano",
		"gpt-5", "gpt-5-mini", "gpt-5-nano", "gpt-3.5-turbo", "o1", "o1-mini", "o3", "o3-mini", "o4-mini",
		"claude", "claude-opus-4", "claude-sonnet-4", "claude-haiku-4", "claude-opus-4-5", "claude-sonnet-4-5",
		"claude-haiku-4-5", "claude-3-opus", "claude-3-sonnet", "claude-3-haiku", "claude-3-5-sonnet", "claude-3-5-haiku",
		"gemini-pro", "gemini-flash", "gemini-1.5-pro", "gemini-1.5-flash", "gemini-2.0-flash", "gemini-2.5-pro", "gemini-2.5-flash",
		"mistral-small", "mistral-medium", "mistral-large", "deepseek-chat", "deepseek-reasoner", "grok-3", "grok-4",
	}
}

// Floating tells whether a model name may mean another model tomorrow: its last
// part ends in "latest", or it is on the list of families. Behind a public
// address such a name is refused; a server on this machine or this network
// serves what its owner loaded, so there any exact string is taken.
func Floating(model string) bool {
	m := strings.ToLower(model)
	m = m[strings.LastIndex(m, "/")+1:]
	return strings.HasSuffix(m, "latest") || slices.Contains(families(), m)
}

// Targets validates models[] as a whole. The fault names every bad key and
// never a value.
func Targets(models []ModelConfig) ([]Target, error) {
	var c checker
	var targets []Target
	seen := map[string]bool{}
	for i, m := range models {
		c.at = fmt.Sprintf("models[%d].", i)
		targets = append(targets, c.target(m))
		c.require(!seen[m.Name], "name", "duplicate", "another model has the same name")
		seen[m.Name] = true
	}
	if len(c.bad) > 0 {
		return nil, fault.Validation(c.bad)
	}
	return targets, nil
}

type checker struct {
	at  string
	bad []fault.Detail
}

func (c *checker) require(ok bool, field, rule, message string) {
	if !ok {
		c.bad = append(c.bad, fault.Detail{Field: c.at + field, Rule: rule, Message: message})
	}
}

func (c *checker) target(m ModelConfig) Target {
	simulated := m.Protocol == ProtocolSimulator
	c.require(namePattern.MatchString(m.Name), "name", "pattern", "must be 1 to 64 of a-z, 0-9, dot, dash and underscore")
	c.require(slices.Contains(Protocols(), m.Protocol),
		"protocol", "enum", "must be openai, responses, anthropic or simulator")
	c.require(modelPattern.MatchString(m.Model), "model", "pattern", "must be the exact name that the server knows")
	c.require(m.APIKeyEnv == "" || envPattern.MatchString(m.APIKeyEnv), "api_key_env", "pattern",
		"must be the name of an environment variable, not a key")
	c.require(slices.Contains([]string{"", "max_tokens", "max_completion_tokens"}, m.MaxTokensField),
		"max_tokens_field", "enum", "must be max_tokens or max_completion_tokens")
	profile, known := profileOf(cmp.Or(m.Profile, defaultProfile(m.Protocol)))
	c.require(known, "profile", "enum", "must be "+strings.Join(profileNames(), ", "))
	c.require(!known || simulated || profile.Protocol == m.Protocol || !slices.Contains(Protocols(), m.Protocol),
		"profile", "protocol", "is of servers that speak another protocol")
	c.require(m.MaxTokensField == "" || profile.MaxTokensField != "", "max_tokens_field", "forbidden", "the protocol has one name for it")
	for i, p := range m.DropParameters {
		c.require(slices.Contains(Parameters(), p), fmt.Sprintf("drop_parameters[%d]", i), "enum", "must be "+parameterNames())
	}
	c.routes(m.Routes)
	c.limits(m.Limits)
	c.about(m)

	t := Target{
		Name: m.Name, Protocol: m.Protocol, Model: m.Model, KeyName: m.APIKeyEnv, Routes: slices.Clone(m.Routes),
		Profile: profile, MaxTokensField: cmp.Or(m.MaxTokensField, profile.MaxTokensField), Drop: profile.dropped(m),
		MaxOutput:      cmp.Or(m.Limits.MaxOutputTokens, defaultMaxOutput),
		MaxInputBytes:  cmp.Or(m.Limits.MaxInputBytes, 1<<20),
		Concurrency:    cmp.Or(m.Limits.Concurrency, 8),
		PerMinute:      m.Limits.RequestsPerMinute,
		AttemptTimeout: time.Duration(cmp.Or(m.Limits.AttemptTimeoutSeconds, 60)) * time.Second,
		TotalTimeout:   time.Duration(m.Limits.TotalTimeoutSeconds) * time.Second,
		ImageTokens:    m.Limits.ImageTokens,
		Reasoning:      c.reasoning(m),
		silence:        m.Limits.silence(),
		Fingerprint:    m.Fingerprint(),
	}
	if simulated {
		c.require(m.BaseURL == "", "base_url", "forbidden", "the simulator has no address")
		c.require(m.Prices == nil, "prices", "forbidden", "the simulator costs nothing")
		c.require(m.APIKeyEnv == "", "api_key_env", "forbidden", "the simulator needs no key")
		c.require(m.Profile == "", "profile", "forbidden", "the simulator has no profile")
		t.Provider, t.Price = string(ProtocolSimulator), Price{Known: true}
		return t
	}
	t.Price = c.prices(m.Prices)
	host, local := c.address(m)
	t.Provider, t.BaseURL = host, strings.TrimRight(m.BaseURL, "/")
	c.require(local || !Floating(m.Model), "model", "floating", "names a family; pin an exact version")
	return t
}

func (c *checker) routes(routes []Role) {
	c.require(len(routes) > 0, "routes", "required", "must name at least one route")
	for i, r := range routes {
		field := fmt.Sprintf("routes[%d]", i)
		c.require(slices.Contains(Roles(), r), field, "enum", "must be chat, rewrite, critic, judge, task or meta")
		c.require(!slices.Contains(routes[:i], r), field, "duplicate", "is named twice")
	}
}

func (c *checker) limits(l Limits) {
	type limit struct {
		name      string
		value, to int
	}
	all := []limit{
		{"max_output_tokens", l.MaxOutputTokens, 1 << 20},
		{"max_input_bytes", l.MaxInputBytes, 4 << 20},
		{"concurrency", l.Concurrency, 1024},
		{"requests_per_minute", l.RequestsPerMinute, 1 << 20},
		{"attempt_timeout_seconds", l.AttemptTimeoutSeconds, 3600},
		{"total_timeout_seconds", l.TotalTimeoutSeconds, 3600},
		{"image_tokens", l.ImageTokens, 1 << 20},
		{"first_token_timeout_seconds", l.FirstTokenTimeoutSeconds, 3600},
		{"idle_timeout_seconds", l.IdleTimeoutSeconds, 3600},
	}
	for r := range l.ByRoute {
		c.require(slices.Contains(Roles(), r), "limits.by_route", "enum", "must name chat, rewrite, critic, judge, task or meta")
	}
	for _, r := range Roles() { // in their order: the same mistakes, the same words
		s := l.ByRoute[r]
		all = append(all, limit{"by_route." + string(r) + ".first_token_timeout_seconds", s.FirstTokenTimeoutSeconds, 3600},
			limit{"by_route." + string(r) + ".idle_timeout_seconds", s.IdleTimeoutSeconds, 3600})
	}
	for _, f := range all {
		c.require(f.value >= 0 && f.value <= f.to, "limits."+f.name, "range", fmt.Sprintf("must lie between 0 (default) and %d", f.to))
	}
}

// silence gives every role's limits: its own, else the model's, else the
// defaults, which are generous: a model may think for a minute.
func (l Limits) silence() map[Role]silence {
	out := map[Role]silence{}
	for _, r := range Roles() {
		own := l.ByRoute[r]
		out[r] = silence{
			first: time.Duration(cmp.Or(own.FirstTokenTimeoutSeconds, cmp.Or(l.FirstTokenTimeoutSeconds, 90))) * time.Second,
			idle:  time.Duration(cmp.Or(own.IdleTimeoutSeconds, cmp.Or(l.IdleTimeoutSeconds, 60))) * time.Second,
		}
	}
	return out
}

func (c *checker) prices(p *Prices) Price {
	if p == nil {
		return Price{}
	}
	c.require(p.Input != nil, "prices.input_per_mtok_usd", "required", "must be given when prices are")
	c.require(p.Output != nil, "prices.output_per_mtok_usd", "required", "must be given when prices are")
	in := c.price("input_per_mtok_usd", p.Input, 0)
	return Price{
		Known:      true,
		Input:      in,
		Output:     c.price("output_per_mtok_usd", p.Output, 0),
		CacheRead:  c.price("cache_read_per_mtok_usd", p.CacheRead, in),
		CacheWrite: c.price("cache_write_per_mtok_usd", p.CacheWrite, in),
	}
}

func (c *checker) price(field string, usd *float64, missing int64) int64 {
	if usd == nil {
		return missing
	}
	ok := *usd == 0 || *usd >= minPrice && *usd <= maxPrice
	c.require(ok, "prices."+field, "range", "must be 0 or US dollars per million tokens between 0.001 and 2000")
	if !ok {
		return 0
	}
	return int64(*usd*float64(NanoUSD) + 0.5)
}

// address checks the base URL and gives its host and whether it is local.
func (c *checker) address(m ModelConfig) (host string, local bool) {
	u, err := url.Parse(m.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		c.require(false, "base_url", "url", "must be an http or https address")
		return "", true
	}
	c.require(u.User == nil && u.RawQuery == "" && u.Fragment == "", "base_url", "url", "must not hold credentials, a query or a fragment")
	local = Local(u.Hostname())
	c.require(local || u.Scheme == "https", "base_url", "https", "must be https outside this machine and this network")
	return strings.ToLower(u.Host), local
}

// Local tells whether a host is this machine or a private network.
func Local(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if a, err := netip.ParseAddr(host); err == nil {
		return a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast()
	}
	return !strings.Contains(host, ".") || strings.HasSuffix(host, ".local") ||
		strings.HasSuffix(host, ".internal") || strings.HasSuffix(host, ".localhost")
}

// OpenAIBaseURL is where OpenAI's own API is, for those who want to configure it.
const OpenAIBaseURL = "https://api.openai.com/v1"

// AnthropicBaseURL is where Anthropic's own API is.
const AnthropicBaseURL = "https://api.anthropic.com/v1"
