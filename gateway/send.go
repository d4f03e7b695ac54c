package gateway

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// reasonFirstToken is the reason of an attempt whose first piece did not come.
const reasonFirstToken = "first_token_timeout"

// send makes the one HTTP call of an attempt under the attempt's own limits.
func (c *call) send(ctx context.Context, l *lane, call Call, row *Attempt) (Reply, *Error) {
	inflight := c.g.metrics.inflight.WithLabelValues(l.Name)
	inflight.Inc()
	defer inflight.Dec()
	c.attempts++
	c.tries++
	row.Number = c.attempts
	row.AttemptID = row.RequestID + "." + strconv.Itoa(c.attempts)
	row.StartedAt = time.Now()
	var reply Reply
	var failure *Error
	if c.emit == nil {
		reply, failure = c.whole(ctx, l, call)
	} else {
		reply, failure = c.pieces(ctx, l, call, row)
	}
	row.Duration = time.Since(row.StartedAt)
	row.TotalDuration = time.Since(c.began)
	c.waited += row.Duration
	return reply, failure
}

func (c *call) whole(ctx context.Context, l *lane, call Call) (Reply, *Error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.AttemptTimeout, errAttemptTimeout)
	defer cancel()
	reply, err := l.adapter.Complete(ctx, call)
	return reply, c.blame(ctx, err)
}

// pieces runs a streamed attempt. The adapter is called from here, so when it is
// back its connection is closed and nothing of it is left, however it was ended;
// only then may another attempt begin.
func (c *call) pieces(ctx context.Context, l *lane, call Call, row *Attempt) (Reply, *Error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	first, idle := l.Silence(c.req.Role)
	w := newWatch(first, idle, cancel, c.g.metrics.gap(l.Target))
	defer w.stop()
	reply, err := l.adapter.Stream(ctx, call, func(e Event) error { return c.take(ctx, cancel, w, e) })
	if err == nil && !w.finish() {
		err = errIdle // patience ended before the adapter was done; the cause tells which
	}
	reached := w.stop()
	c.told(w, reply, row)
	if err == nil {
		return reply, nil
	}
	if reached == finished {
		return reply, c.own(err) // the provider's end was the failure; no clock changes that
	}
	return reply, c.blame(ctx, err)
}

// take passes a piece on to the consumer.
func (c *call) take(ctx context.Context, cancel context.CancelCauseFunc, w *watch, e Event) error {
	switch {
	case e.Kind == EventFinish:
		if !w.finish() {
			return context.Cause(ctx)
		}
		return nil
	case w.over():
		return nil
	case e.Text == "" && e.Tool == nil:
		return nil // says nothing, so it is no progress either
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !w.pause():
		return context.Cause(ctx)
	}
	defer w.resume()
	c.shown = true // also when the consumer fails: it may have shown a part
	if c.emit(e) != nil {
		cancel(errConsumerGone)
		return errConsumerGone
	}
	return nil
}

// told writes down what a stream was like.
func (c *call) told(w *watch, reply Reply, row *Attempt) {
	now := time.Now()
	row.Committed, row.Chunks, row.FirstChunk = w.pieces > 0, w.pieces, w.lead
	row.Silence = now.Sub(w.last)
	row.WireBytes, row.MalformedChunks = reply.Wire.Bytes, reply.Wire.Malformed
	if at := reply.Wire.LastByte; !at.IsZero() {
		row.WireSilence = max(0, now.Sub(at))
	}
	c.g.metrics.stream(*row)
}

// own makes an adapter's failure ours.
func (c *call) own(err error) *Error {
	var e *Error
	if !errors.As(err, &e) {
		return &Error{Class: ClassUnknown}
	}
	return e
}

// blame decides, in one place, what ended an attempt: the provider, one of our
// clocks, or the caller.
func (c *call) blame(ctx context.Context, err error) *Error {
	if err == nil {
		return nil
	}
	e := c.own(err)
	if ctx.Err() == nil || e.Status != 0 && e.Class != ClassTransport {
		return e // the provider's own answer stands, even when it came late
	}
	ended := &Error{Class: ClassAttemptTimeout, NotBilled: e.NotBilled, Status: e.Status, RequestID: e.RequestID}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errConsumerGone):
		ended.Class, ended.Reason = ClassCallerGone, "consumer_gone"
	case errors.Is(cause, errFirstToken):
		ended.Reason = reasonFirstToken
	case errors.Is(cause, errIdle):
		ended.Class = ClassStreamIdle
	case c.gone():
		ended.Class = ClassCallerGone
	case errors.Is(cause, errTotalTimeout):
		ended.Reason = "total_timeout"
	}
	return ended
}
