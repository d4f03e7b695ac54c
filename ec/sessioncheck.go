package ec

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// SessionCheck is what a look at one session's files found.
type SessionCheck struct {
	SessionKey contracts.OverlaySessionKey
	Receipts   int // receipts there are
	Recomputed int // packets whose hash follows from texts on the disk
	Problems   []CheckFinding
	Notes      []CheckFinding // what could not be checked, and why
}

// CheckFinding is one thing that is not as it should be, or cannot be told.
type CheckFinding struct {
	File    string
	Line    int // of a stream; 0 elsewhere
	Message string
}

// CheckSession checks what is kept of a session, by its file name: each receipt
// is the one that was recorded, says what can be, is about a packet that was
// issued, and that packet's hash follows from the texts of then. It only reads.
// The error says that there is no such session, or that the data cannot be read.
func CheckSession(src Source, file string) (SessionCheck, error) {
	k := &sessionCheck{src: src, l: loader{src: src, s: New(DefaultPolicy())}, file: file, issued: map[string]issue{}, revisions: map[string][]int{}, planUsed: map[string]string{}, anchored: map[string]bool{}, texts: map[contracts.OverlayID][]textEvent{}, versions: map[contracts.OverlayID][]version{}}
	if err := k.readAudit(); err != nil {
		return SessionCheck{}, err
	}
	state, err := k.session()
	if err != nil {
		return SessionCheck{}, err
	}
	receipts, err := k.receipts()
	if err != nil {
		return SessionCheck{}, err
	}
	plans, err := k.plans()
	if err != nil {
		return SessionCheck{}, err
	}
	if !k.there {
		return SessionCheck{}, fault.New(fault.NotFound, "not_found", "there is no file of such a session")
	}
	if state != nil {
		k.checkState(state, receipts)
	}
	if receipts != nil {
		for _, t := range receipts.History {
			k.checkReceipt(k.truthPath(), t)
		}
		if receipts.Last != nil {
			k.checkReceipt(k.truthPath(), *receipts.Last)
		}
	}
	k.checkNumber(receipts)
	for _, p := range plans {
		k.checkPlan(p)
	}
	return k.out, nil
}

// checkNumber finds receipts that were taken away: of those that the audit names
// the last ones are kept.
func (k *sessionCheck) checkNumber(t *Truth) {
	have := 0
	if t != nil {
		have = len(t.History)
		if t.Last != nil {
			have++
		}
	}
	if kept := min(k.recorded, truthHistory+1); have < kept {
		k.problem(k.truthPath(), "holds %d receipts; %d were recorded, of which the last %d are kept: %d have been taken away", have, k.recorded, truthHistory+1, kept-have)
	}
}

type sessionCheck struct {
	src   Source
	l     loader
	file  string
	there bool // something of the session is on the disk
	out   SessionCheck

	issued    map[string]issue  // packets by their hash
	revisions map[string][]int  // that a packet was built for, by its hash
	anchored  map[string]bool   // hashes of receipts that the audit knows
	planUsed  map[string]string // hash of the packet that a plan gave out, by its id
	unknown   int               // receipts that were recorded without their hash
	recorded  int               // receipts of the session's own turns, since it began
	texts     map[contracts.OverlayID][]textEvent
	versions  map[contracts.OverlayID][]version
	lastKnown int // revision of the session that the audit names last; -1 for none
}

// issue says when a packet was built.
type issue struct {
	seq      uint64
	revision int
}

func (k *sessionCheck) sessionPath() string { return dirSessions + k.file + ".json" }

func (k *sessionCheck) truthPath() string { return dirSessions + k.file + ".truth.json" }

func (k *sessionCheck) problem(file, format string, args ...any) {
	found := CheckFinding{File: file, Message: fmt.Sprintf(format, args...)}
	if !slices.Contains(k.out.Problems, found) {
		k.out.Problems = append(k.out.Problems, found)
	}
}

func (k *sessionCheck) note(file, format string, args ...any) {
	found := CheckFinding{File: file, Message: fmt.Sprintf(format, args...)}
	if !slices.Contains(k.out.Notes, found) {
		k.out.Notes = append(k.out.Notes, found)
	}
}

// readAudit follows the chain and takes out what is about this session and about
// texts. What stands behind a broken link is still read; it is not believed less
// than the files.
func (k *sessionCheck) readAudit() error {
	k.lastKnown = -1
	paths, err := k.src.List(dirAudit)
	if err != nil {
		return fmt.Errorf("list %s: %w", dirAudit, err)
	}
	prev, broken := "", false
	for _, p := range paths {
		if !strings.HasSuffix(p, ".jsonl") {
			continue
		}
		n := 0
		err := k.src.ReadStream(p, func(line []byte) error {
			n++
			l, err := CheckAuditLine(line, prev)
			if err != nil && !broken {
				broken = true
				k.out.Problems = append(k.out.Problems, CheckFinding{File: p, Line: n, Message: err.Error()})
			}
			prev = l.Hash
			k.audited(l)
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return nil
}

// audited takes one line of the audit in.
func (k *sessionCheck) audited(l AuditLine) {
	hashes := l.Hashes
	for _, effect := range l.Effects {
		what, about, _ := strings.Cut(effect, ":")
		id, value, _ := strings.Cut(about, "@")
		switch event := contracts.RegistryEventType(what); {
		case event == contracts.EventOverlayInstalled, event == contracts.EventOverlayUpdated, event == contracts.EventOverlayArchived, event == contracts.EventOverlayRestored:
			hash := ""
			if len(hashes) > 0 { // these come first, each with its hash
				hash, hashes = hashes[0], hashes[1:]
			}
			if event == contracts.EventOverlayInstalled || event == contracts.EventOverlayUpdated {
				k.texts[contracts.OverlayID(id)] = append(k.texts[contracts.OverlayID(id)], textEvent{l.Seq, l.At, hash})
			}
		case what == "session.pruned" && id == k.file:
			k.recorded = 0
		case strings.HasPrefix(what, "session.") && id == k.file:
			revision, err := strconv.Atoi(value)
			if err != nil {
				continue
			}
			k.lastKnown = revision
			if what == "session.packet" && len(l.Hashes) == 1 {
				k.issued[l.Hashes[0]] = issue{l.Seq, revision}
				k.revisions[l.Hashes[0]] = append(k.revisions[l.Hashes[0]], revision)
			}
		case what == "receipt" && id == k.file, what == "plan.receipt":
			if what == "receipt" {
				k.recorded++
			}
			if value == "" {
				k.unknown++
			}
			k.anchored[value] = true
		case what == "plan.used" && value != "":
			k.planUsed[id] = value
		}
	}
}

// keyed notes whose files these are; one that lies under another's name is a
// problem.
func (k *sessionCheck) keyed(path string, key contracts.OverlaySessionKey) {
	k.there = true
	k.out.SessionKey = key
	if key.FileName() != k.file {
		k.problem(path, "the file is of another session than its name says: %s", key.JSON())
	}
}

func (k *sessionCheck) session() (*Session, error) {
	v, ok, err := readDoc[Session](k, k.sessionPath())
	if v != nil {
		k.keyed(k.sessionPath(), v.SessionKey)
	}
	k.there = k.there || ok
	return v, err
}

func (k *sessionCheck) receipts() (*Truth, error) {
	v, ok, err := readDoc[Truth](k, k.truthPath())
	if v != nil {
		k.keyed(k.truthPath(), v.SessionKey)
	}
	k.there = k.there || ok
	return v, err
}

// plans gives the re-answer plans of the session.
func (k *sessionCheck) plans() ([]*Plan, error) {
	paths, err := k.src.List(dirPlans)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dirPlans, err)
	}
	var out []*Plan
	for _, p := range paths {
		if !strings.HasSuffix(p, ".json") {
			continue
		}
		b, ok, err := k.src.Read(p)
		if err != nil {
			return nil, err
		}
		var head struct {
			Plan struct {
				SessionKey contracts.OverlaySessionKey `json:"session_key"`
			} `json:"plan"`
		}
		if !ok || json.Unmarshal(b, &head) != nil || head.Plan.SessionKey.FileName() != k.file {
			continue // of another session, or nobody's: the check of everything names it
		}
		k.there = true
		k.out.SessionKey = head.Plan.SessionKey
		if v, _, err := readDoc[Plan](k, p); err != nil {
			return nil, err
		} else if v != nil {
			out = append(out, v)
		}
	}
	return out, nil
}

// readDoc reads a document strictly; one that cannot be read is a problem and
// gives nil. ok says that there is one.
func readDoc[T any](k *sessionCheck, path string) (v *T, ok bool, err error) {
	b, ok, err := k.src.Read(path)
	if err != nil || !ok {
		return nil, ok, err
	}
	doc, err := contracts.Decode[T](b, contracts.Stored)
	if err != nil {
		k.problem(path, "cannot be read: %v", err)
		return nil, true, nil
	}
	return &doc, true, nil
}
