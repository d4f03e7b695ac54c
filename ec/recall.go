package ec

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/frontmatter"
)

// Recaller is a source that may know the short forms of documents already, in the
// order of their paths. One that has none for a document is asked for its text.
type Recaller interface {
	Recall(format string) iter.Seq2[string, []byte]
}

// recalls holds the short forms that a load may go by.
type recalls struct {
	overlays map[string][]byte
	sessions []recalledDoc // in the order of their paths
}

type recalledDoc struct {
	path  string
	short []byte // nil: it must be read
}

func (l loader) recall() recalls {
	out := recalls{overlays: map[string][]byte{}}
	r, ok := l.src.(Recaller)
	if !ok {
		return out
	}
	for p, short := range r.Recall(RecallFormat(l.build)) {
		switch {
		case strings.HasPrefix(p, dirSessions):
			if len(out.sessions) == cap(out.sessions) {
				out.sessions = slices.Grow(out.sessions, max(1<<10, len(out.sessions))) // doubled: there are very many
			}
			out.sessions = append(out.sessions, recalledDoc{p, short})
		case OverlayFile(p):
			out.overlays[p] = short
		}
	}
	return out
}

// known finds the short forms of sessions; the paths are in order.
func (r recalls) known(paths []string) []recalledDoc {
	out := make([]recalledDoc, len(paths))
	rest := r.sessions
	for i, p := range paths {
		out[i].path = p
		for len(rest) > 0 && rest[0].path < p {
			rest = rest[1:]
		}
		if len(rest) > 0 && rest[0].path == p {
			out[i], rest = rest[0], rest[1:] // its path, too: the same text is not kept twice
		}
	}
	return out
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

// recallRules goes up when the same types are packed, or outlined, in another way.
const recallRules = "2"

// RecallFormat names the short forms. It changes with their types and with the
// build of the program: another one may demand something else of the documents.
func RecallFormat(build string) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s %q\n", recallRules, build)
	for _, t := range []reflect.Type{
		reflect.TypeFor[outline](), reflect.TypeFor[contracts.OverlaySessionState](), reflect.TypeFor[SessionKept](), reflect.TypeFor[shortOverlay](),
	} {
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

// recalledSession makes of a short form what reading the document would; false when
// there is none, or it is damaged.
func recalledSession(r recalledDoc) (f foundSession, ok bool) {
	if r.short == nil {
		return f, false
	}
	defer func() {
		if recover() != nil { // it was not packed by us; there is still the document
			f, ok = foundSession{}, false
		}
	}()
	var o outline
	rest := unpack(r.short, &o)
	return foundSession{&stored{
		file: strings.TrimSuffix(path.Base(r.path), ".json"), workspace: o.Workspace, kind: o.Kind,
		activeAt: int64(o.ActiveAt), lastAt: int64(o.LastAt), active: o.Active, packed: r.short, at: len(r.short) - len(rest),
	}, o.Subjects}, true
}

// Sleepers gives the paths of the documents whose short forms are worth keeping, in
// order, and the short form of each that has not changed since the start.
func (v *View) Sleepers() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		more := true
		overlays := func(archived bool) {
			v.s.overlays.Scan(func(_ string, o *Overlay) bool {
				if o.Archived() == archived {
					more = more && yield(overlayPath(o), o.pack())
				}
				return more
			})
		}
		overlays(true) // the folders in their order
		v.s.sessions.Scan(func(file string, h *stored) bool {
			more = more && yield(dirSessions+file+".json", h.packed)
			return more
		})
		overlays(false)
	}
}

// ShortForm makes the short form of a document from its text.
func ShortForm(p string, body []byte) ([]byte, error) {
	if OverlayFile(p) {
		doc, err := frontmatter.Parse(body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		return newOverlay(doc.Frontmatter, doc.Body, string(body)).pack(), nil
	}
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
