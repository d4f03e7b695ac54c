package writer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/disksim"
	"github.com/elnor/promptlab/ec/store/fsx"
	"github.com/elnor/promptlab/ec/writer"
)

// rig is the real writer over the real store over a disk that can be cut.
type rig struct {
	t     *testing.T
	disk  *disksim.Disk
	store *store.Store
	*writer.Writer
	stop func() error
	at   time.Time
}

func newRig(t *testing.T, disk *disksim.Disk, wrap func(*store.Store) writer.Store) (*rig, error) {
	return rigOver(t, disk, disk, time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC), wrap)
}

func rigOver(t *testing.T, fs fsx.FS, disk *disksim.Disk, at time.Time, wrap func(*store.Store) writer.Store) (*rig, error) {
	log := slog.New(slog.DiscardHandler)
	s, err := store.Open(store.Config{FS: fs, Log: log, Recall: true})
	if err != nil {
		return nil, err
	}
	r := &rig{t: t, disk: disk, store: s, at: at}
	now := func() time.Time { r.at = r.at.Add(time.Second); return r.at }
	r.Writer, err = writer.Open(writer.Config{Store: wrap(s), Policy: ec.DefaultPolicy(), Now: now, Log: log, Derive: time.Hour})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	return r, nil
}

func plain(s *store.Store) writer.Store { return s }

// send gives the command an ID of its own, the same in every run.
func (r *rig) send(n int, body ec.Body) (ec.Receipt, error) {
	actor := ectest.User
	switch body.(type) {
	case ec.SetFlags:
		actor.Role = ec.RoleOperator
	case ec.ClaimTask, ec.DeliverRows, ec.DeliverUsage, ec.FinishTask:
		actor.Role = ec.RoleWorker
	case ec.BuildPacket, ec.RecordTruth, ec.ReportSessionEvent:
		actor.Role = ec.RoleSeam
	case ec.DispatchTask, ec.LoseTask, ec.EnsureKeys, ec.PruneSessions:
		actor.Role = ec.RoleSystem
	}
	return r.Do(context.Background(), ec.Command{ID: fmt.Sprintf("cmd-%d", n), Actor: actor, Body: body})
}

// picture is everything that a reader can see of a view.
func picture(v *ec.View) string {
	var parts []any
	list := v.Overlays(ec.OverlayFilter{IncludeArchived: true, Tier: ""})
	for _, o := range list.Items {
		d, etag, _ := v.Overlay(o.OverlayID)
		parts = append(parts, d, etag)
	}
	parts = append(parts, v.Flags(), v.HasKeys(), v.Datasets(), v.Jobs(ec.JobFilter{}), v.Usage(ec.UsageFilter{}), v.OpenTasks())
	for _, c := range v.Candidates(ec.CandidateFilter{}).Items {
		d, _ := v.Candidate(c.CandidateID)
		parts = append(parts, d)
	}
	b, err := json.Marshal(append(parts, livePicture(v)...))
	if err != nil {
		panic(err)
	}
	return string(b)
}

// script is the main job with overlays changing beside it. Each step may look at
// the view to make its command.
func script() []func(*ec.View) ec.Body {
	always := func(b ec.Body) func(*ec.View) ec.Body { return func(*ec.View) ec.Body { return b } }
	var job contracts.UUID
	task := func(v *ec.View) ec.OpenTask {
		t := v.OpenTasks()[0]
		job = t.JobID
		return t
	}
	dispatch := func(v *ec.View) ec.Body {
		t := task(v)
		return ec.DispatchTask{JobID: t.JobID, Kind: t.Task.Kind, TokenHash: ec.TokenHash(ectest.Token)}
	}
	claim := func(v *ec.View) ec.Body {
		t := task(v)
		return ec.ClaimTask{TaskID: t.Task.ID, In: contracts.TaskClaim{Dispatch: t.Task.Dispatch, Token: ectest.Token, Worker: "w"}}
	}
	usage := func(n int) func(*ec.View) ec.Body {
		return func(v *ec.View) ec.Body {
			t := task(v)
			row := contracts.UsageRow{AttemptID: contracts.DeriveID("u", "u", n), RequestID: "r", Feature: contracts.RoleTask, Target: "t", Provider: "p", Model: "m",
				Attempt: 1, Success: true, UsageKnown: true, InputTokens: 3, CostKnown: true, At: contracts.At(time.Date(2026, 3, 1, 0, 0, n, 0, time.UTC))}
			return ec.DeliverUsage{TaskID: t.Task.ID, In: contracts.TaskUsage{Dispatch: t.Task.Dispatch, Token: ectest.Token, Rows: contracts.List[contracts.UsageRow]{row}}}
		}
	}
	finish := func(texts ...string) func(*ec.View) ec.Body {
		return func(v *ec.View) ec.Body {
			t := task(v)
			j, _ := v.Job(job)
			r := contracts.PromptLabJobResult{JobID: job, Status: contracts.JobCompleted, SourceHash: j.Detail.SourceHash, EndedBy: contracts.EndedBySteps}
			for i, text := range texts {
				r.Candidates = append(r.Candidates, contracts.PromptLabCandidatePayload{CandidateID: contracts.DeriveID("c", "c", i), CandidateText: text, SourceHash: j.Detail.SourceHash, CandidateHash: contracts.Hash(text)})
			}
			return ec.FinishTask{TaskID: t.Task.ID, In: contracts.TaskFinish{Dispatch: t.Task.Dispatch, Token: ectest.Token, Result: r}}
		}
	}
	rows := func(v *ec.View) ec.Body {
		t := task(v)
		w, _ := v.TaskFor(t.Task.ID)
		var out contracts.List[contracts.MeasurementRow]
		one := 1.0
		for _, arm := range w.Measure.Arms {
			for run := range arm.Runs {
				for _, ex := range w.Measure.Examples {
					out = append(out, contracts.MeasurementRow{Arm: arm.Arm, ExampleID: ex.ExampleID, Run: run, Score: &one})
				}
			}
		}
		return ec.DeliverRows{TaskID: t.Task.ID, In: contracts.TaskRows{Dispatch: t.Task.Dispatch, Token: ectest.Token, Rows: out}}
	}
	create := func(v *ec.View) ec.Body {
		in, err := contracts.Decode[contracts.PromptLabJob]([]byte(`{"artifact_kind":"overlay_template","artifact_id":"note-style","dataset_ref":"ds:notes@1"}`), contracts.Client)
		if err != nil {
			panic(err)
		}
		return ec.CreateJob{Job: in}
	}
	cancel := func(v *ec.View) ec.Body { return ec.CancelJob{JobID: task(v).JobID} }
	const body = "Write the note in plain words.\n\n- Say what changed.\n- Keep to what the request says.\n- Never guess a date.\n"
	return []func(*ec.View) ec.Body{
		always(ec.EnsureKeys{SplitKey: strings.Repeat("k", 32)}),
		always(ec.SetFlags{Flags: contracts.Flags{PromptLab: true, Promptolution: true}}),
		always(ec.CreateOverlay{Record: ectest.Overlay("note-style", body)}),
		always(ec.CreateOverlay{Record: ectest.Overlay("other", body)}),
		always(ec.CreateDataset{Dataset: ectest.Dataset("notes", 12)}),
		create, dispatch, claim, usage(1),
		always(ec.UpdateOverlay{OverlayID: "other", Record: ectest.Overlay("other", body+"- More.\n")}),
		always(ec.ArchiveOverlay{OverlayID: "other"}),
		finish(body + "- Name the owner.\n"),
		always(ec.RestoreOverlay{OverlayID: "other"}),
		dispatch, claim, usage(2), rows, finish(),
		create, dispatch, cancel,
		always(ec.UpdateOverlay{OverlayID: "note-style", Record: ectest.Overlay("note-style", body+"- Cite.\n")}),
	}
}

// allOfIt is the main job and then the live sessions.
func allOfIt() []func(*ec.View) ec.Body { return append(script(), liveScript()...) }

// found is a disk as it may lie there after a power cut, with what was
// acknowledged by then.
type found struct {
	disk  *disksim.Disk
	acked int
	where string
}

// campaign runs the script over a disk that is cut at every call, and gives the
// disks and the picture after each command.
func campaign(t *testing.T, seed uint64, restarts bool, wrap func(*store.Store) writer.Store) (disks []found, pictures []string) {
	disk := disksim.New()
	rng := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // chance, not a secret
	acked := 0
	var mu sync.Mutex // documents are written side by side
	cut := func(where string) {
		mu.Lock()
		defer mu.Unlock()
		cuts := disksim.Extremes()
		fates := []disksim.Fate{disksim.None, disksim.All, disksim.Random}
		for range 3 {
			cuts = append(cuts, disksim.Cut{Names: fates[rng.IntN(3)], Content: fates[rng.IntN(3)], Rand: rng})
		}
		for _, c := range cuts {
			disks = append(disks, found{disk.PowerCut(c), acked, where})
		}
	}
	before := func(call int, what string) { cut(fmt.Sprintf("call %d, %s", call, what)) }
	disk.Before = before
	r, err := newRig(t, disk, wrap)
	if err != nil {
		t.Fatal(err)
	}
	pictures = append(pictures, picture(r.View()))
	for n, step := range allOfIt() {
		if _, err := r.send(n, step(r.View())); err != nil {
			t.Fatalf("step %d: %v", n, err)
		}
		acked++
		pictures = append(pictures, picture(r.View()))
		cut(fmt.Sprintf("acknowledged %d", n))
		switch rng.IntN(4) {
		case 0:
			err = r.store.Flush()
		case 1:
			err = r.store.Checkpoint()
		}
		if err == nil && restarts && n%13 == 12 { // a clean end, and a start that goes by what it kept
			if err = errors.Join(r.stop(), r.store.Close()); err == nil {
				disk = disk.Kill()
				disk.Before = before
				r, err = rigOver(t, disk, disk, r.at, wrap)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	return disks, pictures
}

// judge recovers a disk with the real code: what was acknowledged is there,
// whole, and nothing else but at most the command that was under way.
func judge(t *testing.T, f found, pictures []string, write bool) error {
	r, err := newRig(t, f.disk, plain)
	if err != nil {
		return fmt.Errorf("does not start: %w", err)
	}
	defer func() { _ = r.stop() }()
	seq := int(r.View().Seq())
	if seq < f.acked || seq > f.acked+1 {
		return fmt.Errorf("%d commands were acknowledged, %d are there", f.acked, seq)
	}
	if got := picture(r.View()); got != pictures[seq] {
		return fmt.Errorf("after %d commands the state is another than before the cut:\n got %s\nwant %s", seq, got, pictures[seq])
	}
	if !write {
		return nil
	}
	if _, err := r.send(1000, ec.CreateOverlay{Record: ectest.Overlay("afterwards", "Still here.\n")}); err != nil {
		return fmt.Errorf("takes no command afterwards: %w", err)
	}
	again, err := newRig(t, f.disk.PowerCut(disksim.Harshest()), plain)
	if err != nil {
		return fmt.Errorf("does not start a second time: %w", err)
	}
	defer func() { _ = again.stop() }()
	if _, _, err := again.View().Overlay("afterwards"); err != nil {
		return fmt.Errorf("lost a command that was acknowledged after the recovery: %w", err)
	}
	return nil
}

// R-STO-04, R-STO-13, R-CMD-08: power cuts at every call and every
// acknowledgement, under the real store and the real writer.
func TestEveryCommandSurvivesAPowerCut(t *testing.T) {
	total := 0
	for seed := range uint64(seeds) {
		disks, pictures := campaign(t, seed, true, plain)
		total += len(disks) / stride
		for i, f := range disks {
			if i%stride != 0 {
				continue
			}
			if err := judge(t, f, pictures, i%(20*stride) == 0); err != nil {
				t.Fatalf("R-STO-13 seed %d, cut at %s: %v", seed, f.where, err)
			}
		}
	}
	t.Logf("%d disks recovered, 0 violations", total)
}

// late answers before the batch is durable: the bug that the check above exists for.
type late struct {
	*store.Store
	held []store.Change
}

func (l *late) Commit(batch []store.Change) error {
	held := l.held
	l.held = slices.Clone(batch)
	if len(held) == 0 {
		return nil
	}
	return l.Store.Commit(held)
}

// torn forgets all but the first document of a change: not all or nothing.
type torn struct{ *store.Store }

func (l torn) Commit(batch []store.Change) error {
	for i := range batch {
		if len(batch[i].Docs) > 1 {
			batch[i].Docs = batch[i].Docs[:1]
		}
	}
	return l.Store.Commit(batch)
}

func TestTheCheckCatchesPlantedBugs(t *testing.T) {
	for name, wrap := range map[string]func(*store.Store) writer.Store{
		"answers before the sync": func(s *store.Store) writer.Store { return &late{Store: s} },
		"half a command":          func(s *store.Store) writer.Store { return torn{s} },
	} {
		t.Run(name, func(t *testing.T) {
			disks, pictures := campaign(t, 1, false, wrap)
			for _, f := range disks {
				if judge(t, f, pictures, false) != nil {
					return
				}
			}
			t.Error("not noticed")
		})
	}
}
