package ec

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/frontmatter"
)

// Source is where a state is loaded from.
type Source interface {
	List(prefix string) ([]string, error)
	Read(path string) ([]byte, bool, error)
	ReadStream(stream string, fn func(line []byte) error) error
}

// Load rebuilds the state from its documents. A document of ours that cannot be
// read stops the load with its path; an overlay file that somebody broke by
// hand is reported in the status and left out.
func Load(src Source, p Policy) (*State, error) {
	s := New(p)
	l := loader{src, s}
	for _, step := range []func() error{
		l.install, l.keys, l.flags, l.overlays, l.datasets, l.holdouts, l.jobs, l.candidates, l.rows, l.usage,
		l.pins, l.defaults, l.sessions, l.plans, l.signals, l.audit,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

type loader struct {
	src Source
	s   *State
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
	for _, p := range paths {
		if !strings.HasSuffix(p, suffix) {
			continue
		}
		v, ok, err := one[T](l, p)
		if err != nil {
			return err
		}
		if ok {
			fn(p, v)
		}
	}
	return nil
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
	for _, folder := range Watched() {
		paths, err := l.src.List(folder)
		if err != nil {
			return fmt.Errorf("list %s: %w", folder, err)
		}
		for _, p := range paths {
			if err := l.overlay(p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l loader) overlay(p string) error {
	if of, ok := strings.CutSuffix(p, rejectedSuffix); ok && OverlayFile(of) {
		l.s.externals.Set(of, refused{why: "the file was not taken in; it is looked at again"})
	}
	id, archived, ok := overlayOfPath(p)
	if !ok {
		return nil // not an overlay file: a person's own
	}
	file, ok, err := l.src.Read(p)
	if err != nil || !ok {
		return err
	}
	kept, known, err := one[overlayKept](l, keptPath(id))
	if err != nil {
		return err
	}
	doc, err := frontmatter.Parse(file)
	switch {
	case err != nil:
		l.s.externals.Set(p, refused{err.Error(), file})
		return nil
	case doc.Frontmatter.ID != id:
		l.s.externals.Set(p, refused{fmt.Sprintf("the file is named %s and its header says %s", id, doc.Frontmatter.ID), file})
		return nil
	case !known:
		l.s.externals.Set(p, refused{"the file was put here by hand and is looked at now", file})
		return nil
	}
	o := l.s.makeOverlay(doc.Frontmatter, doc.Body, string(file))
	o.Record.Source, o.Record.CreatedAt, o.Record.UpdatedAt = kept.Source, kept.CreatedAt, kept.UpdatedAt
	o.Revision = kept.Revision
	o.Meta.LastLabTestedAt = kept.LastLabTestedAt
	if archived {
		at := kept.UpdatedAt
		if kept.ArchivedAt != nil {
			at = *kept.ArchivedAt
		}
		o.Record.ArchivedAt = &at
	}
	l.s.Apply(OverlayPut{Overlay: o})
	return nil
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

func (l loader) usage() error {
	return l.streams(dirUsage, func(_ string, line []byte) error {
		r, err := contracts.Decode[contracts.UsageRow](line, contracts.Stored)
		if err == nil {
			l.s.Apply(UsagePut{[]contracts.UsageRow{r}})
		}
		return err
	})
}

// audit gives the revision, the chain's end and the receipts of past commands.
// The tasks of jobs that have ended are found again from their jobs' audit.
func (l loader) audit() error {
	return l.streams(dirAudit, func(_ string, line []byte) error {
		var a AuditLine
		if err := json.Unmarshal(line, &a); err != nil {
			return fmt.Errorf("read audit line: %w", err)
		}
		l.s.Seq, l.s.auditHash = a.Seq, a.Hash
		l.s.register(a)
		l.s.remember(a.CommandID, past{Receipt{Seq: a.Seq, Subject: a.Subject, Changed: a.Changed, Note: a.Note, Granted: a.Granted, Left: a.Left}, a.Request})
		switch a.Command {
		case CreateJob{}.Type():
			l.s.tasks.Set(string(contracts.DeriveID(a.CommandID, "task-optimize", 0)), contracts.UUID(a.Subject))
		case FinishTask{}.Type():
			l.s.tasks.Set(string(contracts.DeriveID(a.CommandID, "task-measure", 0)), contracts.UUID(a.Subject))
		}
		return nil
	})
}
