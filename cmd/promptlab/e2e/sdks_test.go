package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// sdk is an official client in its own language, driven order by order.
type sdk struct {
	name  string
	speak dialect
	in    io.Writer
	out   *bufio.Reader
}

// order is one thing that a client is told to do.
type order struct {
	SDK     string            `json:"sdk"`
	Do      string            `json:"do"`
	BaseURL string            `json:"base_url"`
	Key     string            `json:"key"`
	Headers map[string]string `json:"headers,omitempty"`
	Params  map[string]any    `json:"params,omitempty"`
	Answers map[string]string `json:"answers,omitempty"`
}

// said is what a client understood, or the error it gave.
type said struct {
	IDs       []string
	ID        string
	Model     string
	Text      string
	Pieces    int
	Finish    string
	First     string // why the answer before the tools' ended
	Tools     [][3]string
	Usage     []int64
	Parsed    json.RawMessage
	PromptLab struct {
		Receipt       string
		Overlays      string
		Applied       []string
		Dropped       map[string]string
		RefreshReason string `json:"refresh_reason"`
		OverrideMode  string `json:"override_mode"`
	}
	Headers map[string]string

	Error   string // its type
	Status  int
	Code    string
	Message string
}

// head gives a header of the answer, in whatever case the client keeps it.
func (s said) head(name string) string {
	h := http.Header{}
	for k, v := range s.Headers {
		h.Set(k, v)
	}
	return h.Get(name)
}

// dialect is what differs between the protocols of two kinds of clients.
type dialect struct {
	sdk, end, tools string  // end of a text and of tool calls
	usage, streamed []int64 // of the pieces that upstream plays
	offer           any     // tools
	image           any     // content with an image
	bad             map[string]any
	names           []string // fields of bad
	helper          bool     // the client puts streams together by a helper of its own
}

func openAI() dialect {
	function := func(name string) any {
		return map[string]any{"type": "function", "function": map[string]any{"name": name, "parameters": map[string]any{"type": "object"}}}
	}
	return dialect{
		sdk: "openai", end: "stop", tools: "tool_calls", usage: []int64{21, 4, 25, 5}, streamed: []int64{21, 4, 25}, helper: true,
		offer: []any{function("look"), function("count")},
		image: []any{map[string]any{"type": "text", "text": "What is this?"}, map[string]any{"type": "image_url", "image_url": map[string]any{"url": pixel}}},
		bad:   map[string]any{"temperature": 9, "n": 3}, names: []string{"temperature", "n "},
	}
}

func responses() dialect {
	tool := func(name string) any {
		return map[string]any{"type": "function", "name": name, "parameters": map[string]any{"type": "object"}}
	}
	return dialect{
		sdk: "responses", end: "completed", tools: "completed", usage: []int64{21, 4, 25, 5}, streamed: []int64{21, 4, 25, 5}, helper: true,
		offer: []any{tool("look"), tool("count")},
		image: []any{map[string]any{"type": "input_text", "text": "What is this?"}, map[string]any{"type": "input_image", "image_url": pixel}},
		bad:   map[string]any{"temperature": 9, "top_p": 7}, names: []string{"temperature", "top_p"},
	}
}

func anthropic() dialect {
	tool := func(name string) any {
		return map[string]any{"name": name, "input_schema": map[string]any{"type": "object"}}
	}
	return dialect{
		sdk: "anthropic", end: "end_turn", tools: "tool_use", usage: []int64{16, 4, 5}, streamed: []int64{16, 4, 5},
		offer: []any{tool("look"), tool("count")},
		image: []any{map[string]any{"type": "text", "text": "What is this?"}, map[string]any{
			"type": "image", "source": map[string]any{"type": "base64", "media_type": "image/png", "data": pixel[len("data:image/png;base64,"):]},
		}},
		bad: map[string]any{"max_tokens": -1, "tool_choice": map[string]any{"type": "sideways"}}, names: []string{"max_tokens", "tool_choice.type"},
	}
}

const pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// startSDKs starts the programs that drive the clients; each serves one or two.
func startSDKs(t *testing.T) []*sdk {
	t.Helper()
	python, node, golang := startPython(t), driver(t, "node", "node", "clients/node/client.js"), driver(t, "go", "../../../bin/client-go")
	return []*sdk{
		python.speaking(openAI()), python.speaking(responses()), python.speaking(anthropic()),
		node.speaking(openAI()), node.speaking(responses()), node.speaking(anthropic()), golang.speaking(openAI()),
	}
}

func startPython(t *testing.T) *sdk {
	return driver(t, "python", "../../../.venv-clients/bin/python", "-B", "clients/python/client.py")
}

// speaking gives one of the clients that a program drives.
func (c *sdk) speaking(d dialect) *sdk {
	return &sdk{name: c.name + " " + d.sdk, speak: d, in: c.in, out: c.out}
}

// driver starts one program. Nothing of the environment reaches it.
func driver(t *testing.T, name, program string, args ...string) *sdk {
	t.Helper()
	if filepath.Base(program) != program {
		path, err := filepath.Abs(program)
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			t.Fatalf("the official clients are not installed; run: make clients (%v)", err)
		}
		program = path
	}
	if name == "node" {
		if _, err := os.Stat("clients/node/node_modules/openai"); err != nil {
			t.Fatalf("the official clients are not installed; run: make clients (%v)", err)
		}
	}
	cmd := exec.Command(program, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "NO_PROXY=127.0.0.1"}
	log, err := os.Create(filepath.Join(t.TempDir(), name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = log
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the %s clients: %v", name, err)
	}
	t.Cleanup(func() {
		_ = in.Close() // ends it
		_ = cmd.Wait()
		if b, _ := os.ReadFile(log.Name()); t.Failed() && len(b) > 0 {
			t.Logf("--- %s:\n%s", name, tail(b, 3000))
		}
		_ = log.Close()
	})
	return &sdk{name: name, in: in, out: bufio.NewReaderSize(out, 1<<20)}
}

// do has the client carry out an order.
func (c *sdk) do(t *testing.T, o order) said {
	t.Helper()
	o.SDK = c.speak.sdk
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	type line struct {
		b   []byte
		err error
	}
	got := make(chan line, 1)
	go func() {
		_, err := c.in.Write(append(b, '\n'))
		if err != nil {
			got <- line{nil, err}
			return
		}
		answer, err := c.out.ReadBytes('\n')
		got <- line{answer, err}
	}()
	select {
	case l := <-got:
		var s said
		if err := l.err; err != nil {
			t.Fatalf("%s: %s: the program that drives it ended: %v", c.name, o.Do, err)
		}
		if err := json.Unmarshal(l.b, &s); err != nil {
			t.Fatalf("%s: %s answered %s: %v", c.name, o.Do, l.b, err)
		}
		return s
	case <-time.After(2 * time.Minute):
		t.Fatalf("%s: %s: nothing came back", c.name, o.Do)
		return said{}
	}
}

// params makes the parameters of a turn: a question and what else is given.
func (c *sdk) params(model string, content any, more ...map[string]any) map[string]any {
	p := map[string]any{"model": model, "messages": []any{map[string]any{"role": "user", "content": content}}}
	switch c.speak.sdk {
	case "anthropic":
		p["max_tokens"] = 100
	case "responses":
		p = map[string]any{"model": model, "input": p["messages"]}
	}
	for _, m := range more {
		for k, v := range m {
			p[k] = v
		}
	}
	return p
}

// ok fails the test when the client gave an error.
func (s said) ok(t *testing.T) said {
	t.Helper()
	if s.Error != "" {
		t.Fatalf("the client gave %s (status %d, code %s): %s", s.Error, s.Status, s.Code, s.Message)
	}
	return s
}

// startChat runs the chat endpoint as a process of its own.
func (s *system) startChat() {
	port := freePort(s.t)
	s.chatURL = s.address(port)
	s.chat = s.process("chat", func() *exec.Cmd {
		return s.command("chat", "--ec", s.address(s.port), "--chat-listen", fmt.Sprintf("127.0.0.1:%d", port))
	})
	s.until(time.Minute, "the chat endpoint answers and hears from EC", s.chatHearsEC)
}

// chatHearsEC says whether the chat endpoint knows that EC is there.
func (s *system) chatHearsEC() bool {
	res, err := s.caller().Get(s.chatURL + "/readyz") //nolint:noctx // a probe of a test's own server
	if err != nil {
		return false
	}
	defer res.Body.Close()
	var ready struct{ EC string }
	return json.NewDecoder(res.Body).Decode(&ready) == nil && ready.EC == "there"
}
