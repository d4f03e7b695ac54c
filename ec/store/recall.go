package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"iter"
	"maps"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/elnor/promptlab/ec/store/fsx"
)

// The recall file holds, of many documents, a short form that the caller has made
// of each text, so that a start need not read or understand them all. It is
// derived and may be taken away at any time. An entry counts only while its
// document has the stamp that it had when its text was read, or, where the start
// reads the text all the same, while that has the hash; everything else is read
// as ever.
const (
	recallPath = ecDir + "/recall"
	recallNew  = recallPath + "-new"

	recallMost  = 20_000  // documents that one Remember reads again
	recallBlock = 1 << 20 // bytes of the file that are kept in one piece
)

// RecallFile is where the recall file lies, for those who want to know how large it is.
const RecallFile = recallPath

// recalled is one entry of the recall file. There are very many at once, so that
// it is looked into when something of it is wanted.
type recalled struct {
	path string
	rest []byte // stamp, hash of the text, short form
}

const (
	stampSize = 4 * 8
	hashEnd   = stampSize + sha256.Size
)

func (r recalled) stamp() fsx.Stamp {
	b, le := r.rest, binary.LittleEndian
	return fsx.Stamp{
		Size: int64(le.Uint64(b)), Modified: int64(le.Uint64(b[8:])), Changed: int64(le.Uint64(b[16:])), Inode: le.Uint64(b[24:]), //nolint:gosec // bits
	}
}

func (r recalled) hash() []byte  { return r.rest[stampSize:hashEnd] }
func (r recalled) short() []byte { return r.rest[hashEnd:] }

// errRecall says that a recall file is not one that we can go by.
var errRecall = errors.New("it is of another format, or damaged")

func recallHead(format string) []byte {
	return []byte("promptlab recall 1 " + hashOf([]byte(format)) + "\n")
}

// Recall gives the short forms, in the order of their paths, of the documents that
// are as they were when Remember saw them; format must be the one that was given
// then. These documents are known from then on as if they had been read. There is
// nothing when the file is missing, damaged or of another format.
func (s *Store) Recall(format string) iter.Seq2[string, []byte] {
	var all []recalled
	if s.cfg.Recall {
		var err error
		if all, err = s.readRecall(format); err == nil {
			all, err = s.takeRecalled(all)
		}
		if err != nil {
			all = nil
		}
		if err != nil && !gone(err) {
			s.log.Warn("recall file left out", "path", recallPath, "error", err)
		}
	}
	return func(yield func(string, []byte) bool) {
		for _, r := range all {
			if !yield(r.path, r.short()) {
				return
			}
		}
	}
}

// takeRecalled gives the entries whose documents have not changed.
func (s *Store) takeRecalled(all []recalled) ([]recalled, error) {
	byPath := func(a, b recalled) int { return strings.Compare(a.path, b.path) }
	if !slices.IsSortedFunc(all, byPath) {
		slices.SortFunc(all, byPath)
	}
	paths := make([]string, len(all))
	for i, r := range all {
		paths[i] = r.path
	}
	stamps, err := s.stampsAtStart(paths)
	if err != nil {
		return nil, err
	}
	var hashes strings.Builder // all in one piece: there are very many
	hashes.Grow(2 * sha256.Size * len(all))
	for _, r := range all {
		var digits [2 * sha256.Size]byte
		hex.Encode(digits[:], r.hash())
		hashes.Write(digits[:])
	}
	known, docs := hashes.String(), make([]doc, len(all))
	s.mu.Lock()
	defer s.mu.Unlock()
	grown := make(map[string]*doc, len(s.docs)+len(all))
	maps.Copy(grown, s.docs)
	s.docs = grown
	out := all[:0]
	for i, r := range all {
		if i > 0 && paths[i-1] == r.path {
			continue
		}
		hash := known[2*sha256.Size*i:][:2*sha256.Size]
		switch d := s.docs[r.path]; {
		case d != nil: // the journal knows better, or the text has been read
			if d.pending || d.foreign || d.known != hash {
				continue
			}
		case stamps[i] == r.stamp() && stamps[i] != (fsx.Stamp{}) || s.hook.Bugs.StampsIgnored:
			docs[i] = doc{known: hash, stamp: r.stamp()}
			s.docs[r.path] = &docs[i]
		default:
			continue
		}
		out = append(out, r)
	}
	return out, nil
}

// stampsAtStart is stampsOf with all processors: nobody else needs them yet.
func (s *Store) stampsAtStart(paths []string) ([]fsx.Stamp, error) {
	const share = 2048 // paths at a time
	out := make([]fsx.Stamp, len(paths))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	if s.hook.Serial {
		g.SetLimit(1)
	}
	for from := 0; from < len(paths); from += share {
		g.Go(func() error {
			stamps, err := s.stampsOf(paths[from:min(from+share, len(paths))])
			copy(out[from:], stamps)
			return err
		})
	}
	return out, g.Wait()
}

func (s *Store) readRecall(format string) ([]recalled, error) {
	f, err := s.fs.Open(recallPath)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	r := blocks{r: f}
	head := recallHead(format)
	if got, ok := r.next(len(head)); !ok || string(got) != string(head) {
		return nil, errRecall
	}
	crc := crc32.Checksum(head, castagnoli)
	out := make([]recalled, 0, entriesOf(f))
	for {
		frame, ok := r.next(8)
		if !ok {
			return nil, errRecall
		}
		n, sum := binary.LittleEndian.Uint32(frame), binary.LittleEndian.Uint32(frame[4:])
		if n == 0 { // the end: the checksum of everything before
			if _, more := r.next(1); more || sum != crc {
				return nil, errRecall
			}
			return out, nil
		}
		if n > MaxDocument {
			return nil, errRecall
		}
		crc = crc32.Update(crc, castagnoli, frame)
		body, ok := r.next(int(n))
		if !ok || crc32.Checksum(body, castagnoli) != sum {
			return nil, errRecall
		}
		crc = crc32.Update(crc, castagnoli, body)
		e, ok := parseRecalled(body)
		if rule, _ := checkPath(e.path); !ok || rule != "" {
			return nil, errRecall
		}
		out = append(out, e)
	}
}

// blocks reads a file in pieces of memory that stay with whoever keeps a part of
// one: parts that are kept for long together lie together.
type blocks struct {
	r    io.Reader
	rest []byte // read, and not given yet
}

// next gives the next n bytes; false when there are not that many.
func (b *blocks) next(n int) ([]byte, bool) {
	if len(b.rest) < n {
		block := make([]byte, max(n, recallBlock))
		have := copy(block, b.rest)
		more, err := io.ReadAtLeast(b.r, block[have:], n-have)
		if b.rest = block[:have+more]; err != nil {
			return nil, false
		}
	}
	out := b.rest[:n:n]
	b.rest = b.rest[n:]
	return out, true
}

// entriesOf guesses how many entries a recall file has: rather too many.
func entriesOf(f any) int64 {
	if k, ok := f.(interface{ Size() int64 }); ok {
		return min(k.Size()/512, 1<<20)
	}
	return 0
}

// parseRecalled reads what follows a frame. The short form is a part of b.
func parseRecalled(b []byte) (e recalled, ok bool) {
	const lengthSize = 2
	if len(b) < lengthSize {
		return e, false
	}
	n := lengthSize + int(binary.LittleEndian.Uint16(b))
	if len(b) < n+hashEnd {
		return e, false
	}
	return recalled{string(b[lengthSize:n]), b[n:]}, true
}
