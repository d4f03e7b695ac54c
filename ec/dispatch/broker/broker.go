// Package broker is the Redis that tasks travel through: one inside this
// process by default, or somebody's real one. It holds messages of ids and
// tokens and may be lost at any moment without losing work. It deliberately
// does not know what the messages mean.
package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// Config says which Redis.
type Config struct {
	RedisURL string       // redis:, rediss:, redis-socket: or redis-sentinel:; empty: embedded
	Socket   string       // embedded only: path of a unix socket; empty: a port on 127.0.0.1
	Log      *slog.Logger // nil: silent
}

// Broker is an open Redis.
type Broker struct {
	opt      asynq.RedisConnOpt
	client   redis.UniversalClient
	embedded *embedded // nil with a URL

	mu         sync.Mutex
	dashboards []func() error // what Close closes besides
}

// Open starts the embedded Redis or prepares the connection to a real one,
// which need not be there yet. The embedded one lives until Close. A URL that
// cannot be read gives an error that does not repeat it: it may hold a password.
func Open(c Config) (*Broker, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	quiet.Do(func() { redis.SetLogger(discard{}) })
	b := &Broker{}
	if c.RedisURL == "" {
		e, err := startEmbedded(c.Socket)
		if err != nil {
			return nil, err
		}
		b.embedded, b.opt = e, e.opt
		c.Log.Info("embedded broker started", "address", e.opt.Addr)
	} else {
		opt, err := parse(c.RedisURL)
		if err != nil {
			return nil, err
		}
		b.opt = opt
	}
	client, ok := b.opt.MakeRedisClient().(redis.UniversalClient)
	if !ok {
		return nil, errors.New("open broker: unknown kind of redis client")
	}
	b.client = client
	return b, nil
}

// quiet guards the client library's one global: without it every failed dial
// prints a line. The dispatcher reports outages instead, once per change.
var quiet sync.Once

type discard struct{}

func (discard) Printf(context.Context, string, ...any) {}

func parse(url string) (asynq.RedisConnOpt, error) {
	if strings.HasPrefix(url, "redis://") || strings.HasPrefix(url, "rediss://") {
		o, err := redis.ParseURL(url) // unlike asynq's parser it keeps the user name
		if err != nil {
			return nil, errors.New("open broker: the redis url cannot be read")
		}
		return asynq.RedisClientOpt{
			Network: o.Network, Addr: o.Addr, Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLSConfig,
		}, nil
	}
	opt, err := asynq.ParseRedisURI(url)
	if err != nil {
		return nil, errors.New("open broker: the redis url cannot be read")
	}
	return opt, nil
}

// Redis gives the connection for clients and servers of the queue.
func (b *Broker) Redis() asynq.RedisConnOpt { return b.opt }

// Embedded tells whether the broker lives inside this process.
func (b *Broker) Embedded() bool { return b.embedded != nil }

// Health asks the broker whether it answers. A broker that may evict keys is
// an error too: an evicted message blocks its place for ever.
func (b *Broker) Health(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	info, err := b.client.Info(ctx).Result()
	if err != nil {
		return fmt.Errorf("ask broker: %w", err)
	}
	if policy := field(info, "maxmemory_policy"); policy != "" && policy != "noeviction" {
		return fmt.Errorf("broker: maxmemory-policy is %s and must be noeviction", policy)
	}
	return nil
}

func field(info, name string) string {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// Close ends the connections and the embedded Redis with all it holds.
func (b *Broker) Close() error {
	b.mu.Lock()
	closers := slices.Concat(b.dashboards, []func() error{b.client.Close})
	b.dashboards = nil
	b.mu.Unlock()
	var errs []error
	for _, c := range closers {
		errs = append(errs, c())
	}
	if b.embedded != nil {
		b.embedded.stop()
	}
	return errors.Join(errs...)
}

// embedded is a Redis of our own in this process.
type embedded struct {
	opt     asynq.RedisClientOpt
	redis   *miniredis.Miniredis
	ln      net.Listener // of the unix socket; nil with a port
	done    chan struct{}
	running sync.WaitGroup
}

func startEmbedded(socket string) (*embedded, error) {
	e := &embedded{redis: miniredis.NewMiniRedis(), done: make(chan struct{})}
	password := rand.Text()
	e.redis.RequireAuth(password)
	if socket == "" {
		if err := e.redis.StartAddr("127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("start embedded broker: %w", err)
		}
		e.opt = asynq.RedisClientOpt{Addr: e.redis.Addr(), Password: password}
	} else {
		if err := e.listen(socket); err != nil {
			return nil, err
		}
		e.opt = asynq.RedisClientOpt{Network: "unix", Addr: socket, Password: password}
	}
	e.redis.Server().SetPreHook(e.info(rand.Text(), time.Now()))
	e.running.Go(e.age)
	return e, nil
}

// listen serves a unix socket and no port at all.
func (e *embedded) listen(socket string) error {
	first, err := e.redis.Dial() // starts the server without a listener
	if err != nil {
		return fmt.Errorf("start embedded broker: %w", err)
	}
	_ = first.Close()
	ln, err := listenPrivate(socket)
	if err != nil {
		e.redis.Close()
		return fmt.Errorf("start embedded broker: %w", err)
	}
	e.ln = ln
	e.running.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			e.redis.Server().ServeConn(conn)
		}
	})
	return nil
}

// age makes time pass inside: keys expire only when told to.
func (e *embedded) age() {
	const step = time.Second
	t := time.NewTicker(step)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			e.redis.FastForward(step)
		case <-e.done:
			return
		}
	}
}

// info answers INFO with what the dashboard and the health check read; the
// embedded server's own answer has three lines.
func (e *embedded) info(runID string, started time.Time) server.Hook {
	return func(c *server.Peer, cmd string, _ ...string) bool {
		if cmd != "INFO" {
			return false
		}
		up := time.Since(started)
		c.WriteBulk(strings.Join([]string{
			"# Server", "redis_version:7.0.0-embedded", "redis_mode:standalone", "run_id:" + runID,
			fmt.Sprintf("uptime_in_seconds:%d", int(up.Seconds())), fmt.Sprintf("uptime_in_days:%d", int(up.Hours()/24)),
			"", "# Clients", fmt.Sprintf("connected_clients:%d", e.redis.Server().ClientsLen()),
			"", "# Memory", "used_memory:0", "used_memory_human:0B", "used_memory_peak_human:0B", "maxmemory_policy:noeviction", "",
		}, "\r\n"))
		return true
	}
}

func (e *embedded) stop() {
	close(e.done)
	if e.ln != nil {
		_ = e.ln.Close()
	}
	e.running.Wait() // before Close: nobody hands it a connection any more
	e.redis.Close()
}
