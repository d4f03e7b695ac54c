package config

import (
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"net/http/httptest"

	"strings"
	"testing"
)

// What a caller trusts is named, and a file that cannot be used is an error that
// names its setting: R-SEC-10.
func TestRoots(t *testing.T) {
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	files := map[string]string{
		"good":  string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})),
		"empty": "nothing\n",
	}
	read := func(path string) ([]byte, error) {
		text, ok := files[path]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return []byte(text), nil
	}
	if roots, err := (Config{}).Roots(read); roots != nil || err != nil {
		t.Errorf("nothing named: %v, %v; want the system's", roots, err)
	}
	for _, c := range []Config{{TLSCert: "good"}, {TLSTrust: "good"}} {
		roots, err := c.Roots(read)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if _, err := srv.Certificate().Verify(x509.VerifyOptions{Roots: roots}); err != nil {
			t.Errorf("%+v does not trust its certificate: %v", c, err)
		}
	}
	for name, c := range map[string]Config{"tls_cert": {TLSCert: "gone"}, "tls_trust": {TLSCert: "good", TLSTrust: "empty"}} {
		if _, err := c.Roots(read); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: error %v, want one that names %s", c, err, name)
		}
	}
}
