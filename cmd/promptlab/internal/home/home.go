// Package home keeps what the program needs beside the data: the run directory
// with one token per role, and ready.json, by which clients find the server. It
// also refuses to work in places that belong to somebody else.
//
// It deliberately does not know what is in the data root, who may do what with a
// token, or how servers start.
package home

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Home is a directory of the program's own.
type Home struct {
	Dir    string // holds run/ and config.yaml
	Memory string // the data root
}

// RunDir is where tokens and ready.json are.
func (h Home) RunDir() string { return filepath.Join(h.Dir, "run") }

// Open makes the home, its run directory, the data root and all tokens where they
// are missing. It refuses protected places before it makes anything; userHome is
// the person's home directory, empty if there is none.
func Open(h Home, userHome string) error {
	if err := Guard(userHome, h.Dir, h.Memory); err != nil {
		return err
	}
	for _, dir := range []string{h.Dir, h.RunDir(), h.Memory} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	info, err := os.Lstat(h.RunDir())
	if err != nil {
		return fmt.Errorf("look at run directory: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s must be a directory of its own, not a link", h.RunDir())
	}
	if info.Mode().Perm() != 0o700 {
		if err := os.Chmod(h.RunDir(), 0o700); err != nil {
			return fmt.Errorf("close run directory to others: %w", err)
		}
	}
	for _, role := range Roles() {
		if _, err := h.makeToken(role); err != nil {
			return err
		}
	}
	return nil
}

// writeFile replaces a file in one step: whoever reads sees the old or the new one.
func writeFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already when all went well
	_, werr := f.Write(data)
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}
