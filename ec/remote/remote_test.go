package remote_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/dispatch"
	"github.com/elnor/promptlab/ec/dispatch/doortest"
	"github.com/elnor/promptlab/ec/remote"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/elnor/promptlab/internal/life"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func client(t *testing.T, h http.Handler) *remote.Client {
	t.Helper()
	srv := httptest.NewServer(h)
	c, err := remote.NewClient(remote.Config{BaseURL: srv.URL, Token: "secret-of-the-role", Timeout: 5 * time.Second, Pause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); srv.Close() })
	return c
}

func TestDoorOverHTTP(t *testing.T) {
	doortest.Run(t, func(t *testing.T, door *dispatch.Door) ec.Tasks { return client(t, remote.Handler(door)) })
}

func serve(t *testing.T) (*doortest.Bench, *httptest.Server) {
	t.Helper()
	b := doortest.NewBench(t, time.Minute)
	srv := httptest.NewServer(remote.Handler(b.Door))
	t.Cleanup(srv.Close)
	return b, srv
}

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body)) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// R-WRK-02: missing fields are refused by name, unknown ones ignored, and a
// refused message changes nothing.
func TestHostileMessages(t *testing.T) {
	b, srv := serve(t)
	_, task := b.Sent(`{}`)
	base := srv.URL + "/internal/worker/tasks/" + string(task.ID)
	good := `"dispatch":1,"token":"` + doortest.Token + `"`
	before := b.View().Seq()
	for name, c := range map[string]struct {
		path, body string
		status     int
		says       string
	}{
		"not json":         {"/claim", `{`, 400, "bad_request"},
		"no token":         {"/claim", `{"dispatch":1,"worker":"w"}`, 422, `"field":"token"`},
		"two bad fields":   {"/heartbeat", `{"dispatch":0,"token":"short"}`, 422, `"field":"dispatch"`},
		"too long a wait":  {"/heartbeat", `{` + good + `,"wait_seconds":11}`, 422, `"field":"wait_seconds"`},
		"no rows":          {"/rows", `{` + good + `,"rows":[]}`, 422, `"field":"rows"`},
		"score above one":  {"/rows", `{` + good + `,"rows":[{"arm":"source","example_id":"x","score":1.5}]}`, 422, `"field":"rows[0].score"`},
		"negative borrow":  {"/usage", `{` + good + `,"borrow":-1}`, 422, `"field":"borrow"`},
		"no result":        {"/finish", `{` + good + `}`, 422, `"field":"result"`},
		"no such status":   {"/finish", `{` + good + `,"result":{"job_id":"` + string(task.ID) + `","status":"great","source_hash":""}}`, 422, `"field":"result.status"`},
		"large heartbeat":  {"/heartbeat", `{"token":"` + strings.Repeat("x", 70<<10) + `"}`, 413, "payload_too_large"},
		"no such call":     {"/promote", `{}`, 404, "not_found"},
		"another's token":  {"/claim", `{"dispatch":1,"worker":"w","token":"` + strings.Repeat("0", 64) + `"}`, 403, "forbidden"},
		"a null":           {"/claim", `{"dispatch":1,"worker":null,"token":"` + doortest.Token + `"}`, 422, `"field":"worker"`},
		"a duplicated key": {"/claim", `{"dispatch":1,"dispatch":1,"worker":"w","token":"` + doortest.Token + `"}`, 422, `"rule":"duplicate_key"`},
	} {
		status, body := post(t, base+c.path, c.body)
		if status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s: got %d %s, want %d with %s", name, status, body, c.status, c.says)
		}
	}
	if status, body := post(t, srv.URL+"/internal/worker/tasks/..%2f..%2fetc/claim", `{}`); status != 404 {
		t.Errorf("a path as task id: got %d %s, want 404", status, body)
	}
	if resp, err := http.Get(base + "/claim"); err != nil || resp.StatusCode != http.StatusMethodNotAllowed { //nolint:noctx // a test
		t.Errorf("GET: got %v, %v, want 405", resp, err)
	} else {
		_ = resp.Body.Close()
	}
	if got := b.View().Seq(); got != before {
		t.Errorf("refused messages changed something: revision %d became %d", before, got)
	}
	// a newer worker may send more
	if status, body := post(t, base+"/claim", `{`+good+`,"worker":"w1","colour":"blue"}`); status != 200 {
		t.Errorf("claim with an unknown field: got %d %s, want 200", status, body)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestTokenGoesWithEveryCallAndNowhereElse(t *testing.T) {
	var stranger atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stranger.Add(1) }))
	defer other.Close()
	var auth atomic.Value
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		auth.Store(r.Header.Get("Authorization"))
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	_, err := c.Claim(t.Context(), "t", contracts.TaskClaim{})
	if fault.Of(err) != fault.Unavailable {
		t.Errorf("claim answered by a redirect: got %v, want unavailable", err)
	}
	if auth.Load() != "Bearer secret-of-the-role" {
		t.Errorf("authorization: got %q", auth.Load())
	}
	if n := stranger.Load(); n != 0 {
		t.Errorf("a redirect was followed %d times", n)
	}
	if strings.Contains(err.Error(), "secret-of-the-role") {
		t.Errorf("the token is in the error: %v", err)
	}
}

// R-CMD-05: what found nobody is repeated, a bounded number of times; a refusal
// is not.
func TestRepeats(t *testing.T) {
	for name, c := range map[string]struct {
		call  func(context.Context, *remote.Client) error
		fails int32
		calls int32
		ok    bool
		body  string
		code  int
	}{
		"a finish that finds nobody twice": {finish, 2, 3, true, "", 503},
		"a finish that never finds anyone": {finish, 99, 3, false, "", 502},
		"a heartbeat is sent once":         {beat, 99, 1, false, "", 503},
		"a refusal is final":               {finish, 99, 1, false, `{"error":{"code":"conflict","message":"no","details":[],"request_id":"","retryable":false}}`, 409},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			cl := client(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if calls.Add(1) <= c.fails {
					w.WriteHeader(c.code)
					_, _ = io.WriteString(w, c.body)
					return
				}
				_, _ = io.WriteString(w, `{"accepted":true}`)
			}))
			err := c.call(t.Context(), cl)
			if (err == nil) != c.ok || calls.Load() != c.calls {
				t.Errorf("got %v after %d calls, want success %v after %d", err, calls.Load(), c.ok, c.calls)
			}
		})
	}
}

func finish(ctx context.Context, c *remote.Client) error {
	_, err := c.Finish(ctx, "t", contracts.TaskFinish{})
	return err
}

func beat(ctx context.Context, c *remote.Client) error {
	_, err := c.Heartbeat(ctx, "t", contracts.TaskHeartbeat{})
	return err
}

func TestAnswersOfStrangersAreUnavailable(t *testing.T) {
	for name, body := range map[string]string{
		"html": "<html>hello</html>", "another document": `{"ok":true}`, "nothing": "",
	} {
		c := client(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
		if err := beat(t.Context(), c); fault.Of(err) != fault.Unavailable {
			t.Errorf("%s: got %v, want unavailable", name, err)
		}
	}
	if _, err := remote.NewClient(remote.Config{BaseURL: "ftp://x"}); fault.Of(err) != fault.Invalid {
		t.Errorf("client for an ftp address: got %v, want a validation fault", err)
	}
}

// A server that is told to stop lets go of a worker's long poll at once; the
// worker hears that EC is away and the call that follows is its own affair.
func TestAStoppingServerEndsLongPolls(t *testing.T) {
	b := doortest.NewBench(t, time.Minute) // a third of it is longer than the poll's 10 s
	_, task := b.Sent(`{}`)
	if _, err := b.Door.Claim(t.Context(), task.ID, contracts.TaskClaim{Dispatch: 1, Token: doortest.Token, Worker: "w"}); err != nil {
		t.Fatal(err)
	}
	inside := make(chan struct{}, 1)
	h := remote.Handler(b.Door)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- life.Run(ctx, life.HTTP("api", ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			inside <- struct{}{}
			h.ServeHTTP(w, r)
		}), 20*time.Second))
	}()
	answered := make(chan int, 1)
	began := time.Now()
	go func() {
		status, _ := post(t, "http://"+ln.Addr().String()+"/internal/worker/tasks/"+string(task.ID)+"/heartbeat",
			`{"dispatch":1,"token":"`+doortest.Token+`","wait_seconds":10}`)
		answered <- status
	}()
	<-inside
	stop()
	if status := <-answered; status != http.StatusServiceUnavailable {
		t.Errorf("a poll during the stop: status %d, want 503", status)
	}
	if err := <-ended; err != nil {
		t.Errorf("the server's end: %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the poll held the server for %s, want much less than its 10 s", took)
	}
}
