package ec

import (
	"fmt"
	"strings"
)

// dirBackup holds the documents of an older release as they were before the
// migration, below the names they had below system/overlays/.
const dirBackup = "system/overlays/backup/r3/"

const dirOverlays = "system/overlays/"

func backupPath(p string) string { return dirBackup + strings.TrimPrefix(p, dirOverlays) }

// legacy finds out whether the library is of an older release: it has sessions
// or pins, and nothing that this release would have written with them. Then, and
// until the migration is done, what is not taken over yet is kept apart.
func (l loader) legacy() error {
	old := l.s.install.Migration != nil && l.s.install.Migration.Step != StepDone
	if !old && (l.s.install.PackID != "" || l.s.install.Migration != nil) {
		return nil
	}
	if !old {
		var err error
		if old, err = l.foreign(); err != nil {
			return err
		}
	}
	if !old {
		return nil
	}
	l.s.legacy.on = true
	if err := l.backup(); err != nil {
		return err
	}
	for _, place := range []string{dirSessions, dirPins, dirTemplates, dirArchived, pathDefaults, pathIndex, pathMetadata, pathManifest} {
		if place != dirSessions && l.taken() {
			break
		}
		if err := l.keepApart(place); err != nil {
			return err
		}
	}
	return nil
}

// taken says whether overlays, pins and defaults are of this release by now.
func (l loader) taken() bool {
	m := l.s.install.Migration
	return !l.s.legacy.on || m != nil && m.Step == StepLibrary
}

// foreign says whether sessions or pins are there that this release did not write.
func (l loader) foreign() (bool, error) {
	audit, err := l.src.List(dirAudit)
	if err != nil || len(audit) > 0 {
		return false, wrapList(dirAudit, err)
	}
	pins, err := l.src.List(dirPins)
	if err != nil {
		return false, wrapList(dirPins, err)
	}
	sessions, err := l.src.List(dirSessions)
	if err != nil {
		return false, wrapList(dirSessions, err)
	}
	if _, installed, err := l.src.Read(pathInstall); err != nil || installed {
		return false, err
	}
	for _, p := range sessions {
		if _, err := l.session(p); err == nil {
			return false, nil
		}
	}
	return len(pins)+len(sessions) > 0, nil
}

func wrapList(folder string, err error) error {
	if err != nil {
		return fmt.Errorf("list %s: %w", folder, err)
	}
	return nil
}

func (l loader) backup() error {
	paths, err := l.src.List(dirBackup)
	for _, p := range paths {
		l.s.legacy.saved.Set(dirOverlays+strings.TrimPrefix(p, dirBackup), struct{}{})
	}
	return wrapList(dirBackup, err)
}

// keepApart reads documents that the migration has still to take over.
func (l loader) keepApart(place string) error {
	paths := []string{place}
	if strings.HasSuffix(place, "/") {
		var err error
		if paths, err = l.src.List(place); err != nil {
			return wrapList(place, err)
		}
	}
	for _, p := range paths {
		if place == dirSessions && l.taken() {
			if _, err := l.session(p); err == nil {
				continue // taken over
			}
		}
		if (place == dirSessions || place == dirPins) && !strings.HasSuffix(p, ".json") {
			continue // not a document of anybody's EC
		}
		body, ok, err := l.src.Read(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		if ok {
			l.s.legacy.docs.Set(p, body)
		}
	}
	return nil
}
