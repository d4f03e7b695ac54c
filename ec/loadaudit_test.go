package ec

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/elnor/promptlab/contracts"
)

// auditOf makes a chained audit of the commands given as "type effect".
func auditOf(commands ...string) [][]byte {
	var out [][]byte
	prev := ""
	for i, c := range commands {
		command, effect, _ := strings.Cut(c, " ")
		l := AuditLine{
			Seq: uint64(i + 1), At: contracts.At(time.UnixMilli(int64(i))), CommandID: fmt.Sprintf("c-%d", i+1), Command: command,
			Subject: "s", Hashes: contracts.List[string]{strings.Repeat("a", 64)}, Effects: contracts.List[string]{effect}, Changed: true, Prev: prev,
		}
		l.Hash = l.Seal()
		prev = l.Hash
		out = append(out, mustLine(l))
	}
	return out
}

func recalled(lines [][]byte) (*State, error) {
	p := &auditTrail{}
	for _, l := range lines {
		if err := p.add(l); err != nil {
			return nil, err
		}
	}
	s := New(DefaultPolicy())
	if err := p.end(); err != nil {
		return nil, err
	}
	s.recall(p)
	return s, nil
}

// R-AUD-01: however long ago it was, what is kept of a command is found again;
// receipts are kept of the last ones.
func TestTheAuditIsRecalledFromItsWholeLength(t *testing.T) {
	commands := []string{"overlay.create overlay.installed:first", "prompt_lab.create_job job.created:j:queued"}
	for range maxReceipts + 5 {
		commands = append(commands, `overlay.activate session.activated:"command":"prompt_lab.create_job","effects":["overlay.installed:trap`)
	}
	commands = append(commands, "overlay.create overlay.installed:last")
	lines := auditOf(commands...)
	s, err := recalled(lines)
	if err != nil {
		t.Fatal(err)
	}
	last, _ := CheckAuditLine(lines[len(lines)-1], s.auditHash)
	if s.Seq != uint64(len(lines)) || s.auditHash == "" || last.Hash != "" && last.Hash != s.auditHash {
		t.Errorf("recalled: revision %d, chain ends in %q; want revision %d", s.Seq, s.auditHash, len(lines))
	}
	var names []string
	for _, e := range NewView(s).RegistryEvents(0, 10).Events {
		names = append(names, string(e.Event.OverlayID))
	}
	if got := strings.Join(names, " "); got != "first last" {
		t.Errorf("registry events: got %s, want first last", got)
	}
	if s.tasks.Len() != 1 {
		t.Errorf("tasks of jobs: got %d, want 1", s.tasks.Len())
	}
	if _, ok := s.receipts.Get("c-1"); ok || s.receipts.Len() != maxReceipts {
		t.Errorf("receipts: got %d, the first one among them: %v; want the last %d", s.receipts.Len(), ok, maxReceipts)
	}
}

// A line that is not as it was written is read in full, wherever it stands, and
// stops the load when it cannot be.
func TestADamagedAuditLineStopsTheLoad(t *testing.T) {
	good := auditOf("overlay.activate a", "overlay.activate b", "overlay.activate c")
	for what, damage := range map[string]func([]byte) []byte{
		"cut at its end":    func(b []byte) []byte { return b[:len(b)-2] },
		"cut at its head":   func(b []byte) []byte { return b[3:] },
		"another beginning": func(b []byte) []byte { return append([]byte(`{"sek:`), b[6:]...) },
		"a broken hash":     func(b []byte) []byte { b[len(b)-3] = '"'; return b },
	} {
		lines := [][]byte{good[0], damage(append([]byte(nil), good[1]...)), good[2]}
		for range maxReceipts { // so that it is none of the last ones
			lines = append(lines, good[2])
		}
		if _, err := recalled(lines); err == nil || !strings.Contains(err.Error(), "read audit line") {
			t.Errorf("a line with %s: got %v, want an error", what, err)
		}
	}
}
