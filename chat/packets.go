package chat

import (
	"context"
	"sync"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// trigger is why a packet is asked for. The list is closed: without one of
// these the packet that is held is used.
type trigger string

// The triggers.
const (
	triggerRevision trigger = "revision"   // the current one is not held
	triggerForce    trigger = "force"      // the session waits for a refresh
	triggerTrim     trigger = "trim"       // the last turn dropped something
	triggerCompact  trigger = "compaction" // history was shortened
	triggerPlan     trigger = "plan"       // a re-answer
	triggerOverride trigger = "override"   // overlays of this turn alone
)

const maxHeld = 20_000 // sessions whose packets are held

// packets holds each session's packet for as long as it is the current one.
// Before each turn it asks for the notices since the last time, so that what a
// person did before the turn is seen by it.
type packets struct {
	seam    Seam
	timeout time.Duration
	meters  meters

	mu     sync.Mutex
	cursor uint64 // of the newest notice that was taken in
	missed int    // how often notices were missed: what was asked for before that may be out of date
	held   map[string]*session
	order  []string // of arrival, for forgetting the oldest
}

// session is what is known of one session between turns.
type session struct {
	packet   *contracts.OverlayPromptPacket
	asOf     uint64 // notices up to this one are in the packet
	once     bool   // the packet is for one dispatch
	trimmed  bool   // the last turn dropped something
	label    label  // of the packet
	model    string // of the last turn
	notice   notice
	forgotAt bool // fell out of the map while somebody was at it
}

// label is the refresh that a packet answered. It goes with one turn, and with
// that turn's retries.
type label struct {
	turn   string
	reason contracts.OverlayRefreshReason
}

// notice is the newest word on a session.
type notice struct {
	seq      uint64
	revision *int // nil: it was pruned
	pending  bool
}

func newPackets(seam Seam, timeout time.Duration, m meters) *packets {
	return &packets{seam: seam, timeout: timeout, meters: m, held: map[string]*session{}}
}

// current says whether the packet is what EC would give now, or why not.
func (x *session) current() (trigger, bool) {
	n := x.notice
	switch {
	case x.packet == nil || x.once:
		return triggerRevision, false
	case x.trimmed:
		return triggerTrim, false
	case n.seq <= x.asOf:
		return "", true
	case n.pending:
		return triggerForce, false
	case n.revision == nil || *n.revision != x.packet.Revision:
		return triggerRevision, false
	}
	return "", true // the notice tells of what the packet has anyway, such as its own receipt
}

// sync takes in what happened since the last time. Its error says that EC is away.
func (p *packets) sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	p.mu.Lock()
	after := p.cursor
	p.mu.Unlock()
	list, err := p.seam.Notices(ctx, after)
	p.word(err)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if list.Missed {
		p.missed++
		for _, x := range p.held { // nothing is known of what was missed, and EC may count anew
			x.packet, x.asOf, x.notice = nil, 0, notice{}
		}
	}
	for _, e := range list.Items {
		if x := p.held[e.Session]; x != nil && e.Seq > x.notice.seq {
			x.notice = notice{e.Seq, e.SessionRevision, e.PendingRefresh}
		}
	}
	if list.Next > p.cursor || list.Missed {
		p.cursor = list.Next
	}
	return nil
}

// word notes whether EC answered.
func (p *packets) word(err error) {
	p.meters.away(err != nil && isAway(err))
}

// isAway tells an EC that cannot be had from one that refuses what was asked.
// A seam token that is not valid is a set-up that does not work, not a client's
// mistake.
func isAway(err error) bool {
	switch fault.Of(err) {
	case fault.Unavailable, fault.Internal, fault.Unauthenticated, fault.Forbidden, fault.Misdirected, fault.MethodNotAllowed:
		return true
	default:
		return false
	}
}

// of gives what is known of a session.
func (p *packets) of(key contracts.OverlaySessionKey) *session {
	token := key.Token()
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.held[token]
	if x == nil {
		x = &session{}
		p.held[token] = x
		p.order = append(p.order, token)
		for len(p.held) > maxHeld {
			p.held[p.order[0]].forgotAt = true
			delete(p.held, p.order[0])
			p.order = p.order[1:]
		}
	}
	return x
}

// need is what a turn says about the packet it wants.
type need struct {
	key      contracts.OverlaySessionKey
	turn     string
	revision *int // that the client knows of
	compact  bool
	switched bool // to another model
	plan     contracts.UUID
	override *contracts.OverlayDispatchOverride
}

// ofOneTurn says that the packet is for this turn alone: a re-answer's, or one
// with overlays of its own.
func (n need) ofOneTurn() bool { return n.plan != "" || n.override != nil }

// get gives the packet of a turn, from what is held or from EC. sync must have
// been done for the turn.
func (p *packets) get(ctx context.Context, n need) (contracts.OverlayPromptPacket, error) {
	x := p.of(n.key)
	p.mu.Lock()
	why, ok := x.current()
	asOf, missed := p.cursor, p.missed
	q := PacketQuery{Session: n.key, TurnID: n.turn, PlanID: n.plan, Override: n.override}
	switch {
	case n.plan != "":
		why, ok = triggerPlan, false
	case n.override != nil:
		why, ok = triggerOverride, false
	case n.compact:
		why, ok = triggerCompact, false
	case n.switched:
		why, ok = triggerForce, false
	case ok && n.revision != nil && *n.revision > x.packet.Revision:
		why, ok = triggerRevision, false
	}
	if ok {
		packet := *x.packet
		if n.turn == x.label.turn {
			packet.RefreshReason = x.label.reason
		}
		p.mu.Unlock()
		return packet, nil
	}
	if x.packet != nil {
		r := x.packet.Revision
		q.Revision = &r
	}
	p.mu.Unlock()
	p.meters.asked(why)
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	packet, err := p.seam.Packet(ctx, q)
	p.word(err)
	if err != nil || n.ofOneTurn() {
		return packet, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !x.forgotAt && missed == p.missed {
		keep := packet
		keep.RefreshReason = "" // it labels one turn
		x.label = label{n.turn, packet.RefreshReason}
		x.packet, x.asOf, x.trimmed = &keep, asOf, false
		x.once = false
		for _, b := range packet.OverlayBlocks {
			x.once = x.once || b.ArtifactClass != contracts.ClassLive
		}
	}
	return packet, nil
}

// last gives the packet that was held when contact was lost, if any.
func (p *packets) last(key contracts.OverlaySessionKey) *contracts.OverlayPromptPacket {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x := p.held[key.Token()]; x != nil {
		return x.packet
	}
	return nil
}

// dispatched notes what a turn was sent with.
func (p *packets) dispatched(key contracts.OverlaySessionKey, model string, trimmed bool) {
	x := p.of(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	x.model = model
	x.trimmed = x.trimmed || trimmed
}

// switched says whether a turn goes to another model than the one before.
func (p *packets) switched(key contracts.OverlaySessionKey, model string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.held[key.Token()]
	return x != nil && x.model != "" && x.model != model
}
