package ec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// NoticeRecord is a notice as it is kept: that it was given, and whether a person
// has put it away. Its text is made when it is read.
type NoticeRecord struct {
	ID          string          `json:"id"`
	CreatedAt   contracts.Time  `json:"created_at"`
	DismissedAt *contracts.Time `json:"dismissed_at,omitempty"`
}

// noticeUpgrade tells once what the upgrade from R3 has changed.
const noticeUpgrade = "upgrade-from-r3"

// DismissNotice puts a notice away for good.
type DismissNotice struct{ ID string }

// Type names the command in the audit.
func (DismissNotice) Type() string { return "notice.dismiss" }

func (s *State) dismissNotice(c Command, b DismissNotice) (decision, error) {
	m := s.install.Migration
	i := -1
	if m != nil {
		i = slices.IndexFunc(m.Notices, func(n NoticeRecord) bool { return n.ID == b.ID })
	}
	if i < 0 {
		return decision{}, fault.New(fault.NotFound, "not_found", "there is no notice %q", b.ID)
	}
	if m.Notices[i].DismissedAt != nil {
		return unchanged(b.ID, "")
	}
	next, record := s.install, *m
	record.Notices = slices.Clone(m.Notices)
	record.Notices[i].DismissedAt = &c.At
	next.Migration = &record
	return changed(b.ID, InstallPut{next})
}

// Notices lists what a person has not put away yet.
func (v *View) Notices() contracts.NoticeList {
	var out contracts.NoticeList
	if m := v.s.install.Migration; m != nil {
		for _, n := range m.Notices {
			if n.DismissedAt == nil {
				out.Items = append(out.Items, upgradeNotice(m, n))
			}
		}
	}
	return out
}

// upgradeNotice says what has become of an R3 library, and how things work now.
func upgradeNotice(m *Migration, n NoticeRecord) contracts.Notice {
	out := contracts.Notice{
		NoticeID: n.ID, CreatedAt: n.CreatedAt, Title: "Some overlays are called in another way now",
		Message: "Spec Architect and Elicitation are advisor protocols now: they are not left on any more. Ask for one when you need it, for a single dispatch of a task or in the Prompt Advisor. " +
			"Task Debrief (reflexion-learning) is offered when a task has ended or failed, or when you ask for a debrief; it is no longer part of live prompts.",
	}
	for _, id := range slices.Sorted(maps.Keys(m.Removed)) {
		out.Details = append(out.Details, fmt.Sprintf("%s was turned off in %d sessions, pins or defaults.", id, m.Removed[id]))
	}
	list := func(format string, ids []contracts.OverlayID) {
		if len(ids) > 0 {
			names := make([]string, len(ids))
			for i, id := range ids {
				names[i] = string(id)
			}
			out.Details = append(out.Details, fmt.Sprintf(format, strings.Join(names, ", ")))
		}
	}
	list("New presets: %s.", m.Added)
	list("Presets with the text of this release: %s. The texts of before are in the history of each.", m.Replaced)
	if len(m.SetAside) > 0 {
		out.Details = append(out.Details, "Not understood and not taken over: "+strings.Join(m.SetAside, ", ")+".")
	}
	out.Details = append(out.Details, "All documents as they were before are in "+dirBackup+"; remove the folder when you do not need it.")
	return out
}
