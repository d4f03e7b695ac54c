package ec

import (
	"fmt"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// decision is what a command leads to: events, or none when nothing has to
// change.
type decision struct {
	events  []Event
	receipt Receipt
}

// changed makes the decision of a command that changed subject.
func changed(subject string, events ...Event) (decision, error) {
	return decision{events, Receipt{Subject: subject, Changed: true}}, nil
}

// unchanged makes the decision of a command that had nothing to change.
func unchanged(subject, note string) (decision, error) {
	return decision{nil, Receipt{Subject: subject, Note: note}}, nil
}

// Decide says what follows from a command. It changes nothing.
func Decide(s *State, c Command) ([]Event, Receipt, error) {
	if r, ok, err := s.repeated(c); ok || err != nil {
		return nil, r, err
	}
	if err := allowed(c); err != nil {
		return nil, Receipt{}, err
	}
	if err := s.upgrading(c.Body); err != nil {
		return nil, Receipt{}, err
	}
	d, err := s.decide(c)
	if err != nil {
		return nil, Receipt{}, err
	}
	d.events = append(d.events, s.displaced(d.events)...)
	d.events = append(d.events, s.followLibrary(c, d.events)...)
	return d.events, d.receipt, nil
}

func (s *State) decide(c Command) (decision, error) {
	for _, domain := range []func(Command) (decision, bool, error){s.decideSession, s.decideLibrary, s.decideLab, s.decideLive, s.decideModel} {
		if d, ok, err := domain(c); ok {
			return d, err
		}
	}
	return decision{}, fault.New(fault.Invalid, "unknown_command", "there is no command %T", c.Body)
}

// decideLibrary decides the commands of the library and of EC itself; false: it
// is not one of them.
func (s *State) decideLibrary(c Command) (d decision, ok bool, err error) {
	ok = true
	switch b := c.Body.(type) {
	case InstallPresets:
		d, err = s.installPresets(c, b)
	case Migrate:
		d, err = s.migrate(c, b)
	case DismissNotice:
		d, err = s.dismissNotice(c, b)
	case CreateOverlay:
		d, err = s.createOverlay(c, b)
	case UpdateOverlay:
		d, err = s.updateOverlay(c, b)
	case ArchiveOverlay:
		d, err = s.archiveOverlay(c, b)
	case RestoreOverlay:
		d, err = s.restoreOverlay(c, b)
	case ExternalEdit:
		d, err = s.externalEdit(c, b)
	case SetFlags:
		d, err = s.setFlags(b)
	case EnsureKeys:
		d, err = s.ensureKeys(b)
	default:
		ok = false
	}
	return d, ok, err
}

// decideLab decides the commands of the lab; false: it is not one of them.
func (s *State) decideLab(c Command) (d decision, ok bool, err error) {
	ok = true
	switch b := c.Body.(type) {
	case CreateDataset:
		d, err = s.createDataset(c, b)
	case CreateJob:
		d, err = s.createJob(c, b)
	case CancelJob:
		d, err = s.cancelJob(c, b)
	case DispatchTask:
		d, err = s.dispatchTask(c, b)
	case LoseTask:
		d, err = s.loseTask(c, b)
	case ClaimTask:
		d, err = s.claimTask(c, b)
	case DeliverRows:
		d, err = s.deliverRows(c, b)
	case DeliverUsage:
		d, err = s.deliverUsage(c, b)
	case FinishTask:
		d, err = s.finishTask(c, b)
	case BookUsage:
		d, err = s.bookUsage(c, b)
	default:
		ok = false
	}
	return d, ok, err
}

// decideLive decides the commands about live sessions that no client sends about
// its own; false: it is not one of them.
func (s *State) decideLive(c Command) (d decision, ok bool, err error) {
	ok = true
	switch b := c.Body.(type) {
	case BuildPacket:
		d, err = s.stampPacket(c, b)
	case RecordTruth:
		d, err = s.recordTruth(c, b)
	case PreparePlan:
		d, err = s.preparePlan(c, b)
	case PutModeratorDefaults:
		d, err = s.putModerator(c, b)
	case PutSurfaceDefaults:
		d, err = s.putSurface(c, b)
	case PutRoom:
		d, err = s.putRoom(c, b)
	case SubmitFeedback:
		d, err = s.submitFeedback(c, b)
	case AppendSignal:
		d, err = s.appendSignal(c, b)
	case PruneSessions:
		d, err = s.pruneSessions(c)
	default:
		ok = false
	}
	return d, ok, err
}

// allowed says whether a role may send a command at all; the API has checked
// this too.
func allowed(c Command) error {
	roles := sessionRoles(c.Body)
	switch c.Body.(type) {
	case SetFlags, ActivateModel, RollbackModel, DeprecateModel:
		roles = []Role{RoleOperator}
	case ClaimTask, DeliverRows, DeliverUsage, FinishTask:
		roles = []Role{RoleWorker}
	case DispatchTask, LoseTask, ExternalEdit, EnsureKeys, Migrate, ObserveModels:
		roles = []Role{RoleSystem}
	case BookUsage:
		roles = []Role{RoleSystem, RoleWorker, RoleSeam}
	case CreateJob:
		roles = []Role{RoleUser, RoleOperator, RoleSystem, RoleSeam}
	default:
		if roles == nil {
			roles = []Role{RoleUser, RoleOperator}
		}
	}
	for _, r := range roles {
		if c.Actor.Role == r {
			return nil
		}
	}
	return fault.New(fault.Forbidden, "forbidden", "the role %s may not send %s", c.Actor.Role, c.Body.Type())
}

func (s *State) setFlags(b SetFlags) (decision, error) {
	if b.Flags == s.flags {
		return unchanged("flags", "")
	}
	return changed("flags", FlagsPut(b))
}

func (s *State) ensureKeys(b EnsureKeys) (decision, error) {
	if s.keys.SplitKey != "" {
		return unchanged("keys", "")
	}
	return changed("keys", KeysPut{Keys: Keys{SchemaVersion: 1, SplitKey: b.SplitKey}})
}

// Apply puts an event into the state. Applying an event twice gives the same
// state.
func (s *State) Apply(e Event) {
	switch e := e.(type) {
	case OverlayPut:
		s.applyOverlay(e)
	case InstallPut:
		s.applyInstall(e.Install)
	case BackupPut:
		s.legacy.saved.Set(e.Path, struct{}{})
	case LegacyTaken:
		s.legacy.docs.Delete(e.Path)
	case ExternalRefused:
		if e.Why == "" {
			s.externals.Delete(e.Path)
		} else {
			old, _ := s.externals.Get(e.Path)
			s.externals.Set(e.Path, refused{e.Why, e.Body, old.kept, e.Blocked})
		}
	case FlagsPut:
		s.flags = e.Flags
	case KeysPut:
		s.keys = e.Keys
	case DatasetPut:
		s.datasets.Set(e.Dataset.DatasetRef, e.Dataset)
		if v, _ := s.versions.Get(e.Dataset.Name); e.Dataset.Version > v {
			s.versions.Set(e.Dataset.Name, e.Dataset.Version)
		}
	case HoldoutUsed:
		for input, uses := range e.Uses {
			s.holdouts.Set(input, uses)
		}
	case JobPut:
		s.jobs.Set(string(e.Job.Job.JobID), e.Job)
		s.unfinished.Delete(string(e.Job.Job.JobID))
		if e.Job.Task != nil {
			s.unfinished.Set(string(e.Job.Job.JobID), struct{}{})
			s.tasks.Set(string(e.Job.Task.ID), e.Job.Job.JobID)
		}
	case CandidatePut:
		s.candidates.Set(string(e.Candidate.CandidateID), e.Candidate)
		if e.Summary != nil {
			s.summaries.Set(string(e.Candidate.CandidateID), e.Summary)
		}
	case RowsPut:
		for _, r := range e.Rows {
			s.rows.Set(rowKey(e.JobID, r.Key()), r)
		}
	case UsagePut:
		s.applyUsage(e.Rows)
	case ModelPut:
		s.models.Set(e.Model.Name, e.Model)
	case SessionPut, SessionGone, PinsPut, DefaultsPut, RoomPut, TruthPut, PlanPut, PlanGone, SignalPut:
		s.applyLive(e)
	default:
		panic(fmt.Sprintf("ec: no rule to apply %T", e)) // an event of ours that Apply does not know
	}
}

// applyLive puts an event of live sessions into the state.
func (s *State) applyLive(e Event) {
	switch e := e.(type) {
	case SessionPut:
		s.applySession(e.Session)
	case SessionGone:
		s.forgetSession(e.Session.file)
		s.truths.Delete(e.Session.file)
	case PinsPut:
		s.pins.Set(pinKey(e.Store.Scope, e.Store.WorkspaceID), e.Store)
	case DefaultsPut:
		s.defaults = e.Defaults
	case RoomPut:
		s.rooms.Set(roomKey(e.Room).FileName(), e.Room)
	case TruthPut:
		s.truths.Set(e.Truth.SessionKey.FileName(), e.Truth)
	case PlanPut:
		s.plans.Set(string(e.Plan.Plan.PlanID), e.Plan)
		if e.Plan.Truth != nil {
			s.planTruths.Set(e.Plan.Plan.SessionKey.FileName(), e.Plan.Plan.PlanID)
		}
	case PlanGone:
		s.plans.Delete(string(e.Plan.Plan.PlanID))
		file := e.Plan.Plan.SessionKey.FileName()
		if id, _ := s.planTruths.Get(file); id == e.Plan.Plan.PlanID {
			s.planTruths.Delete(file)
		}
	case SignalPut:
		s.applySignal(e.Line)
	}
}

func (s *State) applyInstall(i InstallState) {
	s.install = i
	if i.Migration != nil && i.Migration.Step == StepDone {
		s.legacy = legacy{}
	}
}

func (s *State) applyOverlay(e OverlayPut) {
	id := e.Overlay.Record.Frontmatter.ID
	if old, ok := s.overlays.Get(string(id)); ok {
		for _, a := range old.Record.Frontmatter.DeprecatedAliases {
			if owner, _ := s.aliases.Get(a); owner == id {
				s.aliases.Delete(a)
			}
		}
	}
	s.setOverlay(e.Overlay)
	if len(e.Overlay.Record.Frontmatter.ConflictsWith) > 0 {
		s.declaring.Set(string(id), struct{}{})
	} else {
		s.declaring.Delete(string(id))
	}
	for _, a := range e.Overlay.Record.Frontmatter.DeprecatedAliases {
		s.aliases.Set(a, id)
	}
}

func rowKey(job contracts.UUID, k contracts.MeasurementKey) string {
	return fmt.Sprintf("%s\x00%s\x00%02d\x00%s", job, k.Arm, k.Run, k.ExampleID)
}
