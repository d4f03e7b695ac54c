package ec

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// maxReceipts bounds how many past commands are remembered for repeats.
const maxReceipts = 10_000

// AuditLine is one accepted command: who, what, which ids and hashes, outcome.
// It holds no text. Hash covers the line without itself and the hash before it.
type AuditLine struct {
	Seq       uint64                 `json:"seq"`
	At        contracts.Time         `json:"at"`
	CommandID string                 `json:"command_id"`
	Command   string                 `json:"command"`
	Actor     Actor                  `json:"actor"`
	Subject   string                 `json:"subject"`
	Hashes    contracts.List[string] `json:"hashes"`
	Effects   contracts.List[string] `json:"effects"`
	Changed   bool                   `json:"changed"`
	Note      string                 `json:"note,omitempty"`
	Granted   contracts.NanoUSD      `json:"granted,omitempty"`
	Left      contracts.NanoUSD      `json:"left,omitempty"`
	Request   string                 `json:"request,omitempty"` // Command.Request
	Prev      string                 `json:"prev"`
	Hash      string                 `json:"hash,omitempty"`
}

// Seal computes the line's hash.
func (l AuditLine) Seal() string {
	l.Hash = ""
	sum := sha256.Sum256(mustLine(l))
	return hex.EncodeToString(sum[:])
}

// CheckAuditLine reads one line of the audit and checks that it follows prev.
func CheckAuditLine(line []byte, prev string) (AuditLine, error) {
	var l AuditLine
	if err := json.Unmarshal(line, &l); err != nil {
		return l, fmt.Errorf("read audit line: %w", err)
	}
	if l.Prev != prev {
		return l, fmt.Errorf("audit line %d does not follow the line before it", l.Seq)
	}
	if l.Seal() != l.Hash {
		return l, fmt.Errorf("audit line %d was changed after it was written", l.Seq)
	}
	return l, nil
}

// Outcome is an accepted command with everything that follows from it.
type Outcome struct {
	Receipt  Receipt
	Repeated bool // the command was accepted before: nothing is to be written
	Change   Change
	Live     []contracts.LiveEvent
}

// Perform decides a command and, where it is accepted, brings the state to
// where it leads. A refused command leaves the state as it was.
func (s *State) Perform(c Command) (Outcome, error) {
	if r, ok, err := s.repeated(c); ok || err != nil {
		return Outcome{Receipt: r, Repeated: ok}, err
	}
	events, receipt, err := Decide(s, c)
	if err != nil {
		return Outcome{}, err
	}
	out := Outcome{}
	s.Seq++
	receipt.Seq = s.Seq
	for _, e := range events {
		s.Apply(e)
		s.changeOf(e, &out.Change)
		if l, ok := liveOf(e); ok {
			l.Revision, l.At = s.Seq, c.At
			out.Live = append(out.Live, l)
		}
	}
	line := AuditLine{
		Seq: s.Seq, At: c.At, CommandID: c.ID, Command: c.Body.Type(), Actor: c.Actor, Subject: receipt.Subject,
		Changed: receipt.Changed, Note: receipt.Note, Granted: receipt.Granted, Left: receipt.Left, Request: c.Request, Prev: s.auditHash,
	}
	for _, e := range events {
		what, hash := describe(e)
		line.Effects = append(line.Effects, what)
		if hash != "" {
			line.Hashes = append(line.Hashes, hash)
		}
	}
	line.Hash = line.Seal()
	s.auditHash = line.Hash
	s.register(line)
	s.remember(c.ID, past{receipt, c.Request})
	out.Change.Lines = append(out.Change.Lines, Line{dirAudit + c.At.Format("2006-01") + ".jsonl", mustLine(line)})
	out.Receipt = receipt
	return out, nil
}

// past is what is remembered of an accepted command.
type past struct {
	receipt Receipt
	request string // Command.Request
}

// repeated gives the receipt of a command that was accepted before. The same ID
// for something else is a mistake of the caller's, and nobody is told that it
// was done.
func (s *State) repeated(c Command) (Receipt, bool, error) {
	p, ok := s.receipts.Get(c.ID)
	if ok && p.request != "" && c.Request != "" && p.request != c.Request {
		return Receipt{}, false, fault.New(fault.Invalid, "idempotency_key_reused", "this key was used for another request; a new request needs a new key")
	}
	return p.receipt, ok, nil
}

// remember keeps a receipt for repeats of its command.
func (s *State) remember(id string, p past) {
	p.receipt.Packet = nil // texts; who repeats a read gets what there is to read by then
	s.receipts.Set(id, p)
	s.receiptOrder.Set(s.Seq, id)
	if s.receiptOrder.Len() > maxReceipts {
		if seq, oldest, ok := s.receiptOrder.Min(); ok {
			s.receiptOrder.Delete(seq)
			s.receipts.Delete(oldest)
		}
	}
}

// describe names an event for the audit, with the hash of the text concerned.
func describe(e Event) (what, hash string) {
	switch e := e.(type) {
	case OverlayPut:
		if e.What == "" {
			return "overlay.tested:" + string(e.Overlay.Record.Frontmatter.ID), ""
		}
		return string(e.What) + ":" + string(e.Overlay.Record.Frontmatter.ID), e.Overlay.Record.BodyHash
	case InstallPut:
		return "presets.state", e.Install.PackID
	case ExternalRefused:
		return e.what() + ":" + e.Path, ""
	case BackupPut:
		return "backup:" + e.Path, contracts.HashBytes(e.Body)
	case LegacyTaken:
		return "migrated:" + e.Path, ""
	case FlagsPut:
		return "flags.set", ""
	case KeysPut:
		return cmp.Or(e.What, "keys.made"), ""
	case DatasetPut:
		return "dataset:" + e.Dataset.DatasetRef, e.Dataset.ContentHash
	case HoldoutUsed:
		return fmt.Sprintf("holdout.used:%d", len(e.Uses)), ""
	case JobPut:
		return "job." + e.What + ":" + string(e.Job.Job.JobID) + ":" + string(e.Job.Job.Status), e.Job.Detail.SourceHash
	case CandidatePut:
		return "candidate." + string(e.Candidate.State) + ":" + string(e.Candidate.CandidateID), e.Candidate.CandidateHash
	case RowsPut:
		return fmt.Sprintf("rows:%d", len(e.Rows)), ""
	case UsagePut:
		return fmt.Sprintf("usage:%d", len(e.Rows)), ""
	case ModelPut:
		return "model." + e.What + ":" + e.Version, e.hash()
	case SessionPut:
		return fmt.Sprintf("session.%s:%s@%d", e.What, e.Session.file, e.Session.Revision), e.Session.PromptPacketHash
	case SessionGone:
		return "session.pruned:" + e.Session.file, ""
	case PinsPut:
		return "pins:" + pinKey(e.Store.Scope, e.Store.WorkspaceID), ""
	case DefaultsPut:
		return "defaults.set", ""
	case RoomPut:
		return "room:" + roomKey(e.Room).FileName(), ""
	case TruthPut:
		return "receipt:" + e.Truth.SessionKey.FileName() + "@" + e.New, ""
	case PlanPut:
		return "plan." + e.What + ":" + string(e.Plan.Plan.PlanID) + e.Plan.mark(e.What), ""
	case PlanGone:
		return "plan.pruned:" + string(e.Plan.Plan.PlanID), ""
	case SignalPut:
		return "signal." + e.Line.RecordKind + ":" + string(e.Line.ID()), ""
	default:
		return "unknown", ""
	}
}

// sessionEvent is the notice by which holders of packets learn that theirs is old.
func sessionEvent(what string, x *Session) contracts.LiveEvent {
	revision := x.Revision
	return contracts.LiveEvent{
		Type: what, Session: x.SessionKey.Token(), SessionRevision: &revision,
		PendingRefresh: x.ForceRefreshNextTurn || x.PendingRefreshReason != "",
	}
}

// liveOf is what watchers are told of an event.
func liveOf(e Event) (contracts.LiveEvent, bool) {
	switch e := e.(type) {
	case OverlayPut:
		if e.What == "" {
			return contracts.LiveEvent{}, false
		}
		return contracts.LiveEvent{Type: string(e.What), Overlay: e.Overlay.Record.Frontmatter.ID}, true
	case ExternalRefused:
		id, _, _ := overlayOfPath(e.Path)
		return contracts.LiveEvent{Type: e.what(), Overlay: id, Status: onOneLine(e.Why)}, true
	case FlagsPut:
		return contracts.LiveEvent{Type: "flags.set"}, true
	case SessionPut:
		return sessionEvent("session.changed", e.Session), true
	case RoomPut: // who holds what participants are told is out of date with it
		return contracts.LiveEvent{Type: "room.changed", Status: roomKey(e.Room).Token()}, true
	case SessionGone:
		return sessionEvent("session.pruned", e.Session), true
	case ModelPut:
		return contracts.LiveEvent{Type: "model." + e.What, Status: e.Version}, true
	case DatasetPut:
		return contracts.LiveEvent{Type: "dataset.created", Status: e.Dataset.DatasetRef}, true
	case JobPut:
		return contracts.LiveEvent{Type: "job." + e.What, JobID: e.Job.Job.JobID, Status: string(e.Job.Job.Status), Phase: e.Job.Detail.Phase}, true
	case CandidatePut:
		return contracts.LiveEvent{Type: "candidate." + string(e.Candidate.State), JobID: e.Candidate.SourceJobID, Status: string(e.Candidate.CandidateID)}, true
	default:
		return contracts.LiveEvent{}, false
	}
}
