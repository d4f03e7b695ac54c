package home_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/cmd/promptlab/internal/home"
)

func open(t *testing.T) home.Home {
	t.Helper()
	dir := t.TempDir()
	h := home.Home{Dir: filepath.Join(dir, "lab"), Memory: filepath.Join(dir, "lab", "ELNOR_MEMORY")}
	if err := home.Open(h, filepath.Join(dir, "user")); err != nil {
		t.Fatalf("Open: %v", err)
	}
	return h
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestTokensAreForTheOwnerAlone(t *testing.T) {
	h := open(t)
	if got := mode(t, h.RunDir()); got != 0o700 {
		t.Errorf("run directory has mode %o, want 700", got)
	}
	seen := map[string]bool{}
	for _, role := range []string{"user", "operator", "seam", "worker", "agent"} {
		if got := mode(t, h.TokenFile(role)); got != 0o600 {
			t.Errorf("token of %s has mode %o, want 600", role, got)
		}
		token, err := h.Token(role)
		if err != nil {
			t.Fatal(err)
		}
		if len(token) < 43 || seen[token] {
			t.Errorf("token of %s is %q, want 256 bits of its own", role, token)
		}
		seen[token] = true
	}
	left, err := filepath.Glob(filepath.Join(h.RunDir(), ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v %v", left, err)
	}
}

func TestTokensAreMadeOnce(t *testing.T) {
	h := open(t)
	before, err := h.Token("user")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(h.RunDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := home.Open(h, ""); err != nil {
		t.Fatal(err)
	}
	after, err := h.Token("user")
	if err != nil || after != before {
		t.Errorf("a second Open changed the token from %q to %q (%v)", before, after, err)
	}
	if got := mode(t, h.RunDir()); got != 0o700 {
		t.Errorf("a run directory that others could enter has mode %o after Open, want 700", got)
	}
}

func TestTokensAreMadeOnceByManyAtATime(t *testing.T) {
	dir := t.TempDir()
	h := home.Home{Dir: dir, Memory: filepath.Join(dir, "m")}
	if err := os.Mkdir(h.RunDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var tokens [16]string
	var errs [16]error
	for i := range tokens {
		wg.Go(func() {
			if errs[i] = home.Open(h, ""); errs[i] == nil {
				tokens[i], errs[i] = h.Token("worker")
			}
		})
	}
	wg.Wait()
	for i := range tokens {
		if errs[i] != nil || tokens[i] != tokens[0] {
			t.Errorf("opener %d got token %q (%v), opener 0 %q", i, tokens[i], errs[i], tokens[0])
		}
	}
}

func TestReadableTokensAreRefused(t *testing.T) {
	h := open(t)
	if err := os.Chmod(h.TokenFile("seam"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Token("seam"); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("Token of a file that a group can read: %v, want a refusal with the fix", err)
	}
	if err := home.Open(h, ""); err == nil {
		t.Error("Open took a token that a group can read")
	}
	for name, content := range map[string]string{"empty": "", "two words": "a b\n", "too long": strings.Repeat("x", 600)} {
		path := filepath.Join(t.TempDir(), "t")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := home.ReadToken(path); err == nil {
			t.Errorf("ReadToken of a file that is %s gave %q", name, got)
		}
	}
}

func TestRotation(t *testing.T) {
	h := open(t)
	old, err := h.Token("agent")
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := h.Tokens()
	if err != nil {
		t.Fatal(err)
	}
	if role, ok := tokens.Role(old); !ok || role != "agent" {
		t.Errorf("Role of the agent's token = %q, %v", role, ok)
	}
	if role, ok := tokens.Role(old + "x"); ok {
		t.Errorf("a token that nobody has proves the role %q", role)
	}
	if err := h.RotateToken("agent"); err != nil {
		t.Fatal(err)
	}
	now, err := h.Token("agent")
	if err != nil || now == old {
		t.Errorf("the token after rotation is %q (%v), want another than before", now, err)
	}
	if got := mode(t, h.TokenFile("agent")); got != 0o600 {
		t.Errorf("a rotated token has mode %o, want 600", got)
	}
	if err := h.RotateToken("../user"); err == nil {
		t.Error("a role that does not exist was rotated")
	}
}

func TestReadyFile(t *testing.T) {
	h := open(t)
	if _, err := h.ReadReady(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadReady before a start: %v, want not-exist", err)
	}
	want := home.Ready{API: "http://127.0.0.1:1", Console: "http://127.0.0.1:1/", PID: 42}
	if err := h.WriteReady(want); err != nil {
		t.Fatal(err)
	}
	got, err := h.ReadReady()
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("ReadReady: %v (-want +got):\n%s", err, d)
	}
	raw, err := os.ReadFile(h.ReadyFile())
	if err != nil || strings.Contains(string(raw), "chat") {
		t.Errorf("ready.json is %s (%v), want parts that do not run left out", raw, err)
	}
	if err := h.RemoveReady(41); err != nil {
		t.Fatal(err)
	}
	if _, err := h.ReadReady(); err != nil {
		t.Errorf("another process's stop took ready.json away: %v", err)
	}
	if err := h.RemoveReady(42); err != nil {
		t.Fatal(err)
	}
	if _, err := h.ReadReady(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadReady after the stop: %v, want not-exist", err)
	}
}

// R-BND-10 and R-SEC-08: another system's tree is never a data root, by whatever way.
func TestProtectedPlacesAreRefused(t *testing.T) {
	user := t.TempDir()
	claw := filepath.Join(user, ".openclaw", "workspace")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(claw, 0o755))
	for _, name := range []string{"SOUL.md", "MEMORY.md"} {
		must(os.WriteFile(filepath.Join(claw, name), []byte("theirs"), 0o600))
	}
	link := func(target, name string) string {
		path := filepath.Join(user, name)
		must(os.MkdirAll(filepath.Dir(path), 0o755))
		must(os.Symlink(target, path))
		return path
	}
	link(filepath.Join(claw, "MEMORY.md"), "holdslink/notes.md")
	link("../.openclaw/not-yet", "holdsdangling/system")
	elsewhere := t.TempDir()
	must(os.WriteFile(filepath.Join(elsewhere, "SOUL.md"), []byte("theirs"), 0o600))
	for name, dir := range map[string]string{
		"R-BND-10 the tree itself":                 filepath.Join(user, ".openclaw"),
		"R-BND-10 below the tree":                  filepath.Join(claw, "lab"),
		"R-BND-10 spelled with dots":               user + "/x/../.openclaw/lab",
		"R-SEC-08 a link to the tree":              link(claw, "alink"),
		"R-SEC-08 below a link to the tree":        filepath.Join(user, "alink", "new", "lab"),
		"R-SEC-08 a link to what is not there yet": link(filepath.Join(user, ".openclaw", "later"), "dangling"),
		"R-SEC-08 a root that holds a link to it":  filepath.Join(user, "holdslink"),
		"R-SEC-08 a root with a dangling link":     filepath.Join(user, "holdsdangling"),
		"R-BND-10 a root that holds the tree":      user,
	} {
		t.Run(name, func(t *testing.T) {
			err := home.Open(home.Home{Dir: t.TempDir(), Memory: dir}, user)
			var p *home.Protected
			if !errors.As(err, &p) {
				t.Errorf("Open with data root %s: %v, want a refusal", dir, err)
			}
			if _, err := os.Lstat(filepath.Join(claw, "lab")); err == nil {
				t.Error("something was made in the protected tree")
			}
		})
	}
	for _, name := range []string{"SOUL.md", "MEMORY.md"} {
		if b, err := os.ReadFile(filepath.Join(claw, name)); err != nil || string(b) != "theirs" {
			t.Errorf("%s is now %q (%v)", name, b, err)
		}
	}
	if err := home.Guard(user, filepath.Join(user, "fine")); err != nil {
		t.Errorf("Guard refused a place of our own: %v", err)
	}
	// deep in a tree, between many others, in either of two directories of which one
	// holds the other
	wide := t.TempDir()
	for i := range 300 {
		must(os.MkdirAll(filepath.Join(wide, "lab", fmt.Sprint(i%20), fmt.Sprint(i)), 0o755))
	}
	if err := home.Guard(user, wide, filepath.Join(wide, "lab")); err != nil {
		t.Errorf("Guard refused a tree without links: %v", err)
	}
	must(os.Symlink(claw, filepath.Join(wide, "lab", "17", "297", "x")))
	for _, dirs := range [][]string{{wide}, {filepath.Join(wide, "lab"), wide}, {wide, filepath.Join(wide, "lab")}, {wide, wide}, {t.TempDir(), filepath.Join(wide, "lab")}} {
		if err := home.Guard(user, dirs...); err == nil {
			t.Errorf("R-SEC-08: Guard of %s allowed a link into the tree", dirs)
		}
	}
	clean := t.TempDir() // no link in it, only the tree
	must(os.MkdirAll(filepath.Join(clean, ".openclaw"), 0o755))
	if err := home.Guard(clean, clean); err == nil {
		t.Error("Guard allowed a root that holds the tree")
	}
	// the tree may itself be a link
	moved := t.TempDir()
	must(os.Symlink(elsewhere, filepath.Join(moved, ".openclaw")))
	if err := home.Guard(moved, filepath.Join(elsewhere, "lab")); err == nil {
		t.Error("Guard allowed the place that a linked tree really is in")
	}
}

// A chat endpoint of its own process and a server of the same home come and go in
// any order; what is left is what runs.
func TestReadyFileOfTwoProcesses(t *testing.T) {
	h := home.Home{Dir: t.TempDir()}
	if err := os.MkdirAll(h.RunDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	up := home.Ready{API: "http://127.0.0.1:1", Chat: "http://127.0.0.1:2", PID: 42}
	serve := home.Ready{API: "http://127.0.0.1:1", PID: 43}
	chat := home.Ready{Chat: "http://127.0.0.1:3", PID: 44}
	both := serve
	both.Chat, both.ChatPID = chat.Chat, chat.PID
	write := func(r home.Ready) func() error { return func() error { return h.WriteReady(r) } }
	for _, step := range []struct {
		what string
		do   func() error
		want home.Ready
	}{
		{"up starts", write(up), up},
		{"chat starts beside it", func() error { return h.AddChat(chat) }, home.Ready{API: up.API, Chat: chat.Chat, PID: 42, ChatPID: 44, OwnChat: up.Chat}},
		{"chat stops", func() error { return h.RemoveChat(44) }, up},
		{"up stops", func() error { return h.RemoveReady(42) }, home.Ready{}},
		{"serve starts", write(serve), serve},
		{"chat starts beside it", func() error { return h.AddChat(chat) }, both},
		{"serve stops", func() error { return h.RemoveReady(43) }, home.Ready{Chat: chat.Chat, ChatPID: 44}},
		{"serve starts again", write(serve), both},
		{"serve stops", func() error { return h.RemoveReady(43) }, home.Ready{Chat: chat.Chat, ChatPID: 44}},
		{"chat stops", func() error { return h.RemoveChat(44) }, home.Ready{}},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		got, err := h.ReadReady()
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if d := cmp.Diff(step.want, got); err != nil || d != "" {
			t.Errorf("after %s: %v (-want +got):\n%s", step.what, err, d)
		}
	}
}
