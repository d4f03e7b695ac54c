package contracts

import (
	"strings"
	"testing"
)

// Decision 25: a session key is told by its form, and holds 256 bit of chance.
func TestSessionAPIKeyForm(t *testing.T) {
	a, b := NewSessionAPIKey(), NewSessionAPIKey()
	if a == b || !IsSessionAPIKey(a) || len(a) != len("pls-")+43 || !strings.HasPrefix(a, "pls-") {
		t.Errorf("two new keys: got %q and %q", a, b)
	}
	if HashSessionAPIKey(a) == HashSessionAPIKey(b) || strings.Contains(HashSessionAPIKey(a), a) {
		t.Error("the hash does not tell keys apart")
	}
	for _, s := range []string{"", "pls-", a[4:], a + "A", a[:len(a)-1], a + "=", a + "\n", "PLS-" + a[4:], "pls_" + a[4:], a[:20] + "+" + a[21:], a[:len(a)-1] + "_"} {
		if IsSessionAPIKey(s) && s != a {
			t.Errorf("%q counts as a session key", s)
		}
	}
}
