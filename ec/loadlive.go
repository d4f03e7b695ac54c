package ec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
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
			v, err := l.session(p)
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

// session reads one live set. There may be very many, so a document that looks
// exactly as we write it takes the short way; any other is read strictly, which
// says what is wrong with it.
func (l loader) session(p string) (Session, error) {
	b, _, err := l.src.Read(p)
	if err != nil {
		return Session{}, err
	}
	var v Session
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err == nil && v.sound() {
		return v, nil
	}
	v, err = contracts.Decode[Session](b, contracts.Stored)
	if err != nil {
		return v, fmt.Errorf("%s: %w", p, err)
	}
	return v, nil
}

// sound says whether a session holds only values that we write.
func (x *Session) sound() bool {
	known := func(e contracts.Enum, s string) bool { return slices.Contains(e.Values(), s) }
	reason := func(r contracts.OverlayRefreshReason) bool { return r == "" || known(r, string(r)) }
	ok := x.Kept.SchemaVersion == 1 && x.Revision >= 0 && x.SessionKey.WorkspaceID != "" && x.SessionKey.SurfaceID != "" &&
		known(x.SessionKey.SurfaceKind, string(x.SessionKey.SurfaceKind)) && reason(x.PendingRefreshReason) && reason(x.LastRefreshReason)
	for _, a := range x.ActiveOverlays {
		ok = ok && a.OverlayID != "" && a.ActivationID != "" && known(a.Source, string(a.Source)) && known(a.ArtifactClass, string(a.ArtifactClass)) &&
			a.PriorityRank >= 1 && a.PriorityRank <= 20 && !a.ActivatedAt.IsZero()
	}
	return ok
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
