package ec_test

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/elnor/promptlab/contracts"
)

// library runs a change of one overlay and what follows from it in sessions.
func (m *model) library(id string, change func(*mOverlay), reason string, follow func(*mSession)) {
	type before struct{ all, packet string }
	was := map[string]before{}
	for k, s := range m.sessions {
		a, p := m.shape(s)
		was[k] = before{a, p}
	}
	change(m.overlays[id])
	for k, s := range m.sessions {
		concerned := s.find(id) != nil || slices.ContainsFunc(s.notes, func(n mNote) bool { return n.subject == id })
		if !concerned {
			continue
		}
		follow(s)
		m.finish(s, was[k].all, was[k].packet, reason, false)
	}
}

func (m *model) archive(id string) {
	m.library(id, func(o *mOverlay) { o.archived = true }, "deactivation_change", func(s *mSession) {
		if s.find(id) != nil {
			s.remove(id)
			s.unnote("overlay_archived", id)
			s.notes = append(s.notes, mNote{"overlay_archived", id, ""})
		}
	})
}

func (m *model) restore(id string) {
	m.library(id, func(o *mOverlay) { o.archived = false }, "activation_change", func(s *mSession) {
		source, scope := "", ""
		switch {
		case slices.Contains(m.pins[s.ws], id):
			source, scope = "workspace_pin", "w"
		case slices.Contains(m.pins["global"], id):
			source, scope = "global_pin", "u"
		}
		if !s.unnote("overlay_archived", id) || source == "" {
			return
		}
		if m.fits(s, id, false) == "hard_budget" {
			s.entries = append(s.entries, mEntry{id: id, source: source, scopes: scope, at: m.clock})
		} else if !m.insert(s, id, source, scope) {
			return
		}
		s.force = true
		s.pend("activation_change")
	})
}

func (m *model) edit(id string, tokens int) {
	m.library(id, func(o *mOverlay) { o.tokens = tokens; o.edits++ }, "activation_change", func(s *mSession) {
		if s.find(id) != nil {
			s.unnote("overlay_edited", id)
			s.notes = append(s.notes, mNote{"overlay_edited", id, ""})
		}
	})
}

// packet is a read of the packet for a turn: it may consume a refresh and end
// one-dispatch entries. It gives the blocks in order and the label.
func (m *model) packet(key, ws, kind, turn string, force bool) (blocks, reason string) {
	s := m.open(key, ws, kind)
	m.sessions[key] = s
	over := func(e mEntry) bool { return e.issued != "" && e.issued != turn }
	retry := s.stamped && s.stampTurn == turn
	if !s.stamped || s.stampRevision != s.revision || s.force || s.pending != "" || force && !retry || slices.ContainsFunc(s.entries, over) {
		all, packet := m.shape(s)
		s.entries = slices.DeleteFunc(s.entries, over)
		m.finish(s, all, packet, "deactivation_change", false)
		s.stamped, s.stampRevision, s.stampTurn, s.stampReason = true, s.revision, turn, s.pending
		if s.pending != "" {
			s.lastRefresh = s.pending
		}
		s.pending, s.force = "", false
		for i, e := range s.entries {
			if m.overlays[e.id].advisor && e.issued == "" {
				s.entries[i].issued = turn
			}
		}
	}
	if s.stampTurn == turn {
		reason = s.stampReason
	}
	list := slices.Clone(s.entries)
	sort.SliceStable(list, func(i, j int) bool {
		layer := map[string]int{"room_default": 0, "task_default": 0, "moderator_default": 1, "workspace_pin": 2, "global_pin": 3, "manual": 4}
		a, b := list[i], list[j]
		if layer[a.source] != layer[b.source] {
			return layer[a.source] < layer[b.source]
		}
		if a.at != b.at {
			return a.at < b.at
		}
		return a.id < b.id
	})
	var out []string
	for _, e := range list {
		if e.active {
			out = append(out, e.id)
		}
	}
	return strings.Join(out, " "), reason
}

// receipt is the report that everything of the present packet was applied.
func (m *model) receipt(key string, revision int, turn string, ids []string) string {
	s := m.sessions[key]
	switch {
	case s == nil:
		return "not_found"
	case revision > s.revision:
		return "future_revision"
	case revision < s.lastApplied:
		return ""
	}
	s.lastApplied = revision
	if revision == s.revision {
		for _, id := range ids {
			s.unnote("overlay_edited", id)
		}
	}
	all, packet := m.shape(s)
	s.entries = slices.DeleteFunc(s.entries, func(e mEntry) bool { return e.issued == turn && slices.Contains(ids, e.id) })
	m.finish(s, all, packet, "deactivation_change", false)
	return ""
}

// seen is a session as both sides show it.
func (m *model) seen(s *mSession) string {
	var out, warn []string
	for i, e := range s.entries {
		scopes := ""
		for _, x := range []struct{ letter, store string }{{"w", s.ws}, {"u", "global"}} {
			if slices.Contains(m.pins[x.store], e.id) {
				scopes += x.letter
			}
		}
		if strings.Contains(e.scopes, "t") {
			scopes = "t" + scopes
		}
		out = append(out, fmt.Sprint(e.id, " ", e.source, " ", e.active, " ", e.why, " ", scopes, " ", e.override))
		if e.why != "" {
			warn = append(warn, e.why)
		}
		for _, f := range s.entries[i+1:] {
			if e.active && f.active && m.pair(e.id, f.id, false) {
				warn = append(warn, "soft_conflict")
			}
		}
	}
	for _, n := range s.notes {
		warn = append(warn, n.code)
	}
	if count, tokens := m.sums(s); true {
		if count > contracts.RecommendedOverlays {
			warn = append(warn, "overlay_count")
		}
		if tokens > 800 {
			warn = append(warn, "soft_budget")
		}
	}
	slices.Sort(warn)
	return fmt.Sprintf("revision %d force %v pending %q last %q applied %d\n%s\nwarnings %v", s.revision, s.force, s.pending, s.lastRefresh, s.lastApplied, strings.Join(out, "\n"), warn)
}
