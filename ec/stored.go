package ec

import (
	"slices"
	"sync/atomic"

	"github.com/elnor/promptlab/contracts"
)

// stored is a session as the state holds it. One that nobody has asked for since
// the start is packed: there may be very many, and most of them sleep. What is
// asked of every session at once stands beside it.
type stored struct {
	file      string
	workspace string
	kind      contracts.SupportedSurface
	activeAt  int64                   // Kept.ActiveAt, in Unix milliseconds
	lastAt    int64                   // lastActivity, likewise
	active    bool                    // an overlay is on for the next turn
	packed    []byte                  // the short form that recall.go describes
	at        int                     // where the session begins in it
	whole     atomic.Pointer[Session] // nil: only packed so far
}

// outside is a stored session without the session.
func (x *Session) outside() *stored {
	return &stored{
		file: x.file, workspace: x.SessionKey.WorkspaceID, kind: x.SessionKey.SurfaceKind,
		activeAt: x.Kept.ActiveAt.UnixMilli(), lastAt: x.lastActivity().UnixMilli(),
		active: slices.ContainsFunc(x.ActiveOverlays, func(a contracts.ActiveOverlay) bool { return a.ActiveForSurface }),
	}
}

// store makes what the state holds of a session.
func (x *Session) store() *stored {
	out := x.outside()
	out.whole.Store(x)
	return out
}

// storePacked is store for a session that is not needed now.
func (x *Session) storePacked() *stored {
	out := x.outside()
	out.packed, out.at = x.pack()
	return out
}

// session gives the session whole, the same to everybody. Whoever unpacks it
// first has done so for all states that hold it.
func (h *stored) session() *Session {
	if x := h.whole.Load(); x != nil {
		return x
	}
	x := &Session{file: h.file, memo: &packetMemo{}}
	unpack(unpack(h.packed[h.at:], &x.OverlaySessionState), &x.Kept)
	if h.whole.CompareAndSwap(nil, x) {
		return x
	}
	return h.whole.Load()
}

// session finds a session by the name of its file.
func (s *State) session(file string) (*Session, bool) {
	h, ok := s.sessions.Get(file)
	if !ok {
		return nil, false
	}
	return h.session(), true
}
