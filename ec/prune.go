package ec

// pruneBatch bounds how much one command removes, so that the others go on.
const pruneBatch = 500

// pruneSessions removes what has been kept long enough. Pins are not touched.
func (s *State) pruneSessions(c Command) (decision, error) {
	var events []Event
	s.sessions.Scan(func(_ string, x *stored) bool {
		if c.At.UnixMilli()-x.activeAt > retention.Milliseconds() {
			events = append(events, SessionGone{Session: x.session()})
		}
		return len(events) < pruneBatch
	})
	s.plans.Scan(func(_ string, p *Plan) bool {
		if c.At.Sub(p.Plan.ExpiresAt.Time) > planKept {
			events = append(events, PlanGone{p})
		}
		return len(events) < 2*pruneBatch
	})
	if len(events) == 0 {
		return unchanged("sessions", "")
	}
	return changed("sessions", events...)
}

// Kept counts the sessions and re-answer plans that there are.
func (v *View) Kept() (sessions, plans int) { return v.s.sessions.Len(), v.s.plans.Len() }
