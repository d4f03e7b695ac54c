package ec_test

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// This is the reference: the rules of live sessions written down a second time,
// as plainly as they can be, over plain values. It shares no code with the
// domain; the property test in property_test.go drives both and compares.

type mOverlay struct {
	tokens                  int
	advisor, post, archived bool
	surfaces, hard, soft    string // words
	edits                   int
}

type mEntry struct {
	id, source, scopes string // scopes: letters t, w, u
	at                 int
	active             bool
	why                string
	override           bool
	issued             string // turn with which a one-dispatch entry went out; "" not yet
}

type mNote struct{ code, subject, other string }

type mSession struct {
	ws, kind      string
	entries       []mEntry
	notes         []mNote
	revision      int
	force         bool
	pending       string
	stamped       bool
	stampRevision int
	stampTurn     string
	stampReason   string
	lastRefresh   string
	lastApplied   int
}

// mDefaults is what surfaces of a kind start with in workspace w.
type mDefaults struct {
	ids   []string
	adopt bool // the moderator's come too
}

type model struct {
	overlays  map[string]*mOverlay
	pins      map[string][]string // "global" or a workspace
	sessions  map[string]*mSession
	surfaces  map[string]mDefaults // by kind
	moderator []string
	applies   string
	clock     int
}

func (m *model) pair(a, b string, hard bool) bool {
	for _, x := range [][2]string{{a, b}, {b, a}} {
		list := m.overlays[x[0]].soft
		if hard {
			list = m.overlays[x[0]].hard
		}
		if slices.Contains(strings.Fields(list), x[1]) {
			return true
		}
	}
	return false
}

func (s *mSession) find(id string) *mEntry {
	for i := range s.entries {
		if s.entries[i].id == id {
			return &s.entries[i]
		}
	}
	return nil
}

func (s *mSession) remove(id string) {
	s.entries = slices.DeleteFunc(s.entries, func(e mEntry) bool { return e.id == id })
}

func (s *mSession) unnote(code, id string) bool {
	n := len(s.notes)
	s.notes = slices.DeleteFunc(s.notes, func(x mNote) bool { return x.code == code && x.subject == id })
	return len(s.notes) < n
}

// sums counts live overlays that are on, and their tokens.
func (m *model) sums(s *mSession) (count, tokens int) {
	for _, e := range s.entries {
		if e.active && !m.overlays[e.id].advisor {
			count++
			tokens += m.overlays[e.id].tokens
		}
	}
	return count, tokens
}

func (m *model) rival(s *mSession, id string) string {
	for _, e := range s.entries {
		if e.active && m.pair(e.id, id, true) {
			return e.id
		}
	}
	return ""
}

// fits gives the code with which an overlay would be refused beside what is on.
func (m *model) fits(s *mSession, id string, override bool) string {
	if m.rival(s, id) != "" {
		return "hard_conflict"
	}
	if m.overlays[id].advisor {
		return ""
	}
	count, tokens := m.sums(s)
	if tokens+m.overlays[id].tokens > 1200 {
		return "hard_budget"
	}
	if count+1 > 3 && !override {
		return "overlay_limit"
	}
	return ""
}

// settle decides anew who is on: those that were on first, then by age.
func (m *model) settle(s *mSession) {
	var turn []*mEntry
	for _, was := range []bool{true, false} {
		var group []*mEntry
		for i := range s.entries {
			if s.entries[i].active == was {
				group = append(group, &s.entries[i])
			}
		}
		sort.SliceStable(group, func(i, j int) bool { return group[i].at < group[j].at })
		turn = append(turn, group...)
	}
	was := map[string]bool{}
	for i := range s.entries {
		was[s.entries[i].id] = s.entries[i].active
		s.entries[i].active = false
	}
	for _, e := range turn {
		o := m.overlays[e.id]
		count, tokens := m.sums(s)
		e.why = ""
		switch {
		case !slices.Contains(strings.Fields(o.surfaces), s.kind):
			e.why = "surface_unsupported"
		case m.rival(s, e.id) != "":
			e.why = "hard_conflict"
		case !o.advisor && tokens+o.tokens > 1200:
			e.why = "hard_budget"
		case !was[e.id] && !e.override && !o.advisor && count+1 > 3:
			e.why = "overlay_limit"
		}
		e.active = e.why == ""
	}
	count, tokens := m.sums(s)
	s.notes = slices.DeleteFunc(s.notes, func(n mNote) bool {
		held := s.find(n.subject) != nil
		switch n.code {
		case "overlay_edited":
			return !held
		case "overlay_archived":
			return !m.overlays[n.subject].archived
		case "hard_conflict":
			o := s.find(n.other)
			return held || o == nil || !o.active
		case "overlay_limit":
			return held || count < 3
		case "hard_budget":
			return held || tokens+m.overlays[n.subject].tokens <= 1200
		}
		return held
	})
}

// insert puts an overlay in without a person's word.
func (m *model) insert(s *mSession, id, source, scope string) bool {
	if e := s.find(id); e != nil {
		if !strings.Contains(e.scopes, scope) {
			e.scopes += scope
		}
		return true
	}
	o := m.overlays[id]
	note := func(code, other string) bool {
		for _, n := range s.notes {
			if n.code == code && n.subject == id {
				return false
			}
		}
		s.notes = append(s.notes, mNote{code, id, other})
		return false
	}
	e := mEntry{id: id, source: source, scopes: scope, at: m.clock, active: true}
	switch {
	case o.archived:
		return note("overlay_archived", "")
	case !slices.Contains(strings.Fields(o.surfaces), s.kind):
		e.active = false
	default:
		if code := m.fits(s, id, false); code != "" {
			return note(code, m.rival(s, id))
		}
	}
	s.entries = append(s.entries, e)
	return true
}

func (m *model) open(key, ws, kind string) *mSession {
	if s := m.sessions[key]; s != nil {
		return s
	}
	s := &mSession{ws: ws, kind: kind, lastApplied: -1}
	if ws == "w" {
		m.startWith(s, m.surfaces[kind])
	}
	for _, id := range m.pins[ws] {
		m.insert(s, id, "workspace_pin", "w")
	}
	for _, id := range m.pins["global"] {
		m.insert(s, id, "global_pin", "u")
	}
	m.settle(s)
	return s
}

// startWith puts in what a surface starts with, before all pins.
func (m *model) startWith(s *mSession, d mDefaults) {
	for _, id := range d.ids {
		if s.kind != "panel" { // a panel has its moderators' only
			m.insert(s, id, s.kind+"_default", "")
		}
	}
	if d.adopt && (s.kind == "room" && m.applies != "panels" || s.kind == "panel" && m.applies != "rooms") {
		for _, id := range m.moderator {
			m.insert(s, id, "moderator_default", "")
		}
	}
}

// list gives the code with which a list of defaults would be refused.
func (m *model) list(ids []string) string {
	code := ""
	for _, id := range ids {
		switch o := m.overlays[id]; {
		case o.archived:
			return "overlay_archived"
		case o.post, o.advisor:
			code = "validation_failed"
		}
	}
	for i, a := range ids {
		for _, b := range ids[i+1:] {
			if code == "" && m.pair(a, b, true) {
				code = "hard_conflict"
			}
		}
	}
	return code
}

// shape is what the revision follows; packet is the part that reaches a packet.
func (m *model) shape(s *mSession) (all, packet string) {
	var a, p []string
	for _, e := range s.entries {
		x := fmt.Sprint(e.id, e.source, e.active, e.at, m.overlays[e.id].edits)
		p = append(p, x)
		scopes := strings.Split(e.scopes, "")
		slices.Sort(scopes)
		a = append(a, x+fmt.Sprint(scopes, e.override))
	}
	return strings.Join(a, ";") + fmt.Sprint(s.force, s.pending), strings.Join(p, ";")
}

var strength = strings.Fields("manual model_switch compaction packet_trim session_rehydrate activation_change deactivation_change")

func (s *mSession) pend(reason string) {
	if s.pending == "" || slices.Index(strength, reason) < slices.Index(strength, s.pending) {
		s.pending = reason
	}
}

// change runs f on a copy; a refusal leaves everything as it was.
func (m *model) change(key, ws, kind, reason string, f func(*mSession) string) string {
	old := m.open(key, ws, kind)
	all, packet := m.shape(old)
	next := *old
	next.entries, next.notes = slices.Clone(old.entries), slices.Clone(old.notes)
	pins := map[string][]string{}
	for k, v := range m.pins {
		pins[k] = slices.Clone(v)
	}
	if code := f(&next); code != "" {
		m.pins = pins
		return code
	}
	m.finish(&next, all, packet, reason, fmt.Sprint(pins) != fmt.Sprint(m.pins))
	m.sessions[key] = &next
	return ""
}

func (m *model) finish(s *mSession, all, packet, reason string, bump bool) {
	m.settle(s)
	if _, now := m.shape(s); now != packet && reason != "" {
		s.pend(reason)
	}
	if now, _ := m.shape(s); now != all || bump {
		s.revision++
	}
}

// turnOn is the activation of one overlay by a person.
func (m *model) turnOn(s *mSession, id string, scope string, override bool) string {
	o := m.overlays[id]
	switch {
	case o.archived:
		return "overlay_archived"
	case o.post:
		return "class_not_activatable"
	case o.advisor && (s.kind != "task" || scope != ""):
		return "explicit_invocation_required"
	case !slices.Contains(strings.Fields(o.surfaces), s.kind):
		return "surface_unsupported"
	}
	e := s.find(id)
	if e != nil && e.active {
		e.source = "manual"
		return ""
	}
	if code := m.fits(s, id, override); code != "" {
		return code
	}
	count, _ := m.sums(s)
	over := count+1 > 3 && !o.advisor
	if e != nil {
		e.active, e.source, e.override = true, "manual", over
		return ""
	}
	s.entries = append(s.entries, mEntry{id: id, source: "manual", at: m.clock, active: true, override: over})
	return ""
}

func (m *model) pin(s *mSession, id, scope string) string {
	store := map[string]string{"w": s.ws, "u": "global"}[scope]
	if store != "" && !slices.Contains(m.pins[store], id) {
		for _, other := range m.pins[store] {
			if m.pair(id, other, true) {
				return "hard_conflict"
			}
		}
		m.pins[store] = append(m.pins[store], id)
	}
	if e := s.find(id); e != nil && !strings.Contains(e.scopes, scope) {
		e.scopes += scope
	}
	return ""
}

func (m *model) unpin(s *mSession, id, scope string) {
	store := map[string]string{"w": s.ws, "u": "global"}[scope]
	if slices.Contains(m.pins[store], id) {
		m.pins[store] = slices.DeleteFunc(slices.Clone(m.pins[store]), func(x string) bool { return x == id })
	}
	if e := s.find(id); e != nil {
		e.scopes = strings.ReplaceAll(e.scopes, scope, "")
	}
}

func (s *mSession) refresh(reason string) {
	on := slices.ContainsFunc(s.entries, func(e mEntry) bool { return e.active })
	if reason != "model_switch" || on {
		s.force = true
		s.pend(reason)
	}
}
