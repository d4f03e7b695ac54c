package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/elnor/promptlab/ec/store/fsx"
)

// stream is a file that only the store appends to.
type stream struct {
	file   fsx.File // opened with the first line
	exists bool
	length int64
	crc    uint32 // of all its bytes
	dirty  bool   // something was appended since the last checkpoint
}

// adopt takes a file that the journal does not know of yet as a stream. What
// lies there becomes durable first, since the journal only repeats what comes
// after it.
func (s *Store) adopt(name string) (*stream, error) {
	for _, up := range fsx.Parents(name)[1:] {
		if s.isDocument(up) || s.streams[up] != nil {
			return nil, conflict(name, "lies below a document")
		}
	}
	e, err := s.fs.Stat(name)
	if err != nil && !gone(err) {
		return nil, err
	}
	if err == nil && !e.Regular {
		return nil, conflict(name, "is not a regular file")
	}
	if err := s.ensureDir(path.Dir(name)); err != nil {
		return nil, err
	}
	st := &stream{exists: err == nil}
	if st.exists {
		if err := s.repair(name); err != nil {
			return nil, err
		}
		if err := s.syncForeign(name); err != nil {
			return nil, err
		}
		if st.length, st.crc, err = s.measure(name, -1); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	s.streams[name] = st
	s.mu.Unlock()
	return st, nil
}

// repair ends the last line of an adopted stream. A torn one is cut off, so that
// it does not spoil the next, and kept aside.
func (s *Store) repair(name string) error {
	whole, tail, err := s.lastLine(name)
	if err != nil || len(tail) == 0 {
		return err
	}
	if !json.Valid(tail) {
		s.log.Warn("torn line at the end of a stream cut off", "stream", name, "offset", whole, "bytes", len(tail))
		if err := s.keep(tail); err != nil {
			return err
		}
		return s.fs.Truncate(name, whole)
	}
	f, err := s.fs.OpenAppend(name)
	if err != nil {
		return err
	}
	return errors.Join(writeAll(f, []byte("\n")), f.Close())
}

// lastLine gives what follows the last newline of a file, and where. It holds no
// more of the file at a time: a stream may be very long.
func (s *Store) lastLine(name string) (at int64, tail []byte, err error) {
	f, err := s.fs.Open(name)
	if err != nil {
		return 0, nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	chunk := make([]byte, streamChunk)
	for {
		n, err := f.Read(chunk)
		if end := bytes.LastIndexByte(chunk[:n], '\n') + 1; end > 0 {
			at += int64(len(tail) + end)
			tail = append(tail[:0], chunk[end:n]...)
		} else {
			tail = append(tail, chunk[:n]...)
		}
		if err == io.EOF {
			return at, tail, nil
		}
		if err != nil {
			return 0, nil, err
		}
	}
}

// measure gives length and CRC of the first n bytes of a file, or of all when n
// is negative. A file that is shorter gives its own length.
func (s *Store) measure(name string, n int64) (int64, uint32, error) {
	f, err := s.fs.Open(name)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	var r io.Reader = f
	if n >= 0 {
		r = io.LimitReader(f, n)
	}
	h := crc32.New(castagnoli)
	got, err := io.Copy(h, r)
	return got, h.Sum32(), err
}

// grow appends to a stream, which is not synced before the checkpoint.
func (s *Store) grow(name string, tail []byte) error {
	st := s.streams[name]
	if st.file == nil {
		if err := s.openStream(name, st); err != nil {
			return err
		}
	}
	if err := writeAll(st.file, tail); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.length += int64(len(tail))
	st.crc = crc32.Update(st.crc, castagnoli, tail)
	st.dirty = true
	return nil
}

func (s *Store) openStream(name string, st *stream) error {
	open := s.fs.OpenAppend
	if !st.exists {
		open = s.fs.Create
	}
	f, err := open(name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.file, st.exists = f, true
	s.dirty[path.Dir(name)] = true
	return nil
}

// syncStreams makes every line durable where it belongs, and gives the extents.
func (s *Store) syncStreams() (map[string]extent, error) {
	out := map[string]extent{}
	for _, name := range slices.Sorted(maps.Keys(s.streams)) {
		st := s.streams[name]
		if st.dirty && !s.hook.Bugs.StreamsNotSynced {
			if err := s.sync(st.file); err != nil {
				return nil, err
			}
		}
		s.mu.Lock()
		st.dirty = false
		s.mu.Unlock()
		out[name] = extent{st.length, st.crc}
	}
	return out, nil
}

// ReadStream calls fn with every line of a stream, oldest first, without the
// newline; a missing stream has none. The slice is fn's only during the call.
// An error of fn ends it and is returned.
func (s *Store) ReadStream(name string, fn func(line []byte) error) error {
	if rule, msg := checkPath(name); rule != "" {
		return badPath(msg)
	}
	s.mu.Lock()
	limit := int64(-1)
	if st := s.streams[name]; st != nil {
		limit = st.length // a line may be growing beyond it
	}
	s.mu.Unlock()
	f, err := s.fs.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	var r io.Reader = f
	if limit >= 0 {
		r = io.LimitReader(f, limit)
	}
	return eachLine(r, fn)
}

// streamChunk is how much of a stream is read at a time, in bytes.
const streamChunk = 256 << 10

func eachLine(r io.Reader, fn func([]byte) error) error {
	buf := make([]byte, streamChunk)
	have := 0 // bytes of a line whose end has not been read yet
	for {
		if have == len(buf) {
			longer := make([]byte, 2*len(buf))
			copy(longer, buf)
			buf = longer
		}
		n, err := r.Read(buf[have:])
		rest, from := buf[:have+n], have // no line ends before from
		for {
			end := bytes.IndexByte(rest[from:], '\n')
			if end < 0 {
				break
			}
			if err := fn(rest[: from+end : from+end]); err != nil {
				return err
			}
			rest, from = rest[from+end+1:], 0
		}
		if err == io.EOF {
			if len(rest) > 0 && json.Valid(rest) { // an adopted file that lacks only its newline
				return fn(rest)
			}
			return nil
		}
		if err != nil {
			return err
		}
		have = copy(buf, rest)
	}
}
