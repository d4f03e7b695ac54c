package evidence

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// recorded is where verdicts recorded from real models may lie beside the
// project. They are an extra: nothing of them is part of it.
const recorded = "../../shared/data/verdicts"

func TestRecordedVerdicts(t *testing.T) {
	source, candidate := recordedScores(t)
	p := Pair(source, candidate)
	if p.Missing() != 0 || len(p.Duplicates)+len(p.Invalid) != 0 {
		t.Fatalf("recorded verdicts: got %d missing, %d duplicates, %d invalid; want none", p.Missing(), len(p.Duplicates), len(p.Invalid))
	}
	bySlice := map[string]Comparison{}
	for _, c := range DifferenceBySlice(p, 0.05) {
		bySlice[c.Slice] = c
	}
	pooled, weighted := Difference(p, 0.05), 0.0
	t.Run("R-EVD-05 R-GWE-19 every slice agrees with an independent computation", func(t *testing.T) {
		total := 0
		for _, want := range expectedRows(t) {
			got, ok := bySlice[want.slice]
			total += want.n
			weighted += want.numbers[0] * float64(want.n)
			if !ok || got.N != want.n || string(got.Verdict) != want.verdict {
				t.Errorf("%s: got n %d, %s; want %d, %s", want.slice, got.N, got.Verdict, want.n, want.verdict)
			}
			if math.Abs(got.Difference-want.numbers[0]) > 5.1e-5 || math.Abs(got.MeanArm-got.MeanAgainst-got.Difference) > 1e-9 {
				t.Errorf("%s: got difference %.4f (means %.4f and %.4f), want %.4f", want.slice, got.Difference, got.MeanArm, got.MeanAgainst, want.numbers[0])
			}
			// The reference has normal bounds: near, not equal.
			if math.Abs(got.LowerBound-want.numbers[1]) > 0.01 || math.Abs(got.UpperBound-want.numbers[2]) > 0.01 {
				t.Errorf("%s: got bounds [%.4f, %.4f], want about %v", want.slice, got.LowerBound, got.UpperBound, want.numbers[1:])
			}
		}
		if len(bySlice) != 27 || total != pooled.N {
			t.Errorf("slices: got %d with %d pairs, want 27 with %d", len(bySlice), pooled.N, total)
		}
	})
	t.Run("the pooled difference is that of all pairs", func(t *testing.T) {
		if want := weighted / float64(pooled.N); math.Abs(pooled.Difference-want) > 1e-4 || pooled.Verdict != Improves {
			t.Errorf("pooled: got %+v, want a difference of %.4f", pooled, want)
		}
	})
}

func recordedScores(t *testing.T) (source, candidate []Score) {
	f, err := os.Open(filepath.Join(recorded, "bbh-direct-vs-cot.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Log("RECORDED VERDICTS ARE ABSENT: the comparison with them did NOT run; looked in " + recorded)
		t.Skip("recorded verdicts are absent")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var row struct {
			Score
			Arm string `json:"arm"`
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		if row.Arm == "direct" {
			source = append(source, row.Score)
		} else {
			candidate = append(candidate, row.Score)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return source, candidate
}

type expectedRow struct {
	slice   string
	n       int
	numbers [3]float64 // difference, lower, upper
	verdict string
}

func expectedRows(t *testing.T) []expectedRow {
	b, err := os.ReadFile(filepath.Join(recorded, "bbh-direct-vs-cot.expected.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	var out []expectedRow
	for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n")[1:] {
		f := strings.Split(line, "\t")
		row := expectedRow{slice: f[0], verdict: f[5]}
		row.n, err = strconv.Atoi(f[1])
		for i := range row.numbers {
			var bad error
			row.numbers[i], bad = strconv.ParseFloat(f[2+i], 64)
			err = errors.Join(err, bad)
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, row)
	}
	return out
}
