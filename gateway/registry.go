package gateway

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/elnor/promptlab/contracts"
)

// parameters gives the material of a model: everything of its configuration that
// can change what it answers to the same request. Prices, patience, rates, keys
// and routes are not material; neither is what a release of this program knows
// about a profile, which is reviewed where it changes.
func (m ModelConfig) parameters() map[string]string {
	profile := cmp.Or(m.Profile, defaultProfile(m.Protocol))
	field := m.MaxTokensField
	if p, ok := profileOf(profile); ok {
		field = cmp.Or(field, p.MaxTokensField)
	}
	out := map[string]string{
		"protocol": string(m.Protocol), "model": m.Model,
		"max_output_tokens": strconv.Itoa(cmp.Or(m.Limits.MaxOutputTokens, defaultMaxOutput)), // sent where a caller gives none
	}
	set := func(name, value string) {
		if value != "" {
			out[name] = value
		}
	}
	if m.Protocol != ProtocolSimulator {
		set("base_url", address(m.BaseURL)) // the path too: with some servers it chooses the model
		set("profile", profile)
		set("max_tokens_field", field)
	}
	var drop []string
	for _, p := range Parameters() {
		if slices.Contains(m.DropParameters, p) || m.DropSampling && p.samples() {
			drop = append(drop, string(p))
		}
	}
	set("drop", strings.Join(drop, ","))
	if r := m.Reasoning; r != nil {
		set("reasoning", string(r.Effort))
		if r.Effort != ReasoningOff {
			set("reasoning_max_tokens", strconv.Itoa(r.MaxTokens))
		}
	}
	return out
}

// address gives a base URL in its one spelling.
func address(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return base
	}
	u.Host = strings.ToLower(u.Host)
	return strings.TrimRight(u.String(), "/")
}

// Fingerprint names the exact model with the parameters that it is used with: two
// configurations with one fingerprint get the same answers, as far as that is
// ours to say. Another one is a material change.
func (m ModelConfig) Fingerprint() string {
	b, err := json.Marshal(m.parameters()) // sorted by name
	if err != nil {
		panic("gateway: encode parameters: " + err.Error()) // strings only
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// dated finds what pins a model name to a day or a revision.
var dated = regexp.MustCompile(`[-@:](?:\d{4}-\d{2}-\d{2}|\d{6,8}|\d{4}|\d{3}|v\d+)$`)

// base gives the model that an exact name is a version of.
func (m ModelConfig) base() string { return dated.ReplaceAllString(m.Model, "") }

// Observed gives the model as the registry takes note of it.
func (m ModelConfig) Observed() contracts.ObservedModel {
	o := contracts.ObservedModel{
		Name: m.Name, DisplayName: cmp.Or(m.DisplayName, m.Name), Type: contracts.ModelChat, Adapter: string(m.Protocol), BaseModel: m.base(),
		Model: m.Model, Fingerprint: m.Fingerprint(), Parameters: m.parameters(), DocsPage: m.DocsPage, DocsChecked: m.DocsChecked,
	}
	if m.Protocol == ProtocolSimulator {
		o.Type = contracts.ModelSimulator
	}
	for _, r := range m.Routes {
		o.Routes = append(o.Routes, contracts.ModelRole(r))
	}
	return o
}

// about checks what is kept for people.
func (c *checker) about(m ModelConfig) {
	page, err := url.Parse(m.DocsPage)
	c.require(len(m.DisplayName) <= 100, "display_name", "max_length", "must not be longer than 100 characters")
	c.require(m.DocsPage == "" || err == nil && page.Host != "" && page.User == nil && len(m.DocsPage) <= 500, "docs_page", "url", "must be an address")
	c.require(m.DocsChecked == "" || contracts.IsDay(m.DocsChecked), "docs_checked_on", "date", "must be a day such as 2026-01-31")
	c.require((m.DocsPage == "") == (m.DocsChecked == ""), "docs_checked_on", "together", "goes with docs_page: the page that was read, and when")
}

// tries tells whether a call belongs to a job that tries a model which nobody has
// activated yet: how else should there be a replay to activate it on?
func (r *Request) tries(t Target) bool {
	lab := r.Role == RoleTask || r.Role == RoleJudge || r.Role == RoleMeta
	return lab && r.JobID != "" && r.Trial == t.Name
}

// Active is what a process knows from EC about which models may answer. The zero
// value has heard nothing and lets all through. It is safe for concurrent use.
type Active struct {
	known atomic.Pointer[map[string]string]
}

// Set takes in EC's word. An empty registry is none: it would take over whatever
// is configured.
func (a *Active) Set(list contracts.ActiveModels) {
	if len(list.Items) == 0 {
		return
	}
	known := make(map[string]string, len(list.Items))
	for _, m := range list.Items {
		known[m.Name] = m.Fingerprint
	}
	a.known.Store(&known)
}

// Allows tells whether a version of a model may answer.
func (a *Active) Allows(name, fingerprint string) bool {
	known := a.known.Load()
	if known == nil {
		return true
	}
	active, ok := (*known)[name]
	return ok && active == fingerprint
}
