package home

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/elnor/promptlab/contracts"
)

func (h Home) heardFile() string { return filepath.Join(h.RunDir(), "active_models.json") }

// HearModels keeps what EC said about models; what is kept already is not written
// again.
func (h Home) HearModels(list contracts.ActiveModels) error {
	b, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("encode active_models.json: %w", err)
	}
	b = append(b, '\n')
	if old, err := os.ReadFile(h.heardFile()); err == nil && bytes.Equal(old, b) {
		return nil
	}
	return writeFile(h.heardFile(), b)
}

// HeardModels gives what EC last said about models; nothing, if it never did.
func (h Home) HeardModels() (contracts.ActiveModels, error) {
	b, err := os.ReadFile(h.heardFile())
	if errors.Is(err, fs.ErrNotExist) {
		return contracts.ActiveModels{}, nil
	}
	if err != nil {
		return contracts.ActiveModels{}, fmt.Errorf("read active_models.json: %w", err)
	}
	list, err := contracts.Decode[contracts.ActiveModels](b, contracts.Peer)
	if err != nil {
		return list, fmt.Errorf("read %s: %w", h.heardFile(), err)
	}
	return list, nil
}
