package ec

import "github.com/elnor/promptlab/contracts"

// BootstrapSession starts a session that is not there yet: the internal command
// behind the first read of a key. With CarryFrom it takes overlays over from the
// session immediately before.
type BootstrapSession struct {
	Key       contracts.OverlaySessionKey
	CarryFrom *contracts.OverlaySessionKey
	CarryIDs  []contracts.OverlayID
	IfMatch   string
}

// ActivateOverlay turns an overlay on, from the next turn on.
type ActivateOverlay struct {
	Key           contracts.OverlaySessionKey
	OverlayID     contracts.OverlayID
	Source        contracts.OverlayActivationSource
	PinScope      contracts.OverlayPinScope // empty: no pin
	OverrideLimit bool
	Truth         bool   // what a learned recommendation rests on is there: runtime truth
	Retrieval     bool   // likewise: the look-up of similar cases
	IfMatch       string // revision as ETag, may be empty; so below
}

// DeactivateOverlay turns an overlay off in one session; pins stay.
type DeactivateOverlay struct {
	Key       contracts.OverlaySessionKey
	OverlayID contracts.OverlayID
	IfMatch   string
}

// ClearSession turns every overlay of a session off at once; pins stay.
type ClearSession struct {
	Key     contracts.OverlaySessionKey
	IfMatch string
}

// PinOverlay pins an overlay, and turns it on here where it is off.
type PinOverlay struct {
	Key       contracts.OverlaySessionKey
	OverlayID contracts.OverlayID
	Scope     contracts.OverlayPinScope
	IfMatch   string
}

// UnpinOverlay removes a pin; what is on stays on.
type UnpinOverlay struct {
	Key       contracts.OverlaySessionKey
	OverlayID contracts.OverlayID
	Scope     contracts.OverlayPinScope
	IfMatch   string
}

// RequestRefresh asks for a packet built anew at the next turn.
type RequestRefresh struct {
	Key     contracts.OverlaySessionKey
	Reason  contracts.OverlayRefreshReason
	IfMatch string
}

// ReportSessionEvent passes on what the prompt plan's side saw.
type ReportSessionEvent struct{ Event contracts.OverlaySessionEvent }

// BuildPacket is the internal command behind a read of the packet: it stamps the
// packet of the present set and consumes a pending refresh. A repeat for the
// same turn changes nothing.
type BuildPacket struct {
	Key    contracts.OverlaySessionKey
	TurnID string
	PlanID contracts.UUID // of a re-answer; empty for the session's own packet
	Force  bool
}

// RecordTruth stores what was done with a packet.
type RecordTruth struct {
	Truth contracts.OverlayRuntimeTruthSummary
}

// PreparePlan prepares a second answer to selected turns.
type PreparePlan struct {
	Key     contracts.OverlaySessionKey
	Request contracts.OverlayReanswerPlanRequest
	IfMatch string
}

// PutModeratorDefaults replaces what a moderator brings along.
type PutModeratorDefaults struct {
	Defaults contracts.ModeratorDefaults
}

// PutSurfaceDefaults replaces what a room, panel or task starts with.
type PutSurfaceDefaults struct{ Defaults contracts.SurfaceDefaults }

// SubmitFeedback records an opinion on an overlay.
type SubmitFeedback struct{ Feedback contracts.OverlayFeedback }

// AppendSignal records something from which an opinion may follow.
type AppendSignal struct{ Signal contracts.OverlaySignal }

// PruneSessions removes sessions that nobody has used for two weeks, and plans
// that have long expired. It removes a bounded number; Receipt.Changed false
// says that nothing is left to remove.
type PruneSessions struct{}

// Type names the command in the audit.
func (BootstrapSession) Type() string { return "session.bootstrap" }

// Type names the command in the audit.
func (ActivateOverlay) Type() string { return "overlay.activate" }

// Type names the command in the audit.
func (DeactivateOverlay) Type() string { return "overlay.deactivate" }

// Type names the command in the audit.
func (ClearSession) Type() string { return "session.clear" }

// Type names the command in the audit.
func (PinOverlay) Type() string { return "overlay.pin" }

// Type names the command in the audit.
func (UnpinOverlay) Type() string { return "overlay.unpin" }

// Type names the command in the audit.
func (RequestRefresh) Type() string { return "overlay.request_refresh" }

// Type names the command in the audit.
func (ReportSessionEvent) Type() string { return "session.report_event" }

// Type names the command in the audit.
func (BuildPacket) Type() string { return "session.consume_refresh" }

// Type names the command in the audit.
func (RecordTruth) Type() string { return "overlay.record_runtime_truth" }

// Type names the command in the audit.
func (PreparePlan) Type() string { return "reanswer.prepare" }

// Type names the command in the audit.
func (PutModeratorDefaults) Type() string { return "defaults.put" }

// Type names the command in the audit.
func (PutSurfaceDefaults) Type() string { return "defaults.put_surface" }

// Type names the command in the audit.
func (SubmitFeedback) Type() string { return "overlay.submit_feedback" }

// Type names the command in the audit.
func (AppendSignal) Type() string { return "signals.append" }

// Type names the command in the audit.
func (PruneSessions) Type() string { return "maintenance.prune_sessions" }

// decideSession decides the commands of live sessions, and the additive ones of
// bundles and keys; ok is false for others.
func (s *State) decideSession(c Command) (d decision, ok bool, err error) {
	ok = true
	switch b := c.Body.(type) {
	case BootstrapSession:
		d, err = s.bootstrapSession(c, b)
	case ActivateOverlay:
		d, err = s.activateOverlay(c, b)
	case DeactivateOverlay:
		d, err = s.deactivateOverlay(c, b)
	case ClearSession:
		d, err = s.clearSession(c, b)
	case PinOverlay:
		d, err = s.pinOverlay(c, b)
	case UnpinOverlay:
		d, err = s.unpinOverlay(c, b)
	case RequestRefresh:
		d, err = s.requestRefresh(c, b)
	case ReportSessionEvent:
		d, err = s.reportEvent(c, b)
	case SaveBundle:
		d, err = s.saveBundle(c, b)
	case CreateSessionKey:
		d, err = s.createSessionKey(c, b)
	case RevokeSessionKey:
		d, err = s.revokeSessionKey(b)
	case ReportTask:
		d, err = s.reportTask(c, b)
	default:
		ok = false
	}
	return d, ok, err
}

// sessionRoles says who may send a command of live sessions.
func sessionRoles(b Body) []Role {
	switch b.(type) {
	case BootstrapSession:
		return []Role{RoleUser, RoleOperator, RoleAgent, RoleSeam, RoleSystem} // the first read of a key
	case BuildPacket, RecordTruth, ReportSessionEvent, ReportTask:
		return []Role{RoleSeam, RoleSystem}
	case PutSurfaceDefaults, PutRoom:
		return []Role{RoleUser, RoleOperator, RoleSeam}
	case AppendSignal:
		return []Role{RoleUser, RoleOperator, RoleSeam}
	case PruneSessions:
		return []Role{RoleSystem, RoleOperator}
	default:
		return nil
	}
}
