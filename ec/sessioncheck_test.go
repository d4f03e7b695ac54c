package ec_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/internal/fault"
)

// told is a home with a session that has a life behind it: o-a with two texts, o-b,
// three turns of which the last dropped o-b at the seam, and a re-answer.
type told struct {
	*ectest.Env
	t    *testing.T
	key  contracts.OverlaySessionKey
	plan contracts.UUID
}

func newTold(t *testing.T) told {
	t.Helper()
	x := told{Env: ectest.New(t), t: t, key: chat("told")}
	for _, id := range []string{"o-a", "o-b"} {
		x.Must(ec.CreateOverlay{Record: ectest.Overlay(id, "Rule of "+id+".\n")})
	}
	x.turn("1", nil) // before anything is on
	x.Must(ec.ActivateOverlay{Key: x.key, OverlayID: "o-a", Source: contracts.FromManual})
	x.turn("2", nil)
	x.Must(ec.UpdateOverlay{OverlayID: "o-a", Record: ectest.Overlay("o-a", "A better rule.\n")})
	x.Must(ec.PinOverlay{Key: x.key, OverlayID: "o-b", Scope: contracts.PinThread})
	x.turn("3", map[contracts.OverlayID]contracts.OverlayDropReason{"o-b": contracts.DropSeam})
	x.plan = x.Must(ec.PreparePlan{Key: x.key, Request: contracts.OverlayReanswerPlanRequest{
		SelectedMessageIDs: contracts.List[string]{"m"}, ContextMode: "clean_context", OverrideMode: contracts.OverrideOneTime, OverlayIDs: contracts.List[contracts.OverlayID]{"o-b"},
	}}).Plan.PlanID
	x.turnOf("4", x.plan, nil)
	return x
}

func (x told) turn(id string, dropped map[contracts.OverlayID]contracts.OverlayDropReason) {
	x.t.Helper()
	x.turnOf(id, "", dropped)
}

// turnOf gets a packet as the seam does and reports what became of it.
func (x told) turnOf(id string, plan contracts.UUID, dropped map[contracts.OverlayID]contracts.OverlayDropReason) {
	x.t.Helper()
	p, _ := live{x.Env, x.t}.packet(x.key, ec.PacketQuery{TurnID: id, PlanID: plan})
	r := contracts.OverlayRuntimeTruthSummary{
		SessionKey: x.key, Revision: p.Revision, TurnID: id, PacketHash: p.PacketHash, GeneratedAt: &p.GeneratedAt, OverrideMode: p.OverrideMode, ReanswerPlanID: plan,
		RequestedOverlayIDs: p.RequestedOverlayIDs, DropReasonsByOverlay: contracts.Map[contracts.OverlayDropReason]{}, Model: "m-1",
	}
	applied := p
	applied.OverlayBlocks = nil
	for _, b := range p.OverlayBlocks {
		if why, ok := dropped[b.OverlayID]; ok {
			r.DroppedOverlayIDs, r.DropReasonsByOverlay[string(b.OverlayID)] = append(r.DroppedOverlayIDs, b.OverlayID), why
			continue
		}
		r.AppliedOverlayIDs = append(r.AppliedOverlayIDs, b.OverlayID)
		applied.OverlayBlocks = append(applied.OverlayBlocks, b)
	}
	r.AppliedPacketHash = applied.Hash()
	x.Must(ec.RecordTruth{Truth: r})
}

func (x told) check() ec.SessionCheck {
	x.t.Helper()
	out, err := ec.CheckSession(x.Store, x.key.FileName())
	if err != nil {
		x.t.Fatal(err)
	}
	return out
}

func (x told) sessionFile() string { return "system/overlays/sessions/" + x.key.FileName() + ".json" }

func (x told) truthFile() string {
	return strings.TrimSuffix(x.sessionFile(), ".json") + ".truth.json"
}

func (x told) planFile() string { return "system/overlays/reanswer_plans/" + string(x.plan) + ".json" }

// change replaces the first old in a file by new, while EC does not run.
func (x told) change(file, old, now string) {
	x.t.Helper()
	path := filepath.Join(x.Dir, file)
	b := read(x.t, path)
	if !strings.Contains(b, old) {
		x.t.Fatalf("%s does not hold %s:\n%s", file, old, b)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(b, old, now, 1)), 0o600); err != nil {
		x.t.Fatal(err)
	}
}

func findings(list []ec.CheckFinding) string {
	var out []string
	for _, f := range list {
		out = append(out, fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Message))
	}
	return strings.Join(out, "\n")
}

// A session's receipts can be checked from its files alone: every packet's hash
// follows from texts on the disk, those of earlier texts too.
func TestReceiptsVerifyOffline(t *testing.T) {
	x := newTold(t)
	for _, when := range []string{"while it runs", "after a restart"} {
		got := x.check()
		if len(got.Problems)+len(got.Notes) > 0 {
			t.Errorf("%s: problems:\n%s\nnotes:\n%s", when, findings(got.Problems), findings(got.Notes))
		}
		// Three receipts and the plan's; their packets and the session's own.
		if got.Receipts != 4 || got.Recomputed != 5 || got.SessionKey != x.key {
			t.Errorf("%s: %d receipts, %d packets of %+v, want 4 and 5", when, got.Receipts, got.Recomputed, got.SessionKey)
		}
		x.Restart()
	}
	if _, err := ec.CheckSession(x.Store, strings.Repeat("0", 64)); fault.Of(err) != fault.NotFound {
		t.Errorf("a session that is not there: got %v", err)
	}
}

// Whatever is changed in a session's files or in the texts behind it is named,
// with the file and what differs.
func TestPlantedTamperingIsNamed(t *testing.T) {
	const templates, history = "system/overlays/templates/", "system/overlays/history/"
	for name, c := range map[string]struct {
		plant func(told) (file string)
		says  string
	}{
		"one byte of a body": {func(x told) string {
			x.change(templates+"o-a.md", "better", "bitter")
			return templates + "o-a.md"
		}, "the text of o-a has the hash "},
		"one byte of an earlier body": {func(x told) string {
			x.change(history+"o-a/000001.md", "Rule of", "Rule if")
			return history + "o-a/000001.md"
		}, "what was saved has"},
		"a title": {func(x told) string {
			x.change(templates+"o-b.md", "Title of o-b", "Title of o-c")
			return x.truthFile()
		}, "does not follow from the texts of then"},
		"one byte of a receipt": {func(x told) string {
			x.change(x.truthFile(), `"model": "m-1"`, `"model": "m-2"`)
			return x.truthFile()
		}, "is not the one that was recorded"},
		"what a receipt says was applied": {func(x told) string {
			x.change(x.truthFile(), `"o-b": "seam_policy"`, `"o-b": "hard_budget"`)
			return x.truthFile()
		}, "the receipt of turn 3 is not the one"},
		"a receipt that contradicts itself": {func(x told) string {
			x.change(x.truthFile(), "\"dropped_overlay_ids\": [\n      \"o-b\"\n    ]", `"dropped_overlay_ids": []`)
			return x.truthFile()
		}, "contradicts itself"},
		"a receipt's packet hash": {func(x told) string {
			x.change(x.truthFile(), `"packet_hash": "`+x.hash(x.truthFile(), "packet_hash")[:4], `"packet_hash": "0123`)
			return x.truthFile()
		}, "which was never built for this session"},
		"what was applied of a packet": {func(x told) string {
			x.change(x.truthFile(), `"applied_packet_hash": "`+x.hash(x.truthFile(), "applied_packet_hash")[:4], `"applied_packet_hash": "0123`)
			return x.truthFile()
		}, "applied_packet_hash is 0123"},
		"a receipt's revision": {func(x told) string {
			x.change(x.truthFile(), `"revision": 1,`, `"revision": 0,`)
			return x.truthFile()
		}, "says revision 0; its packet was built for revision 1"},
		"a receipt that is taken out": {func(x told) string {
			x.drop(1)
			return x.truthFile()
		}, "holds 2 receipts; 3 were recorded"},
		"all receipts": {func(x told) string {
			if err := os.Remove(filepath.Join(x.Dir, x.truthFile())); err != nil {
				x.t.Fatal(err)
			}
			return x.truthFile()
		}, "3 have been taken away"},
		"a receipt of another session": {func(x told) string {
			x.change(x.truthFile(), `"surface_id": "told"`, `"surface_id": "tale"`)
			return x.truthFile()
		}, "another session"},
		"the session's packet hash": {func(x told) string {
			x.change(x.sessionFile(), `"prompt_packet_hash": "`+x.hash(x.sessionFile(), "prompt_packet_hash")[:4], `"prompt_packet_hash": "0123`)
			return x.sessionFile()
		}, "prompt_packet_hash 0123"},
		"where the session stands": {func(x told) string {
			x.change(x.sessionFile(), `"last_applied_packet_hash": "`, `"last_applied_packet_hash": "0`)
			return x.sessionFile()
		}, "last_applied_packet_hash is 0"},
		"the session's revision": {func(x told) string {
			x.change(x.sessionFile(), `"revision": 3,`, `"revision": 2,`)
			return x.sessionFile()
		}, "is at revision 2; the audit's last is 3"},
		"the source of an entry": {func(x told) string {
			x.change(x.sessionFile(), `"source": "manual"`, `"source": "recommended"`)
			return x.sessionFile()
		}, "the present packet: the packet hash"},
		"a file that is none": {func(x told) string {
			x.change(x.truthFile(), `{`, `[`)
			return x.truthFile()
		}, "cannot be read"},
		"a plan's body": {func(x told) string {
			x.change(x.planFile(), "Rule of o-b", "Rule if o-b")
			return x.planFile()
		}, "the block of o-b: body_hash is"},
		"a plan's packet": {func(x told) string {
			x.change(x.planFile(), `"hard_budget": 1200`, `"hard_budget": 1201`)
			return x.planFile()
		}, "packet_hash is"},
		"a plan's receipt": {func(x told) string {
			x.change(x.planFile(), `"model": "m-1"`, `"model": "m-2"`)
			return x.planFile()
		}, "is not the one that was recorded"},
		"the audit": {func(x told) string {
			x.change("system/audit/2026-03.jsonl", "session.packet:", "session.pocket:")
			return "system/audit/2026-03.jsonl"
		}, "was changed after it was written"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTold(t)
			x.Stop()
			file := c.plant(x)
			got, err := ec.CheckSession(disk{x.Dir}, x.key.FileName())
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range got.Problems {
				if p.File == file && strings.Contains(p.Message, c.says) {
					return
				}
			}
			t.Errorf("after a change of %s the problems are:\n%s\nwant one of that file that says %q", file, findings(got.Problems), c.says)
		})
	}
}

// drop takes one of the earlier receipts out of the session's file.
func (x told) drop(n int) {
	x.t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(read(x.t, filepath.Join(x.Dir, x.truthFile()))), &doc); err != nil {
		x.t.Fatal(err)
	}
	list, _ := doc["history"].([]any)
	doc["history"] = slices.Delete(list, n, n+1)
	b, err := json.MarshalIndent(doc, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(x.Dir, x.truthFile()), append(b, '\n'), 0o600)
	}
	if err != nil {
		x.t.Fatal(err)
	}
}

// hash gives the first value of a field of hashes in a file.
func (x told) hash(file, field string) string {
	x.t.Helper()
	_, rest, ok := strings.Cut(read(x.t, filepath.Join(x.Dir, file)), `"`+field+`": "`)
	if !ok || len(rest) < 64 {
		x.t.Fatalf("%s has no %s", file, field)
	}
	return rest[:64]
}

// A text that is gone makes nobody a liar: it is said that its packet cannot be
// recomputed, and what else can be checked still is.
func TestTextsThatAreGone(t *testing.T) {
	x := newTold(t)
	x.Stop()
	if err := os.Remove(filepath.Join(x.Dir, "system/overlays/history/o-a/000001.md")); err != nil {
		t.Fatal(err)
	}
	got, err := ec.CheckSession(disk{x.Dir}, x.key.FileName())
	if err != nil || len(got.Problems) > 0 {
		t.Errorf("problems: %v\n%s", err, findings(got.Problems))
	}
	if notes := findings(got.Notes); !strings.Contains(notes, "the receipt of turn 2 cannot be recomputed: the text of o-a is gone (system/overlays/history/o-a/000001.md: is not there)") {
		t.Errorf("notes:\n%s", notes)
	}
	if got.Receipts != 4 || got.Recomputed != 4 {
		t.Errorf("%d receipts, %d packets recomputed, want 4 and 4", got.Receipts, got.Recomputed)
	}
}

// disk reads a stopped EC's folder as it is.
type disk struct{ dir string }

func (d disk) List(prefix string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(filepath.Join(d.dir, prefix), func(path string, e os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && !e.IsDir() {
			rel, _ := filepath.Rel(d.dir, path) // below dir, as it was walked
			out = append(out, rel)
		}
		return err
	})
	return out, err
}

func (d disk) Read(path string) ([]byte, bool, error) {
	b, err := os.ReadFile(filepath.Join(d.dir, path))
	if errors.Is(err, os.ErrNotExist) {
		return nil, false, nil
	}
	return b, err == nil, err
}

func (d disk) ReadStream(path string, fn func([]byte) error) error {
	b, _, err := d.Read(path)
	for line := range strings.Lines(string(b)) {
		if err := fn([]byte(strings.TrimSuffix(line, "\n"))); err != nil {
			return err
		}
	}
	return err
}
