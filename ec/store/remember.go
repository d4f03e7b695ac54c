package store

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"iter"

	"github.com/elnor/promptlab/ec/store/fsx"
)

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

// keepable is what the recall file is to hold of a document.
type keepable struct {
	path  string
	stamp fsx.Stamp
	hash  [sha256.Size]byte
	short []byte
}

// toRecall makes the entry of a document; false when there can be none now.
func (s *Store) toRecall(p string, made []byte, short func(string, []byte) ([]byte, error), again *int) (keepable, bool) {
	var d doc
	s.mu.Lock()
	if k := s.docs[p]; k != nil {
		d = *k
	}
	s.mu.Unlock()
	e := keepable{path: p, stamp: d.stamp, short: made}
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

// appendRecalled appends an entry with its frame: length and checksum.
func appendRecalled(b []byte, e keepable) []byte {
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
