package ec

import (
	"fmt"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/evidence"
	"github.com/elnor/promptlab/internal/fault"
)

func (s *State) createDataset(c Command, b CreateDataset) (decision, error) {
	d := b.Dataset
	if _, err := contracts.Check(d, contracts.Client); err != nil {
		return decision{}, err //nolint:wrapcheck // a fault for the sender
	}
	if details := checkRows(&d); len(details) > 0 {
		return decision{}, fault.Validation(details)
	}
	d.ContentHash = contracts.HashJSON(struct {
		Rows   contracts.List[contracts.DatasetRow]
		Rubric string
	}{d.Rows, d.Rubric})
	if b.Dataset.ContentHash != "" && b.Dataset.ContentHash != d.ContentHash {
		return decision{}, fault.New(fault.Invalid, "hash_mismatch", "content_hash is not the hash of these rows").
			With(fault.Detail{Field: "content_hash", Rule: "hash_mismatch", Message: "leave it out or send the right hash"})
	}
	version, _ := s.versions.Get(d.Name)
	if version > 0 { // the same content again is the same version
		if newest, ok := s.datasets.Get(datasetRef(d.Name, version)); ok && newest.ContentHash == d.ContentHash {
			return unchanged(newest.DatasetRef, "")
		}
	}
	d.Version = version + 1
	d.DatasetRef = datasetRef(d.Name, d.Version)
	d.CreatedAt = c.At
	return changed(d.DatasetRef, DatasetPut{&d})
}

func datasetRef(name string, version int) string { return fmt.Sprintf("ds:%s@%d", name, version) }

// checkRows numbers rows without an id and finds what cannot be scored.
func checkRows(d *contracts.Dataset) []fault.Detail {
	var details []fault.Detail
	bad := func(i int, field, rule, message string) {
		const most = 100
		if len(details) < most {
			details = append(details, fault.Detail{Field: fmt.Sprintf("rows[%d].%s", i, field), Rule: rule, Message: message})
		}
	}
	rows := make(contracts.List[contracts.DatasetRow], len(d.Rows))
	copy(rows, d.Rows)
	ids := map[string]int{}
	for i := range rows {
		r := &rows[i]
		if r.ExampleID == "" {
			r.ExampleID = fmt.Sprintf("row-%04d", i+1)
		}
		if first, twice := ids[r.ExampleID]; twice {
			bad(i, "example_id", "duplicate_id", fmt.Sprintf("row %d has this id already", first))
		}
		ids[r.ExampleID] = i
		if r.ExpectedSignal == "" && d.Rubric == "" {
			bad(i, "expected_signal", "required", "a row needs an expected_signal, or the dataset a rubric")
		}
		if r.ExpectedSignal != "" {
			signal, problems := evidence.ParseSignal(r.ExpectedSignal)
			if len(problems) == 0 && len(signal.Checks()) == 0 {
				bad(i, "expected_signal", "expected_signal", "holds no check")
			}
			if len(problems) > 0 {
				bad(i, "expected_signal", "expected_signal", fmt.Sprintf("line %d: %s", problems[0].Line, problems[0].Message))
			}
		}
	}
	d.Rows = rows
	return details
}

func summarize(d *contracts.Dataset) contracts.DatasetSummary {
	distinct := evidence.Distinct(evidenceRows(d))
	out := contracts.DatasetSummary{
		Name: d.Name, Version: d.Version, DatasetRef: d.DatasetRef, Rows: len(d.Rows),
		Distinct: distinct, ContentHash: d.ContentHash, CreatedAt: d.CreatedAt,
	}
	for _, sh := range evidence.Preflight(distinct, 0) {
		out.Warnings = append(out.Warnings, contracts.Warning{Code: "too_few_examples", Subject: string(sh.Label), Message: sh.Message})
	}
	return out
}

func evidenceRows(d *contracts.Dataset) []evidence.Row {
	rows := make([]evidence.Row, len(d.Rows))
	for i, r := range d.Rows {
		rows[i] = evidence.Row{ID: r.ExampleID, Input: r.InputText}
	}
	return rows
}
