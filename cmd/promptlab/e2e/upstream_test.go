package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// upstream is a model server that speaks OpenAI's protocol, plays the piece a
// test names and keeps what it was sent.
type upstream struct {
	mu     sync.Mutex
	piece  string
	got    []received
	gone   chan struct{} // gets one for each caller that left while a stream was held
	wait   chan struct{} // gets one for each stream that waits
	onward chan struct{} // lets one of them finish
}

// received is one request.
type received struct {
	Model          string            `json:"model"`
	Stream         bool              `json:"stream"`
	Messages       []receivedMessage `json:"messages"`
	ResponseFormat json.RawMessage   `json:"response_format"`
	key            string
}

type receivedMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

// text gives a message's content when it is one string.
func (m receivedMessage) text() string {
	var s string
	_ = json.Unmarshal(m.Content, &s) // parts give nothing
	return s
}

// String shows a message in failures.
func (m receivedMessage) String() string {
	return fmt.Sprintf("%s: %s %v %s", m.Role, m.Content, m.ToolCalls, m.ToolCallID)
}

func newUpstream() *upstream {
	return &upstream{piece: "words", gone: make(chan struct{}, 16), wait: make(chan struct{}, 16), onward: make(chan struct{})}
}

// play names the piece: words, tools, shape, down, cut, hold or wait.
func (u *upstream) play(piece string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.piece = piece
}

func (u *upstream) calls() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.got)
}

func (u *upstream) last() received {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.got) == 0 {
		return received{}
	}
	return u.got[len(u.got)-1]
}

const (
	heard      = "Heard over the wire."
	shapedText = `{"answer":"yes","score":7}`
	usageWire  = `{"prompt_tokens":21,"completion_tokens":4,"total_tokens":25,"prompt_tokens_details":{"cached_tokens":5}}`
	lookArgs   = `{"city":"Oslo"}`
	countArgs  = `{"items":[1,2]}`
)

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in received
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	in.key = r.Header.Get("Authorization")
	u.mu.Lock()
	u.got = append(u.got, in)
	piece := u.piece
	u.mu.Unlock()
	if piece == "tools" && in.Messages[len(in.Messages)-1].Role == "tool" {
		piece = "words" // the tools have answered
	}
	switch {
	case piece == "down":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"error":{"message":"too busy","type":"server_error","code":null,"param":null}}`)
	case in.Stream:
		u.stream(w, r, piece)
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, whole(piece))
	}
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func whole(piece string) string {
	message, finish := `"content":`+quoted(heard), "stop"
	switch piece {
	case "shape":
		message = `"content":` + quoted(shapedText)
	case "tools":
		finish = "tool_calls"
		message = `"content":null,"tool_calls":[{"id":"call-1","type":"function","function":{"name":"look","arguments":` + quoted(lookArgs) + `}},
			{"id":"call-2","type":"function","function":{"name":"count","arguments":` + quoted(countArgs) + `}}]`
	}
	return `{"id":"up-1","object":"chat.completion","created":1,"model":"served-1","choices":[{"index":0,"message":{"role":"assistant",` + message +
		`},"finish_reason":"` + finish + `"}],"usage":` + usageWire + `}`
}

// stream tells a piece in chunks; arguments of two calls come interleaved.
func (u *upstream) stream(w http.ResponseWriter, r *http.Request, piece string) {
	w.Header().Set("Content-Type", "text/event-stream")
	say := func(choices, rest string) {
		fmt.Fprintf(w, "data: {\"id\":\"up-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"served-1\",\"choices\":[%s]%s}\n\n", choices, rest)
		_ = http.NewResponseController(w).Flush() // the reader may be gone
	}
	delta := func(d string) { say(`{"index":0,"delta":{`+d+`},"finish_reason":null}`, "") }
	words := strings.SplitAfter(heard, " ")
	finish := "stop"
	switch piece {
	case "cut":
		delta(`"content":` + quoted(words[0]))
		panic(http.ErrAbortHandler)
	case "hold":
		delta(`"content":` + quoted(words[0]))
		<-r.Context().Done()
		u.gone <- struct{}{}
		return
	case "tools":
		finish = "tool_calls"
		call := func(i int, rest string) { delta(fmt.Sprintf(`"tool_calls":[{"index":%d,%s}]`, i, rest)) }
		call(0, `"id":"call-1","type":"function","function":{"name":"look","arguments":""}`)
		call(1, `"id":"call-2","type":"function","function":{"name":"count","arguments":""}`)
		for at := 0; at < len(lookArgs); at += 5 {
			call(0, `"function":{"arguments":`+quoted(lookArgs[at:min(at+5, len(lookArgs))])+`}`)
			call(1, `"function":{"arguments":`+quoted(countArgs[at:min(at+5, len(countArgs))])+`}`)
		}
	default:
		for i, word := range words {
			if piece == "wait" && i == 1 {
				u.wait <- struct{}{}
				<-u.onward
			}
			delta(`"content":` + quoted(word))
		}
	}
	say(`{"index":0,"delta":{},"finish_reason":"`+finish+`"}`, "")
	say("", `,"usage":`+usageWire)
	fmt.Fprint(w, "data: [DONE]\n\n")
}
