package store

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"slices"

	"github.com/elnor/promptlab/ec/store/fsx"
)

// The recall file holds, of many documents, a short form that the caller has made
// of each text, so that a start need not read them all. It is derived and may be
// taken away at any time. An entry counts only while its document has the stamp
// that it had when its text was read; everything else is read as ever.
const (
	recallPath = ecDir + "/recall"
	recallNew  = recallPath + "-new"

	recallMost = 20_000 // documents that one Remember reads again
)

// recalled is one entry of the recall file.
type recalled struct {
	path  string
	stamp fsx.Stamp
	hash  [32]byte // of the text
	short []byte
}

// errRecall says that a recall file is not one that we can go by.
var errRecall = errors.New("it is of another format, or damaged")

func recallHead(format string) []byte {
	return []byte("promptlab recall 1 " + hashOf([]byte(format)) + "\n")
}

// Recall gives the short forms, by path, of the documents that are as they were
// when Remember saw them; format must be the one that was given then. These
// documents are known from then on as if they had been read. There is nothing
// when the file is missing, damaged or of another format.
func (s *Store) Recall(format string) map[string][]byte {
	if !s.cfg.Recall {
		return nil
	}
	all, err := s.readRecall(format)
	if gone(err) {
		return nil
	}
	out := map[string][]byte{}
	if err == nil {
		err = s.takeRecalled(all, out)
	}
	if err != nil {
		s.log.Warn("recall file left out", "path", recallPath, "error", err)
	}
	return out
}

// takeRecalled puts the entries whose documents have not changed into out.
func (s *Store) takeRecalled(all []recalled, out map[string][]byte) error {
	paths := make([]string, len(all))
	for i, r := range all {
		paths[i] = r.path
	}
	stamps, err := s.stampsOf(paths)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range all {
		stamp, ok := stamps[r.path]
		if s.docs[r.path] != nil || (!ok || stamp != r.stamp) && !s.hook.Bugs.StampsIgnored { // the journal knows better, or it changed
			continue
		}
		s.docs[r.path] = &doc{known: hex.EncodeToString(r.hash[:]), stamp: r.stamp}
		out[r.path] = r.short
	}
	return nil
}

func (s *Store) readRecall(format string) ([]recalled, error) {
	f, err := s.fs.Open(recallPath)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	r := bufio.NewReaderSize(f, 1<<18)
	head := recallHead(format)
	got := make([]byte, len(head))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != string(head) {
		return nil, errRecall
	}
	crc := crc32.Checksum(head, castagnoli)
	var out []recalled
	var frame [8]byte
	var buf []byte
	for {
		if _, err := io.ReadFull(r, frame[:]); err != nil {
			return nil, errRecall
		}
		n, sum := binary.LittleEndian.Uint32(frame[:]), binary.LittleEndian.Uint32(frame[4:])
		if n == 0 { // the end: the checksum of everything before
			if _, err := r.ReadByte(); sum != crc || err != io.EOF {
				return nil, errRecall
			}
			return out, nil
		}
		if n > MaxDocument {
			return nil, errRecall
		}
		buf = slices.Grow(buf[:0], int(n))[:n]
		if _, err := io.ReadFull(r, buf); err != nil || crc32.Checksum(buf, castagnoli) != sum {
			return nil, errRecall
		}
		crc = crc32.Update(crc32.Update(crc, castagnoli, frame[:]), castagnoli, buf)
		e, ok := parseRecalled(buf)
		if rule, _ := checkPath(e.path); !ok || rule != "" {
			return nil, errRecall
		}
		out = append(out, e)
	}
}

// appendRecalled appends an entry with its frame: length and checksum.
func appendRecalled(b []byte, e recalled) []byte {
	start := len(b)
	b = append(b, make([]byte, 8)...)
	le := binary.LittleEndian
	b = le.AppendUint16(b, uint16(len(e.path))) //nolint:gosec // below 4000
	b = append(b, e.path...)
	for _, v := range []uint64{uint64(e.stamp.Size), uint64(e.stamp.Modified), uint64(e.stamp.Changed), e.stamp.Inode} { //nolint:gosec // bits
		b = le.AppendUint64(b, v)
	}
	b = append(append(b, e.hash[:]...), e.short...)
	body := b[start+8:]
	le.PutUint32(b[start:], uint32(len(body))) //nolint:gosec // below MaxDocument
	le.PutUint32(b[start+4:], crc32.Checksum(body, castagnoli))
	return b
}

// parseRecalled reads what follows a frame; short is a copy.
func parseRecalled(b []byte) (e recalled, ok bool) {
	const fixed = 4*8 + 32
	le := binary.LittleEndian
	if len(b) < 2 || len(b) < 2+int(le.Uint16(b))+fixed {
		return e, false
	}
	n := 2 + int(le.Uint16(b))
	e.path, b = string(b[2:n]), b[n:]
	e.stamp = fsx.Stamp{
		Size: int64(le.Uint64(b)), Modified: int64(le.Uint64(b[8:])), Changed: int64(le.Uint64(b[16:])), Inode: le.Uint64(b[24:]), //nolint:gosec // bits
	}
	copy(e.hash[:], b[32:])
	e.short = append(make([]byte, 0, len(b)-fixed), b[fixed:]...)
	return e, true
}

// Remember writes the recall file. docs gives the paths to be kept, each with the
// short form that was made or recalled of its text since the start, or nil. A
// text that has been written since, or has no short form, is read again, and short
// makes one of it, as long as there are not very many; short must depend on
// nothing but its arguments. What cannot be told apart from a later change is
// left out. It may run beside everything else and holds nothing up; an error
// leaves the store as good as it was.
func (s *Store) Remember(format string, docs iter.Seq2[string, []byte], short func(p string, body []byte) ([]byte, error)) error {
	if !s.cfg.Recall {
		return nil
	}
	s.recalling.Lock()
	defer s.recalling.Unlock()
	if err := s.Flush(); err != nil {
		return err
	}
	if err := s.fs.Remove(recallNew); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.writeRecall(recallHead(format), docs, short); err != nil {
		return errors.Join(fmt.Errorf("write recall file: %w", err), s.fs.Remove(recallNew))
	}
	err := s.fs.Rename(recallNew, recallPath)
	if errors.Is(err, fs.ErrExist) {
		err = errors.Join(s.fs.Exchange(recallNew, recallPath), s.fs.Remove(recallNew))
	}
	return errors.Join(err, s.fs.SyncDir(ecDir))
}

// whole turns a short write into an error.
type whole struct{ fsx.File }

func (w whole) Write(p []byte) (int, error) {
	if err := writeAll(w.File, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *Store) writeRecall(head []byte, docs iter.Seq2[string, []byte], short func(string, []byte) ([]byte, error)) error {
	f, err := s.fs.Create(recallNew)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(whole{f}, 1<<18)
	crc := uint32(0)
	put := func(b []byte) {
		crc = crc32.Update(crc, castagnoli, b)
		_, _ = out.Write(b) // Flush tells
	}
	put(head)
	again := 0
	var buf []byte
	for p, made := range docs {
		e, ok := s.toRecall(p, made, short, &again)
		if ok {
			buf = appendRecalled(buf[:0], e)
			put(buf)
		}
	}
	end := binary.LittleEndian.AppendUint32(make([]byte, 4, 8), crc)
	_, _ = out.Write(end)
	if err := out.Flush(); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := s.sync(f); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

// toRecall makes the entry of a document; false when there can be none now.
func (s *Store) toRecall(p string, made []byte, short func(string, []byte) ([]byte, error), again *int) (recalled, bool) {
	var d doc
	s.mu.Lock()
	if k := s.docs[p]; k != nil {
		d = *k
	}
	s.mu.Unlock()
	e := recalled{path: p, stamp: d.stamp, short: made}
	if n, err := hex.Decode(e.hash[:], []byte(d.known)); err != nil || n != len(e.hash) || d.pending || d.foreign {
		return e, false
	}
	if d.stamp == (fsx.Stamp{}) || made == nil {
		if *again++; *again > recallMost {
			return e, false
		}
		body, at, stamp, err := s.lookStamped(p)
		if err != nil || at != d.known || stamp == (fsx.Stamp{}) {
			return e, false
		}
		if e.short, err = short(p, body); err != nil {
			return e, false
		}
		e.stamp = stamp
	}
	return e, len(e.short) < MaxDocument/2
}
