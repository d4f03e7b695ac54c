// Package life starts the parts of a process in order and stops them in
// reverse. A part is a function that works until its context ends.
//
// It knows goroutines, contexts and HTTP servers. It does not know what the
// parts do, and it reads no signals: the caller's context is the order to stop.
package life

import (
	"context"
	"errors"
	"fmt"
)

// Part is one long-running piece of a process. Run works until ctx ends and
// returns only when everything it started has ended. A nil error before that
// means that the part has nothing more to do; any other error ends the process.
type Part struct {
	Name string
	Run  func(ctx context.Context) error
}

type ending struct {
	part int
	err  error
}

type running struct {
	stop context.CancelFunc
	done chan struct{}
}

// Run starts the parts in order and waits. When ctx ends, or a part fails, or
// all parts are done, the parts are stopped one by one from the last to the
// first, each only after the one below it has ended. So a part may rely on
// those above it until it returns.
//
// The result joins the errors of all parts, each with its part's name. The
// cancellation that Run itself caused is not an error.
func Run(ctx context.Context, parts ...Part) error {
	ended := make(chan ending, len(parts)) // one place each: a part never waits to end
	all := make([]running, len(parts))
	for i, p := range parts {
		// Not a child of ctx's cancellation: the order of stopping is ours.
		own, stop := context.WithCancel(context.WithoutCancel(ctx))
		done := make(chan struct{})
		all[i] = running{stop, done}
		go func() {
			defer close(done)
			ended <- ending{i, p.Run(own)}
		}()
	}
	errs := make([]error, len(parts))
	left := wait(ctx, parts, ended, errs)
	for i := len(parts) - 1; i >= 0; i-- {
		all[i].stop()
		<-all[i].done
	}
	for range left {
		e := <-ended
		if !errors.Is(e.err, context.Canceled) {
			errs[e.part] = named(parts[e.part], e.err)
		}
	}
	return errors.Join(errs...)
}

// wait returns when it is time to stop, with the number of parts whose end has
// not been taken from ended.
func wait(ctx context.Context, parts []Part, ended <-chan ending, errs []error) int {
	for left := len(parts); left > 0; {
		select {
		case <-ctx.Done():
			return left
		case e := <-ended:
			left--
			if e.err != nil {
				errs[e.part] = named(parts[e.part], e.err)
				return left
			}
		}
	}
	return 0
}

func named(p Part, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", p.Name, err)
}
