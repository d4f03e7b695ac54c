package ec

import "github.com/elnor/promptlab/contracts"

// BuildForTest builds a session's packet with its entries in another order.
func BuildForTest(v *View, key contracts.OverlaySessionKey, shuffle func([]contracts.ActiveOverlay)) contracts.OverlayPromptPacket {
	x, _ := v.s.session(key.FileName())
	y := x.clone()
	shuffle(y.ActiveOverlays)
	return v.s.buildPacket(&y, x.UpdatedAt)
}
