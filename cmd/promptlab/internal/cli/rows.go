package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/evidence"
	"github.com/elnor/promptlab/internal/fault"
)

const (
	maxExampleFile = 64 << 20
	maxBadLines    = 50
)

// readRows reads examples, one JSON object a line. Every bad line is named with its
// number, and then nothing is read.
func readRows(name string, data []byte) ([]contracts.DatasetRow, error) {
	var rows []contracts.DatasetRow
	var bad []fault.Detail
	more := 0
	ids := map[string]int{}
	fail := func(line int, field, rule, message string) {
		if len(bad) == maxBadLines {
			more++
			return
		}
		at := fmt.Sprintf("line %d", line)
		if field != "" && field != "body" {
			at += " " + field
		}
		bad = append(bad, fault.Detail{Field: at, Rule: rule, Message: message})
	}
	line := 0
	for raw := range bytes.SplitSeq(bytes.TrimPrefix(data, []byte("\ufeff")), []byte("\n")) {
		line++
		if raw = bytes.TrimSpace(raw); len(raw) == 0 {
			continue
		}
		row, err := contracts.Decode[contracts.DatasetRow](renamed(raw), contracts.Client)
		var f *fault.Error
		switch {
		case errors.As(err, &f) && len(f.Details) > 0:
			for _, d := range f.Details {
				fail(line, d.Field, d.Rule, d.Message)
			}
			continue
		case errors.As(err, &f):
			fail(line, "", "json", f.Message)
			continue
		case err != nil:
			fail(line, "", "json", "cannot be read")
			continue
		}
		if first, twice := ids[row.ExampleID]; twice && row.ExampleID != "" {
			fail(line, "example_id", "duplicate", fmt.Sprintf("is the same as in line %d", first))
			continue
		}
		ids[row.ExampleID] = line
		// The server reads the checks too; here they are named by their line, all at once.
		if _, problems := evidence.ParseSignal(row.ExpectedSignal); len(problems) > 0 {
			for _, p := range problems {
				fail(line, "expected_signal", "expected_signal", fmt.Sprintf("check %d: %s", p.Line, p.Message))
			}
			continue
		}
		rows = append(rows, row)
	}
	if len(bad) > 0 {
		what := fmt.Sprintf("%s has %d bad entries", name, len(bad)+more)
		if len(bad)+more == 1 {
			what = name + " has a bad entry"
		}
		if more > 0 {
			what += fmt.Sprintf(" (the first %d are listed)", maxBadLines)
		}
		return nil, fault.New(fault.Invalid, "validation_failed", "%s", what).With(bad...)
	}
	if len(rows) == 0 {
		return nil, errNoRows
	}
	return rows, nil
}

// renamed takes the short names that many files use: input for input_text, id for
// example_id. Only the keys themselves change, so that whatever is wrong with a line
// is still wrong; what is not such an object is given back as it is.
func renamed(raw []byte) []byte {
	var keys map[string]json.RawMessage
	if json.Unmarshal(raw, &keys) != nil {
		return raw
	}
	var out []byte
	done := 0
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil { // {
		return raw
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return raw
		}
		name, _ := key.(string)
		long := map[string]string{"input": "input_text", "id": "example_id"}[name]
		end := int(dec.InputOffset())
		start := end - len(name) - 2
		if _, both := keys[long]; long != "" && !both && start >= done && string(raw[start:end]) == `"`+name+`"` {
			out = append(append(append(out, raw[done:start]...), '"'), long...)
			out = append(out, '"')
			done = end
		}
		var skip json.RawMessage
		if dec.Decode(&skip) != nil {
			return raw
		}
	}
	return append(out, raw[done:]...)
}

var errNoRows = advice{errors.New("the file holds no examples"), "write one JSON object a line; promptlab jobs run --help says which fields"}

var notSlug = regexp.MustCompile(`[^a-z0-9]+`)

// datasetName makes a dataset's name of a file's.
func datasetName(path string) string {
	base := strings.ToLower(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)))
	name := strings.Trim(notSlug.ReplaceAllString(base, "-"), "-")
	if len(name) > 64 {
		name = strings.Trim(name[:64], "-")
	}
	if name == "" {
		return "examples"
	}
	return name
}
