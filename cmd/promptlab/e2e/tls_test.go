package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/contracts"
)

// certify makes a certificate for 127.0.0.1 that nobody signed, has the test
// trust it, and gives the lines of the configuration that name it.
func (s *system) certify() string {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		s.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		s.t.Fatal(err)
	}
	certFile, keyFile := filepath.Join(s.dir, "cert.pem"), filepath.Join(s.dir, "key.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	if err := errors.Join(os.WriteFile(certFile, text, 0o600), os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600)); err != nil {
		s.t.Fatal(err)
	}
	s.roots = x509.NewCertPool()
	s.roots.AppendCertsFromPEM(text)
	return fmt.Sprintf("tls_cert: %s\ntls_key: %s\n", certFile, keyFile)
}

// trustOnly takes certificate and key out of the configuration: what starts from
// now on trusts the certificate and listens without.
func (s *system) trustOnly() {
	s.t.Helper()
	path := filepath.Join(s.home.Dir, "config.yaml")
	b, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	before, names, _ := strings.Cut(string(b), "tls_cert: ")
	cert, _, _ := strings.Cut(names, "\n")
	if err := os.WriteFile(path, []byte(before+"tls_trust: "+cert+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// caller calls this system's listeners.
func (s *system) caller() *http.Client {
	if s.roots == nil {
		return http.DefaultClient
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}}
}

// R-SEC-10: with TLS files, worker, chat endpoint and terminal trust EC's own
// certificate, and nothing answers without TLS.
func TestEverythingOverTLS(t *testing.T) {
	s := newSystem(t, options{tls: true})
	s.startChat()
	if status, body := s.turn(t); status != http.StatusOK {
		t.Errorf("a turn: %d %s, want 200", status, body)
	}

	// the worker and the terminal as on another machine
	s.trustOnly()
	s.work.kill(syscall.SIGTERM)
	s.work.start()
	ref := s.lab(60)
	steps := 1
	j := s.ended(2*time.Minute, s.job(ref, client.JobOptions{MaxSteps: &steps}).JobID)
	if j.Status != contracts.JobCompleted {
		t.Errorf("the job has ended as %s, want completed: %+v", j.Status, j)
	}
	if out, errs, code := s.cli(t, "status"); code != 0 {
		t.Errorf("status: exit code %d\n%s%s", code, out, errs)
	}
	if resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz", s.port)); err == nil { //nolint:noctx // a probe
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("EC answers without TLS")
		}
	}
}
