package home_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/contracts"
)

// R-GWM-10: what EC said about models is there after a restart; a file that cannot
// be read is not taken for silence.
func TestWhatWasHeardAboutModelsIsKept(t *testing.T) {
	h := open(t)
	if list, err := h.HeardModels(); err != nil || len(list.Items) != 0 {
		t.Errorf("nothing was heard: %+v, %v", list, err)
	}
	want := contracts.ActiveModels{Items: contracts.List[contracts.ActiveModel]{{Name: "cloud", Fingerprint: "f"}}}
	for range 2 {
		if err := h.HearModels(want); err != nil {
			t.Fatal(err)
		}
	}
	got, err := h.HeardModels()
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("heard (-want +got), error %v:\n%s", err, d)
	}
	path := filepath.Join(h.RunDir(), "active_models.json")
	if got := mode(t, path); got != 0o600 {
		t.Errorf("the file has mode %o, want 600", got)
	}
	if err := os.WriteFile(path, []byte(`{"items":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.HeardModels(); err == nil {
		t.Error("R-GWM-10 a broken file counts as silence")
	}
}
