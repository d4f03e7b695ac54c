package config

import (
	"crypto/x509"
	"fmt"
)

// Roots gives the certificates that a caller of our own servers trusts: the
// system's and those of tls_cert and tls_trust, which need not be signed by
// anybody. Without either it is nil, which stands for the system's. read reads a
// file.
func (c Config) Roots(read func(string) ([]byte, error)) (*x509.CertPool, error) {
	var roots *x509.CertPool
	for _, f := range []struct{ key, path string }{{"tls_cert", c.TLSCert}, {"tls_trust", c.TLSTrust}} {
		if f.path == "" {
			continue
		}
		pem, err := read(f.path)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", f.key, err)
		}
		if roots == nil {
			if roots, err = x509.SystemCertPool(); err != nil { // a system without any
				roots = x509.NewCertPool()
			}
		}
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s does not hold a certificate: %s", f.key, f.path)
		}
	}
	return roots, nil
}
