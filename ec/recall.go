package ec

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"path"
	"reflect"
	"strings"

	"github.com/elnor/promptlab/contracts"
)

// Recaller is a source that may know the short forms of sessions already, by the
// paths of their documents. One that has none for a session is asked for its text.
type Recaller interface {
	Recall(format string) map[string][]byte
}

// outline is what is asked of every session at once. It stands before the session
// in its short form.
type outline struct {
	Workspace        string
	Kind             contracts.SupportedSurface
	ActiveAt, LastAt int
	Active           bool
	Subjects         []contracts.OverlayID
}

// recallRules goes up when the same types are packed, or outlined, in another way
// or a document that was valid is no longer.
const recallRules = "1"

// RecallFormat names the short form of sessions. It changes with their types and
// with what is demanded of them.
func RecallFormat() string {
	h := sha256.New()
	_, _ = io.WriteString(h, recallRules)
	for _, t := range []reflect.Type{reflect.TypeFor[outline](), reflect.TypeFor[contracts.OverlaySessionState](), reflect.TypeFor[SessionKept]()} {
		madeOf(h, t)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// madeOf writes down what a type is made of, down to the tags of its fields.
func madeOf(w io.Writer, t reflect.Type) {
	_, _ = fmt.Fprintf(w, "%s %s\n", t.Kind(), t)
	switch {
	case t == reflect.TypeFor[contracts.Time]():
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer:
		madeOf(w, t.Elem())
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			_, _ = fmt.Fprintf(w, "%s %q\n", f.Name, f.Tag)
			madeOf(w, f.Type)
		}
	}
}

// pack gives a session in its short form and where the session begins in it.
func (x *Session) pack() (short []byte, at int) {
	out := x.outside()
	b := pack(make([]byte, 0, 4<<10), &outline{
		Workspace: out.workspace, Kind: out.kind, ActiveAt: int(out.activeAt), LastAt: int(out.lastAt), Active: out.active, Subjects: x.subjects(),
	})
	at = len(b)
	b = pack(pack(b, &x.OverlaySessionState), &x.Kept)
	return append(make([]byte, 0, len(b)), b...), at // without room to grow
}

// recalledSession makes of a short form what reading the document would.
func recalledSession(p string, short []byte) foundSession {
	var o outline
	rest := unpack(short, &o)
	return foundSession{&stored{
		file: strings.TrimSuffix(path.Base(p), ".json"), workspace: o.Workspace, kind: o.Kind,
		activeAt: int64(o.ActiveAt), lastAt: int64(o.LastAt), active: o.Active, packed: short, at: len(short) - len(rest),
	}, o.Subjects}
}

// Sleepers gives the path of every session's document and, of those that have not
// changed since the start, the short form.
func (v *View) Sleepers() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		v.s.sessions.Scan(func(file string, h *stored) bool { return yield(dirSessions+file+".json", h.packed) })
	}
}

// ShortSession makes the short form of a session from its document.
func ShortSession(p string, body []byte) ([]byte, error) {
	v, err := contracts.Decode[Session](body, contracts.Stored)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p, err)
	}
	if v.file = strings.TrimSuffix(path.Base(p), ".json"); v.SessionKey.FileName() != v.file {
		return nil, misnamed(p)
	}
	short, _ := v.pack()
	return short, nil
}
