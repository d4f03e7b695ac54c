package cli

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/elnor/promptlab/importer"
)

// Bounds of what is read from folders.
const (
	maxImportDepth = 8
	maxImportFiles = 2000
	maxImportBytes = 64 << 20
)

// collected is what the paths of an import hold.
type collected struct {
	files   []importer.File
	ignored int
	skipped []string // what was not looked at, in words
	bytes   int
	seen    map[string]bool
}

// collect reads the files that were named and those in folders that may be prompt
// files. A path that is not there is an error; nothing is imported then.
// A dash is standard input, which is taken for a file of the given name.
func (a *app) collect(paths []string, name string) (*collected, error) {
	c := &collected{seen: map[string]bool{}}
	for _, p := range paths {
		if p == "-" {
			if err := a.addStdin(c, name); err != nil {
				return nil, err
			}
			continue
		}
		full := a.absolute(p)
		info, err := os.Lstat(full)
		switch {
		case missing(err):
			return nil, fmt.Errorf("there is no file %s", p)
		case err != nil:
			return nil, fmt.Errorf("look at %s: %w", p, err)
		case info.IsDir():
			if err := c.walk(p, full); err != nil {
				return nil, err
			}
		case info.Mode()&fs.ModeSymlink != 0:
			return nil, misuse(p + " is a symbolic link, which is not followed; name what it points at")
		case !info.Mode().IsRegular():
			return nil, misuse(p + " is neither a file nor a folder")
		default:
			if err := c.add(p, full, true); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// walk looks through a folder, within bounds. Folders of tools and version control
// are left out.
func (c *collected) walk(shown, root string) error {
	links, deep, read := 0, 0, 0
	err := filepath.WalkDir(root, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			c.skipped = append(c.skipped, "cannot look into "+filepath.ToSlash(full))
			return nil //nolint:nilerr // the rest of the folder is still good
		}
		rel, err := filepath.Rel(root, full)
		if err != nil {
			return fmt.Errorf("walk %s: %w", shown, err)
		}
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			links++
		case d.IsDir() && rel != "." && slices.Contains([]string{".git", ".hg", ".svn", "node_modules", ".venv", "__pycache__"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() && rel != "." && strings.Count(rel, string(filepath.Separator)) >= maxImportDepth:
			deep++
			return fs.SkipDir
		case d.IsDir():
		case !d.Type().IsRegular() || !importer.Interesting(full):
			c.ignored++
		case read == maxImportFiles:
			c.skipped = append(c.skipped, fmt.Sprintf("%s holds more than %d files to read; the rest was not looked at, import parts of it", shown, maxImportFiles))
			return fs.SkipAll
		case c.bytes > maxImportBytes:
			c.skipped = append(c.skipped, fmt.Sprintf("%s holds more than %d bytes to read; the rest was not looked at, import parts of it", shown, maxImportBytes))
			return fs.SkipAll
		default:
			read++
			return c.add(filepath.Join(shown, rel), full, false)
		}
		return nil
	})
	if links > 0 {
		c.skipped = append(c.skipped, fmt.Sprintf("%s in %s not followed", count(links, "symbolic link was", "symbolic links were"), shown))
	}
	if deep > 0 {
		c.skipped = append(c.skipped, fmt.Sprintf("%s in %s not entered: more than %d levels down", count(deep, "folder was", "folders were"), shown, maxImportDepth))
	}
	return err
}

// addStdin reads standard input. Without a name it is told by how it begins.
func (a *app) addStdin(c *collected, name string) error {
	if c.seen["-"] {
		return misuse("standard input can be read once")
	}
	c.seen["-"] = true
	b, err := io.ReadAll(io.LimitReader(a.Stdin, importer.MaxBundle+1))
	if err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	if name == "" {
		name = "stdin.md"
		if head := bytes.TrimLeft(b, " \t\r\n"); len(head) > 0 && (head[0] == '{' || head[0] == '[') {
			name = "stdin.json"
		} else if bytes.IndexByte(b[:min(len(b), 1024)], 0) >= 0 { // no text: a bundle, or refused as one
			name = "stdin.tar"
		}
	}
	c.bytes += len(b)
	c.files = append(c.files, importer.File{Path: filepath.ToSlash(name), Data: b, Named: true})
	return nil
}

// add reads a file, one byte more than it may have at most, so that the importer
// can say that it is too large.
func (c *collected) add(shown, full string, named bool) error {
	if c.seen[full] {
		return nil
	}
	c.seen[full] = true
	f, err := os.Open(full)
	if err != nil {
		return fmt.Errorf("open %s: %w", shown, err)
	}
	defer func() { _ = f.Close() }() // read only
	b, err := io.ReadAll(io.LimitReader(f, int64(importer.Most(shown))+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", shown, err)
	}
	c.bytes += len(b)
	c.files = append(c.files, importer.File{Path: filepath.ToSlash(shown), Data: b, Named: named})
	return nil
}
