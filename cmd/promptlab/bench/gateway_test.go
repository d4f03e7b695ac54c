package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/openai"
)

const completion = `{"id":"c-1","object":"chat.completion","model":"local-model","choices":[{"index":0,"finish_reason":"stop","message":` +
	`{"role":"assistant","content":"A note."}}],"usage":{"prompt_tokens":400,"completion_tokens":3,"total_tokens":403}}`

// upstream answers every call after a fixed delay.
func upstream(t *testing.T, delay time.Duration) *httptest.Server {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, completion)
	}))
	t.Cleanup(srv.Close)
	return srv
}

// gatewayRow: a call through the chain (budget, limits, breaker, adapter, row)
// against the same request sent by a bare client.
func gatewayRow(t *testing.T, b *board) {
	const rounds, at16 = 3, 16
	srv := upstream(t, 200*time.Millisecond)
	price := 1.0
	rows := make(gateway.RowChan, 1<<16)
	g, err := gateway.New(gateway.Config{
		Models: []gateway.ModelConfig{{
			Name: "local", Protocol: gateway.ProtocolOpenAI, BaseURL: srv.URL + "/v1", Model: "local-model", Routes: gateway.Roles(),
			Prices: &gateway.Prices{Input: &price, Output: &price}, Limits: gateway.Limits{Concurrency: 64},
		}},
		Adapters: map[gateway.Protocol]gateway.Adapter{gateway.ProtocolOpenAI: openai.New(openai.Config{})}, Rows: rows,
	})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("Write the note in plain words. ", 50)
	through := func(int) error {
		resp, err := g.Do(context.Background(), gateway.Request{
			Role: gateway.RoleTask, MaxTokens: 1024, Messages: []gateway.Message{{Role: "user", Content: text}},
		}, gateway.Unlimited())
		if err == nil && resp.Text != "A note." {
			err = fmt.Errorf("the gateway answered %q", resp.Text)
		}
		return err
	}
	plain := &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	t.Cleanup(plain.CloseIdleConnections)
	direct := func(int) error { return ask(plain, srv.URL+"/v1/chat/completions", text) }
	var ours, reference, added []float64
	for i := range rounds + 1 {
		span := 3 * time.Second
		if i == 0 {
			span = 300 * time.Millisecond // connections
		}
		bare, bareRate, err := crowd(at16, span, direct)
		if err != nil {
			t.Fatal(err)
		}
		own, ownRate, err := crowd(at16, span, through)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			ours, reference = append(ours, ownRate), append(reference, bareRate)
			added = append(added, float64(median(own)-median(bare))/float64(time.Millisecond))
		}
	}
	r := ratios(ours, reference)
	b.add(line{"gateway", fmt.Sprintf("%.1f/s", median(ours)), fmt.Sprintf("%.1f/s", median(reference)), fmt.Sprintf("%.3f", median(r)), ">= 0.97", verdict(median(r) >= 0.97)})
	b.add(line{"gateway added p50", fmt.Sprintf("%.2f ms", median(added)), "-", "-", "<= 3 ms", verdict(median(added) <= 3)})
	b.note("gateway: openai adapter, upstream that waits 200 ms, 16 calls at once, the model's limit set to 64 (the default is 8); reference: the same JSON posted by a bare net/http client and decoded. "+
		"Ratio min/median/max of %d rounds %s, added p50 %s ms.", rounds, spread(r, "%.3f"), spread(added, "%.2f"))
}

// ask is the call as a plain program makes it.
func ask(c *http.Client, url, text string) error {
	body, err := json.Marshal(map[string]any{"model": "local-model", "max_tokens": 1024, "messages": []gateway.Message{{Role: "user", Content: text}}})
	if err != nil {
		return err
	}
	resp, err := c.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var got struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, resp.Body) // the rest, so that the connection is kept
	if len(got.Choices) != 1 || got.Choices[0].Message.Content != "A note." {
		return fmt.Errorf("the server answered %+v", got)
	}
	return nil
}
