package ec

import "github.com/elnor/promptlab/contracts"

// Event is something that has happened. Events carry whole new values, so that
// applying one twice gives the same state.
type Event interface{ event() }

// OverlayPut says that an overlay was installed, changed, archived or restored.
type OverlayPut struct {
	Overlay  *Overlay
	Previous *Overlay // nil for a new one
	What     contracts.RegistryEventType
}

// InstallPut says that the state of the preset pack changed.
type InstallPut struct{ Install InstallState }

// ExternalRefused says that a hand edit could not be taken in; the file is left as it is.
type ExternalRefused struct {
	Path string
	Why  string // one reason a line; empty: the refusal is over
	Body []byte // the text that was refused; nil when there is no file any more
	Kept bool   // the library has a good text for that path
	// Blocked: what lies there is no file, and nothing of ours can take its place.
	Blocked bool
	// Replaced is a refused text whose place a command of a person's has taken; it
	// is kept with the overlay's earlier texts.
	Replaced []byte
}

// BackupPut says that a document of an older release was copied before its migration.
type BackupPut struct {
	Path string // where the document lies
	Body []byte
}

// LegacyTaken says that the migration is through with a document of an older release.
type LegacyTaken struct {
	Path   string
	Remove bool // nothing of this release lies there
}

// FlagsPut says that the lab's switches changed.
type FlagsPut struct{ Flags contracts.Flags }

// KeysPut says that EC got its secrets, or that a session key came or went.
type KeysPut struct {
	Keys Keys
	What string // in the audit; empty: EC's own were made
}

// DatasetPut says that a dataset version was saved.
type DatasetPut struct{ Dataset *contracts.Dataset }

// HoldoutUsed says that sealed examples were given to a measurement: how often
// each of these inputs has been used by now.
type HoldoutUsed struct{ Uses map[string]int }

// JobPut says that a job was made or changed.
type JobPut struct {
	Job      *Job
	Previous *Job // nil for a new one
	What     string
}

// CandidatePut says that a candidate was made or changed.
type CandidatePut struct {
	Candidate *contracts.PromptCandidate
	Summary   *contracts.PromptLabReplaySummary // may be nil
}

// RowsPut says that measured rows arrived.
type RowsPut struct {
	JobID contracts.UUID
	Rows  []contracts.MeasurementRow
}

// UsagePut says that model calls were booked.
type UsagePut struct{ Rows []contracts.UsageRow }

// SessionPut says that a session was started or changed.
type SessionPut struct {
	Session  *Session
	Previous *Session // nil for a new one
	What     string
}

// SessionGone says that a session was forgotten, with its receipts.
type SessionGone struct{ Session *Session }

// PinsPut says that the pins of a workspace, or of all, changed.
type PinsPut struct {
	Store *contracts.PinnedOverlayStore
}

// DefaultsPut says that defaults changed.
type DefaultsPut struct{ Defaults Defaults }

// TruthPut says that a receipt of a session arrived.
type TruthPut struct {
	Truth *Truth
	New   string // hash of the receipt that came, for the audit
}

// PlanPut says that a re-answer plan was prepared, used or reported.
type PlanPut struct {
	Plan *Plan
	What string
}

// PlanGone says that a plan was forgotten.
type PlanGone struct{ Plan *Plan }

// SignalPut says that an opinion or a sign of one arrived.
type SignalPut struct{ Line SignalLine }

func (BackupPut) event()       {}
func (LegacyTaken) event()     {}
func (SessionPut) event()      {}
func (SessionGone) event()     {}
func (PinsPut) event()         {}
func (DefaultsPut) event()     {}
func (TruthPut) event()        {}
func (PlanPut) event()         {}
func (PlanGone) event()        {}
func (SignalPut) event()       {}
func (OverlayPut) event()      {}
func (InstallPut) event()      {}
func (ExternalRefused) event() {}
func (FlagsPut) event()        {}
func (KeysPut) event()         {}
func (DatasetPut) event()      {}
func (HoldoutUsed) event()     {}
func (JobPut) event()          {}
func (CandidatePut) event()    {}
func (RowsPut) event()         {}
func (UsagePut) event()        {}
