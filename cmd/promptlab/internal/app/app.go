// Package app composes the servers: which parts run in one process, in which
// order they start, and what each is handed. It decides nothing else; every
// part is a package of its own that knows neither flags nor environment.
package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"github.com/elnor/promptlab/internal/wall"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/elnor/promptlab/api"
	"github.com/elnor/promptlab/cmd/promptlab/internal/cli"
	"github.com/elnor/promptlab/cmd/promptlab/internal/home"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/dispatch"
	"github.com/elnor/promptlab/ec/dispatch/broker"
	"github.com/elnor/promptlab/ec/remote"
	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/internal/life"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Servers implements cli.Servers.
type Servers struct{ Version string }

// Up runs everything in one process.
func (s Servers) Up(ctx context.Context, run cli.ServerRun) error { return s.serve(ctx, run, true) }

// Serve runs EC with its API; workers are elsewhere.
func (s Servers) Serve(ctx context.Context, run cli.ServerRun) error { return s.serve(ctx, run, false) }

// Worker runs a worker for an EC elsewhere.
func (s Servers) Worker(ctx context.Context, run cli.ServerRun) error {
	roots, err := run.Config.Roots(os.ReadFile)
	if err != nil {
		return err
	}
	b, err := broker.Open(broker.Config{RedisURL: run.Config.RedisURL, Log: run.Log})
	if err != nil {
		return err
	}
	defer closing(run.Log, "broker", b.Close)
	tasks, err := remote.NewClient(remote.Config{BaseURL: run.ECURL, Token: run.Token, Roots: roots})
	if err != nil {
		return err
	}
	defer tasks.Close()
	heard := &gateway.Active{}
	w, err := newWorker(run, tasks, b, nil, ruling{heardBy(heard), heard.Set})
	if err != nil {
		return err
	}
	return life.Run(ctx,
		life.Part{Name: "worker", Run: w.Run},
		life.Part{Name: "ready", Run: func(ctx context.Context) error {
			if err := run.Ready(cli.Ready{Ready: home.Ready{PID: os.Getpid()}, Simulated: run.Config.Simulated()}); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}},
	)
}

// serve runs EC and its API, and with a worker and the chat endpoint the whole
// of it.
func (s Servers) serve(ctx context.Context, run cli.ServerRun, everything bool) error {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	core, err := openCore(run, reg)
	if err != nil {
		return err
	}
	defer closing(run.Log, "store", core.store.Close)
	b, err := broker.Open(broker.Config{RedisURL: run.Config.RedisURL, Log: run.Log})
	if err != nil {
		return err
	}
	defer closing(run.Log, "broker", b.Close)
	door := dispatch.NewDoor(dispatch.DoorConfig{
		EC: core.writer, Lease: run.Config.Worker.Lease, Log: run.Log,
		Progress: func(e liveEvent) { core.feed.Publish(e) },
	})
	dispatcher, err := dispatch.New(dispatch.Config{
		EC: core.writer, Door: door, Redis: b.Redis(), Log: run.Log, Metrics: reg,
		Limit: max(run.Config.Worker.OptimizeLimit, run.Config.Worker.MeasureLimit) + 15*time.Minute,
	})
	if err != nil {
		return err
	}
	ln, err := listen(ctx, run, run.Config.Listen)
	if err != nil {
		return err
	}
	server, err := newAPI(run, s.Version, core, b, door, ln, reg)
	if err != nil {
		_ = ln.Close() // the reason is in err
		return err
	}
	parts := []life.Part{
		{Name: "store", Run: core.store.Run}, // stops last: everything below may still write
		{Name: "writer", Run: core.writer.Run},
		{Name: "prepare", Run: func(ctx context.Context) error { return core.prepare(ctx, run.SplitKey, run.Config.Targets()) }},
		{Name: "dispatch", Run: dispatcher.Run},
	}
	if everything {
		w, err := newWorker(run, door, b, reg, ruling{allows: core.active})
		if err != nil {
			_ = ln.Close() // the reason is in err
			return err
		}
		parts = append(parts, life.Part{Name: "worker", Run: w.Run})
	}
	parts = append(parts, life.HTTP("api", ln, server.Handler(), run.Config.Worker.Grace))
	var c *chatPart
	if everything {
		if c, err = newChat(ctx, run, ownURL(run, ln), ownTransport(), reg, core.active); err != nil {
			_ = ln.Close() // the reason is in err
			return err
		}
		parts = append(parts, c.parts(run)...)
	}
	return life.Run(ctx, append(parts, life.Part{Name: "ready", Run: ready(run, server, ln, core, c)})...)
}

// listen binds the address; anything but loopback has been refused without TLS
// by the configuration.
func listen(ctx context.Context, run cli.ServerRun, address string) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	if run.Config.TLSCert == "" {
		return ln, nil
	}
	cert, err := tls.LoadX509KeyPair(run.Config.TLSCert, run.Config.TLSKey)
	if err != nil {
		_ = ln.Close() // the reason is in err
		return nil, fmt.Errorf("load the TLS certificate: %w", err)
	}
	return tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}), nil
}

func scheme(run cli.ServerRun) string {
	if run.Config.TLSCert != "" {
		return "https"
	}
	return "http"
}

// ready says where everything answers, after the API has answered once and, where
// there is a chat endpoint, EC has heard of it.
func ready(run cli.ServerRun, server *api.Server, ln net.Listener, core *core, c *chatPart) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-core.prepared:
		case <-ctx.Done():
			return nil // told to stop before it was ready
		}
		base := scheme(run) + "://" + ln.Addr().String()
		client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // our own listener: only that it answers is asked
		}}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/healthz", http.NoBody)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			if ctx.Err() == nil {
				return fmt.Errorf("the API does not answer: %w", err)
			}
			return nil // told to stop before it was ready
		}
		_ = resp.Body.Close() // nothing in it
		client.CloseIdleConnections()
		where := home.Ready{API: base, Console: base + "/", Dashboard: base + "/dashboard/", PID: os.Getpid()}
		if c != nil {
			where.Chat = c.url
			select {
			case <-c.server.Heard():
			case <-ctx.Done():
				return nil // told to stop before it was ready
			}
		}
		err = run.Ready(cli.Ready{
			Ready:       where,
			ConsoleLink: server.LoginLink(ec.RoleOperator),
			Simulated:   run.Config.Simulated(),
			Notices:     len(core.writer.View().Notices().Items),
		})
		if err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
}

func newAPI(run cli.ServerRun, version string, core *core, b *broker.Broker, door *dispatch.Door, ln net.Listener, reg *prometheus.Registry) (*api.Server, error) {
	tokens, err := tokenHashes(run.Home)
	if err != nil {
		return nil, err
	}
	return api.New(api.Config{
		Service: core.writer, Feed: core.feed, Presets: presetPack,
		Door: remote.Handler(door), Dashboard: b.Dashboard("/dashboard"),
		Tokens: tokens, Hosts: hosts(run, run.Config.Listen, ln), TLS: run.Config.TLSCert != "", Simulated: run.Config.Simulated(),
		// The chat endpoint counts as a seam by its calls, also beside EC in this
		// process: that it runs does not say that it reports.
		Retrieval: recommender().Available, Evidence: measured,
		Ready:   checks(core, b),
		Metrics: reg, Log: run.Log, Version: version, Now: time.Now,
		NewID: func() string { return uuid.Must(uuid.NewV7()).String() },
	})
}

// hosts gives the names under which a listener may be addressed: as it was
// configured, and by the address that it has, under which this process reaches it.
func hosts(run cli.ServerRun, listen string, ln net.Listener) []string {
	out := wall.LoopbackHosts(ln.Addr())
	if run.Config.AllowRemote {
		out = append([]string{listen, ln.Addr().String()}, out...)
	}
	return out
}

func checks(core *core, b *broker.Broker) func(context.Context) []api.Check {
	return func(ctx context.Context) []api.Check {
		check := func(name string, err error) api.Check {
			if err != nil {
				return api.Check{Name: name, Detail: err.Error()}
			}
			return api.Check{Name: name, OK: true}
		}
		return []api.Check{check("store", core.store.Err()), check("broker", b.Health(ctx))}
	}
}

// closing closes what has nobody left to tell.
func closing(log *slog.Logger, what string, fn func() error) {
	if err := fn(); err != nil {
		logOr(log).Error("did not close well", "part", what, "error", err)
	}
}

// logOr gives the log, or silence.
func logOr(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}
