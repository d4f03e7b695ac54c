package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
)

// size says how much is in a home. Every session has three overlays on and a
// packet that was given out.
type size struct{ overlays, sessions int }

// whole is the size that the goals of start, lookup and memory speak of, and the
// largest of the curve.
var whole = size{overlays: 10_000, sessions: 100_000} //nolint:gochecknoglobals // a constant that Go cannot write

// words give titles and descriptions something to find.
func words() []string {
	return strings.Fields("release legal review incident finance travel research privacy hiring contract roadmap summary customer audit design " +
		"security outage metrics pricing onboarding translation minutes proposal budget warranty")
}

func styleID(i int) contracts.OverlayID { return contracts.OverlayID(fmt.Sprintf("style-%05d", i)) }

// chatKey names a session of the bench.
func chatKey(i int) contracts.OverlaySessionKey {
	k, err := contracts.OverlaySessionKey{
		WorkspaceID: fmt.Sprintf("team-%d", i%40), SurfaceKind: contracts.SurfaceChat, SurfaceID: fmt.Sprintf("thread-%06d", i),
	}.Canonical("")
	if err != nil {
		panic(err)
	}
	return k
}

// filler makes a home as EC would have left it: every file of every command,
// decided by the domain itself, without the wait for the disk.
type filler struct {
	t     *testing.T
	dir   string
	state *ec.State
	at    time.Time
	docs  map[string][]byte // the last text of each document
	lines map[string]*os.File
}

// fill makes a home of a size.
func fill(t *testing.T, dir string, n size) {
	t.Helper()
	f := &filler{t: t, dir: dir, state: ec.New(ec.DefaultPolicy()), at: time.Now().Add(-time.Hour), docs: map[string][]byte{}, lines: map[string]*os.File{}}
	w := words()
	for i := range n.overlays {
		body := fmt.Sprintf("Write note %d in plain words.\n\n- Say what changed and why.\n- Never guess a date.\n%s", i, strings.Repeat("- Keep names and numbers as they are.\n", i%20))
		rec := ectest.Overlay(string(styleID(i)), body)
		a, z := w[i%len(w)], w[i/len(w)%len(w)]
		rec.Frontmatter.Title = fmt.Sprintf("Style for %s and %s, %d", a, z, i)
		rec.Frontmatter.Description = fmt.Sprintf("How the %s team wants a %s note number %d", z, a, i)
		f.do(ec.RoleUser, ec.CreateOverlay{Record: rec})
		f.flush()
	}
	for i := range n.sessions {
		for j := range 3 {
			f.do(ec.RoleUser, ec.ActivateOverlay{Key: chatKey(i), OverlayID: styleID((i*3 + j*7) % n.overlays), Source: contracts.FromManual})
		}
		f.do(ec.RoleSeam, ec.BuildPacket{Key: chatKey(i)})
		f.flush()
	}
	for _, l := range f.lines {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func (f *filler) do(role ec.Role, body ec.Body) {
	f.t.Helper()
	f.at = f.at.Add(time.Millisecond)
	out, err := f.state.Perform(ec.Command{
		ID: fmt.Sprintf("0198f0a2-%012d", f.state.Seq), Actor: ec.Actor{Role: role, Name: "person"}, At: contracts.At(f.at), Body: body,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, d := range out.Change.Docs {
		f.docs[d.Path] = d.Body
	}
	for _, l := range out.Change.Lines {
		f.line(l)
	}
}

// flush writes the last texts of what was touched.
func (f *filler) flush() {
	f.t.Helper()
	for p, body := range f.docs {
		p = filepath.Join(f.dir, p)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			f.t.Fatal(err)
		}
		if err := os.WriteFile(p, body, 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
	clear(f.docs)
}

func (f *filler) line(l ec.Line) {
	f.t.Helper()
	s := f.lines[l.Stream]
	if s == nil {
		p := filepath.Join(f.dir, l.Stream)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			f.t.Fatal(err)
		}
		var err error
		if s, err = os.OpenFile(p, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
			f.t.Fatal(err)
		}
		f.lines[l.Stream] = s
	}
	if _, err := s.Write(append(l.Body, '\n')); err != nil {
		f.t.Fatal(err)
	}
}
