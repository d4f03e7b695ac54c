package ec

import (
	"fmt"
	"path"
	"strings"

	"github.com/elnor/promptlab/contracts"
)

// sessions takes over a batch of sessions; after the last one the migration has
// succeeded, and a notice says what it did.
func (u *upgrade) sessions() {
	list := u.all()
	more := len(list) > u.batch()
	if more {
		list = list[:u.batch()]
	}
	for _, p := range list {
		body, _ := u.s.legacy.docs.Get(p)
		home, ok := u.session(p, body)
		if !ok {
			u.setAside(p)
		}
		u.apply(LegacyTaken{Path: p, Remove: home != p})
	}
	if more {
		return
	}
	u.m.Step, u.m.DoneAt = StepDone, &u.c.At
	u.m.Notices = contracts.List[NoticeRecord]{{ID: noticeUpgrade, CreatedAt: u.c.At}}
}

// session takes over one session and says under which path it is kept now.
func (u *upgrade) session(p string, body []byte) (home string, ok bool) {
	if strings.HasSuffix(p, ".truth.json") {
		return "", true // a receipt of what no longer holds; it stays in the backup
	}
	x, ok := oldSession(path.Base(p), body, u.c.At)
	if !ok {
		return "", false
	}
	if _, taken := u.s.session(x.file); taken {
		return "", false
	}
	e := &edit{s: u.s, c: u.c, base: x, next: x.clone(), reason: contracts.RefreshActivation}
	e.next.ActiveOverlays = nil
	for _, a := range x.ActiveOverlays {
		u.entry(e, a)
	}
	d, err := e.close("upgraded")
	if err != nil {
		return "", false
	}
	next := e.next
	if _, err := contracts.Decode[Session](mustJSON(&next), contracts.Stored); err != nil {
		return "", false // the next start could not read it
	}
	u.apply(d.events...)
	return dirSessions + x.file + ".json", true
}

// entry takes one entry over into a session, or leaves it out.
func (u *upgrade) entry(e *edit, a contracts.ActiveOverlay) {
	n := &e.next
	o, known := u.s.resolve(a.OverlayID)
	if known {
		a.OverlayID = o.Record.Frontmatter.ID
	}
	id := a.OverlayID
	if _, twice := n.entry(id); twice {
		return
	}
	leave := func(code, why string) {
		e.reason = contracts.RefreshDeactivation
		n.note(SessionNote{Code: code, Subject: id, Text: fmt.Sprintf("%s %s", id, why)})
	}
	switch {
	case u.leaves(id): // the notice of the migration tells about these
		e.reason = contracts.RefreshDeactivation
		u.m.Removed[string(id)]++
	case !known:
		leave(noteUnknown, "is not in the library and was left out")
	case o.Archived():
		leave(noteArchived, "is archived and was left out")
	default:
		if rule, msg := standing(o); rule != "" {
			leave(rule, msg)
			return
		}
		a.ArtifactClass, a.OverlayBodyHash = o.Record.Frontmatter.ArtifactClass, o.Record.BodyHash
		n.ActiveOverlays = append(n.ActiveOverlays, a)
	}
}
