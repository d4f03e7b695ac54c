package ec

import (
	"sync"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/evidence"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/tidwall/btree"
)

// State is everything EC knows. Values behind pointers are never changed once
// they are in the state; a change puts a new value. So Copy is cheap and a copy
// is a snapshot for ever.
type State struct {
	Seq          uint64
	overlays     btree.Map[string, *Overlay]
	shelf        btree.Map[string, shelved]  // the same in the order of lists, by place
	edition      uint64                      // changes of overlays so far
	declaring    btree.Map[string, struct{}] // ids of the overlays whose files declare hard conflicts
	aliases      btree.Map[string, contracts.OverlayID]
	install      InstallState
	flags        contracts.Flags
	keys         Keys
	datasets     btree.Map[string, *contracts.Dataset] // by dataset_ref
	versions     btree.Map[string, int]                // newest version by dataset name
	holdouts     btree.Map[string, int]                // uses by the hash of an input
	jobs         btree.Map[string, *Job]
	unfinished   btree.Map[string, struct{}]       // ids of the jobs that have an open task
	tasks        btree.Map[string, contracts.UUID] // task id -> job id, for every task there ever was
	candidates   btree.Map[string, *contracts.PromptCandidate]
	summaries    btree.Map[string, *contracts.PromptLabReplaySummary]
	rows         btree.Map[string, contracts.MeasurementRow] // by rowKey
	usage        btree.Map[string, *contracts.UsageSum]
	attempts     btree.Map[string, struct{}] // attempt ids that are booked
	models       btree.Map[string, *contracts.RegisteredModel]
	answers      btree.Map[string, answers] // by job and fingerprint of what answered its examples
	receipts     btree.Map[string, past]    // by command id, bounded
	receiptOrder btree.Map[uint64, string]  // command ids by revision
	auditHash    string                     // of the last audit line
	policy       Policy
	sessions     btree.Map[string, *stored]                       // by file name
	holders      *btree.BTreeG[holder]                            // which sessions an overlay concerns
	pins         btree.Map[string, *contracts.PinnedOverlayStore] // by pinKey
	defaults     Defaults
	rooms        btree.Map[string, *contracts.Room] // by the file name of the room's session
	truths       btree.Map[string, *Truth]          // by the session's file name
	plans        btree.Map[string, *Plan]           // by plan id
	planTruths   btree.Map[string, contracts.UUID]  // the last plan with a receipt, by the session's file name
	signals      btree.Map[string, struct{}]        // by signalKey: opinions and signs that are recorded
	observed     uint64                             // lines of signals so far
	observations btree.Map[uint64, *contracts.Observation]
	registry     btree.Map[uint64, *contracts.OverlayRegistryEvent]
	externals    btree.Map[string, refused] // hand edits that were not taken in, by path
	legacy       legacy                     // what is left to take over from an older release
}

// Copy gives a snapshot. The copy and the original may be read and changed apart.
func (s *State) Copy() *State {
	c := *s
	c.overlays = *s.overlays.Copy()
	c.shelf = *s.shelf.Copy()
	c.declaring = *s.declaring.Copy()
	c.aliases = *s.aliases.Copy()
	c.datasets = *s.datasets.Copy()
	c.versions = *s.versions.Copy()
	c.holdouts = *s.holdouts.Copy()
	c.jobs = *s.jobs.Copy()
	c.unfinished = *s.unfinished.Copy()
	c.tasks = *s.tasks.Copy()
	c.candidates = *s.candidates.Copy()
	c.summaries = *s.summaries.Copy()
	c.rows = *s.rows.Copy()
	c.usage = *s.usage.Copy()
	c.attempts = *s.attempts.Copy()
	c.models = *s.models.Copy()
	c.answers = *s.answers.Copy()
	c.receipts = *s.receipts.Copy()
	c.receiptOrder = *s.receiptOrder.Copy()
	c.sessions = *s.sessions.Copy()
	c.holders = s.holders.Copy()
	c.pins = *s.pins.Copy()
	c.rooms = *s.rooms.Copy()
	c.truths = *s.truths.Copy()
	c.plans = *s.plans.Copy()
	c.planTruths = *s.planTruths.Copy()
	c.signals = *s.signals.Copy()
	c.observations = *s.observations.Copy()
	c.registry = *s.registry.Copy()
	c.externals = *s.externals.Copy()
	c.legacy.docs, c.legacy.saved = *s.legacy.docs.Copy(), *s.legacy.saved.Copy()
	return &c
}

// Overlay is one overlay with what is kept beside its file.
type Overlay struct {
	Record   contracts.OverlayTemplateRecord
	Meta     contracts.OverlayMetadata
	Revision int    // texts so far; earlier ones are in its history
	File     string // the source file as it is on disk, byte for byte
	FileHash string // sha256 of File: the ETag
	found    string // what a search looks through
	place    string // where lists show it
	advised  *advised
}

// advised is what lint has to say of an overlay's texts, once somebody has asked.
type advised struct {
	sync.Once
	found []fault.Detail
}

// Keys are EC's own secrets. They are part of the data: without them the same
// dataset would be split anew, and sealed rows would reach an optimizer.
type Keys struct {
	SchemaVersion int    `json:"schema_version"`
	SplitKey      string `json:"split_key" minLength:"32"` // decides which examples are sealed
	// SessionKeys are the keys that programs name a session by, as hashes.
	SessionKeys contracts.List[KeptSessionKey] `json:"session_keys" default:"[]"`
}

// Policy holds the numbers that an operator may set.
type Policy struct {
	OptimizeLimit time.Duration // of one optimize task
	MeasureLimit  time.Duration // of one measure task
	Lease         time.Duration // how long a silent worker keeps a task
	RetryDelays   []time.Duration
	MaxDeliveries int // of one task within an hour
	Classifier    Classifier
	Moderators    Moderators
	Rooms         Rooms
	UpgradeBatch  int // documents that one command of a migration takes on; 0 is 200
}

// DefaultPolicy gives the numbers that hold where nothing is configured.
func DefaultPolicy() Policy {
	return Policy{
		OptimizeLimit: 30 * time.Minute, MeasureLimit: 20 * time.Minute, Lease: 30 * time.Second,
		RetryDelays:   []time.Duration{5 * time.Second, 30 * time.Second, 120 * time.Second},
		MaxDeliveries: 20, Classifier: Phrases{}, Moderators: LocalModerators{KeptByStore}, Rooms: LocalRooms{},
	}
}

// New makes an empty state.
func New(p Policy) *State {
	if p.Classifier == nil {
		p.Classifier = Phrases{}
	}
	if p.Moderators == nil {
		p.Moderators = LocalModerators{KeptByStore}
	}
	if p.Rooms == nil {
		p.Rooms = LocalRooms{}
	}
	return &State{holders: newHolders(), policy: p, install: InstallState{SchemaVersion: 1}, defaults: Defaults{SchemaVersion: 1}}
}

// Archived says whether the overlay is out of use.
func (o *Overlay) Archived() bool { return o.Record.ArchivedAt != nil }

// InstallState is what is known of the preset pack in this library.
type InstallState struct {
	SchemaVersion int                            `json:"schema_version"`
	PackID        string                         `json:"pack_id,omitempty"`
	PackVersion   string                         `json:"pack_version,omitempty"`
	Presets       contracts.Map[InstalledPreset] `json:"presets" default:"{}"`
	Migration     *Migration                     `json:"migration,omitempty"` // absent in a library that began with this release
}

// InstalledPreset is one preset as it was installed.
type InstalledPreset struct {
	Version      string `json:"version"`
	FileHash     string `json:"file_hash"` // of the installed file
	BodyHash     string `json:"body_hash"`
	UserModified bool   `json:"user_modified"`
	// LocalConflicts are hard conflicts that overlays of this library declare
	// with the preset; they count as if they stood in its file.
	LocalConflicts contracts.List[contracts.OverlayID] `json:"local_conflicts" default:"[]"`
}

// Job is a lab job as EC keeps it.
type Job struct {
	Job         contracts.PromptLabJob `json:"job"`
	Detail      contracts.JobDetail    `json:"detail"`
	SourceText  string                 `json:"source_text"`
	WorkspaceID string                 `json:"workspace_id"`
	Goal        string                 `json:"goal"`
	Dev         contracts.List[string] `json:"dev"`     // example ids the optimizer may use
	Holdout     contracts.List[string] `json:"holdout"` // sealed until the search has ended
	Criteria    evidence.Criteria      `json:"criteria"`
	Budget      Budget                 `json:"budget"`
	Task        *TaskState             `json:"task,omitempty"` // absent when the job has ended
}

// Budget is the job's money. Lent minus Returned is what counts as spent.
type Budget struct {
	Limit      contracts.NanoUSD            `json:"limit"`
	Lent       contracts.NanoUSD            `json:"lent"`
	Returned   contracts.NanoUSD            `json:"returned"`
	Unreturned contracts.NanoUSD            `json:"unreturned"` // lent to the current dispatch
	Borrows    contracts.List[BorrowRecord] `json:"borrows"`    // of the current dispatch
}

// BorrowRecord makes a repeated borrow harmless.
type BorrowRecord struct {
	ID      contracts.UUID    `json:"id"`
	Granted contracts.NanoUSD `json:"granted"`
}

// Spent is what is gone or may be gone.
func (b *Budget) Spent() contracts.NanoUSD { return b.Lent - b.Returned }

// Stage is where a task stands with the queue.
type Stage string

// The stages of a task.
const (
	StageWaiting Stage = "waiting" // not with the queue, or to be handed out again
	StageSent    Stage = "sent"    // recorded as handed to the queue
	StageClaimed Stage = "claimed" // a worker has it
)

// TaskState is the one open task of a job.
type TaskState struct {
	ID         contracts.UUID                 `json:"id"`
	Kind       contracts.TaskKind             `json:"kind"`
	Stage      Stage                          `json:"stage"`
	Dispatch   int                            `json:"dispatch"`
	TokenHash  string                         `json:"token_hash"`
	NotBefore  contracts.Time                 `json:"not_before"`
	Failures   int                            `json:"failures"`
	Deliveries contracts.List[contracts.Time] `json:"deliveries"` // within the last hour
	Worker     string                         `json:"worker"`
	ClaimedAt  *contracts.Time                `json:"claimed_at,omitempty"`
}
