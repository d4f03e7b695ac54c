package gateway_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/gateway"
)

// play is an adapter whose streams are written down as steps, one list for each
// attempt; the last list serves every further one.
type play struct {
	attempts [][]step

	mu       sync.Mutex
	n        int
	open     int // streams that are running
	calls    []gateway.Call
	contexts []context.Context
	ended    []error // what each attempt's context said when the adapter was done
}

// step is one thing that happens in a stream.
type step struct {
	say     string        // a delta
	event   gateway.Event // another event
	wait    time.Duration // silence, if the context allows
	stall   bool          // until the context ends
	clean   time.Duration // time to close everything after the context has ended
	fail    error         // the stream's end
	answer  bool          // the stream's end: what was said is the answer
	usage   gateway.Usage // of that end; zero: unknown
	ignores bool          // goes on after a cancel, as no adapter should
}

func (p *play) Complete(context.Context, gateway.Call) (gateway.Reply, error) {
	return gateway.Reply{}, errors.New("a whole answer was asked for")
}

func (p *play) Stream(ctx context.Context, c gateway.Call, emit func(gateway.Event) error) (gateway.Reply, error) {
	p.mu.Lock()
	steps := p.attempts[min(p.n, len(p.attempts)-1)]
	p.n++
	p.open++
	if p.open > 1 {
		p.ended = append(p.ended, errors.New("two streams at once"))
	}
	for _, before := range p.contexts {
		if before.Err() == nil {
			p.ended = append(p.ended, errors.New("an attempt before is still open"))
		}
	}
	p.calls, p.contexts = append(p.calls, c), append(p.contexts, ctx)
	p.mu.Unlock()
	reply, err := run(ctx, steps, emit)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
	p.ended = append(p.ended, ctx.Err())
	return reply, err
}

func run(ctx context.Context, steps []step, emit func(gateway.Event) error) (gateway.Reply, error) {
	reply := gateway.Reply{ServedModel: "m1", Wire: gateway.WireStats{Bytes: 100, LastByte: time.Now()}}
	broken := &gateway.Error{Class: gateway.ClassTransport}
	for _, s := range steps {
		event := s.event
		if s.say != "" {
			event = gateway.Event{Kind: gateway.EventDelta, Text: s.say}
			reply.Text += s.say
		}
		switch {
		case event.Kind != "":
			if err := emit(event); err != nil && !s.ignores {
				return reply, err
			}
		case s.wait > 0:
			select {
			case <-time.After(s.wait):
			case <-ctx.Done():
				return reply, broken
			}
		case s.stall:
			<-ctx.Done()
			if s.clean > 0 {
				<-time.After(s.clean)
			}
			if s.fail == nil && !s.answer && !s.ignores {
				return reply, broken
			}
		}
		if s.fail != nil {
			return reply, s.fail
		}
		if s.answer {
			reply.Finish, reply.Usage = gateway.FinishStop, s.usage
			return reply, nil
		}
	}
	return reply, nil
}

var (
	finish = step{event: gateway.Event{Kind: gateway.EventFinish}}                          //nolint:gochecknoglobals // a constant
	answer = step{answer: true, usage: gateway.Usage{Known: true, Input: 10, Output: 5}}    //nolint:gochecknoglobals // a constant
	stall  = step{stall: true}                                                              //nolint:gochecknoglobals // a constant
	empty  = step{event: gateway.Event{Kind: gateway.EventDelta}}                           //nolint:gochecknoglobals // a constant
	ticket = gateway.Event{Kind: gateway.EventToolCall, Tool: &gateway.ToolDelta{ID: "c1"}} //nolint:gochecknoglobals // a constant
)

func fails(class gateway.ErrorClass, status int) step {
	return step{fail: &gateway.Error{Class: class, Status: status}}
}

// listener is a consumer.
type listener struct{ events []gateway.Event }

func (l *listener) emit(e gateway.Event) error {
	l.events = append(l.events, e)
	return nil
}

func (l *listener) text() string {
	var b strings.Builder
	for _, e := range l.events {
		b.WriteString(e.Text)
	}
	return b.String()
}

// impatient is a model with short limits: 10 s for the first piece, 4 s between.
func impatient(name string, roles ...gateway.Role) gateway.ModelConfig {
	m := model(name, roles...)
	m.Limits.StreamLimits = gateway.StreamLimits{FirstTokenTimeoutSeconds: 10, IdleTimeoutSeconds: 4}
	return m
}

// R-GWS-01: every kind of piece arrives in order and once, the end and the
// usage by what is returned.
// R-GWS-18, R-GWL-03: usage is booked once, in one row.
func TestAStreamIsHandedOnAndBilledOnce(t *testing.T) {
	events := []gateway.Event{
		{Kind: gateway.EventReasoning, Text: "hm"}, {Kind: gateway.EventDelta, Text: "h"}, {Kind: gateway.EventDelta, Text: "i"},
		{Kind: gateway.EventRefusal, Text: "no"}, ticket,
	}
	steps := []step{empty}
	for _, e := range events {
		steps = append(steps, step{event: e})
	}
	p := &play{attempts: [][]step{append(steps, finish, finish, answer)}}
	r := newRig(t, p, model("one", gateway.RoleChat))
	purse := gateway.NewPurse(gateway.PurseConfig{Lender: &bank{left: 1e9}})
	l := &listener{}
	resp, err := r.Stream(t.Context(), ask(gateway.RoleChat), purse, l.emit)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(events, l.events); diff != "" {
		t.Errorf("R-GWS-01 events (-sent +got):\n%s", diff)
	}
	if resp.Finish != gateway.FinishStop || resp.Cost != 20_000 || !resp.CostKnown || resp.Attempts != 1 {
		t.Errorf("response %+v", resp)
	}
	rows := r.taken()
	if s := purse.State(); len(rows) != 1 || s.Spent != 20_000 || s.Held != 0 || rows[0].CostNanoUSD != 20_000 {
		t.Fatalf("R-GWS-18 %d rows, purse %+v, want 20000 in one", len(rows), s)
	}
	if row := rows[0]; !row.Streamed || !row.Committed || row.Chunks != len(events) || row.WireBytes != 100 || row.Class != "" {
		t.Errorf("R-GWS-06 row %+v", row)
	}
}

// R-GWS-26: what becomes of whole sequences of events: how many provider calls,
// whether the consumer saw a thing, how it ended and when.
func TestSequencesOfEvents(t *testing.T) {
	for _, c := range []struct {
		name     string
		attempts [][]step
		class    gateway.ErrorClass
		reason   string
		text     string
		calls    int
		took     time.Duration
	}{
		{name: "answer", attempts: [][]step{{{say: "hi"}, finish, answer}}, text: "hi", calls: 1},
		{name: "R-GWS-14 an error at the opening is retried", attempts: [][]step{{fails(gateway.ClassServer, 500)}, {{say: "hi"}, finish, answer}},
			text: "hi", calls: 2, took: 250 * time.Millisecond},
		{name: "R-GWS-14 an error in the preamble is retried", attempts: [][]step{{empty, empty, fails(gateway.ClassOverloaded, 200)}, {{say: "hi"}, finish, answer}},
			text: "hi", calls: 2, took: 250 * time.Millisecond},
		{name: "R-GWS-14 R-GWT-05 delta, error", attempts: [][]step{{{say: "h"}, fails(gateway.ClassServer, 200)}},
			class: gateway.ClassServer, text: "h", calls: 1},
		{name: "R-GWS-14 a thought is a piece too", attempts: [][]step{{{event: gateway.Event{Kind: gateway.EventReasoning, Text: "hm"}}, fails(gateway.ClassServer, 200)}},
			class: gateway.ClassServer, text: "hm", calls: 1},
		{name: "R-GWS-24 a refusal commits with its first word", attempts: [][]step{{{event: gateway.Event{Kind: gateway.EventRefusal, Text: "no"}}, fails(gateway.ClassServer, 200)}},
			class: gateway.ClassServer, text: "no", calls: 1},
		{name: "R-GWS-24 R-GWR-18 a tool call commits with its first piece", attempts: [][]step{{{event: ticket}, fails(gateway.ClassServer, 200)}},
			class: gateway.ClassServer, calls: 1},
		{name: "R-GWS-26 delta, stall", attempts: [][]step{{{say: "h"}, stall}},
			class: gateway.ClassStreamIdle, text: "h", calls: 1, took: 4 * time.Second},
		{name: "R-GWS-04 nothing, stall", attempts: [][]step{{stall}},
			class: gateway.ClassAttemptTimeout, reason: "first_token_timeout", calls: 3, took: 30*time.Second + 750*time.Millisecond},
		{name: "R-GWS-05 empty pieces are no progress", attempts: [][]step{{{say: "h"}, {wait: 3 * time.Second}, empty, {wait: 3 * time.Second}, {say: "i"}, finish, answer}},
			class: gateway.ClassStreamIdle, text: "h", calls: 1, took: 4 * time.Second},
		{name: "R-GWS-05 empty pieces are no first piece", attempts: [][]step{{{wait: 9 * time.Second}, empty, {wait: 9 * time.Second}}, {{say: "hi"}, finish, answer}},
			text: "hi", calls: 2, took: 10*time.Second + 250*time.Millisecond},
		{name: "R-GWS-05 every kind of piece is progress", attempts: [][]step{{
			{event: gateway.Event{Kind: gateway.EventReasoning, Text: "hm"}}, {wait: 3 * time.Second}, {event: ticket}, {wait: 3 * time.Second}, {say: "hi"}, {wait: 3 * time.Second}, finish, answer}},
			text: "hmhi", calls: 1, took: 9 * time.Second},
		{name: "R-GWS-20 an end without a terminal event, unseen", attempts: [][]step{{fails(gateway.ClassStreamTruncated, 200)}},
			class: gateway.ClassStreamTruncated, calls: 3, took: 750 * time.Millisecond},
		{name: "R-GWS-20 an end without a terminal event, seen", attempts: [][]step{{{say: "h"}, fails(gateway.ClassStreamTruncated, 200)}},
			class: gateway.ClassStreamTruncated, text: "h", calls: 1},
		{name: "R-GWS-08 stop, late timer", attempts: [][]step{{{say: "hi"}, finish, {stall: true, answer: true}}}, text: "hi", calls: 1, took: 5 * time.Second},
		{name: "R-GWS-08 stop, usage after the idle limit would have ended it", attempts: [][]step{{{say: "hi"}, finish, {wait: 4500 * time.Millisecond}, answer}},
			text: "hi", calls: 1, took: 4500 * time.Millisecond},
		{name: "R-GWS-08 a final failure is not the timer's", attempts: [][]step{{finish, {stall: true, fail: &gateway.Error{Class: gateway.ClassContentFilter}}}},
			class: gateway.ClassContentFilter, calls: 1, took: 5 * time.Second},
		{name: "R-GWS-08 an adapter that says the end by coming back", attempts: [][]step{{{say: "hi"}, answer}}, text: "hi", calls: 1},
		{name: "R-GWS-08 an answer after the timer is none", attempts: [][]step{{{say: "h"}, {stall: true, answer: true}}},
			class: gateway.ClassStreamIdle, text: "h", calls: 1, took: 4 * time.Second},
		{name: "R-GWS-09 a retry waits for the clean-up", attempts: [][]step{{{stall: true, clean: 7 * time.Second}}, {{say: "hi"}, finish, answer}},
			text: "hi", calls: 2, took: 17*time.Second + 250*time.Millisecond},
		{name: "R-GWS-17 pieces that come after the cancel go nowhere", attempts: [][]step{{{say: "h"}, {stall: true, ignores: true}, {say: "i", ignores: true}, {say: "j"}}},
			class: gateway.ClassStreamIdle, text: "h", calls: 1, took: 4 * time.Second},
		{name: "R-GWT-02 what is said after the end is not the answer's", attempts: [][]step{{{say: "hi"}, finish, {say: " more"}, answer}}, text: "hi", calls: 1},
		{name: "R-GWR-10 a bad request is not sent again", attempts: [][]step{{fails(gateway.ClassBadRequest, 400)}}, class: gateway.ClassBadRequest, calls: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &play{attempts: c.attempts}
				r := newRig(t, p, impatient("one", gateway.RoleChat))
				l := &listener{}
				began := time.Now()
				resp, err := r.Stream(t.Context(), ask(gateway.RoleChat), gateway.Unlimited(), l.emit)
				took := time.Since(began)
				var e *gateway.Error
				if errors.As(err, &e); class(err) != c.class || e != nil && e.Reason != c.reason {
					t.Fatalf("error %v, want class %q, reason %q", err, c.class, c.reason)
				}
				if l.text() != c.text || p.n != c.calls || took != c.took {
					t.Errorf("heard %q after %d calls and %s, want %q, %d, %s", l.text(), p.n, took, c.text, c.calls, c.took)
				}
				if err == nil && resp.Attempts != c.calls {
					t.Errorf("response %+v, want %d attempts", resp, c.calls)
				}
				if e != nil && e.Committed != (len(l.events) > 0) {
					t.Errorf("R-GWS-23 the error says committed %t, the consumer keeps %d pieces", e.Committed, len(l.events))
				}
				rows := r.taken()
				for i, row := range rows {
					if row.Committed != (i == len(rows)-1 && len(l.events) > 0) {
						t.Errorf("row %d says committed %t, %d events were heard", i+1, row.Committed, len(l.events))
					}
				}
				if len(rows) != c.calls || p.open != 0 {
					t.Errorf("%d rows for %d calls; %d streams still open", len(rows), c.calls, p.open)
				}
				for _, err := range p.ended {
					if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("R-GWS-09 %v", err)
					}
				}
			})
		})
	}
}

// R-GWS-03, R-GWS-04, R-GWS-07: the limits of silence are apart from each other
// and from the total, generous unless configured, and each role may have its own.
func TestLimitsOfSilence(t *testing.T) {
	short := gateway.StreamLimits{FirstTokenTimeoutSeconds: 5, IdleTimeoutSeconds: 7}
	for _, c := range []struct {
		name   string
		limits gateway.Limits
		role   gateway.Role
		steps  []step
		took   time.Duration
		class  gateway.ErrorClass
		reason string
	}{
		{"R-GWS-07 first piece by default", gateway.Limits{}, gateway.RoleMeta, []step{stall}, 90 * time.Second, gateway.ClassAttemptTimeout, "first_token_timeout"},
		{"R-GWS-07 idle by default", gateway.Limits{}, gateway.RoleChat, []step{{say: "h"}, stall}, 60 * time.Second, gateway.ClassStreamIdle, ""},
		{"R-GWS-04 first piece of the model", gateway.Limits{StreamLimits: short}, gateway.RoleChat, []step{stall}, 5 * time.Second, gateway.ClassAttemptTimeout, "first_token_timeout"},
		{"R-GWS-03 idle of the model", gateway.Limits{StreamLimits: short}, gateway.RoleChat, []step{{say: "h"}, stall}, 7 * time.Second, gateway.ClassStreamIdle, ""},
		{"R-GWS-07 the role's own", gateway.Limits{StreamLimits: short, ByRoute: map[gateway.Role]gateway.StreamLimits{gateway.RoleChat: {IdleTimeoutSeconds: 20}}},
			gateway.RoleChat, []step{{say: "h"}, stall}, 20 * time.Second, gateway.ClassStreamIdle, ""},
		{"R-GWS-07 another role's is not mine", gateway.Limits{StreamLimits: short, ByRoute: map[gateway.Role]gateway.StreamLimits{gateway.RoleChat: {IdleTimeoutSeconds: 20}}},
			gateway.RoleRewrite, []step{{say: "h"}, stall}, 7 * time.Second, gateway.ClassStreamIdle, ""},
		{"R-GWS-03 the total ends a lively stream", gateway.Limits{TotalTimeoutSeconds: 10}, gateway.RoleChat,
			[]step{{say: "h"}, {wait: 6 * time.Second}, {say: "i"}, {wait: 6 * time.Second}, {say: "!"}}, 10 * time.Second, gateway.ClassAttemptTimeout, "total_timeout"},
		{"R-GWS-03 the method's total as well", gateway.Limits{}, gateway.RoleRewrite,
			[]step{{say: "h"}, {wait: 50 * time.Second}, {say: "i"}, {wait: 50 * time.Second}}, 90 * time.Second, gateway.ClassAttemptTimeout, "total_timeout"},
		{"R-GWS-03 the limit of a whole answer is not a stream's", gateway.Limits{AttemptTimeoutSeconds: 1}, gateway.RoleChat,
			[]step{{say: "h"}, {wait: 50 * time.Second}, finish, answer}, 50 * time.Second, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := model("one", gateway.Roles()...)
				m.Limits = c.limits
				p := &play{attempts: [][]step{c.steps, {fails(gateway.ClassBadRequest, 400)}}}
				r := newRig(t, p, m)
				_, _ = r.Stream(t.Context(), ask(c.role), gateway.Unlimited(), nil)
				if row := r.taken()[0]; row.Class != c.class || row.Reason != c.reason || row.Duration != c.took {
					t.Errorf("class %q (%q) after %s, want %q (%q) after %s", row.Class, row.Reason, row.Duration, c.class, c.reason, c.took)
				}
			})
		})
	}
}

// R-GWS-13: while a consumer takes its time, no provider is silent; afterwards
// the clock begins anew.
func TestASlowConsumerIsNotTheProvidersSilence(t *testing.T) {
	for _, c := range []struct {
		name  string
		pause time.Duration // the provider's, between two pieces
		class gateway.ErrorClass
	}{
		{"the provider is quick", 3 * time.Second, ""},
		{"the provider is slow as well", 5 * time.Second, gateway.ClassStreamIdle},
	} {
		t.Run("R-GWS-13 "+c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &play{attempts: [][]step{{{say: "h"}, {wait: c.pause}, {say: "i"}, {wait: c.pause}, finish, answer}}}
				r := newRig(t, p, impatient("one", gateway.RoleChat))
				_, err := r.Stream(t.Context(), ask(gateway.RoleChat), gateway.Unlimited(), func(gateway.Event) error {
					<-time.After(30 * time.Second)
					return nil
				})
				if class(err) != c.class || p.n != 1 {
					t.Errorf("class %q after %d calls, want %q after 1", class(err), p.n, c.class)
				}
				if row := r.taken()[0]; row.FirstChunk != 0 || row.Class == "" && row.Silence != c.pause {
					t.Errorf("R-GWS-06 row says first piece after %s, silence %s", row.FirstChunk, row.Silence)
				}
			})
		})
	}
}
