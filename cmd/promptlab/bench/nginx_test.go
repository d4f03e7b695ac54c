package bench

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/openai"
)

// nginx is a running server with one worker.
type nginx struct {
	url string
	pid int // of the worker, which does the work
}

// startNginx runs nginx with a body for its server block; "" when there is none.
func startNginx(t *testing.T, name, block string) *nginx {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		if program = "/usr/sbin/nginx"; !isFile(program) {
			return nil
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	_ = ln.Close()
	dir := t.TempDir()
	conf := fmt.Sprintf(`daemon off; worker_processes 1; pid %[1]s/pid; error_log %[1]s/error.log; user root;
events { worker_connections 512; }
http { access_log off; client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
keepalive_requests 1000000;
%[2]s }`, dir, strings.ReplaceAll(block, "ADDRESS", address))
	if os.Getuid() != 0 {
		conf = strings.Replace(conf, " user root;", "", 1)
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-p", dir, "-c", file)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	for until := time.Now().Add(10 * time.Second); ; {
		if res, err := http.Get("http://" + address); err == nil { // answered: there is a worker
			_ = res.Body.Close()
			break
		}
		if time.Now().After(until) {
			t.Fatalf("nginx %s does not answer", name)
		}
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid))
	pid, perr := strconv.Atoi(strings.TrimSpace(strings.Split(strings.TrimSpace(string(children))+" ", " ")[0]))
	if err != nil || perr != nil {
		t.Skipf("the worker of nginx cannot be found: %v %v", err, perr)
	}
	return &nginx{"http://" + address, pid}
}

func isFile(path string) bool {
	s, err := os.Stat(path)
	return err == nil && s.Mode().IsRegular()
}

// cpu gives the time that nginx has worked.
func (n *nginx) cpu(t *testing.T) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b)[strings.LastIndex(string(b), ")")+1:])
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * time.Second / 100 // clock ticks, which Linux tells in hundredths
}

const upstreamBlock = `server { listen ADDRESS; location / { default_type application/json; return 200 '` + completion + `'; } }`

// gatewayPeer: what the chain adds to a call against what nginx adds as a proxy,
// and its CPU. Both stand before the same nginx that answers at once.
func gatewayPeer(t *testing.T, b *board) {
	up := startNginx(t, "upstream", upstreamBlock)
	if up == nil {
		b.add(line{"gateway-cpu", "-", "-", "-", "<= 3x", skipped})
		b.note("gateway-cpu: nginx is not installed, so that there is no peer.")
		return
	}
	proxy := startNginx(t, "proxy", `upstream up { server `+strings.TrimPrefix(up.url, "http://")+`; keepalive 64; keepalive_requests 1000000; }
server { listen ADDRESS; location / { proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection ""; } }`)
	price := 1.0
	g, err := gateway.New(gateway.Config{
		Models: []gateway.ModelConfig{{Name: "local", Protocol: gateway.ProtocolOpenAI, BaseURL: up.url + "/v1", Model: "local-model", Routes: gateway.Roles(),
			Prices: &gateway.Prices{Input: &price, Output: &price}, Limits: gateway.Limits{Concurrency: 64}}},
		Adapters: map[gateway.Protocol]gateway.Adapter{gateway.ProtocolOpenAI: openai.New(openai.Config{})}, Rows: make(gateway.RowChan, 1<<20),
	})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("Write the note in plain words. ", 33) // 1 KiB
	through := func(int) error {
		resp, err := g.Do(context.Background(), gateway.Request{Role: gateway.RoleTask, MaxTokens: 1024, Messages: []gateway.Message{{Role: "user", Content: text}}}, gateway.Unlimited())
		if err == nil && resp.Text != "A note." {
			err = fmt.Errorf("the gateway answered %q", resp.Text)
		}
		return err
	}
	plain := &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	t.Cleanup(plain.CloseIdleConnections)
	direct := func(int) error { return ask(plain, up.url+"/v1/chat/completions", text) }
	proxied := func(int) error { return ask(plain, proxy.url+"/v1/chat/completions", text) }

	const rounds, at16, span = 5, 16, 1500 * time.Millisecond
	var ours, peer, addedOurs, addedPeer []float64
	for i := range rounds + 1 {
		bare, _, err := crowd(at16, span, direct)
		if err != nil {
			t.Fatal(err)
		}
		before := proxy.cpu(t)
		hop, _, err := crowd(at16, span, proxied)
		if err != nil {
			t.Fatal(err)
		}
		peerCPU := proxy.cpu(t) - before
		used := processorTime()
		own, _, err := crowd(at16, span, through)
		if err != nil {
			t.Fatal(err)
		}
		ownUsed := processorTime() - used
		if i == 0 {
			continue // connections
		}
		us := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
		ours, peer = append(ours, us(ownUsed)/float64(len(own))), append(peer, us(peerCPU)/float64(len(hop)))
		addedOurs, addedPeer = append(addedOurs, us(median(own)-median(bare))), append(addedPeer, us(median(hop)-median(bare)))
	}
	r := ratios(ours, peer)
	b.add(line{"gateway-cpu", fmt.Sprintf("%.0f us/call", median(ours)), fmt.Sprintf("%.0f us/call", median(peer)), fmt.Sprintf("%.2f", median(r)), "<= 3x", verdict(median(r) <= 3)})
	b.note("gateway-cpu: upstream that answers at once, 16 calls at once, 1 KiB of prompt; ours is all CPU of this process for a call through the chain, the client included; reference is nginx's own for the same call passed through it. "+
		"Ratio min/median/max of %d rounds %s; added p50 through the chain %s us, through nginx %s us.", rounds, spread(r, "%.2f"), spread(addedOurs, "%.0f"), spread(addedPeer, "%.0f"))
}
