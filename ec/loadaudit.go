package ec

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/elnor/promptlab/contracts"
)

// auditTrail is what the audit says of earlier times. The audit is the one thing that
// is never cut, so that most of its lines are only looked at from outside: all
// that they are needed for is to know that they are there.
type auditTrail struct {
	lines  []AuditLine // those that something is still kept of, oldest first
	recent [][]byte    // the last ones, for repeats; a ring that begins at oldest
	oldest int
	chain  []byte      // hash of the line before
	last   []AuditLine // the recent ones, oldest first, once all has been read
}

// readAudit goes through the audit. It reads nothing else, and may run beside
// other steps of a load.
func (l loader) readAudit() (*auditTrail, error) {
	p := &auditTrail{}
	if err := l.streams(dirAudit, func(_ string, line []byte) error { return p.add(line) }); err != nil {
		return nil, err
	}
	return p, p.end()
}

// auditLine reads one line.
func auditLine(line []byte) (AuditLine, error) {
	if a, err := contracts.Decode[AuditLine](line, contracts.Stored); err == nil { // as we write it
		return a, nil
	}
	var a AuditLine
	if err := json.Unmarshal(line, &a); err != nil {
		return a, fmt.Errorf("read audit line: %w", err)
	}
	return a, nil
}

// end reads the recent lines when there are no more.
func (p *auditTrail) end() error {
	p.last = make([]AuditLine, len(p.recent))
	for i := range p.last {
		var err error
		if p.last[i], err = auditLine(p.recent[(p.oldest+i)%len(p.recent)]); err != nil {
			return err
		}
	}
	p.recent = nil
	return nil
}

func (p *auditTrail) add(line []byte) error {
	plain := p.follows(line)
	if !plain || telling(line) {
		a, err := auditLine(line)
		if err != nil {
			return err
		}
		p.lines = append(p.lines, a)
		p.chain = append(p.chain[:0], a.Hash...)
	}
	if len(p.recent) < maxReceipts {
		p.recent = append(p.recent, bytes.Clone(line))
		return nil
	}
	p.recent[p.oldest] = append(p.recent[p.oldest][:0], line...)
	p.oldest = (p.oldest + 1) % maxReceipts
	return nil
}

// The ends of a line as Perform writes it.
const (
	auditHead  = `{"seq":`
	auditPrev  = `"prev":"`
	auditHash  = `","hash":"`
	auditTail  = `"}`
	hashDigits = 64
)

// follows says that a line looks as we write it and names the hash of the line
// before it as its own predecessor.
func (p *auditTrail) follows(line []byte) bool {
	const end = len(auditPrev) + hashDigits + len(auditHash) + hashDigits + len(auditTail)
	if len(line) < len(auditHead)+end || !bytes.HasPrefix(line, []byte(auditHead)) || !bytes.HasSuffix(line, []byte(auditTail)) {
		return false
	}
	tail := line[len(line)-end:]
	prev, rest := tail[len(auditPrev):len(auditPrev)+hashDigits], tail[len(auditPrev)+hashDigits:]
	if !bytes.HasPrefix(tail, []byte(auditPrev)) || !bytes.HasPrefix(rest, []byte(auditHash)) || !bytes.Equal(prev, p.chain) {
		return false
	}
	hash := rest[len(auditHash) : len(auditHash)+hashDigits]
	for _, c := range hash {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	p.chain = append(p.chain[:0], hash...)
	return true
}

// telling says whether something is kept of a line beyond its receipt: registry
// events and the tasks of jobs. A quote within a text has a backslash before it,
// so that what is looked for can only be the field.
func telling(line []byte) bool {
	_, rest, ok := bytes.Cut(line, []byte(`,"command":"`))
	if !ok || bytes.HasPrefix(rest, []byte("prompt_lab.")) {
		return true
	}
	_, rest, ok = bytes.Cut(rest, []byte(`,"effects":[`))
	return !ok || bytes.Contains(rest, []byte(`"overlay.`))
}

// recall takes what the audit says into the state: the revision, the end of the
// chain, the registry, the tasks of jobs that have ended and the last receipts.
func (s *State) recall(p *auditTrail) {
	for _, a := range p.lines {
		s.register(a)
		switch a.Command {
		case CreateJob{}.Type():
			s.tasks.Set(string(contracts.DeriveID(a.CommandID, "task-optimize", 0)), contracts.UUID(a.Subject))
		case FinishTask{}.Type():
			s.tasks.Set(string(contracts.DeriveID(a.CommandID, "task-measure", 0)), contracts.UUID(a.Subject))
		}
	}
	for _, a := range p.last {
		s.Seq, s.auditHash = a.Seq, a.Hash
		s.remember(a.CommandID, past{Receipt{Seq: a.Seq, Subject: a.Subject, Changed: a.Changed, Note: a.Note, Granted: a.Granted, Left: a.Left}, a.Request})
	}
}
