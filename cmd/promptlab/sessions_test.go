package main

import (
	"crypto/sha256"
	"fmt"
	"github.com/elnor/promptlab/internal/wall"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/elnor/promptlab/api"
	"github.com/elnor/promptlab/cmd/promptlab/internal/home"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/importer"
)

// TestSessionScripts runs the session commands against the real API over a real
// EC: overlays o-a and o-b, o-b and o-x exclude each other, and the session
// chat reported-1 of the workspace w has two turns behind it, whose receipts name
// packets that there never were; those of honest-1 are true.
func TestSessionScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/sessions",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			core := ectest.New(t)
			srv := httptest.NewUnstartedServer(nil)
			cfg := api.Config{
				Service: core, Feed: core.Feed, Hosts: wall.LoopbackHosts(srv.Listener.Addr()), Metrics: prometheus.NewRegistry(),
				Presets: presetsOf, Tokens: map[ec.Role][sha256.Size]byte{}, Log: slog.New(slog.DiscardHandler), Now: core.Clock.Now, NewID: uuid.NewString,
			}
			h := home.Home{Dir: filepath.Join(env.WorkDir, "lab")}
			if err := os.MkdirAll(h.RunDir(), 0o700); err != nil {
				return err
			}
			for _, role := range []string{"user", "operator"} {
				token := "token-of-" + role + "-0123456789abcdef0123456789"
				cfg.Tokens[ec.Role(role)] = sha256.Sum256([]byte(token))
				if err := os.WriteFile(filepath.Join(h.RunDir(), role+".token"), []byte(token+"\n"), 0o600); err != nil {
					return err
				}
			}
			s, err := api.New(cfg)
			if err != nil {
				return err
			}
			srv.Config.Handler = s.Handler()
			srv.Start()
			env.Defer(srv.Close)
			history(core)
			env.Setenv("PROMPTLAB_HOME", h.Dir)
			env.Setenv("MEMORY", core.Dir)
			pair, err := importer.Pack([]importer.Overlay{rival("north", "south"), rival("south", "north")})
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(env.WorkDir, "pair.tar"), pair, 0o600); err != nil {
				return err
			}
			return h.WriteReady(home.Ready{API: srv.URL, PID: 1})
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": wantCode},
	})
}

func presetsOf() (ec.Pack, error) { return ec.Pack{ID: "none", Version: "0"}, nil }

// rival is an overlay that excludes another one.
func rival(id, other string) importer.Overlay {
	rec := ectest.Overlay(id, "Go "+id+".\n")
	rec.Frontmatter.ConflictsWith = contracts.List[contracts.OverlayID]{contracts.OverlayID(other)}
	return importer.Overlay{Frontmatter: rec.Frontmatter, Body: rec.Body}
}

// history gives the library its overlays and one session its turns.
func history(core *ectest.Env) {
	core.Must(ec.EnsureKeys{SplitKey: strings.Repeat("k", 32)})
	for _, id := range []string{"o-a", "o-b"} {
		o := ectest.Overlay(id, "Rule "+id+".\n")
		o.Frontmatter.DeprecatedAliases = contracts.List[string]{"was-" + id}
		core.Must(ec.CreateOverlay{Record: o})
	}
	third := ectest.Overlay("o-x", "Rule x.\n")
	third.Frontmatter.ConflictsWith = contracts.List[contracts.OverlayID]{"o-b"}
	core.Must(ec.CreateOverlay{Record: third, DeclareReciprocal: true})
	key := contracts.OverlaySessionKey{WorkspaceID: "w", SurfaceKind: contracts.SurfaceChat, SurfaceID: "reported-1", ThreadID: "reported-1"}
	turn := func(id string, revision int, applied, dropped contracts.List[contracts.OverlayID]) {
		why := contracts.Map[contracts.OverlayDropReason]{}
		for _, d := range dropped {
			why[string(d)] = contracts.DropHardBudget
		}
		core.Must(ec.BuildPacket{Key: key, TurnID: id})
		core.Must(ec.RecordTruth{Truth: contracts.OverlayRuntimeTruthSummary{
			SessionKey: key, Revision: revision, TurnID: id, RequestedOverlayIDs: append(append(contracts.List[contracts.OverlayID]{}, applied...), dropped...),
			AppliedOverlayIDs: applied, DroppedOverlayIDs: dropped, DropReasonsByOverlay: why, PacketHash: contracts.Hash(id), TotalOverlayTokens: 7 * len(applied), Model: "m-1",
			BodyHashByOverlay: contracts.Map[string]{"o-b": contracts.Hash("an earlier text")},
		}})
	}
	core.Must(ec.ActivateOverlay{Key: key, OverlayID: "o-a", Source: contracts.FromManual})
	turn("turn-1", 1, contracts.List[contracts.OverlayID]{"o-a"}, nil)
	core.Must(ec.ActivateOverlay{Key: key, OverlayID: "o-b", Source: contracts.FromManual})
	turn("turn-2", 2, contracts.List[contracts.OverlayID]{"o-b"}, contracts.List[contracts.OverlayID]{"o-a"})

	key.SurfaceID, key.ThreadID = "honest-1", "honest-1" // its receipts name the packets that it got
	for i, id := range []contracts.OverlayID{"o-a", "o-b"} {
		core.Must(ec.ActivateOverlay{Key: key, OverlayID: id, Source: contracts.FromManual})
		name := fmt.Sprintf("turn-%d", i+1)
		p := core.Must(ec.BuildPacket{Key: key, TurnID: name}).Packet
		core.Must(ec.RecordTruth{Truth: contracts.OverlayRuntimeTruthSummary{
			SessionKey: key, Revision: p.Revision, TurnID: name, RequestedOverlayIDs: p.RequestedOverlayIDs, AppliedOverlayIDs: p.RequestedOverlayIDs,
			PacketHash: p.PacketHash, AppliedPacketHash: p.PacketHash, GeneratedAt: &p.GeneratedAt, Model: "m-1",
		}})
	}
}
