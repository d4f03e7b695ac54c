package ec

import "github.com/elnor/promptlab/contracts"

// BuildForTest builds a session's packet with its entries in another order.
func BuildForTest(v *View, key contracts.OverlaySessionKey, shuffle func([]contracts.ActiveOverlay)) contracts.OverlayPromptPacket {
	x, _ := v.s.session(key.FileName())
	y := x.clone()
	shuffle(y.ActiveOverlays)
	return v.s.buildPacket(&y, x.UpdatedAt)
}

// TrialForTest puts an overlay into a session as the trial of a candidate, which
// no command does yet.
func TrialForTest(s *State, key contracts.OverlaySessionKey, id contracts.OverlayID, candidate contracts.UUID) {
	x, _ := s.session(key.FileName())
	y := x.clone()
	i, _ := y.entry(id)
	y.ActiveOverlays[i].Source, y.ActiveOverlays[i].CandidateID = contracts.FromCanary, candidate
	y.memo = &packetMemo{}
	s.applySession(&y)
}
