package ec

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/tidwall/btree"
)

// Session is one session's document: its public state and what is kept beside it.
type Session struct { //nolint:recvcheck // clone works on a copy, and the copy is the point
	contracts.OverlaySessionState
	Kept SessionKept `json:"kept"`

	file string
	memo *packetMemo
}

// SessionKept is what EC knows of a session beyond its public state.
type SessionKept struct {
	SchemaVersion int                          `json:"schema_version"`
	CreatedAt     contracts.Time               `json:"created_at"`
	ActiveAt      contracts.Time               `json:"active_at"` // last activity, to within a day
	Notes         contracts.List[SessionNote]  `json:"notes" default:"[]"`
	Packet        *PacketStamp                 `json:"packet,omitempty"`
	Issued        contracts.List[IssuedForOne] `json:"issued" default:"[]"`
	Task          contracts.TaskStatus         `json:"task,omitempty"` // as last reported
}

// SessionNote is a warning with a cause; it goes when the cause does.
type SessionNote struct {
	Code    string              `json:"code"`
	Subject contracts.OverlayID `json:"subject"`
	Other   contracts.OverlayID `json:"other,omitempty"` // the overlay in the way
	Text    string              `json:"text"`
}

// PacketStamp says which packet of the present set was built last. With the
// library it determines the packet's bytes.
type PacketStamp struct {
	Revision    int                            `json:"revision"`
	GeneratedAt contracts.Time                 `json:"generated_at"`
	TurnID      string                         `json:"turn_id,omitempty"`
	Reason      contracts.OverlayRefreshReason `json:"reason,omitempty"`
	Seq         uint64                         `json:"seq"` // of the command that built it
}

// IssuedForOne says that an entry for one dispatch went out with a turn's packet.
type IssuedForOne struct {
	ActivationID contracts.UUID `json:"activation_id"`
	TurnID       string         `json:"turn_id,omitempty"`
}

// Codes of session warnings.
const (
	noteArchived = "overlay_archived"
	noteEdited   = "overlay_edited"
	noteClass    = "class_changed"
	noteConflict = "hard_conflict"
	noteLimit    = "overlay_limit"
	noteBudget   = "hard_budget"
	codeLimit    = "live_limit_exceeded"  // the refusal of what is noted as noteLimit
	codeBudget   = "hard_budget_exceeded" // and as noteBudget
	noteUnknown  = "unknown_overlay"
	noteRooms    = "rooms_off"
	warnSoftPair = "soft_conflict"
	warnCount    = "overlay_count"
	warnBudget   = "soft_budget"
	warnSurface  = "surface_unsupported"

	noteModerators = "moderator_defaults_off"
)

// retention is how long a session is kept after its last activity.
const retention = 14 * 24 * time.Hour

// edit is a session on its way to its next value.
type edit struct {
	s      *State
	c      Command
	old    *Session // as stored; nil when the command materialises the session
	base   Session  // before the command's own change: as stored or as bootstrapped
	next   Session
	bump   bool                           // something of the session's changed that its document does not show
	reason contracts.OverlayRefreshReason // labels a packet that differs because of this change
	text   bool                           // a text that is on has changed
	events []Event
}

// open starts the change of a session; one that is not there is bootstrapped.
func (s *State) open(c Command, key contracts.OverlaySessionKey, ifMatch string) (*edit, error) {
	key, err := key.Canonical("session_key")
	if err != nil {
		return nil, err
	}
	e := &edit{s: s, c: c}
	if old, ok := s.session(key.FileName()); ok {
		if old.SessionKey != key {
			return nil, fault.New(fault.Conflict, "session_collision", "another session has this file")
		}
		e.old, e.base = old, *old
	} else {
		e.base = s.bootstrap(c, key, nil)
	}
	if ifMatch != "" && strings.Trim(strings.TrimPrefix(ifMatch, "W/"), `"`) != strconv.Itoa(e.base.Revision) {
		return nil, fault.New(fault.PreconditionFailed, "precondition_failed", "the session has changed since you read it; read it again")
	}
	e.next = e.base.clone()
	return e, nil
}

// clone copies what an edit changes in place.
func (x Session) clone() Session {
	x.ActiveOverlays = slices.Clone(x.ActiveOverlays)
	for i := range x.ActiveOverlays {
		x.ActiveOverlays[i].PinScopes = slices.Clone(x.ActiveOverlays[i].PinScopes)
	}
	x.Kept.Notes = slices.Clone(x.Kept.Notes)
	x.Kept.Issued = slices.Clone(x.Kept.Issued)
	x.memo = nil
	return x
}

// entry finds an overlay among a session's entries.
func (x *Session) entry(id contracts.OverlayID) (int, bool) {
	i := slices.IndexFunc(x.ActiveOverlays, func(a contracts.ActiveOverlay) bool { return a.OverlayID == id })
	return i, i >= 0
}

// drop takes an entry out.
func (x *Session) drop(i int) { x.ActiveOverlays = slices.Delete(x.ActiveOverlays, i, i+1) }

// note adds a warning with a cause, in place of one of the same code and subject.
func (x *Session) note(n SessionNote) {
	x.unnote(n.Code, n.Subject)
	x.Kept.Notes = append(x.Kept.Notes, n)
}

func (x *Session) unnote(code string, subject contracts.OverlayID) bool {
	before := len(x.Kept.Notes)
	x.Kept.Notes = slices.DeleteFunc(x.Kept.Notes, func(n SessionNote) bool { return n.Code == code && n.Subject == subject })
	return len(x.Kept.Notes) < before
}

func (x *Session) noted(code string, subject contracts.OverlayID) bool {
	return slices.ContainsFunc(x.Kept.Notes, func(n SessionNote) bool { return n.Code == code && n.Subject == subject })
}

// who names the one who sent a command.
func who(c Command) string {
	if c.Actor.Name != "" {
		return c.Actor.Name
	}
	return string(c.Actor.Role)
}

// order of precedence among pending reasons; the first wins.
func precedence(r contracts.OverlayRefreshReason) int {
	return slices.Index(r.Values(), string(r))
}

// pend asks for a label on the next packet, unless a stronger one waits.
func (x *Session) pend(r contracts.OverlayRefreshReason) {
	if x.PendingRefreshReason == "" || precedence(r) < precedence(x.PendingRefreshReason) {
		x.PendingRefreshReason = r
	}
}

// close ends an edit: the set is settled, the revision raised if something of
// the set, its scopes and sources, its texts or the pending refresh has changed.
func (e *edit) close(what string) (decision, error) {
	s, n := e.s, &e.next
	s.settle(n)
	if e.reason != "" && (e.text || !slices.EqualFunc(e.base.ActiveOverlays, n.ActiveOverlays, sameForPacket)) {
		n.pend(e.reason)
	}
	revised := e.bump || n.PendingRefreshReason != e.base.PendingRefreshReason || n.ForceRefreshNextTurn != e.base.ForceRefreshNextTurn ||
		!slices.EqualFunc(e.base.ActiveOverlays, n.ActiveOverlays, sameEntry)
	if revised {
		n.Revision = e.base.Revision + 1
		n.UpdatedAt, n.UpdatedBy, n.Kept.ActiveAt = e.c.At, who(e.c), e.c.At
	}
	next := n.clone()
	next.memo = &packetMemo{}
	same := e.old != nil && !revised && sameDocument(e.old, &next)
	if !same {
		e.events = append(e.events, SessionPut{Session: &next, Previous: e.old, What: what})
	}
	return decision{e.events, Receipt{Subject: next.file, Changed: revised, Session: &next.OverlaySessionState}}, nil
}

func sameDocument(a, b *Session) bool { return string(mustLine(a)) == string(mustLine(b)) }

// sameEntry compares what the revision follows.
func sameEntry(a, b contracts.ActiveOverlay) bool {
	return sameForPacket(a, b) && a.RequestedScope == b.RequestedScope && slices.Equal(a.PinScopes, b.PinScopes) && a.Note == b.Note
}

// sameForPacket compares what reaches a packet.
func sameForPacket(a, b contracts.ActiveOverlay) bool {
	return a.ActivationID == b.ActivationID && a.OverlayID == b.OverlayID && a.Source == b.Source && a.ArtifactClass == b.ArtifactClass &&
		a.ActiveForSurface == b.ActiveForSurface && a.PriorityRank == b.PriorityRank && a.OverlayBodyHash == b.OverlayBodyHash && a.CandidateID == b.CandidateID
}

// Each session lies in the reverse index under every overlay that it has, or
// that a note of it is about.
func (x *Session) subjects() []contracts.OverlayID {
	var out []contracts.OverlayID
	for _, a := range x.ActiveOverlays {
		out = append(out, a.OverlayID)
	}
	for _, n := range x.Kept.Notes {
		out = append(out, n.Subject)
	}
	return out
}

// holder says that an overlay concerns a session. The texts are those of others:
// there are several of it for each session.
type holder struct {
	overlay contracts.OverlayID
	file    string
}

func newHolders() *btree.BTreeG[holder] {
	return btree.NewBTreeGOptions(func(a, b holder) bool {
		if a.overlay != b.overlay {
			return a.overlay < b.overlay
		}
		return a.file < b.file
	}, btree.Options{NoLocks: true}) // by its owner, as all of the state
}

func (s *State) applySession(x *Session) {
	s.forgetSession(x.file)
	s.sessions.Set(x.file, x.store())
	for _, id := range x.subjects() {
		s.holders.Set(holder{id, x.file})
	}
}

func (s *State) forgetSession(file string) {
	old, ok := s.sessions.Delete(file)
	if !ok {
		return
	}
	for _, id := range old.session().subjects() {
		s.holders.Delete(holder{id, file})
	}
}

// holding lists the sessions that an overlay concerns.
func (s *State) holding(id contracts.OverlayID) []string {
	var out []string
	s.holders.Ascend(holder{overlay: id}, func(h holder) bool {
		if h.overlay == id {
			out = append(out, h.file)
		}
		return h.overlay == id
	})
	return out
}
