package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Protected is the refusal of a directory that belongs to another system.
type Protected struct{ Dir, Place string }

// Error says what is wrong and what to do.
func (p *Protected) Error() string {
	return fmt.Sprintf("%s leads into %s, which belongs to another system and is never written; choose another directory", p.Dir, p.Place)
}

// The places that are never written to, below the person's home directory.
func protectedPlaces(userHome string) []string {
	if userHome == "" {
		return nil
	}
	root := filepath.Join(userHome, ".openclaw")
	places := []string{root}
	// The tree and its two files may be links to somewhere else.
	for _, name := range []string{"", "SOUL.md", "MEMORY.md", "workspace", "workspace/SOUL.md", "workspace/MEMORY.md"} {
		if target, err := filepath.EvalSymlinks(filepath.Join(root, name)); err == nil {
			places = append(places, target)
		}
	}
	return places
}

// Guard refuses a directory that is, lies in, holds or links into a protected
// place. The directory need not exist.
func Guard(dir, userHome string) error {
	places := protectedPlaces(userHome)
	if len(places) == 0 {
		return nil
	}
	resolved, err := resolve(dir)
	if err != nil {
		return err
	}
	for _, path := range []string{filepath.Clean(dir), resolved} {
		for _, place := range places {
			if within(path, place) || within(place, path) {
				return &Protected{dir, place}
			}
		}
	}
	return guardLinks(dir, resolved, places)
}

// guardLinks looks at every link in the tree.
func guardLinks(dir, resolved string, places []string) error {
	err := filepath.WalkDir(resolved, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.Type()&fs.ModeSymlink == 0 {
			return err
		}
		target, err := filepath.EvalSymlinks(path)
		if err != nil { // leads nowhere yet; see where it would
			link, lerr := os.Readlink(path)
			if lerr != nil {
				return fmt.Errorf("read link: %w", lerr)
			}
			if !filepath.IsAbs(link) {
				link = filepath.Join(filepath.Dir(path), link)
			}
			if target, err = resolve(link); err != nil {
				return err
			}
		}
		for _, place := range places {
			if within(target, place) || within(place, target) {
				return &Protected{path, place}
			}
		}
		return nil
	})
	var p *Protected
	if err != nil && !errors.As(err, &p) {
		return fmt.Errorf("look for links in %s: %w", dir, err)
	}
	return err
}

// resolve follows links as far as the path exists and keeps the rest.
func resolve(path string) (string, error) {
	path = filepath.Clean(path)
	rest := ""
	for at := path; ; at = filepath.Dir(at) {
		target, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(target, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("resolve %s: %w", path, err)
		}
		if link, lerr := os.Readlink(at); lerr == nil { // a link to something that is not there
			if !filepath.IsAbs(link) {
				link = filepath.Join(filepath.Dir(at), link)
			}
			return resolve(filepath.Join(link, rest))
		}
		if at == filepath.Dir(at) {
			return path, nil
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}
