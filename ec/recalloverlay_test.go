package ec

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/elnor/promptlab/contracts"
)

// shelf is a source with a few documents that may recall short forms.
type shelf struct {
	files map[string]string
	short map[string][]byte
}

func (f shelf) List(prefix string) ([]string, error) {
	var out []string
	for _, p := range slices.Sorted(maps.Keys(f.files)) {
		if strings.HasPrefix(p, prefix) {
			out = append(out, p)
		}
	}
	return out, nil
}

func (f shelf) Read(p string) ([]byte, bool, error) {
	text, ok := f.files[p]
	return []byte(text), ok, nil
}

func (shelf) ReadStream(string, func([]byte) error) error { return nil }

func (f shelf) Recall(string) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, p := range slices.Sorted(maps.Keys(f.short)) {
			if !yield(p, f.short[p]) {
				return
			}
		}
	}
}

const noteFile = dirTemplates + "note-style.md"

// overlayFile is a file as a person may write it.
func overlayFile(title, body string) string {
	return fmt.Sprintf("---\nid: note-style # a comment\ntitle: %s\nartifact_class: live_overlay\ncategory: quality\ndescription: >-\n  For notes\n"+
		"supported_surfaces: [chat]\nlive_token_target: 200\nstructure_labels: [decomposition]\n---\n%s", title, body)
}

func shelfOf(t *testing.T, file string) shelf {
	t.Helper()
	at := contracts.At(time.UnixMilli(1_700_000_000_000))
	return shelf{files: map[string]string{
		noteFile:               file,
		keptPath("note-style"): string(mustJSON(overlayKept{SchemaVersion: 1, Source: contracts.SourceUser, CreatedAt: at, UpdatedAt: at, Revision: 3})),
	}, short: map[string][]byte{}}
}

// loaded gives the one overlay of a library, or why it was refused.
func loaded(t *testing.T, f shelf) (*Overlay, string) {
	t.Helper()
	s, err := Load(f, DefaultPolicy(), "test")
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	o, _ := s.overlays.Get("note-style")
	x, _ := s.externals.Get(noteFile)
	return o, x.why
}

var sameOverlay = cmp.Options{cmp.AllowUnexported(Overlay{}), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Overlay{}, "advised")} //nolint:gochecknoglobals // a constant that Go cannot write

// R-OVL-01: an overlay that is made of its short form is the one that its file says,
// whatever ends its lines and whatever a classifier finds in it.
func TestARecalledOverlayIsTheOneOfItsFile(t *testing.T) {
	for name, file := range map[string]string{
		"plain":            overlayFile("Notes", "Write in plain words.\n"),
		"with labels":      overlayFile("Notes", "Break it down. Ask the user. Never refuse.\n"),
		"without an end":   overlayFile("Notes", "No newline"),
		"a fence in it":    overlayFile("Notes", "one\n---\ntwo\n---\n"),
		"CRLF":             strings.ReplaceAll(overlayFile("Notes", "Write\nplain\n"), "\n", "\r\n"),
		"not normal":       overlayFile("Re\u0301sume\u0301", "e\u0301\n"),
		"not normal below": overlayFile("Notes", "e\u0301\n"),
	} {
		t.Run(name, func(t *testing.T) {
			f := shelfOf(t, file)
			want, why := loaded(t, f)
			if want == nil {
				t.Fatalf("the file was refused: %s", why)
			}
			f.short[noteFile] = want.pack()
			if got, _ := loaded(t, f); got == nil || cmp.Diff(want, got, sameOverlay) != "" {
				t.Errorf("recalled (-by its file +by its short form):\n%s", cmp.Diff(want, got, sameOverlay))
			}
			anew, err := ShortForm(noteFile, []byte(file))
			if err != nil {
				t.Fatal(err)
			}
			f.short[noteFile] = anew
			if got, _ := loaded(t, f); got == nil || cmp.Diff(want, got, sameOverlay) != "" {
				t.Errorf("recalled by a short form that was made of the text (-want +got):\n%s", cmp.Diff(want, got, sameOverlay))
			}
		})
	}
}

// A short form is gone by for the very text that it was made of, and no other; it
// spares the reading of the header then.
func TestAShortFormCountsForItsTextOnly(t *testing.T) {
	f := shelfOf(t, overlayFile("Notes", "Write in plain words.\n"))
	o, _ := loaded(t, f)
	marked := *o
	marked.Record.Frontmatter.Title = "As it was kept"
	f.short[noteFile] = marked.pack()
	if got, _ := loaded(t, f); got == nil || got.Record.Frontmatter.Title != "As it was kept" {
		t.Fatalf("the short form was not gone by: %+v", got)
	}
	edited := overlayFile("Nodes", "Write in plain words.\n")
	f.files[noteFile] = edited
	if got, _ := loaded(t, f); got == nil || got.Record.Frontmatter.Title != "Nodes" || got.File != edited {
		t.Errorf("R-OVL-01 after an edit of the file: %+v, want what the file says", got)
	}
	f.files[noteFile] = strings.Replace(edited, "live_overlay", "dead_overlay", 1)
	if got, why := loaded(t, f); got != nil || !strings.Contains(why, "artifact_class") {
		t.Errorf("a file that was broken by hand: %+v, %q; want it refused with the reason", got, why)
	}
}

// Whatever a short form holds, a load ends with the overlay of the file.
func TestABadShortFormIsLeftOut(t *testing.T) {
	f := shelfOf(t, overlayFile("Notes", "Write in plain words.\n"))
	want, _ := loaded(t, f)
	good := want.pack()
	try := func(what string, short []byte) {
		t.Helper()
		f.short[noteFile] = short
		if got, _ := loaded(t, f); got == nil || cmp.Diff(want, got, sameOverlay) != "" {
			t.Errorf("%s: %s", what, cmp.Diff(want, got, sameOverlay))
		}
	}
	for n := range good {
		try(fmt.Sprintf("cut after %d bytes", n), good[:n])
	}
	try("with a byte more", append(slices.Clone(good), 0))
	for _, at := range []int{0, 1, 20, 33, 34, 35} { // the hash of the file and where its text begins
		for _, b := range []byte{0x7f, 0xff} {
			bad := slices.Clone(good)
			bad[at] ^= b
			f.short[noteFile] = bad
			if got, _ := loaded(t, f); got == nil || got.File != want.File || got.Record.Frontmatter.Title != "Notes" {
				t.Errorf("byte %d changed: %+v", at, got)
			}
		}
	}
	try("a giant list", append(slices.Clone(good[:33]), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f))
	f.short[noteFile] = pack(nil, &shortOverlay{FileHash: want.FileHash, BodyAt: 1 << 40})
	if got, _ := loaded(t, f); got == nil || got.Record.Body != want.Record.Body {
		t.Errorf("a text that begins beyond the file: %+v", got)
	}
}

// Another version of the classifier looks at every text anew.
func TestAShortFormKeepsNoOldLabels(t *testing.T) {
	f := shelfOf(t, overlayFile("Notes", "Write in plain words.\n"))
	o, _ := loaded(t, f)
	old := *o
	old.Meta.ClassifierVersion, old.Meta.RiskFlags = "phrases/0", contracts.List[string]{"of_old"}
	f.short[noteFile] = old.pack()
	if got, _ := loaded(t, f); got == nil || len(got.Meta.RiskFlags) != 0 || got.Meta.ClassifierVersion != o.Meta.ClassifierVersion {
		t.Errorf("R-CLS-05: metadata of an older classifier is kept: %+v", got.Meta)
	}
}

// The store reads short forms in the order in which they were kept, and a start wants
// them in the order of their paths.
func TestShortFormsAreKeptInOrder(t *testing.T) {
	s := New(DefaultPolicy())
	at := contracts.At(time.UnixMilli(1_700_000_000_000))
	for _, id := range []contracts.OverlayID{"a", "b", "c", "d"} {
		o := s.makeOverlay(contracts.OverlayTemplateFrontmatter{ID: id, Title: "T"}, "body", "file body")
		if id == "b" || id == "d" {
			o.Record.ArchivedAt = &at
		}
		s.Apply(OverlayPut{Overlay: o})
	}
	for _, file := range []string{"x", "y"} {
		x := &Session{file: file}
		s.sessions.Set(file, x.storePacked())
	}
	var paths []string
	for p, short := range NewView(s).Sleepers() {
		if paths = append(paths, p); len(short) == 0 {
			t.Errorf("%s has no short form", p)
		}
	}
	if len(paths) != 6 || !slices.IsSorted(paths) {
		t.Errorf("kept: %q, want six paths in order", paths)
	}
	for range NewView(s).Sleepers() {
		break // whoever has enough is given no more
	}
}
