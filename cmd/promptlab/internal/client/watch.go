package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/elnor/promptlab/contracts"
)

// How often a job is looked at: beside an event stream, which may have missed
// something, and without one.
const (
	pollBeside  = 5 * time.Second
	pollAlone   = time.Second
	maxEvent    = 256 << 10
	maxFailures = 30 // looks in a row that nobody answered
)

// Seen is one thing that a watcher is told: an event of the job, or its state.
type Seen struct {
	Event *contracts.LiveEvent
	Job   *contracts.PromptLabJob
}

// Watch tells of a job until it has ended, and gives its last state. It listens to
// the event stream and looks at the job now and then; without a stream it looks
// more often. A server that is away for a while is waited for.
func (c *Client) Watch(ctx context.Context, id string, tell func(Seen)) (contracts.PromptLabJob, error) {
	ctx, stop := context.WithCancel(ctx)
	var listener sync.WaitGroup
	defer listener.Wait()
	defer stop()
	events := make(chan contracts.LiveEvent)
	ended := make(chan error, 1) // the stream's end; one slot, so that it never waits
	listener.Go(func() {
		ended <- c.events(ctx, 0, func(e contracts.LiveEvent) bool {
			select {
			case events <- e:
				return true
			case <-ctx.Done():
				return false
			}
		})
	})
	every := pollBeside
	look := time.NewTimer(0)
	defer look.Stop()
	failures := 0
	var last string
	for {
		select {
		case <-ctx.Done():
			return contracts.PromptLabJob{}, fmt.Errorf("watch job: %w", ctx.Err())
		case e := <-events:
			if string(e.JobID) != id {
				continue
			}
			tell(Seen{Event: &e})
			if e.Progress == nil {
				look.Reset(0)
			}
		case <-ended: //nolint:errcheck // without a stream, whatever ended it
			every = pollAlone
			look.Reset(0)
		case <-look.C:
			look.Reset(every)
			job, err := c.Job(ctx, id)
			var away *Unreachable
			if errors.As(err, &away) && failures < maxFailures {
				failures++
				continue
			}
			if err != nil {
				return contracts.PromptLabJob{}, err
			}
			failures = 0
			if state := stateOf(job); state != last {
				last = state
				tell(Seen{Job: &job})
			}
			if job.Status.Terminal() {
				return job, nil
			}
		}
	}
}

func stateOf(j contracts.PromptLabJob) string {
	if j.Detail == nil {
		return string(j.Status)
	}
	return fmt.Sprint(j.Status, j.Detail.Phase, j.Detail.Attempts, j.Detail.SpentUSD, len(j.Detail.Notes))
}

// events reads the event stream until it ends or take says so.
func (c *Client) events(ctx context.Context, after uint64, take func(contracts.LiveEvent) bool) error {
	q := url.Values{}
	if after > 0 {
		q.Set("after", strconv.FormatUint(after, 10))
	}
	resp, err := c.send(ctx, c.stream, request{method: http.MethodGet, path: []string{"api", "events"}, query: q}, "text/event-stream")
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	for ev, err := range sse.Read(resp.Body, &sse.ReadConfig{MaxEventSize: maxEvent}) {
		if err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		var e contracts.LiveEvent
		if json.Unmarshal([]byte(ev.Data), &e) != nil {
			continue // an event of a later version
		}
		if !take(e) {
			return nil
		}
	}
	return nil
}
