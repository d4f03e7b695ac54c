package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"net"
	"os"
	"testing"

	"github.com/elnor/promptlab/ec"
)

var update = flag.Bool("update", false, "rewrite the committed OpenAPI document")

// The document that clients are generated from is the one that the server tells.
func TestCommittedDocumentIsUpToDate(t *testing.T) {
	r := newRig(t)
	a := r.ask(ec.RoleUser, "GET", "/openapi.json", "")
	_, port, err := net.SplitHostPort(r.addr)
	if err != nil {
		t.Fatal(err)
	}
	// The cookie's name holds the port, which is another one in each test.
	a.body = bytes.ReplaceAll(a.body, []byte("promptlab_session_"+port), []byte("promptlab_session_7717"))
	var want bytes.Buffer
	if err := json.Indent(&want, a.body, "", "  "); err != nil {
		t.Fatal(err)
	}
	want.WriteByte('\n')
	const path = "../contracts/ts/openapi.json"
	if *update {
		if err := os.WriteFile(path, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("R-HTTP-01 %s is not what the server tells (%v); run: make schema", path, err)
	}
}
