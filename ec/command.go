package ec

import (
	"context"

	"github.com/elnor/promptlab/contracts"
)

// Role is who asks. A role is what a credential proves, never what a body says.
type Role string

// The roles.
const (
	RoleUser     Role = "user"     // the person who owns the prompts
	RoleOperator Role = "operator" // dashboard, flags, maintenance
	RoleSeam     Role = "seam"     // the prompt plan's side
	RoleWorker   Role = "worker"   // the worker door
	RoleAgent    Role = "agent"    // reads and proposes, never approves
	RoleSystem   Role = "system"   // EC itself: dispatcher, clock, hand edits
)

// Actor is who a command is attributed to.
type Actor struct {
	Role Role   `json:"role"`
	Name string `json:"name"`
}

// Command asks for one change. ID makes it safe to repeat: a second command with
// the same ID changes nothing and gets the first one's receipt. At is stamped by
// the writer.
type Command struct {
	ID    string
	Actor Actor
	At    contracts.Time
	Body  Body

	// Request is a hash of what was asked for, where the ID is of the caller's
	// choice: the same ID with another Request is refused. "" is not compared.
	Request string
}

// Body is what a command asks for.
type Body interface{ Type() string }

// Receipt says what became of a command.
type Receipt struct {
	Seq     uint64            // revision of the view that shows the effect
	Subject string            // id of what was made or changed
	Changed bool              // false: nothing had to change
	Note    string            // why something was not accepted, for worker messages
	Granted contracts.NanoUSD // TaskUsage: what was lent
	Left    contracts.NanoUSD // TaskUsage: what is left to borrow
	Install *contracts.PresetInstallResponse
	Session *contracts.OverlaySessionState // as the command left it; absent for a repeat after a restart
	Plan    *contracts.OverlayReanswerPlan // likewise
	Packet  *contracts.OverlayPromptPacket // BuildPacket: what is to be sent now; a repeat of the command has none
}

// Service is the domain behind its single writer: commands one way, the
// current immutable view the other.
type Service interface {
	Do(ctx context.Context, c Command) (Receipt, error)
	View() *View
}

// Tasks is the worker door: five calls, each fenced by dispatch and token.
type Tasks interface {
	Claim(ctx context.Context, task contracts.UUID, in contracts.TaskClaim) (contracts.Task, error)
	Heartbeat(ctx context.Context, task contracts.UUID, in contracts.TaskHeartbeat) (contracts.TaskHeartbeatReply, error)
	Rows(ctx context.Context, task contracts.UUID, in contracts.TaskRows) (contracts.TaskAck, error)
	Usage(ctx context.Context, task contracts.UUID, in contracts.TaskUsage) (contracts.TaskUsageReply, error)
	Finish(ctx context.Context, task contracts.UUID, in contracts.TaskFinish) (contracts.TaskAck, error)
}

// InstallPresets puts the pack's overlays into the library; edited and archived
// ones are left alone.
type InstallPresets struct {
	Pack Pack
}

// Pack is a preset pack as a command carries it: the caller has loaded and
// verified the files.
type Pack struct {
	ID       string // pack identity hash
	Version  string
	Overlays []PackOverlay // in canonical order
}

// PackOverlay is one preset.
type PackOverlay struct {
	Frontmatter contracts.OverlayTemplateFrontmatter
	Body        string
}

// CreateOverlay saves a new overlay of a person's.
type CreateOverlay struct {
	Record            contracts.OverlayTemplateRecord
	DeclareReciprocal bool // write the other side of its hard conflicts too
}

// UpdateOverlay replaces header and body of an overlay.
type UpdateOverlay struct {
	OverlayID contracts.OverlayID
	Record    contracts.OverlayTemplateRecord
	IfMatch   string // ETag, may be empty
	// DeclareReciprocal brings the other side of its hard conflicts in line.
	DeclareReciprocal bool
}

// ArchiveOverlay takes an overlay out of use; it stays readable.
type ArchiveOverlay struct {
	OverlayID contracts.OverlayID
	IfMatch   string
}

// RestoreOverlay brings an archived overlay back.
type RestoreOverlay struct {
	OverlayID contracts.OverlayID
	IfMatch   string
}

// ExternalEdit is a change that somebody made to a document with an editor.
type ExternalEdit struct {
	Path string
	Body []byte
	Gone bool // nothing lies there any more
	// Blocked says that something lies there that is no plain file.
	Blocked bool
	// Settled says that what was said of the path is over, without a new text.
	Settled bool
	// AtStart says that the file lay there when EC started: nobody may have said
	// anything about it yet, or what was said may be out of date.
	AtStart bool
}

// SetFlags replaces the lab's switches.
type SetFlags struct{ Flags contracts.Flags }

// CreateDataset saves a new immutable version of a dataset.
type CreateDataset struct{ Dataset contracts.Dataset }

// CreateJob asks for an optimization of a saved artifact.
type CreateJob struct{ Job contracts.PromptLabJob }

// EnsureKeys gives a fresh library its secrets; one that has them keeps them.
type EnsureKeys struct{ SplitKey string }

// CancelJob ends a job that has not ended.
type CancelJob struct{ JobID contracts.UUID }

// DispatchTask records that a job's task is about to be handed to the queue:
// a new dispatch number and a new token, whose hash is kept.
type DispatchTask struct {
	JobID     contracts.UUID
	Kind      contracts.TaskKind
	TokenHash string
}

// LoseTask records that a dispatch will not come back: its lease ran out, or
// the queue has lost it.
type LoseTask struct {
	JobID    contracts.UUID
	Dispatch int
	Why      string
}

// ClaimTask takes a delivery for a worker.
type ClaimTask struct {
	TaskID contracts.UUID
	In     contracts.TaskClaim
}

// DeliverRows stores measured rows.
type DeliverRows struct {
	TaskID contracts.UUID
	In     contracts.TaskRows
}

// DeliverUsage books model calls and lends budget.
type DeliverUsage struct {
	TaskID contracts.UUID
	In     contracts.TaskUsage
}

// FinishTask delivers a task's result.
type FinishTask struct {
	TaskID contracts.UUID
	In     contracts.TaskFinish
}

// BookUsage books model calls made outside of jobs.
type BookUsage struct{ Rows []contracts.UsageRow }

// Type names the command in the audit.
func (InstallPresets) Type() string { return "overlay.install_presets" }

// Type names the command in the audit.
func (CreateOverlay) Type() string { return "overlay.create" }

// Type names the command in the audit.
func (UpdateOverlay) Type() string { return "overlay.update" }

// Type names the command in the audit.
func (ArchiveOverlay) Type() string { return "overlay.archive" }

// Type names the command in the audit.
func (RestoreOverlay) Type() string { return "overlay.restore" }

// Type names the command in the audit.
func (ExternalEdit) Type() string { return "overlay.external_edit" }

// Type names the command in the audit.
func (SetFlags) Type() string { return "flags.set" }

// Type names the command in the audit.
func (CreateDataset) Type() string { return "dataset.create" }

// Type names the command in the audit.
func (CreateJob) Type() string { return "prompt_lab.create_job" }

// Type names the command in the audit.
func (EnsureKeys) Type() string { return "keys.ensure" }

// Type names the command in the audit.
func (CancelJob) Type() string { return "prompt_lab.cancel_job" }

// Type names the command in the audit.
func (DispatchTask) Type() string { return "prompt_lab.dispatch" }

// Type names the command in the audit.
func (LoseTask) Type() string { return "prompt_lab.task_lost" }

// Type names the command in the audit.
func (ClaimTask) Type() string { return "prompt_lab.claim" }

// Type names the command in the audit.
func (DeliverRows) Type() string { return "prompt_lab.rows" }

// Type names the command in the audit.
func (DeliverUsage) Type() string { return "prompt_lab.usage" }

// Type names the command in the audit.
func (FinishTask) Type() string { return "prompt_lab.finish" }

// Type names the command in the audit.
func (BookUsage) Type() string { return "usage.book" }
