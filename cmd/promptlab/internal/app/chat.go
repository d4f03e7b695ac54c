package app

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/elnor/promptlab/chat"
	"github.com/elnor/promptlab/chat/seam"
	"github.com/elnor/promptlab/cmd/promptlab/internal/cli"
	"github.com/elnor/promptlab/cmd/promptlab/internal/home"
	"github.com/elnor/promptlab/internal/life"
)

// Chat runs the chat endpoint for an EC elsewhere, or for none: turns are then
// answered without overlays.
func (s Servers) Chat(ctx context.Context, run cli.ServerRun) error {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	c, err := newChat(ctx, run, run.ECURL, nil, reg, nil)
	if err != nil {
		return err
	}
	return life.Run(ctx, append(c.parts(run), life.Part{Name: "ready", Run: func(ctx context.Context) error {
		if err := run.Ready(cli.Ready{Ready: home.Ready{Chat: c.url, PID: os.Getpid()}, Simulated: run.Config.Simulated()}); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}})...)
}

// chatPart is the chat endpoint, ready to run.
type chatPart struct {
	server *chat.Server
	ln     net.Listener
	url    string
}

// newChat makes the chat endpoint. transport is how EC is reached; nil: as any
// server elsewhere. active says which models may answer; nil: EC is asked.
func newChat(ctx context.Context, run cli.ServerRun, ecURL string, transport http.RoundTripper, reg *prometheus.Registry, active activeFunc) (*chatPart, error) {
	tokens, err := tokenHashes(run.Home)
	if err != nil {
		return nil, err
	}
	token, err := run.Home.Token("seam")
	if err != nil {
		return nil, fmt.Errorf("read the token of the seam: %w", err)
	}
	roots, err := run.Config.Roots(os.ReadFile)
	if err != nil {
		return nil, err
	}
	ec, err := seam.New(seam.Config{BaseURL: ecURL, Token: token, Roots: roots, Transport: transport})
	if err != nil {
		return nil, err
	}
	var refresh func(context.Context) error
	if active == nil {
		h, err := hear(ctx, run, ec)
		if err != nil {
			return nil, err
		}
		active, refresh = heardBy(&h.Active), h.refresh
	}
	rows := chat.NewRows()
	models, err := models(run, rows, reg, "chat", active)
	if err != nil {
		return nil, err
	}
	ln, err := listen(ctx, run, run.Config.ChatListen())
	if err != nil {
		return nil, fmt.Errorf("the chat endpoint: %w", err)
	}
	others := map[string][sha256.Size]byte{}
	for role, hash := range tokens {
		if role != "user" {
			others[string(role)] = hash
		}
	}
	server, err := chat.New(chat.Config{
		Seam: ec, Ledger: ec, Models: models, Rows: rows, Refresh: refresh,
		UserToken: tokens["user"], Others: others, Hosts: hosts(run, run.Config.ChatListen(), ln), TLS: run.Config.TLSCert != "",
		Metrics: reg, Log: logOr(run.Log), Now: time.Now, SeamTimeout: run.Config.Chat.ECTimeout,
		NewID: func() string { return uuid.Must(uuid.NewV7()).String() },
	})
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return &chatPart{server, ln, scheme(run) + "://" + ln.Addr().String()}, nil
}

// parts come in the order of starting: what delivers receipts outlives what
// makes them.
func (c *chatPart) parts(run cli.ServerRun) []life.Part {
	return []life.Part{
		{Name: "receipts", Run: c.server.Run},
		life.HTTP("chat", c.ln, c.server.Handler(), run.Config.Worker.Grace),
	}
}

// ownTransport reaches a listener of this process, whatever its certificate says.
func ownTransport() http.RoundTripper {
	return &http.Transport{
		MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // our own listener, on this machine
	}
}

// ownURL is the address under which this process reaches a listener of its own.
func ownURL(run cli.ServerRun, ln net.Listener) string {
	address := ln.Addr().String()
	if host, port, err := net.SplitHostPort(address); err == nil && net.ParseIP(host).IsUnspecified() {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	return scheme(run) + "://" + address
}
