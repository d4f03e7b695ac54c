package ec_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/fsx"
)

// R-STO-09: how long feedback stays is a setting's business. Nothing goes by itself;
// with a limit, what is older goes and the rest stays, line for line, and EC starts
// and takes more.
func TestFeedbackIsKeptAsLongAsIsSaid(t *testing.T) {
	e := ectest.New(t)
	e.Must(ec.CreateOverlay{Record: ectest.Overlay("claim-check", body)})
	key, err := contracts.OverlaySessionKey{WorkspaceID: "w", SurfaceKind: contracts.SurfaceChat, SurfaceID: "t", ThreadID: "t"}.Canonical("")
	if err != nil {
		t.Fatal(err)
	}
	say := func(n int) {
		e.Must(ec.SubmitFeedback{Feedback: contracts.OverlayFeedback{
			FeedbackID: contracts.DeriveID("f", "feedback", n), OverlayID: "claim-check", WorkspaceID: "w", SessionKey: key, ResponseRating: "positive",
		}})
		e.Must(ec.AppendSignal{Signal: contracts.OverlaySignal{SignalID: contracts.DeriveID("s", "signal", n), Kind: "manual_abort", SessionKey: key}})
	}
	lines := func() (out []string) {
		if err := e.Store.ReadStream(ec.SignalStream(), func(line []byte) error { out = append(out, string(line)); return nil }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	say(1)
	e.Clock.Add(100 * 24 * time.Hour)
	border := e.Clock.Now()
	say(2)
	e.Clock.Add(1000 * 24 * time.Hour)
	e.Must(ec.PruneSessions{})
	e.Restart()
	all := lines()
	if len(all) != 4 {
		t.Fatalf("R-STO-09 without a limit %d lines are left, want all 4", len(all))
	}
	e.While(func() {
		root, err := fsx.OpenRoot(e.Dir)
		if err != nil {
			t.Fatal(err)
		}
		st, err := store.Open(store.Config{FS: root, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := st.Shorten(ec.SignalStream(), ec.SignalsSince(border)); n != 2 || err != nil {
			t.Errorf("R-STO-09 %d lines went, %v; want the two old ones", n, err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	if got := lines(); strings.Join(got, "\n") != strings.Join(all[2:], "\n") {
		t.Errorf("R-STO-09 kept %v, want the later two of %v", got, all)
	}
	say(3)
	e.Restart()
	if n := len(lines()); n != 4 {
		t.Errorf("R-STO-09 %d lines after more were taken, want 4", n)
	}
	if _, err := e.Do(context.Background(), ec.Command{ID: "still", Actor: ectest.User, Body: ec.ArchiveOverlay{OverlayID: "claim-check"}}); err != nil {
		t.Error(err)
	}
	if !ec.SignalsSince(border)([]byte("not a line of ours")) {
		t.Error("R-STO-09 a line that cannot be read was given up")
	}
}
