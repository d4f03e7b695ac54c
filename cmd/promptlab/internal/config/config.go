// Package config finds out how the program is set up: flags win over environment
// variables, these over config.yaml in the home, that over defaults. Every key has
// one name, one parser and one place in the table below, and remembers where its
// value came from.
//
// It deliberately does not know what the values are used for, and it reads neither
// the process's environment nor its flags: both are handed in.
package config

import (
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/elnor/promptlab/gateway"
)

// Config is the whole set-up, checked.
type Config struct {
	Home        string // directory of run/ and config.yaml, absolute
	Memory      string // the data root, absolute
	Listen      string // host:port; port 0 picks a free one
	AllowRemote bool   // Listen may be something else than loopback, with TLS
	TLSCert     string
	TLSKey      string
	TLSTrust    string
	RedisURL    string // empty: the embedded broker (up only)
	Models      []gateway.ModelConfig
	Python      string // empty: look for the environment that make setup makes
	Sandbox     Sandbox
	Scheduler   Scheduler
	Worker      Worker
	Chat        Chat
	Simulator   Simulator
	Companions  Companions
	Feedback    Feedback
	Log         Log
}

// Companions switches the stand-ins of the systems beside this one.
type Companions struct {
	Moderators string // who keeps moderators' defaults: store, profiles, off
	Rooms      bool   // rooms and who takes part in them
}

// Feedback says how long feedback and signals are kept.
type Feedback struct {
	RetentionDays uint64 // 0: for ever
}

// Sandbox is how well the optimizer's process must be locked in.
type Sandbox struct {
	MinLevel string // L0, L1, L2, L2f, L3
}

// Scheduler is when nightly work starts.
type Scheduler struct {
	CriticCron string // five cron fields
	TimeZone   string // IANA name
}

// Worker is how tasks run.
type Worker struct {
	ECURL         string // address of serve; empty: ready.json of the home
	TokenFile     string // empty: run/worker.token of the home
	Concurrency   int
	Lease         time.Duration // a silent worker loses its task after this
	OptimizeLimit time.Duration
	MeasureLimit  time.Duration
	Grace         time.Duration // time to hand tasks back when stopping
}

// Chat is the endpoint that programs talk to as they would to OpenAI's.
type Chat struct {
	Listen    string        // empty: ChatListen
	ECTimeout time.Duration // what a turn waits for EC
}

// ChatListen gives the address of the chat endpoint: the one that is set, else
// one port above the API's, or any free one where that is any.
func (c Config) ChatListen() string {
	if c.Chat.Listen != "" {
		return c.Chat.Listen
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return c.Listen
	}
	n, err := strconv.Atoi(port)
	if err != nil || n == 0 || n == 65535 {
		return net.JoinHostPort(host, "0")
	}
	return net.JoinHostPort(host, strconv.Itoa(n+1))
}

// Simulator is the world that answers when no model is configured.
type Simulator struct {
	World string // helpful, null
	Seed  uint64
}

// Log is how the servers log.
type Log struct {
	Level  slog.Level
	Format string // text, json
}

// Simulated tells whether answers come from the simulator because no model is configured.
func (c Config) Simulated() bool { return len(c.Models) == 0 }

// Targets gives the models that calls may go to: those that are configured, or
// the simulator.
func (c Config) Targets() []gateway.ModelConfig {
	if !c.Simulated() {
		return c.Models
	}
	return []gateway.ModelConfig{{Name: "simulator", Protocol: gateway.ProtocolSimulator, Model: c.Simulator.World, Routes: gateway.Roles()}}
}

// Input is everything that configuration is made from.
type Input struct {
	Flags    map[string]string           // by key; only those that were given
	Env      func(string) (string, bool) // looks up a variable
	UserHome string                      // the person's home directory, may be empty
	WorkDir  string                      // relative paths of flags and variables start here
	ReadFile func(string) ([]byte, error)
}

// Origin says where the value of a key came from: "default", "file:LINE",
// "env NAME" or "flag --NAME".
type Origin map[string]string

// Error is a set-up that cannot be used. It names every bad key with its reason, in one line.
type Error struct{ Problems []Problem }

// Problem is one bad key.
type Problem struct {
	Key    string
	Reason string
	Origin string // empty when it is nowhere in particular
}

// Error gives the one line.
func (e *Error) Error() string {
	var parts []string
	for _, p := range e.Problems {
		s := p.Key + ": " + p.Reason
		if p.Origin != "" {
			s += " (" + p.Origin + ")"
		}
		parts = append(parts, s)
	}
	return "config: " + strings.Join(parts, "; ")
}

// HomeDir gives the home directory without reading anything from it: the flag, else
// PROMPTLAB_HOME, else promptlab in the user's data directory.
func HomeDir(in Input) (dir, origin string, err error) {
	if v, ok := in.Flags["home"]; ok {
		dir, origin = v, "flag --home"
	} else if v, ok := in.Env("PROMPTLAB_HOME"); ok && v != "" {
		dir, origin = v, "env PROMPTLAB_HOME"
	} else if v, ok := in.Env("XDG_DATA_HOME"); ok && filepath.IsAbs(v) {
		return filepath.Join(v, "promptlab"), "env XDG_DATA_HOME", nil
	} else if in.UserHome != "" {
		return filepath.Join(in.UserHome, ".local", "share", "promptlab"), "default", nil
	}
	if dir == "" {
		return "", "", &Error{[]Problem{{Key: "home", Reason: "is empty; give --home DIR or set PROMPTLAB_HOME", Origin: origin}}}
	}
	return absolute(in.WorkDir, dir), origin, nil
}

// Load reads the whole set-up. A bad one is an *Error that names every bad key.
func Load(in Input) (Config, Origin, error) {
	dir, from, err := HomeDir(in)
	if err != nil {
		return Config{}, nil, err
	}
	c := Config{Home: dir}
	origin := Origin{"home": from}
	l := loader{in: in, config: &c, origin: origin}
	l.defaults()
	l.file(filepath.Join(dir, "config.yaml"))
	l.environment()
	l.flags()
	if len(l.bad) == 0 {
		l.cross()
	}
	if len(l.bad) > 0 {
		return Config{}, nil, &Error{l.bad}
	}
	return c, origin, nil
}

type loader struct {
	in     Input
	config *Config
	origin Origin
	bad    []Problem
}

func (l *loader) fail(key, origin, format string, args ...any) {
	l.bad = append(l.bad, Problem{Key: key, Reason: fmt.Sprintf(format, args...), Origin: origin})
}

// set parses one value; relative paths start at base.
func (l *loader) set(k key, value, origin, base string) {
	if k.path && value != "" && (k.name != "python" || strings.ContainsRune(value, filepath.Separator)) {
		value = absolute(base, value)
	}
	if err := k.set(l.config, value); err != nil {
		l.fail(k.name, origin, "%s", err)
		return
	}
	l.origin[k.name] = origin
}

func (l *loader) defaults() {
	for _, k := range keys() {
		l.set(k, k.fallback, "default", l.config.Home)
	}
}

func (l *loader) environment() {
	for _, k := range keys() {
		if v, ok := l.in.Env(k.Env()); ok {
			l.set(k, v, "env "+k.Env(), l.in.WorkDir)
		}
	}
}

func (l *loader) flags() {
	for _, k := range keys() {
		if v, ok := l.in.Flags[k.name]; ok {
			l.set(k, v, "flag --"+k.Flag(), l.in.WorkDir)
		}
	}
}

// cross checks what needs more than one key.
func (l *loader) cross() {
	c := l.config
	if (c.TLSCert == "") != (c.TLSKey == "") {
		l.fail("tls_cert", "", "needs tls_key beside it, and the other way round")
	}
	l.remote("listen", c.Listen)
	l.remote("chat.listen", c.Chat.Listen)
}

// remote checks an address that may be reachable from other machines.
func (l *loader) remote(key, address string) {
	host, _, err := net.SplitHostPort(address)
	if err != nil || Loopback(host) {
		return
	}
	switch {
	case !l.config.AllowRemote:
		l.fail(key, l.origin[key], "is not on this machine alone; that needs --allow-remote and TLS files")
	case l.config.TLSCert == "":
		l.fail(key, l.origin[key], "is not on this machine alone; that needs tls_cert and tls_key")
	}
}

// Loopback tells whether a host name or address is this machine alone.
func Loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func absolute(base, path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(base, path)
	}
	return filepath.Clean(path)
}
