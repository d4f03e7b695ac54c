package home

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
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

// Guard refuses directories that are, lie in, hold or link into a protected
// place. They need not exist.
func Guard(userHome string, dirs ...string) error {
	places := protectedPlaces(userHome)
	if len(places) == 0 {
		return nil
	}
	trees := make([]string, len(dirs))
	for i, dir := range dirs {
		resolved, err := resolve(dir)
		if err != nil {
			return err
		}
		trees[i] = resolved
		for _, path := range []string{filepath.Clean(dir), resolved} {
			for _, place := range places {
				if within(path, place) || within(place, path) {
					return &Protected{dir, place}
				}
			}
		}
	}
	for i, tree := range trees {
		seen := slices.ContainsFunc(trees[:i], func(t string) bool { return within(tree, t) })
		if seen || slices.ContainsFunc(trees[i+1:], func(t string) bool { return t != tree && within(tree, t) }) {
			continue // another one of them holds it
		}
		if err := guardLinks(tree, places); err != nil {
			return err
		}
	}
	return nil
}

// guardLinks looks at every link in the tree.
func guardLinks(tree string, places []string) error {
	err := links(tree, func(path string) error {
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
		return fmt.Errorf("look for links in %s: %w", tree, err)
	}
	return err
}

// links calls fn, from several goroutines, with every link below a folder: a
// large library has a hundred thousand files, and this stands before every start.
func links(tree string, fn func(path string) error) error {
	if info, err := os.Lstat(tree); err != nil || !info.IsDir() {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err // a file is no link: the tree is resolved
	}
	var g errgroup.Group
	g.SetLimit(2 * runtime.GOMAXPROCS(0)) // they wait for the disk, too
	var look func(dir string) error
	look = func(dir string) error {
		f, err := os.Open(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // nothing was written
		for {
			entries, err := f.ReadDir(4096)
			for _, e := range entries {
				path := func() string { return filepath.Join(dir, e.Name()) }
				switch {
				case e.Type()&fs.ModeSymlink != 0:
					if err := fn(path()); err != nil {
						return err
					}
				case e.IsDir():
					below := path()
					if !g.TryGo(func() error { return look(below) }) {
						if err := look(below); err != nil {
							return err
						}
					}
				}
			}
			if errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
		}
	}
	return errors.Join(look(tree), g.Wait())
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
