package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/elnor/promptlab/ec/store/fsx"
)

// A journal is a file of lines {"crc":"xxxxxxxx","d":...}, the CRC-32C being of
// the bytes of d. The first line is the header; the others are records, and
// marks, which say that the batch before them was synced.

type header struct {
	Gen     uint64            `json:"gen"`
	LSN     uint64            `json:"lsn"`             // last record before this journal
	Carry   int               `json:"carry,omitempty"` // records that were synced together with the header
	Streams map[string]extent `json:"streams,omitempty"`
}

// extent is the durable part of a stream.
type extent struct {
	Len int64  `json:"len"`
	CRC uint32 `json:"crc"`
}

// record is one change. BS is the LSN of the first record of its batch.
type record struct {
	LSN   uint64    `json:"lsn"`
	BS    uint64    `json:"bs"`
	Mark  bool      `json:"mark,omitempty"`
	Docs  []docRec  `json:"docs,omitempty"`
	Lines []lineRec `json:"lines,omitempty"`
}

type docRec struct {
	Path string `json:"p"`
	Prev string `json:"prev,omitempty"` // hash of what may lie there
	Gone bool   `json:"gone,omitempty"`
	text
}

type lineRec struct {
	Stream string `json:"s"`
	At     int64  `json:"at"` // where in the stream the line begins
	text
}

// text is readable when it can be, and exact always.
type text struct {
	T string `json:"t,omitempty"`
	B []byte `json:"b,omitempty"`
}

func textOf(b []byte) text {
	if utf8.Valid(b) {
		return text{T: string(b)}
	}
	return text{B: b}
}

func (t text) bytes() []byte {
	if t.B != nil {
		return t.B
	}
	return []byte(t.T)
}

func (d docRec) body() []byte {
	if d.Gone {
		return nil
	}
	return d.bytes()
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	lineHead = `{"crc":"`
	lineMid  = `","d":`
	lineMin  = len(lineHead) + 8 + len(lineMid) + len("{}}")
)

func encode(buf *bytes.Buffer, v any) error {
	var d bytes.Buffer
	enc := json.NewEncoder(&d)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	b := bytes.TrimSuffix(d.Bytes(), []byte("\n"))
	fmt.Fprintf(buf, "%s%08x%s%s}\n", lineHead, crc32.Checksum(b, castagnoli), lineMid, b)
	return nil
}

// decode reads a line without its newline; false when any byte of it is wrong.
func decode(line []byte, v any, noCRC bool) bool {
	if len(line) < lineMin || string(line[:len(lineHead)]) != lineHead || line[len(line)-1] != '}' {
		return false
	}
	crc := line[len(lineHead) : len(lineHead)+8]
	rest := line[len(lineHead)+8:]
	if !bytes.HasPrefix(rest, []byte(lineMid)) {
		return false
	}
	d := rest[len(lineMid) : len(rest)-1]
	if !noCRC && string(crc) != fmt.Sprintf("%08x", crc32.Checksum(d, castagnoli)) {
		return false
	}
	return json.Unmarshal(d, v) == nil
}

// found is a journal as it lies on the disk.
type found struct {
	name string
	gen  uint64
	head header
	recs []record
	last uint64 // LSN of the last record
	// whole: the header and what was synced with it are there. If not, hint says
	// where it ends, and more whether good lines come after that.
	whole bool
	more  bool
	line  int
}

var errDamaged = errors.New("damaged")

func damaged(file string, line int, format string, args ...any) error {
	if line > 0 {
		file = fmt.Sprintf("%s:%d", file, line)
	}
	return fmt.Errorf("%s: %w: %s; refusing to start, nothing was changed", file, errDamaged, fmt.Sprintf(format, args...))
}

// parse reads a journal. A bad line ends it when it is part of a torn batch,
// which was never synced and so never acknowledged: then every good line after
// it belongs to that batch. Anything else is damage to acknowledged data.
func (s *Store) parse(name string, gen uint64, data []byte) (*found, error) {
	bugs := s.hook.Bugs
	f := &found{name: name, gen: gen}
	var rows [][]byte
	for len(data) > 0 {
		row, rest, ok := bytes.Cut(data, []byte("\n"))
		if !ok {
			row = []byte("torn") // without its newline it is not a line
		}
		rows, data = append(rows, row), rest
	}
	if len(rows) == 0 || !decode(rows[0], &f.head, bugs.NoCRC) || f.head.Gen != gen {
		f.line = 1
		if len(rows) > 0 {
			f.more = s.anyGood(rows[1:], func(record) bool { return true })
		}
		return f, nil
	}
	f.last = f.head.LSN
	for i, row := range rows[1:] {
		if len(row) == 0 {
			continue // an empty line goes before each mark
		}
		var r record
		f.line = i + 2
		good := decode(row, &r, bugs.NoCRC)
		if good && r.Mark && r.LSN == f.last {
			continue
		}
		if good && !r.Mark && r.LSN == f.last+1 && r.BS <= r.LSN {
			f.recs, f.last = append(f.recs, r), r.LSN
			continue
		}
		if good && !bugs.NoCRC {
			return nil, damaged(name, f.line, "record %d follows record %d", r.LSN, f.last)
		}
		if len(f.recs) < f.head.Carry {
			return f, nil // not whole
		}
		later := func(r record) bool { return r.BS > f.last+1 || bugs.TornIsCorrupt }
		if !bugs.StopAtBadLine && s.anyGood(rows[i+2:], later) {
			return nil, damaged(name, f.line, "a record that was acknowledged cannot be read")
		}
		break
	}
	f.whole = len(f.recs) >= f.head.Carry
	return f, nil
}

func (s *Store) anyGood(rows [][]byte, is func(record) bool) bool {
	for _, row := range rows {
		var r record
		if decode(row, &r, s.hook.Bugs.NoCRC) && is(r) {
			return true
		}
	}
	return false
}

// findJournals reads every journal, oldest first, and the highest generation.
func (s *Store) findJournals() ([]*found, error) {
	entries, err := s.fs.List(ecDir)
	if err != nil {
		return nil, err
	}
	var out []*found
	for _, e := range entries { // names sort by generation
		gen, ok := generation(e.Name)
		if !ok || !e.Regular {
			continue
		}
		data, err := fsx.ReadFile(s.fs, ecDir+"/"+e.Name)
		if err != nil {
			return nil, err
		}
		f, err := s.parse(ecDir+"/"+e.Name, gen, data)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

func generation(name string) (uint64, bool) {
	n, ok := strings.CutPrefix(name, "journal-")
	n, ok2 := strings.CutSuffix(n, ".jsonl")
	gen, err := strconv.ParseUint(n, 10, 64)
	return gen, ok && ok2 && err == nil && len(n) == 16
}

func journalName(gen uint64) string { return fmt.Sprintf("%s/journal-%016d.jsonl", ecDir, gen) }

// journal is the one that is written.
type journal struct {
	file    fsx.File
	gen     uint64
	lsn     uint64
	records int   // since it was begun
	bytes   int64 // of those
	stale   []string
	owed    bool // planted bug: the sync of the batch before is still owed
}

// begin starts the next journal with what it must carry over, makes it durable,
// and only then removes the ones before it. It is never appended to one that was
// found: pages of a file whose sync once failed cannot be trusted.
func (s *Store) begin(h header, carry []record) error {
	h.Gen, h.Carry = s.j.gen+1, len(carry)
	var buf bytes.Buffer
	if err := encode(&buf, h); err != nil {
		return err
	}
	for _, r := range carry {
		if err := encode(&buf, r); err != nil {
			return err
		}
	}
	name := journalName(h.Gen)
	f, err := s.fs.Create(name)
	if err != nil {
		return err
	}
	if err := errors.Join(writeAll(f, buf.Bytes()), f.Sync()); err != nil {
		return errors.Join(err, f.Close())
	}
	old := s.j
	s.j = journal{file: f, gen: h.Gen, lsn: h.LSN + uint64(len(carry)), stale: []string{name}}
	if old.file != nil {
		if err := old.file.Close(); err != nil {
			return err
		}
	}
	if s.hook.Bugs.JournalNameNotSynced {
		return s.drop(old.stale)
	}
	if err := s.fs.SyncDir(ecDir); err != nil {
		return err
	}
	if err := s.drop(old.stale); err != nil {
		return err
	}
	return s.fs.SyncDir(ecDir)
}

// drop removes journals that are no longer needed.
func (s *Store) drop(names []string) error {
	for _, n := range names {
		if err := s.fs.Remove(n); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func writeAll(w io.Writer, b []byte) error {
	n, err := w.Write(b)
	if err == nil && n != len(b) {
		err = io.ErrShortWrite
	}
	return err
}
