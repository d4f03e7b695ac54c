// Command go drives the official Go client of OpenAI as a test tells it to: a
// JSON object a line on standard input, what the client understood or the error
// it gave a line on standard output.
//
// It is a module of its own, so that the client is no part of the product. It
// deliberately knows nothing of what is expected: that is the test's.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
)

// order is one thing to do.
type order struct {
	SDK     string            `json:"sdk"`
	Do      string            `json:"do"`
	BaseURL string            `json:"base_url"`
	Key     string            `json:"key"`
	Headers map[string]string `json:"headers"`
	Params  json.RawMessage   `json:"params"`
	Answers map[string]string `json:"answers"`
}

// answer is what the client understood.
type answer struct {
	IDs       []string          `json:"ids,omitempty"`
	ID        string            `json:"id,omitempty"`
	Model     string            `json:"model,omitempty"`
	Text      string            `json:"text"`
	Pieces    int               `json:"pieces,omitempty"`
	Finish    string            `json:"finish,omitempty"`
	First     string            `json:"first,omitempty"`
	Tools     [][3]string       `json:"tools,omitempty"`
	Usage     []int64           `json:"usage,omitempty"`
	Parsed    json.RawMessage   `json:"parsed,omitempty"`
	PromptLab json.RawMessage   `json:"promptlab,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`

	Error   string `json:"error,omitempty"`
	Status  int    `json:"status,omitempty"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		var o order
		if err := json.Unmarshal(in.Bytes(), &o); err != nil {
			fail(err)
		}
		a := do(context.Background(), o)
		if err := out.Encode(a); err != nil {
			fail(err)
		}
	}
	if err := in.Err(); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// run is one order on its way.
type run struct {
	order
	client openai.Client
	params openai.ChatCompletionNewParams
	res    *http.Response
	seen   answer // of a stream, until it ends or fails
}

func do(ctx context.Context, o order) answer {
	r := &run{order: o}
	opts := []option.RequestOption{option.WithBaseURL(o.BaseURL + "/v1"), option.WithAPIKey(o.Key), option.WithResponseInto(&r.res)}
	for name, v := range o.Headers {
		opts = append(opts, option.WithHeader(name, v))
	}
	var extra struct {
		ID        string `json:"id"`
		PromptLab any    `json:"promptlab"`
	}
	if len(o.Params) > 0 {
		if err := errors.Join(json.Unmarshal(o.Params, &r.params), json.Unmarshal(o.Params, &extra)); err != nil {
			fail(err)
		}
	}
	if extra.PromptLab != nil {
		opts = append(opts, option.WithJSONSet("promptlab", extra.PromptLab))
	}
	r.client = openai.NewClient(opts...)
	a, err := r.do(ctx, extra.ID)
	if err != nil {
		a = r.failure(err)
	}
	return a
}

func (r *run) do(ctx context.Context, id string) (answer, error) {
	switch r.Do {
	case "models":
		var a answer
		list := r.client.Models.ListAutoPaging(ctx)
		for list.Next() {
			a.IDs = append(a.IDs, list.Current().ID)
		}
		return a, list.Err()
	case "model":
		m, err := r.client.Models.Get(ctx, id)
		if err != nil {
			return answer{}, err
		}
		return answer{IDs: []string{m.ID}}, nil
	case "create", "shaped":
		c, err := r.client.Chat.Completions.New(ctx, r.params)
		if err != nil {
			return answer{}, err
		}
		a := told(c)
		a.Headers = headers(r.res)
		if r.Do == "shaped" {
			a.Parsed = json.RawMessage(a.Text)
		}
		return a, nil
	case "stream", "leave":
		return r.stream(ctx)
	case "helper":
		c, err := r.gather(ctx)
		if err != nil {
			return answer{}, err
		}
		return told(c), nil
	case "tools":
		return r.tools(ctx)
	}
	return answer{}, errors.New("what to do is not known: " + r.Do)
}

func told(c *openai.ChatCompletion) answer {
	m := c.Choices[0].Message
	a := answer{ID: c.ID, Model: c.Model, Text: m.Content, Finish: c.Choices[0].FinishReason, PromptLab: json.RawMessage(c.JSON.ExtraFields["promptlab"].Raw())}
	for _, t := range m.ToolCalls {
		a.Tools = append(a.Tools, [3]string{t.ID, t.Function.Name, t.Function.Arguments})
	}
	if c.Usage.PromptTokens > 0 {
		a.Usage = []int64{c.Usage.PromptTokens, c.Usage.CompletionTokens, c.Usage.TotalTokens, c.Usage.PromptTokensDetails.CachedTokens}
	}
	return a
}

func headers(res *http.Response) map[string]string {
	out := map[string]string{}
	if res == nil {
		return out
	}
	for name := range res.Header {
		out[name] = res.Header.Get(name)
	}
	return out
}

func (r *run) stream(ctx context.Context) (answer, error) {
	stream := r.client.Chat.Completions.NewStreaming(ctx, r.params)
	defer stream.Close()
	a := &r.seen
	for stream.Next() {
		c := stream.Current()
		if f, ok := c.JSON.ExtraFields["promptlab"]; ok {
			a.PromptLab = json.RawMessage(f.Raw())
		}
		if c.JSON.Usage.Valid() {
			a.Usage = []int64{c.Usage.PromptTokens, c.Usage.CompletionTokens, c.Usage.TotalTokens}
		}
		for _, choice := range c.Choices {
			a.Finish += choice.FinishReason
			if choice.Delta.Content == "" {
				continue
			}
			a.Text += choice.Delta.Content
			a.Pieces++
			if r.Do == "leave" {
				return *a, stream.Close()
			}
		}
	}
	a.Headers = headers(r.res)
	return *a, stream.Err()
}

// gather puts a streamed answer together by the client's own means.
func (r *run) gather(ctx context.Context) (*openai.ChatCompletion, error) {
	stream := r.client.Chat.Completions.NewStreaming(ctx, r.params)
	defer stream.Close()
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			return nil, errors.New("a piece does not fit the ones before")
		}
		r.seen.Text = acc.Choices[0].Message.Content
	}
	return &acc.ChatCompletion, stream.Err()
}

// tools asks, answers every call, and asks again with the client's own message
// in the history.
func (r *run) tools(ctx context.Context) (answer, error) {
	var kind struct {
		Stream bool `json:"stream"`
	}
	if err := json.Unmarshal(r.Params, &kind); err != nil {
		return answer{}, err
	}
	var first *openai.ChatCompletion
	var err error
	if kind.Stream {
		first, err = r.gather(ctx)
	} else {
		first, err = r.client.Chat.Completions.New(ctx, r.params)
	}
	if err != nil {
		return answer{}, err
	}
	m := first.Choices[0].Message
	r.params.Messages = append(r.params.Messages, m.ToParam())
	for _, t := range m.ToolCalls {
		r.params.Messages = append(r.params.Messages, openai.ToolMessage(r.Answers[t.Function.Name], t.ID))
	}
	last, err := r.client.Chat.Completions.New(ctx, r.params)
	if err != nil {
		return answer{}, err
	}
	a := told(last)
	a.Tools, a.First = told(first).Tools, first.Choices[0].FinishReason
	return a, nil
}

func (r *run) failure(err error) answer {
	a := r.seen
	a.Error, a.Message = fmt.Sprintf("%T", err), err.Error()
	var api *openai.Error
	var broken *ssestream.StreamError
	switch {
	case errors.As(err, &api):
		a.Error, a.Status, a.Code, a.Message = "Error", api.StatusCode, api.Code, api.Message
	case errors.As(err, &broken):
		a.Error = "StreamError"
	}
	return a
}
