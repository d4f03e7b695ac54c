package gateway_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/gateway"
)

// target gives the target of one model with this profile.
func target(t *testing.T, change func(*gateway.ModelConfig)) gateway.Target {
	t.Helper()
	m := localModel()
	change(&m)
	got, err := gateway.Targets([]gateway.ModelConfig{m})
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

// protocolOf gives the protocol of a profile.
func protocolOf(name string) gateway.Protocol {
	for _, p := range gateway.Profiles() {
		if p.Name == name {
			return p.Protocol
		}
	}
	return gateway.ProtocolOpenAI
}

func profile(t *testing.T, name string) gateway.Profile {
	t.Helper()
	return target(t, func(m *gateway.ModelConfig) { m.Profile, m.Protocol = name, protocolOf(name) }).Profile
}

// R-GWB-06, R-GWR-05: what each kind of server says is locked by its own errors.
// plain is what the same answer means where nothing is known about the server,
// so that a profile whose rules are lost is noticed.
func TestProfilesReadTheirServersErrors(t *testing.T) {
	const (
		overflow = gateway.ClassContextOverflow
		notFound = gateway.ClassModelNotFound
		quota    = gateway.ClassProviderQuota
		filter   = gateway.ClassContentFilter
		rate     = gateway.ClassRateLimit
		bad      = gateway.ClassBadRequest
		server   = gateway.ClassServer
	)
	for _, c := range []struct {
		profile, name string
		status        int
		body          string
		want, plain   gateway.ErrorClass
	}{
		{"openai", "a rate limit that passes", 429, `{"error":{"message":"Rate limit reached for m in organization org-x on tokens per min (TPM): Limit 30000, Used 28039, Requested 3906. Please try again in 3.89s.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, rate, rate},
		{"openai", "a request above a minute's allowance", 429, `{"error":{"message":"Request too large for m in organization org-x on tokens per min (TPM): Limit 30000, Requested 36278. The input or output tokens must be reduced in order to run successfully.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, overflow, rate},
		{"openai", "an account without money", 429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, quota, quota},
		{"openai", "a prompt against the usage policy", 400, `{"error":{"message":"Invalid prompt: we've limited access to this content for safety reasons.","type":"invalid_request_error","param":null,"code":"invalid_prompt"}}`, filter, bad},
		{"openai", "a parameter that the model does not take", 400, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}`, bad, bad},
		{"azure", "no such deployment", 404, `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist. If you created the deployment within the last 5 minutes, please wait a moment and try again."}}`, notFound, notFound},
		{"azure", "a deployment without chat", 400, `{"error":{"code":"OperationNotSupported","message":"The chatCompletion operation does not work with the specified model, m. Please choose different model and try again."}}`, notFound, bad},
		{"azure", "a filtered prompt", 400, `{"error":{"message":"The response was filtered due to the prompt triggering the content management policy.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":{"hate":{"filtered":true,"severity":"high"}}}}}`, filter, filter},
		{"azure", "a wrong key", 401, `{"error":{"code":"401","message":"Access denied due to invalid subscription key or wrong API endpoint."}}`, gateway.ClassAuth, gateway.ClassAuth},
		{"ollama", "a model that is not pulled", 404, `{"error":{"message":"model \"m\" not found, try pulling it first","type":"api_error","param":null,"code":null}}`, notFound, notFound},
		{"ollama", "a model larger than the machine", 500, `{"error":{"message":"model requires more system memory (5.3 GiB) than is available (3.5 GiB)","type":"api_error","param":null,"code":null}}`, notFound, server},
		{"ollama", "a plan that is used up", 429, `{"error":{"message":"you've reached your hourly usage limit, please upgrade to continue","type":"api_error","param":null,"code":null}}`, quota, rate},
		{"ollama", "a full queue", 503, `{"error":{"message":"server busy, please try again.  maximum pending requests exceeded","type":"api_error","param":null,"code":null}}`, gateway.ClassOverloaded, gateway.ClassOverloaded},
		{"vllm", "an overflow", 400, `{"object":"error","message":"This model's maximum context length is 32768 tokens. However, you requested 32813 tokens in the messages, Please reduce the length of the messages.","type":"BadRequestError","param":null,"code":400}`, overflow, overflow},
		{"vllm", "an overflow told as a negative cap", 400, `{"object":"error","message":"max_tokens must be at least 1, got -186.","type":"BadRequestError","param":null,"code":400}`, overflow, bad},
		{"vllm", "a cap of zero is nobody's overflow", 400, `{"object":"error","message":"max_tokens must be at least 1, got 0.","type":"BadRequestError","param":null,"code":400}`, bad, bad},
		{"vllm", "no such model", 404, "{\"object\":\"error\",\"message\":\"The model `m` does not exist.\",\"type\":\"NotFoundError\",\"param\":null,\"code\":404}", notFound, notFound},
		{"llamacpp", "an overflow", 400, `{"error":{"code":400,"message":"request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":4096}}`, overflow, overflow},
		{"llamacpp", "a feature that was not started", 501, `{"error":{"code":501,"message":"This server does not support this endpoint.","type":"not_supported_error"}}`, bad, server},
		{"llamacpp", "a model that is being loaded", 503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, gateway.ClassOverloaded, gateway.ClassOverloaded},
		{"openrouter", "no credits", 402, `{"error":{"message":"Insufficient credits. Add more using the settings page","code":402}}`, quota, quota},
		{"openrouter", "the day's free requests", 429, `{"error":{"message":"Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day","code":429,"metadata":{"headers":{"X-RateLimit-Limit":"50","X-RateLimit-Remaining":"0"}}}}`, quota, rate},
		{"openrouter", "the minute's free requests", 429, `{"error":{"message":"Rate limit exceeded: free-models-per-min.","code":429}}`, rate, rate},
		{"openrouter", "a moderated input", 403, `{"error":{"message":"m requires moderation. Your input was flagged for \"violence\".","code":403,"metadata":{"reasons":["violence"],"flagged_input":"x","provider_name":"P"}}}`, filter, gateway.ClassEntitlement},
		{"openrouter", "an overflow further behind, as text", 400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"This model's maximum context length is 8192 tokens.","provider_name":"P"}}}`, overflow, bad},
		{"openrouter", "an overflow further behind, as JSON", 400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"x\",\"code\":\"context_length_exceeded\"}}","provider_name":"P"}}}`, overflow, bad},
		{"openrouter", "a shared pool that is busy", 429, `{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"m is temporarily rate-limited upstream. Please retry shortly.","provider_name":"P"}}}`, rate, rate},
		{"anthropic", "a prompt beyond the window", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"},"request_id":"req_1"}`, overflow, overflow},
		{"anthropic", "a prompt that leaves no room for the answer", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"input length and ` + "`max_tokens`" + ` exceed context limit: 197202 + 21333 > 200000, decrease input length or ` + "`max_tokens`" + ` and try again"}}`, overflow, bad},
		{"anthropic", "a body beyond what is read", 413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, overflow, overflow},
		{"anthropic", "an account without money", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}`, quota, quota},
		{"anthropic", "a limit that its owner set", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."}}`, quota, bad},
		{"anthropic", "a bill that is open", 402, `{"type":"error","error":{"type":"billing_error","message":"x"}}`, quota, quota},
		{"anthropic", "a minute's tokens", 429, `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 40,000 input tokens per minute."}}`, rate, rate},
		{"anthropic", "an answer that was filtered", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by content filtering policy"}}`, filter, bad},
		{"anthropic", "an organisation that was shut out", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"This organization has been disabled."}}`, gateway.ClassEntitlement, bad},
		{"anthropic", "a key that may not", 403, `{"type":"error","error":{"type":"permission_error","message":"Your API key does not have permission to use the specified resource."}}`, gateway.ClassEntitlement, gateway.ClassEntitlement},
		{"anthropic", "a wrong key", 401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`, gateway.ClassAuth, gateway.ClassAuth},
		{"anthropic", "no such model", 404, `{"type":"error","error":{"type":"not_found_error","message":"model: m"}}`, notFound, notFound},
		{"anthropic", "too many for the servers", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, gateway.ClassOverloaded, gateway.ClassOverloaded},
		{"anthropic", "the same under a status of success", 200, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, gateway.ClassOverloaded, gateway.ClassOverloaded},
		{"anthropic", "a mistake told in a stream", 200, `{"type":"error","error":{"type":"invalid_request_error","message":"messages: roles must alternate"}}`, bad, bad},
		{"anthropic", "trouble inside", 500, `{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`, server, server},
		{"anthropic-budget", "an answer that was filtered", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by content filtering policy"}}`, filter, bad},
		{"responses", "an account without money", 429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, quota, quota},
		{"responses", "a request above a minute's allowance", 429, `{"error":{"message":"Request too large for m on tokens per min (TPM): Limit 30000, Requested 36278. The input or output tokens must be reduced in order to run successfully.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, overflow, rate},
		{"responses", "an overflow", 400, `{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`, overflow, overflow},
		{"responses", "a prompt against the usage policy", 400, `{"error":{"message":"Invalid prompt: your prompt was flagged as potentially violating our usage policy.","type":"invalid_request_error","param":null,"code":"invalid_prompt"}}`, filter, filter},
		{"responses", "a failure told inside", 200, `{"error":{"code":"server_error","message":"The model failed to generate a response."}}`, server, server},
		{"compatible", "a text that only another server means like this", 500, `{"error":{"message":"model requires more system memory"}}`, server, server},
	} {
		t.Run("R-GWB-06 "+c.profile+": "+c.name, func(t *testing.T) {
			got := profile(t, c.profile).Classify(c.status, http.Header{}, []byte(c.body), time.Now())
			if got.Class != c.want {
				t.Errorf("by its profile status %d is %s, want %s", c.status, got.Class, c.want)
			}
			if plain := gateway.Classify(c.status, http.Header{}, []byte(c.body), time.Now()); plain.Class != c.plain {
				t.Errorf("without a profile status %d is %s, want %s", c.status, plain.Class, c.plain)
			}
		})
	}
}

// R-GWP-01, R-GWM-03: what a model is never sent is data: its profile and its
// own configuration.
func TestParametersOfEachProfile(t *testing.T) {
	const format = gateway.ParamResponseFormat
	for name, want := range map[string]struct {
		field  string
		drop   []gateway.Parameter
		header string
	}{
		"":                 {"max_tokens", []gateway.Parameter{format}, ""},
		"compatible":       {"max_tokens", []gateway.Parameter{format}, ""},
		"openai":           {"max_completion_tokens", nil, ""},
		"azure":            {"max_tokens", nil, "Api-Key"},
		"ollama":           {"max_tokens", nil, ""},
		"vllm":             {"max_tokens", nil, ""},
		"llamacpp":         {"max_tokens", nil, ""},
		"openrouter":       {"max_tokens", []gateway.Parameter{format}, ""},
		"anthropic":        {"", []gateway.Parameter{"seed", "presence_penalty", "frequency_penalty", "json_object"}, "X-Api-Key"},
		"anthropic-budget": {"", []gateway.Parameter{"seed", "presence_penalty", "frequency_penalty", "json_object"}, "X-Api-Key"},
		"responses":        {"", []gateway.Parameter{"seed", "stop", "presence_penalty", "frequency_penalty"}, ""},
	} {
		got := target(t, func(m *gateway.ModelConfig) { m.Profile, m.Protocol = name, protocolOf(name) })
		if got.MaxTokensField != want.field || !slices.Equal(got.Drop, want.drop) || got.Profile.KeyHeader != want.header {
			t.Errorf("profile %q: field %s, drops %v, key in %q; want %+v", name, got.MaxTokensField, got.Drop, got.Profile.KeyHeader, want)
		}
	}
	if len(gateway.Profiles()) != 10 {
		t.Errorf("%d profiles, 10 are tested here", len(gateway.Profiles()))
	}
	for protocol, want := range map[gateway.Protocol]string{"openai": "compatible", "anthropic": "anthropic", "responses": "responses"} {
		if got := target(t, func(m *gateway.ModelConfig) { m.Protocol = protocol }); got.Profile.Name != want {
			t.Errorf("a model of %s that names no profile has %s, want %s", protocol, got.Profile.Name, want)
		}
	}
	for _, wrong := range []gateway.ModelConfig{{Protocol: "anthropic", Profile: "openai"}, {Protocol: "openai", Profile: "anthropic"}, {Protocol: "anthropic", MaxTokensField: "max_tokens"}} {
		m := localModel()
		m.Protocol, m.Profile, m.MaxTokensField = wrong.Protocol, wrong.Profile, wrong.MaxTokensField
		if _, err := gateway.Targets([]gateway.ModelConfig{m}); err == nil {
			t.Errorf("protocol %s with profile %q and token field %q is accepted", m.Protocol, m.Profile, m.MaxTokensField)
		}
	}
	own := target(t, func(m *gateway.ModelConfig) {
		m.Profile, m.MaxTokensField = "openai", "max_tokens"
		m.DropParameters = []gateway.Parameter{gateway.ParamSeed, format}
	})
	if own.MaxTokensField != "max_tokens" || !slices.Equal(own.Drop, []gateway.Parameter{gateway.ParamSeed, format}) {
		t.Errorf("the model's own words: field %s, drops %v", own.MaxTokensField, own.Drop)
	}
}

func shape(t *testing.T) *gateway.Schema {
	t.Helper()
	s, err := gateway.NewSchema("verdict/1", `{"type":"object","properties":{"score":{"type":"number","minimum":0,"maximum":1},
		"maximum":{"type":"string","maxLength":3}},"required":["score"],"additionalProperties":false}`)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRemovedParametersAreRecorded(t *testing.T) {
	all := []string{"temperature", "seed", "stop", "response_format"}
	for _, c := range []struct {
		name   string
		change func(*gateway.ModelConfig)
		want   []string
	}{
		{"R-GWP-05 nothing is removed and nothing said", func(m *gateway.ModelConfig) { m.Profile = "vllm" }, nil},
		{"R-GWP-02 a reasoning model gets no sampling", func(m *gateway.ModelConfig) { m.Profile, m.DropSampling = "openai", true }, all[:3]},
		{"R-GWP-04 strict JSON only where the profile has it", func(*gateway.ModelConfig) {}, all[3:]},
		{"R-GWP-01 the model's own list", func(m *gateway.ModelConfig) {
			m.DropParameters = []gateway.Parameter{gateway.ParamStop}
		}, all[2:]},
		{"R-GWP-05 a cap above the model's", func(m *gateway.ModelConfig) { m.Profile, m.Limits.MaxOutputTokens = "vllm", 50 }, []string{"max_tokens"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &stub{do: func(context.Context, int, gateway.Call) (gateway.Reply, error) { return ok(`{"score":1}`), nil }}
			m := model("one", gateway.RoleJudge)
			c.change(&m)
			r := newRig(t, a, m)
			req := ask(gateway.RoleJudge)
			req.Temperature, req.Seed, req.Stop, req.Schema = usd(0.5), new(int64), []string{"x"}, shape(t)
			resp, err := r.Do(t.Context(), req, gateway.Unlimited())
			if err != nil || resp.Malformed {
				t.Fatalf("response %+v, error %v", resp, err)
			}
			sent := a.calls[0].Request
			for name, there := range map[string]bool{"temperature": sent.Temperature != nil, "seed": sent.Seed != nil,
				"stop": sent.Stop != nil, "response_format": sent.Schema != nil, "max_tokens": sent.MaxTokens == 100} {
				if there == slices.Contains(c.want, name) {
					t.Errorf("%s as asked for: %t, removed or clamped are %v", name, there, c.want)
				}
			}
			row := r.taken()[0]
			if diff := cmp.Diff(c.want, row.Adjusted); diff != "" {
				t.Errorf("R-GWP-05 recorded changes (-want +got):\n%s", diff)
			}
			if row.SchemaID != "verdict/1" {
				t.Errorf("R-GWO-04 the row names schema %q, sent or not it was verdict/1", row.SchemaID)
			}
		})
	}
}
