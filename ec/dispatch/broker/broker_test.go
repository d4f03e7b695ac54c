package broker_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/elnor/promptlab/ec/dispatch/broker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, c broker.Config) *broker.Broker {
	t.Helper()
	b, err := broker.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

func dial(t *testing.T, opt asynq.RedisConnOpt) redis.UniversalClient {
	t.Helper()
	c, ok := opt.MakeRedisClient().(redis.UniversalClient)
	if !ok {
		t.Fatal("a client of an unknown kind")
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestEmbeddedIsForItsOwnerOnly(t *testing.T) {
	dir, err := os.MkdirTemp("", "pl") //nolint:usetesting // a socket's path has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	for name, b := range map[string]*broker.Broker{
		"port":   open(t, broker.Config{}),
		"socket": open(t, broker.Config{Socket: socket}),
	} {
		if err := b.Health(t.Context()); err != nil || !b.Embedded() {
			t.Errorf("%s: health %v, embedded %v", name, err, b.Embedded())
		}
		opt, _ := b.Redis().(asynq.RedisClientOpt)
		if name == "port" && !strings.HasPrefix(opt.Addr, "127.0.0.1:") {
			t.Errorf("%s: listens on %s, want 127.0.0.1", name, opt.Addr)
		}
		opt.Password = ""
		if err := dial(t, opt).Set(t.Context(), "k", "v", 0).Err(); err == nil {
			t.Errorf("%s: a client without the password may write", name)
		}
		opt.Password = "guess"
		if err := dial(t, opt).Ping(t.Context()).Err(); err == nil {
			t.Errorf("%s: a client with a wrong password is served", name)
		}
	}
	if fi, err := os.Stat(socket); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v, want mode 0600", fi.Mode(), err)
	}
}

// Keys that stay for ever would keep dead workers on the dashboard.
func TestKeysExpireInTheEmbeddedBroker(t *testing.T) {
	c := dial(t, open(t, broker.Config{}).Redis())
	if err := c.Set(t.Context(), "k", "v", time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(5 * time.Second)
	for c.Exists(t.Context(), "k").Val() == 1 {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("a key of one second was there after five")
		}
	}
}

func TestURLs(t *testing.T) {
	for _, url := range []string{"http://x", "redis://:secret@[::1", "redis://h/notanumber", "nonsense secret"} {
		b, err := broker.Open(broker.Config{RedisURL: url})
		if err == nil {
			_ = b.Close()
			t.Errorf("open %q: no error", url)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("open %q: the error repeats it: %v", url, err)
		}
	}
	b := open(t, broker.Config{RedisURL: "redis://user:pw@127.0.0.1:1/3"}) // nobody is there, which is no error yet
	opt, _ := b.Redis().(asynq.RedisClientOpt)
	if opt.Username != "user" || opt.Password != "pw" || opt.DB != 3 || b.Embedded() {
		t.Errorf("connection: got user %q, database %d, embedded %v", opt.Username, opt.DB, b.Embedded())
	}
	if err := b.Health(t.Context()); err == nil {
		t.Error("health of a broker that is not there: no error")
	}
}

func TestDashboardShowsAndNeverChanges(t *testing.T) {
	b := open(t, broker.Config{})
	h := b.Dashboard("/admin/queue")
	client := asynq.NewClient(b.Redis())
	defer func() { _ = client.Close() }()
	if _, err := client.Enqueue(asynq.NewTask("lab:optimize", []byte(`{"token":"live-token"}`)), asynq.Queue("lab"), asynq.TaskID("t.1")); err != nil {
		t.Fatal(err)
	}
	get := func(method, path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/admin/queue"+path, nil))
		body, err := io.ReadAll(w.Result().Body)
		if err != nil {
			t.Fatal(err)
		}
		return w.Code, string(body)
	}
	if code, body := get(http.MethodGet, "/"); code != 200 || !strings.Contains(body, "<html") {
		t.Errorf("the page: got %d", code)
	}
	for _, path := range []string{"/api/queues/lab/pending_tasks", "/api/queues/lab/tasks/t.1"} {
		code, body := get(http.MethodGet, path)
		if code != 200 || !strings.Contains(body, "t.1") || strings.Contains(body, "live-token") {
			t.Errorf("%s: got %d %s, want the task without its payload", path, code, body)
		}
	}
	var info struct {
		Info map[string]string `json:"info"`
	}
	if code, body := get(http.MethodGet, "/api/redis_info"); code != 200 || json.Unmarshal([]byte(body), &info) != nil || info.Info["redis_version"] == "" {
		t.Errorf("redis info: got %d %s, want a version", code, body)
	}
	for _, c := range [][2]string{
		{http.MethodDelete, "/api/queues/lab/pending_tasks/t.1"}, {http.MethodPost, "/api/queues/lab:pause"},
		{http.MethodPost, "/api/queues/lab/pending_tasks:delete_all"}, {http.MethodDelete, "/api/queues/lab"}, {http.MethodPut, "/"},
	} {
		if code, _ := get(c[0], c[1]); code != http.StatusMethodNotAllowed {
			t.Errorf("%s %s: got %d, want 405", c[0], c[1], code)
		}
	}
	if code, _ := get(http.MethodGet, "/api/queues/lab/tasks/t.1"); code != 200 {
		t.Errorf("the task after all that: got %d, want it still there", code)
	}
}
