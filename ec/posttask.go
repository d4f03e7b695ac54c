package ec

import (
	"slices"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// ReportTask passes on where the task of a session stands. A post-task template
// is offered once it has ended or failed, until the next one starts.
type ReportTask struct{ Report contracts.TaskReport }

// Type names the command in the audit.
func (ReportTask) Type() string { return "session.report_task" }

func (s *State) reportTask(c Command, b ReportTask) (decision, error) {
	if !slices.Contains(b.Report.Status.Values(), string(b.Report.Status)) {
		return decision{}, fault.Validation([]fault.Detail{{Field: "status", Rule: "enum", Message: "must be started, completed or failed"}})
	}
	e, err := s.open(c, b.Report.SessionKey, "")
	if err != nil {
		return decision{}, err
	}
	e.next.Kept.Task = b.Report.Status // not part of the set: the revision stays
	d, err := e.close("task_" + string(b.Report.Status))
	d.receipt.Changed = len(d.events) > 0
	return d, err
}

// PostTaskOffers lists the post-task templates that fit a session now: its task
// has ended or failed, or a person asks for a debrief. Before that there are none.
func (v *View) PostTaskOffers(key contracts.OverlaySessionKey, requested bool) contracts.List[contracts.PostTaskOffer] {
	var trigger contracts.PostTaskTrigger
	if x, ok := v.s.session(key.FileName()); ok {
		switch x.Kept.Task {
		case contracts.TaskCompleted:
			trigger = contracts.OfferCompleted
		case contracts.TaskFailed:
			trigger = contracts.OfferFailed
		case contracts.TaskStarted: // nothing is offered while it runs
		}
	}
	if requested {
		trigger = contracts.OfferRequested
	}
	var out contracts.List[contracts.PostTaskOffer]
	if trigger == "" {
		return out
	}
	v.s.overlays.Scan(func(_ string, o *Overlay) bool {
		if fm := o.Record.Frontmatter; fm.ArtifactClass == contracts.ClassPostTask && !o.Archived() {
			out = append(out, contracts.PostTaskOffer{OverlayID: fm.ID, Title: fm.Title, Trigger: trigger})
		}
		return true
	})
	return out
}
