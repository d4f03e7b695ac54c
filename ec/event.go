package ec

import "github.com/elnor/promptlab/contracts"

// Event is something that has happened. Events carry whole new values, so that
// applying one twice gives the same state.
type Event interface{ event() }

// OverlayPut: an overlay was installed, changed, archived or restored.
type OverlayPut struct {
	Overlay  *Overlay
	Previous *Overlay // nil for a new one
	What     contracts.RegistryEventType
}

// InstallPut: the state of the preset pack changed.
type InstallPut struct{ Install InstallState }

// ExternalRefused: a hand edit could not be taken in; the file is left as it is.
type ExternalRefused struct {
	Path string
	Why  string // empty: the refusal is over
}

// FlagsPut: the lab's switches changed.
type FlagsPut struct{ Flags contracts.Flags }

// DatasetPut: a dataset version was saved.
type DatasetPut struct{ Dataset *contracts.Dataset }

// HoldoutUsed: a sealed set was given to a measurement.
type HoldoutUsed struct {
	SplitHash string
	Uses      int
}

// JobPut: a job was made or changed.
type JobPut struct {
	Job      *Job
	Previous *Job // nil for a new one
	What     string
}

// CandidatePut: a candidate was made or changed.
type CandidatePut struct {
	Candidate *contracts.PromptCandidate
	Summary   *contracts.PromptLabReplaySummary // may be nil
}

// RowsPut: measured rows arrived.
type RowsPut struct {
	JobID contracts.UUID
	Rows  []contracts.MeasurementRow
}

// UsagePut: model calls were booked.
type UsagePut struct{ Rows []contracts.UsageRow }

func (OverlayPut) event()      {}
func (InstallPut) event()      {}
func (ExternalRefused) event() {}
func (FlagsPut) event()        {}
func (DatasetPut) event()      {}
func (HoldoutUsed) event()     {}
func (JobPut) event()          {}
func (CandidatePut) event()    {}
func (RowsPut) event()         {}
func (UsagePut) event()        {}
