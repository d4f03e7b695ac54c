package app

import (
	"net"
	"net/http/httptest"
	"testing"

	"github.com/elnor/promptlab/cmd/promptlab/internal/cli"
	"github.com/elnor/promptlab/cmd/promptlab/internal/config"
	"github.com/elnor/promptlab/internal/wall"
)

// at is a listener that has an address.
type at struct {
	net.Listener
	addr net.Addr
}

func (a at) Addr() net.Addr { return a.addr }

// The chat endpoint beside EC reaches it, however its address was configured.
func TestThisProcessReachesItself(t *testing.T) {
	for listen, has := range map[string]string{
		"127.0.0.1:0": "127.0.0.1:4711", "0.0.0.0:7717": "[::]:7717", "[::]:7717": "[::]:7717", "lab.example:7717": "10.1.2.3:7717", "10.1.2.3:0": "10.1.2.3:4711",
	} {
		addr, err := net.ResolveTCPAddr("tcp", has)
		if err != nil {
			t.Fatal(err)
		}
		run, ln := cli.ServerRun{Config: config.Config{Listen: listen, AllowRemote: listen != "127.0.0.1:0", TLSCert: "cert"}}, at{addr: addr}
		if _, err := wall.New(hosts(run, listen, ln), true).Check(httptest.NewRequest("GET", ownURL(run, ln)+"/healthz", nil)); err != nil {
			t.Errorf("listening on %s, the address %s is refused: %v", listen, ownURL(run, ln), err)
		}
	}
}
