package gateway_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/internal/fault"
)

func usd(v float64) *float64 { return &v }

func localModel() gateway.ModelConfig {
	return gateway.ModelConfig{
		Name: "local", Protocol: gateway.ProtocolOpenAI, BaseURL: "http://127.0.0.1:8000/v1/", Model: "gpt-4o",
		Routes: gateway.Roles(), Prices: &gateway.Prices{Input: usd(2.5), Output: usd(10)},
	}
}

func TestModelsAreReadWithDefaults(t *testing.T) {
	got, err := gateway.Targets([]gateway.ModelConfig{localModel()})
	if err != nil {
		t.Fatalf("a good model: %v", err)
	}
	want := gateway.Price{Known: true, Input: 2_500_000_000, Output: 10_000_000_000, CacheRead: 2_500_000_000, CacheWrite: 2_500_000_000}
	if got[0].Price != want {
		t.Errorf("price %+v, want %+v", got[0].Price, want)
	}
	if got[0].BaseURL != "http://127.0.0.1:8000/v1" || got[0].MaxTokensField != "max_tokens" || got[0].MaxOutput != 4096 {
		t.Errorf("target %+v", got[0])
	}
}

func TestEveryBadKeyIsNamedAtOnceAndNoValueIsTold(t *testing.T) {
	bad := gateway.ModelConfig{
		Name: "Bad Name " + canary, Protocol: "smoke", BaseURL: "ftp://" + canary, Model: "", APIKeyEnv: "sk-" + canary,
		Prices: &gateway.Prices{Input: usd(0.0000025)}, Limits: gateway.Limits{Concurrency: -1},
		Routes: []gateway.Role{"task", "dream", "task"}, MaxTokensField: "tokens",
		Profile: "best", DropParameters: []gateway.Parameter{"seed", "thoughts"},
	}
	_, err := gateway.Targets([]gateway.ModelConfig{localModel(), bad, localModel()})
	var f *fault.Error
	if !errors.As(err, &f) {
		t.Fatalf("bad models: error %v, want a fault", err)
	}
	var fields []string
	for _, d := range f.Details {
		fields = append(fields, d.Field)
	}
	for _, want := range []string{"name", "protocol", "base_url", "model", "api_key_env", "prices.input_per_mtok_usd",
		"prices.output_per_mtok_usd", "limits.concurrency", "routes[1]", "routes[2]", "max_tokens_field", "profile", "drop_parameters[1]"} {
		if !slices.Contains(fields, "models[1]."+want) {
			t.Errorf("models[1].%s is not named in %v", want, fields)
		}
	}
	if !slices.Contains(fields, "models[2].name") {
		t.Errorf("the second use of a name is not named in %v", fields)
	}
	if strings.Contains(err.Error(), canary) {
		t.Errorf("the fault tells a value: %v", err)
	}
}

// R-GWM-08: a name that may mean another model tomorrow is not pinned.
func TestFamilyNamesAreRefusedBehindPublicAddresses(t *testing.T) {
	for _, c := range []struct {
		url, model string
		ok         bool
	}{
		{"https://api.example.com/v1", "gpt-4o", false},
		{"https://api.example.com/v1", "openai/GPT-4o", false},
		{"https://api.example.com/v1", "mistral-small-latest", false},
		{"https://api.example.com/v1", "llama3:latest", false},
		{"https://api.example.com/v1", "gpt-4o-2024-11-20", true},
		{"http://127.0.0.1:11434/v1", "llama3:latest", true},
		{"http://10.1.2.3/v1", "gpt-4o", true},
		{"http://models/v1", "gpt-4o", true},
		{"http://api.example.com/v1", "gpt-4o-2024-11-20", false}, // a key would travel in the clear
	} {
		m := localModel()
		m.BaseURL, m.Model = c.url, c.model
		if _, err := gateway.Targets([]gateway.ModelConfig{m}); (err == nil) != c.ok {
			t.Errorf("%s at %s: error %v, accepted wanted: %t", c.model, c.url, err, c.ok)
		}
	}
}

func TestPricesOutsideTheSaneRangeAreRefused(t *testing.T) {
	for price, ok := range map[float64]bool{0: true, 0.001: true, 2.5: true, 600: true, 0.0000025: false, -1: false, 2500000: false, math.Inf(1): false} {
		m := localModel()
		m.Prices.Input = usd(price)
		if _, err := gateway.Targets([]gateway.ModelConfig{m}); (err == nil) != ok {
			t.Errorf("price %g: error %v, accepted wanted: %t", price, err, ok)
		}
	}
}

func TestTheSimulatorHasNoPriceAndNoKey(t *testing.T) {
	m := gateway.ModelConfig{Name: "sim", Protocol: gateway.ProtocolSimulator, Model: "helpful", Routes: gateway.Roles()}
	got, err := gateway.Targets([]gateway.ModelConfig{m})
	if err != nil || !got[0].Price.Free() {
		t.Fatalf("simulator: price %+v, error %v", got, err)
	}
	m.Prices, m.APIKeyEnv, m.BaseURL = &gateway.Prices{Input: usd(1), Output: usd(1)}, "KEY", "http://x/v1"
	if _, err := gateway.Targets([]gateway.ModelConfig{m}); err == nil {
		t.Error("a simulator with price, key and address is accepted")
	}
}

func TestAProtocolWithoutAdapterIsRefusedAtStart(t *testing.T) {
	m := localModel()
	m.Protocol = gateway.ProtocolAnthropic
	_, err := gateway.New(gateway.Config{Models: []gateway.ModelConfig{m}})
	if err == nil || !strings.Contains(err.Error(), "models[0].protocol") {
		t.Errorf("error %v, want one that names models[0].protocol", err)
	}
}

// The bound of a call is never below its cost when a token is at least a byte
// and the answer keeps its cap, whatever the prices.
func TestBoundCoversEveryCost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		price := func(name string) int64 { return rapid.Int64Range(0, 2000*gateway.NanoUSD).Draw(t, name) }
		p := gateway.Price{Known: true, Input: price("in"), Output: price("out"), CacheRead: price("read"), CacheWrite: price("write")}
		text := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "text")
		maxTokens := rapid.IntRange(1, 8192).Draw(t, "max tokens")
		read := rapid.IntRange(0, len(text)).Draw(t, "cache read")
		write := rapid.IntRange(0, len(text)-read).Draw(t, "cache write")
		u := gateway.Usage{Known: true, Input: int64(len(text) - read - write), CacheRead: int64(read), CacheWrite: int64(write),
			Output: int64(rapid.IntRange(0, maxTokens).Draw(t, "output"))}
		bound := p.Bound(gateway.Request{Messages: []gateway.Message{{Role: "user", Content: string(text)}}, MaxTokens: maxTokens}, 0)
		if cost := p.Cost(u); cost > bound {
			t.Fatalf("%+v with %+v costs %d, bound %d", u, p, cost, bound)
		}
	})
}

func TestMoneyDoesNotOverflow(t *testing.T) {
	p := gateway.Price{Known: true, Input: math.MaxInt64, Output: math.MaxInt64}
	if got := p.Cost(gateway.Usage{Input: math.MaxInt64, Output: math.MaxInt64}); got != math.MaxInt64 {
		t.Errorf("cost %d, want the largest amount", got)
	}
	if got := (gateway.Price{Known: true, Input: 2_500_000_000}).Cost(gateway.Usage{Input: 1}); got != 2500 {
		t.Errorf("one token at 2.50 USD per million costs %d nanoUSD, want 2500", got)
	}
	for in, want := range map[float64]int64{0.01: 10_000_000, -1: 0, math.Inf(1): 0, 0: 0} {
		if got := gateway.FromUSD(in); got != want {
			t.Errorf("%g USD is %d nanoUSD, want %d", in, got, want)
		}
	}
	if got := gateway.FromUSD(math.NaN()); got != 0 {
		t.Errorf("NaN USD is %d, want 0", got)
	}
}
