package life

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

// Limits of every server. The time to read ends with the request's body, so it
// does not touch streams and long polls; there is no limit on writing but the
// one that a stream sets for itself with http.ResponseController.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	idleTimeout       = 60 * time.Second
	maxHeaderBytes    = 16 << 10
	maxConnections    = 1024
)

type stoppingKey struct{}

// Stopping gives a channel that is closed when the server of a request has been
// told to stop: streams and long polls end then, plain requests finish. Outside
// of a server made by HTTP the channel is nil and never closes.
func Stopping(ctx context.Context) <-chan struct{} {
	ch, _ := ctx.Value(stoppingKey{}).(chan struct{})
	return ch
}

// HTTP makes a part that serves h on ln. When told to stop it takes no new
// connection, lets streams know (see Stopping), and gives running requests the
// grace; what is still there then is cut off, which is an error.
func HTTP(name string, ln net.Listener, h http.Handler, grace time.Duration) Part {
	return Part{Name: name, Run: func(ctx context.Context) error { return serve(ctx, ln, h, grace) }}
}

func serve(ctx context.Context, ln net.Listener, h http.Handler, grace time.Duration) error {
	stopping := make(chan struct{})
	base, cut := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), stoppingKey{}, stopping))
	defer cut()
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // scanners and cut connections; requests are logged by h
		// "OPTIONS *" goes through h like everything else.
		DisableGeneralOptionsHandler: true,
	}
	keepPieces(srv)
	srv.RegisterOnShutdown(sync.OnceFunc(func() { close(stopping) }))
	served := make(chan error, 1)
	go func() { served <- srv.Serve(pieceListener{netutil.LimitListener(ln, maxConnections)}) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := srv.Shutdown(soon)
	if err != nil {
		err = fmt.Errorf("requests did not end within %s: %w", grace, errors.Join(err, srv.Close()))
	}
	<-served //nolint:errcheck // says only that the server was closed
	return err
}
