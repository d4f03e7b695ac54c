package ec

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/frontmatter"
	"github.com/elnor/promptlab/internal/fault"
)

// Source is where a state is loaded from. Its methods are called from many
// goroutines at once.
type Source interface {
	List(prefix string) ([]string, error)
	Read(path string) ([]byte, bool, error)
	ReadStream(stream string, fn func(line []byte) error) error
}

// Load rebuilds the state from its documents. A document of ours that cannot be
// read stops the load with its path; an overlay file that somebody broke by
// hand is reported in the status and left out. A source that is a Recaller spares
// it the work that the same build of the program has done before.
func Load(src Source, p Policy, build string) (*State, error) {
	s := New(p)
	l := loader{src: src, s: s, build: build}
	type read struct {
		*auditTrail
		error
	}
	audit := make(chan read, 1) // it is read beside the others, and always waited for
	readAudit := l.readAudit
	go func() {
		trail, err := readAudit()
		audit <- read{trail, err}
	}()
	l.recalls = l.recall()
	err := l.documents()
	a := <-audit
	if err = cmp.Or(err, a.error); err != nil {
		return nil, err
	}
	s.recall(a.auditTrail)
	return s, nil
}

func (l loader) documents() error {
	for _, step := range []func() error{
		l.install, l.legacy, l.keys, l.flags, l.overlays, l.datasets, l.holdouts, l.jobs, l.candidates, l.rows, l.usage, l.models,
		l.pins, l.defaults, l.rooms, l.sessions, l.plans, l.signals,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

type loader struct {
	src     Source
	s       *State
	build   string
	recalls recalls
}

// one reads a document of ours strictly.
func one[T any](l loader, path string) (T, bool, error) {
	var zero T
	b, ok, err := l.src.Read(path)
	if err != nil || !ok {
		return zero, false, err
	}
	v, err := contracts.Decode[T](b, contracts.Stored)
	if err != nil {
		return zero, false, fmt.Errorf("%s: %w", path, err)
	}
	return v, true, nil
}

// each calls fn for every document below a folder.
func each[T any](l loader, folder, suffix string, fn func(path string, v T)) error {
	paths, err := l.src.List(folder)
	if err != nil {
		return fmt.Errorf("list %s: %w", folder, err)
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { return !strings.HasSuffix(p, suffix) })
	return many(paths, func(p string) (T, error) {
		v, ok, err := one[T](l, p)
		if err == nil && !ok {
			err = errMissing
		}
		return v, err
	}, func(p string, v T) error { fn(p, v); return nil })
}

func (l loader) install() error {
	v, ok, err := one[InstallState](l, pathInstall)
	if ok {
		l.s.install = v
	}
	return err
}

func (l loader) keys() error {
	v, ok, err := one[Keys](l, pathKeys)
	if ok {
		l.s.keys = v
	}
	return err
}

// flags: a missing or broken file means that everything is off.
func (l loader) flags() error {
	v, ok, err := one[contracts.Flags](l, pathFlags)
	if ok && err == nil {
		l.s.flags = v
	}
	return nil
}

func (l loader) overlays() error {
	if !l.taken() {
		return nil
	}
	for _, folder := range Watched() {
		paths, err := l.src.List(folder)
		if err != nil {
			return fmt.Errorf("list %s: %w", folder, err)
		}
		if err := many(paths, l.overlay, func(_ string, f foundOverlay) error { l.found(f); return nil }); err != nil {
			return err
		}
	}
	return l.removed()
}

func (l loader) found(f foundOverlay) {
	if f.at != "" {
		l.s.externals.Set(f.at, f.refused)
	}
	if f.overlay != nil {
		l.s.Apply(OverlayPut{Overlay: f.overlay})
	}
}

// foundOverlay is what lies at the path of an overlay, or why it is left out; or
// both, when there is a good text of the overlay besides.
type foundOverlay struct {
	overlay *Overlay
	at      string // the path that refused is about; empty: nothing is refused
	refused refused
}

// overlay reads one file. It changes nothing.
func (l loader) overlay(p string) (foundOverlay, error) {
	if of, ok := strings.CutSuffix(p, rejectedSuffix); ok && OverlayFile(of) {
		return l.noted(of)
	}
	id, archived, ok := overlayOfPath(p)
	if !ok {
		return foundOverlay{}, errMissing // not an overlay file: a person's own
	}
	file, ok, err := l.src.Read(p)
	if fault.Of(err) == fault.Conflict { // too large to be a document
		return foundOverlay{at: p, refused: refused{why: "this is no file of an overlay"}}, nil
	}
	if err != nil || !ok {
		return foundOverlay{}, cmp.Or(err, errMissing)
	}
	kept, known, err := one[overlayKept](l, keptPath(id))
	if err != nil {
		return foundOverlay{}, err
	}
	o, err := l.parsed(p, file)
	var why string
	switch {
	case err != nil:
		why = err.Error()
	case o.Meta.OverlayID != id:
		why = wrongName(id, o.Meta.OverlayID).Error()
	case !known:
		why = "the file was put here by hand and is looked at now"
	case archived != (kept.ArchivedAt != nil):
		why = "the file was moved here by hand and is looked at now"
	case kept.FileHash != "" && kept.FileHash != o.FileHash:
		why = "the file was changed while EC was not running and is looked at now"
	default:
		return foundOverlay{overlay: kept.onto(o)}, nil
	}
	f := foundOverlay{at: p, refused: refused{why: why, body: file}}
	if !known {
		return f, nil
	}
	f.refused.kept = &kept
	f.overlay, err = l.lastGood(id, kept)
	return f, err
}

// parsed makes an overlay of its file, by its short form if that is of this text.
func (l loader) parsed(p string, file []byte) (*Overlay, error) {
	text := string(file)
	if short := l.recalls.overlays[p]; short != nil {
		if o, ok := l.s.recalledOverlay(short, text); ok {
			return o, nil
		}
	}
	doc, err := frontmatter.Parse(file)
	if err != nil {
		return nil, err
	}
	return l.s.makeOverlay(doc.Frontmatter, doc.Body, text), nil
}

func (l loader) datasets() error {
	return each(l, dirDatasets, ".json", func(p string, d contracts.Dataset) {
		l.s.Apply(DatasetPut{&d})
	})
}

func (l loader) holdouts() error {
	uses, ok, err := one[contracts.Map[int]](l, pathHoldouts)
	if ok {
		l.s.Apply(HoldoutUsed{uses})
	}
	return err
}

func (l loader) jobs() error {
	return each(l, dirQueue, ".json", func(_ string, j Job) { l.s.Apply(JobPut{Job: &j}) })
}

func (l loader) candidates() error {
	err := each(l, dirCandidates, ".json", func(_ string, c contracts.PromptCandidate) {
		l.s.Apply(CandidatePut{Candidate: &c})
	})
	if err != nil {
		return err
	}
	return each(l, dirSummaries, ".json", func(p string, sum contracts.PromptLabReplaySummary) {
		l.s.summaries.Set(strings.TrimSuffix(path.Base(p), ".json"), &sum)
	})
}

func (l loader) streams(folder string, fn func(name string, line []byte) error) error {
	paths, err := l.src.List(folder)
	if err != nil {
		return fmt.Errorf("list %s: %w", folder, err)
	}
	for _, p := range paths {
		name, ok := strings.CutSuffix(path.Base(p), ".jsonl")
		if !ok {
			continue
		}
		if err := l.src.ReadStream(p, func(line []byte) error { return fn(name, line) }); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return nil
}

func (l loader) rows() error {
	return l.streams(dirRows, func(job string, line []byte) error {
		r, err := contracts.Decode[contracts.MeasurementRow](line, contracts.Stored)
		if err == nil {
			l.s.Apply(RowsPut{contracts.UUID(job), []contracts.MeasurementRow{r}})
		}
		return err
	})
}

func (l loader) models() error {
	return each(l, dirModels, ".json", func(_ string, m contracts.RegisteredModel) { l.s.Apply(ModelPut{Model: &m}) })
}

func (l loader) usage() error {
	return l.streams(dirUsage, func(_ string, line []byte) error {
		r, err := contracts.Decode[contracts.UsageRow](line, contracts.Stored)
		if err == nil {
			l.s.Apply(UsagePut{[]contracts.UsageRow{r}})
		}
		return err
	})
}
