package app

import "testing"

// What one build has kept for the next start is not for another one, so each must
// have a name, and the same one at every start.
func TestABuildHasAName(t *testing.T) {
	if a, b := buildID(), buildID(); len(a) < 40 || a != b {
		t.Errorf("this program is named %q, then %q", a, b)
	}
}
