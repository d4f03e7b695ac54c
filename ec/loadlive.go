package ec

import (
	"fmt"
	"path"
	"strings"

	"github.com/elnor/promptlab/contracts"
)

func (l loader) pins() error {
	return each(l, dirPins, ".json", func(_ string, p contracts.PinnedOverlayStore) { l.s.Apply(PinsPut{&p}) })
}

func (l loader) defaults() error {
	v, ok, err := one[Defaults](l, pathDefaults)
	if ok {
		l.s.defaults = v
	}
	return err
}

// sessions loads live sets and their receipts. A file whose name is not that of
// the key inside stops the load: two sessions would become one.
func (l loader) sessions() error {
	paths, err := l.src.List(dirSessions)
	if err != nil {
		return fmt.Errorf("list %s: %w", dirSessions, err)
	}
	for _, p := range paths {
		base, ok := strings.CutSuffix(path.Base(p), ".json")
		if !ok {
			continue
		}
		var key contracts.OverlaySessionKey
		file, truth := strings.CutSuffix(base, ".truth")
		if truth {
			v, _, err := one[Truth](l, p)
			if err != nil {
				return err
			}
			key = v.SessionKey
			l.s.Apply(TruthPut{&v})
		} else {
			v, _, err := one[Session](l, p)
			if err != nil {
				return err
			}
			key = v.SessionKey
			v.file, v.memo = file, &packetMemo{}
			l.s.Apply(SessionPut{Session: &v})
		}
		if key.FileName() != file {
			return fmt.Errorf("%s: the file is of another session than its name says", p)
		}
	}
	return nil
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
