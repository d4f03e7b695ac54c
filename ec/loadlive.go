package ec

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/tidwall/btree"
)

func (l loader) pins() error {
	if !l.taken() {
		return nil
	}
	return each(l, dirPins, ".json", func(_ string, p contracts.PinnedOverlayStore) { l.s.Apply(PinsPut{&p}) })
}

func (l loader) defaults() error {
	if !l.taken() {
		return nil
	}
	v, ok, err := one[Defaults](l, pathDefaults)
	if ok {
		l.s.defaults = v
	}
	return err
}

func (l loader) rooms() error {
	return each(l, dirRooms, ".json", func(_ string, r contracts.Room) { l.s.Apply(RoomPut{&r}) })
}

// sessions loads live sets and their receipts. A file whose name is not that of
// the key inside stops the load: two sessions would become one.
func (l loader) sessions() error {
	paths, err := l.src.List(dirSessions)
	if err != nil {
		return fmt.Errorf("list %s: %w", dirSessions, err)
	}
	var live, receipts []string
	for _, p := range paths {
		if _, apart := l.s.legacy.docs.Get(p); apart {
			continue
		}
		switch {
		case strings.HasSuffix(p, ".truth.json"):
			receipts = append(receipts, p)
		case strings.HasSuffix(p, ".json"):
			live = append(live, p)
		}
	}
	holders := holding{}
	if err := many(l.recalls.known(live), func(r recalledDoc) (foundSession, error) {
		if f, ok := recalledSession(r); ok {
			return f, nil
		}
		return l.session(r.path)
	}, func(_ recalledDoc, f foundSession) error {
		l.s.sessions.Load(f.held.file, f.held)
		holders.add(f.held.file, f.subjects)
		return nil
	}); err != nil {
		return err
	}
	holders.into(l.s.holders)
	return many(receipts, l.truth, func(_ string, v *Truth) error { l.s.Apply(TruthPut{Truth: v}); return nil })
}

// foundSession is a session's document. It is packed at once.
type foundSession struct {
	held     *stored
	subjects []contracts.OverlayID
}

func (l loader) session(p string) (foundSession, error) {
	v, ok, err := one[Session](l, p)
	if err != nil || !ok {
		return foundSession{}, cmp.Or(err, errMissing)
	}
	v.file = strings.TrimSuffix(path.Base(p), ".json")
	if v.SessionKey.FileName() != v.file {
		return foundSession{}, misnamed(p)
	}
	return foundSession{v.storePacked(), v.subjects()}, nil
}

func (l loader) truth(p string) (*Truth, error) {
	v, ok, err := one[Truth](l, p)
	if err != nil || !ok {
		return nil, cmp.Or(err, errMissing)
	}
	if v.SessionKey.FileName() != strings.TrimSuffix(path.Base(p), ".truth.json") {
		return nil, misnamed(p)
	}
	return &v, nil
}

func misnamed(p string) error {
	return fmt.Errorf("%s: the file is of another session than its name says", p)
}

// holding collects which sessions an overlay concerns. Put into the index in
// order, all at once, they cost a fraction of what each would cost alone.
type holding map[contracts.OverlayID][]string

func (h holding) add(file string, subjects []contracts.OverlayID) {
	for _, id := range subjects {
		if files := h[id]; len(files) == 0 || files[len(files)-1] != file {
			h[id] = append(files, file)
		}
	}
}

func (h holding) into(index *btree.BTreeG[holder]) {
	for _, id := range slices.Sorted(maps.Keys(h)) {
		for _, file := range h[id] { // sessions come in the order of their files
			index.Load(holder{id, file})
		}
	}
}

func (l loader) plans() error {
	return each(l, dirPlans, ".json", func(_ string, p Plan) { l.s.Apply(PlanPut{Plan: &p}) })
}

func (l loader) signals() error {
	return l.src.ReadStream(pathSignals, func(line []byte) error {
		v, err := contracts.Decode[SignalLine](line, contracts.Stored)
		if err == nil && v.Feedback == nil && v.Signal == nil {
			err = fmt.Errorf("%s: a line is neither feedback nor a signal", pathSignals)
		}
		if err == nil {
			l.s.Apply(SignalPut{v})
		}
		return err
	})
}
