package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/elnor/promptlab/internal/life"
)

const (
	maxStreams    = 64
	maxNotices    = 8
	heartbeat     = 15 * time.Second
	writeDeadline = 10 * time.Second
)

func (s *Server) eventRoutes() {
	after := param{name: "after", kind: paramInt, about: "The seq of the last event that is known already."}
	s.register(op{id: "events", method: http.MethodGet, path: "/api/events", query: []param{after},
		summary: "What happens, as it happens: server-sent events, or with Accept: application/json the list so far",
		media:   "text/event-stream", out: reflect.TypeFor[contracts.EventList]()}, s.events)
}

func (s *Server) events(w http.ResponseWriter, r *http.Request, q values) error {
	return s.follow(w, r, q, func(contracts.LiveEvent) bool { return true })
}

// follow answers with those events that somebody wants to hear of.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, q values, want func(contracts.LiveEvent) bool) error {
	after := q.number("after")
	if last := r.Header.Get("Last-Event-ID"); last != "" { // a reconnect knows better than its address
		n, err := strconv.ParseUint(last, 10, 63)
		if err != nil {
			return badRequest([]fault.Detail{{Field: "Last-Event-ID", Rule: "type", Message: "must be a whole number"}})
		}
		after = n
	}
	accept := r.Header.Get("Accept")
	if strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/event-stream") {
		return writeJSON(w, http.StatusOK, s.eventList(after, want))
	}
	places := s.streams
	if exchangeOf(r.Context()).role == ec.RoleSeam {
		places = s.seamStreams // no number of open pages keeps the seam out
	}
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	default:
		return fault.New(fault.Unavailable, "too_many_streams", "%d event streams are open already; close one", cap(places))
	}
	s.meters.streams.Inc()
	defer s.meters.streams.Dec()
	return s.stream(w, r, after, want)
}

// eventList gives what is kept and comes after a number.
func (s *Server) eventList(after uint64, want func(contracts.LiveEvent) bool) contracts.EventList {
	last := s.cfg.Feed.Last()
	kept := s.cfg.Feed.After(after)
	out := contracts.EventList{Next: last, Missed: after != last}
	if n := len(kept); n > 0 {
		out.Next = max(last, kept[n-1].Seq)
		out.Missed = kept[0].Seq != after+1 // numbers have no gaps
	}
	out.Items = slices.DeleteFunc(kept, func(e contracts.LiveEvent) bool { return !want(e) })
	return out
}

// stream writes events until the client goes, the server stops, or the feed
// ends. What is written cannot be taken back, so it returns no error after the
// first byte.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, after uint64, want func(contracts.LiveEvent) bool) error {
	ctx, cancel := untilStopping(r.Context())
	defer cancel()
	out := &eventWriter{w: w, rc: http.NewResponseController(w), want: want}
	defer func() { _ = out.rc.SetWriteDeadline(time.Time{}) }() // the connection may carry on
	w.Header().Set("Content-Type", "text/event-stream")
	out.text("retry: 1000\n\n")
	for out.err == nil && ctx.Err() == nil {
		if exchangeOf(ctx).role == ec.RoleSeam {
			s.heard(s.cfg.Now()) // who listens is there
		}
		after = out.events(s.cfg.Feed.After(after), after)
		out.flush()
		turn, done := context.WithTimeout(ctx, heartbeat)
		err := s.cfg.Feed.Wait(turn, after)
		quiet := turn.Err() != nil && ctx.Err() == nil
		done()
		switch {
		case err != nil && quiet:
			out.text(": still here\n\n")
		case err != nil:
			return nil // the feed has ended; the client connects again
		}
	}
	return nil
}

// untilStopping gives a context that ends with ctx or when the server is told
// to stop.
func untilStopping(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stopping := life.Stopping(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(); <-ended }
}

// eventWriter writes the stream format. The first error stays, and nothing is
// written after it.
type eventWriter struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	want func(contracts.LiveEvent) bool
	err  error
}

// events writes a batch and gives the new position.
func (e *eventWriter) events(batch []contracts.LiveEvent, after uint64) uint64 {
	for _, ev := range batch {
		if !e.want(ev) {
			after = max(after, ev.Seq)
			continue
		}
		data, err := json.Marshal(ev)
		if err != nil {
			e.err = fmt.Errorf("encode event: %w", err)
			return after
		}
		after = max(after, ev.Seq)
		e.text(fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", ev.Seq, oneLine(ev.Type), data))
	}
	return after
}

func oneLine(s string) string { return strings.NewReplacer("\r", " ", "\n", " ").Replace(s) }

func (e *eventWriter) text(s string) {
	if e.err == nil {
		e.err = e.rc.SetWriteDeadline(time.Now().Add(writeDeadline)) // of the socket: the real clock
	}
	if e.err == nil {
		_, e.err = io.WriteString(e.w, s)
	}
}

func (e *eventWriter) flush() {
	if e.err == nil {
		e.err = e.rc.Flush()
	}
}
