package config_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/cmd/promptlab/internal/config"
)

// given is a set-up in memory.
type given struct {
	file  string
	env   map[string]string
	flags map[string]string
}

func (g given) load() (config.Config, config.Origin, error) {
	return config.Load(config.Input{
		Flags: g.flags, UserHome: "/home/u", WorkDir: "/work",
		Env: func(k string) (string, bool) { v, ok := g.env[k]; return v, ok },
		ReadFile: func(path string) ([]byte, error) {
			if g.file == "" || !strings.HasSuffix(path, "/config.yaml") {
				return nil, fs.ErrNotExist
			}
			return []byte(g.file), nil
		},
	})
}

func TestPrecedence(t *testing.T) {
	const key, env = "worker.lease", "PROMPTLAB_WORKER_LEASE"
	for _, tc := range []struct {
		name   string
		given  given
		want   time.Duration
		origin string
	}{
		{"nothing gives the default", given{}, 30 * time.Second, "default"},
		{"the file wins over the default", given{file: "worker:\n  lease: 1m\n"}, time.Minute, "/home/u/.local/share/promptlab/config.yaml:2"},
		{"a key with dots is the same key", given{file: "worker.lease: 1m\n"}, time.Minute, "/home/u/.local/share/promptlab/config.yaml:1"},
		{"the environment wins over the file", given{file: "worker.lease: 1m", env: map[string]string{env: "2m"}}, 2 * time.Minute, "env " + env},
		{"a flag wins over all", given{file: "worker.lease: 1m", env: map[string]string{env: "2m"}, flags: map[string]string{key: "3m"}}, 3 * time.Minute, "flag --worker-lease"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, origin, err := tc.given.load()
			if err != nil {
				t.Fatalf("Load: %v", err)
			}
			if c.Worker.Lease != tc.want || origin[key] != tc.origin {
				t.Errorf("%s = %s from %q, want %s from %q", key, c.Worker.Lease, origin[key], tc.want, tc.origin)
			}
		})
	}
}

// Every key can be set in each of the three ways, and a bad value is refused in each.
func TestEveryKeyHasFileVariableAndFlag(t *testing.T) {
	good := map[string]string{
		"memory": "/m", "listen": "127.0.0.1:0", "allow_remote": "true", "tls_cert": "/c", "tls_key": "/k", "tls_trust": "/t",
		"redis_url": "redis://127.0.0.1:6379/1", "python": "/usr/bin/python3", "sandbox.min_level": "L2f",
		"models":                `[{"name":"m","protocol":"openai","base_url":"http://127.0.0.1:8000/v1","model":"x","routes":["task"]}]`,
		"scheduler.critic.cron": "0 4 * * 1", "scheduler.time_zone": "Europe/Vienna",
		"worker.ec_url": "http://127.0.0.1:1", "worker.token_file": "/t", "worker.concurrency": "2",
		"worker.lease": "5s", "worker.optimize_limit": "1m0s", "worker.measure_limit": "2m0s", "worker.grace": "3s",
		"chat.listen": "127.0.0.1:1", "chat.ec_timeout": "1s",
		"simulator.world": "null", "simulator.seed": "7", "feedback.retention_days": "90", "log.level": "debug", "log.format": "json",
		"companions.moderators": "profiles", "companions.rooms": "off",
	}
	bad := map[string]string{
		"memory": "", "listen": "7717", "allow_remote": "yes", "redis_url": "http://x", "sandbox.min_level": "L9",
		"models": `[{"name":"m"}]`, "scheduler.critic.cron": "daily", "scheduler.time_zone": "Mars/Olympus",
		"worker.ec_url": "ftp://x", "worker.concurrency": "0", "worker.lease": "soon", "worker.optimize_limit": "-1s",
		"worker.measure_limit": "0s", "worker.grace": "2h", "chat.listen": "1", "chat.ec_timeout": "0s", "simulator.world": "flat", "simulator.seed": "-1", "feedback.retention_days": "36501",
		"log.level": "loud", "log.format": "xml", "companions.moderators": "nobody", "companions.rooms": "maybe",
	}
	for _, s := range config.Settings() {
		v, ok := good[s.Key]
		if !ok {
			t.Errorf("this test has no value for key %s", s.Key)
			continue
		}
		extra := map[string]string{"tls_cert": "tls_key", "tls_key": "tls_cert"}[s.Key]
		for way, g := range ways(s, v) {
			if extra != "" {
				g.flags = map[string]string{s.Key: v, extra: "/x"}
			}
			c, _, err := g.load()
			if err != nil {
				t.Errorf("%s by %s: %v", s.Key, way, err)
				continue
			}
			if got := c.Value(s.Key); s.Key != "models" && got != v {
				t.Errorf("%s by %s is %q, want %q", s.Key, way, got, v)
			}
			if s.Key == "models" && (len(c.Models) != 1 || c.Models[0].Model != "x") {
				t.Errorf("models by %s are %+v, want one called x", way, c.Models)
			}
		}
		b, ok := bad[s.Key]
		if !ok {
			continue // any text will do
		}
		for way, g := range ways(s, b) {
			var e *config.Error
			if _, _, err := g.load(); !errors.As(err, &e) || e.Problems[0].Key != s.Key && !strings.HasPrefix(e.Problems[0].Key, s.Key) {
				t.Errorf("bad %s by %s gives %v, want an error that names the key", s.Key, way, err)
			} else if strings.Contains(e.Error(), "\n") {
				t.Errorf("bad %s by %s gives more than one line: %q", s.Key, way, e.Error())
			}
		}
	}
}

func ways(s config.Setting, v string) map[string]given {
	file := s.Key + ": '" + v + "'\n"
	if s.Key == "models" {
		file = s.Key + ": " + v + "\n"
	}
	return map[string]given{
		"file":     {file: file},
		"variable": {env: map[string]string{s.Env: v}},
		"flag":     {flags: map[string]string{s.Key: v}},
	}
}

func TestBadFilesAreRefusedWithTheirLine(t *testing.T) {
	for _, tc := range []struct{ name, file, want string }{
		{"unknown key", "listen: 127.0.0.1:0\nlisten_on: x\n", "listen_on: is not a key that is known (…/config.yaml:2)"},
		{"unknown key in a group", "sandbox:\n  level: L1\n", "sandbox.level: is not a key that is known (…/config.yaml:2)"},
		{"unknown key of a model", "models:\n  - name: m\n    protocol: openai\n    api_key: s3cret\n", "models[0].api_key: is not a key that is known (…/config.yaml:4)"},
		{"unknown key of a route's limits", "models:\n  - name: m\n    limits:\n      by_route:\n        chat:\n          patience: 7\n",
			"models[0].limits.by_route.chat.patience: is not a key that is known (…/config.yaml:6)"},
		{"a key twice", "listen: 127.0.0.1:0\nlisten: 127.0.0.1:1\n", "listen: is given twice (…/config.yaml:2)"},
		{"a group with a value", "sandbox: L1\n", "sandbox: must hold keys of its own (…/config.yaml:1)"},
		{"a key with a list", "python: [a]\n", "python: must be a single value (…/config.yaml:1)"},
		{"a key without a value", "python:\n", "python: has no value (…/config.yaml:1)"},
		{"a second document", "listen: 127.0.0.1:0\n---\nlisten: x\n", "config.yaml: must hold one document"},
		{"an alias", "python: &p /x\nmemory: *p\n", "config.yaml: must not use anchors, aliases or tags (line 1)"},
		{"a list instead of keys", "- a\n", "config.yaml: must be a list of keys and values"},
		{"no YAML", "listen: [\n", "config.yaml: is not valid YAML"},
		{"every problem in one line", "listen: x\npython:\nfoo: 1\n", "listen: must be HOST:PORT"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := given{file: tc.file}.load()
			var e *config.Error
			if !errors.As(err, &e) {
				t.Fatalf("Load of %q: %v, want a *config.Error", tc.file, err)
			}
			got := strings.ReplaceAll(e.Error(), "/home/u/.local/share/promptlab", "…")
			if !strings.Contains(got, tc.want) || strings.Contains(got, "\n") || strings.Contains(got, "s3cret") {
				t.Errorf("Load of %q says %q, want one line with %q and no value of a model", tc.file, got, tc.want)
			}
			if tc.name == "every problem in one line" && len(e.Problems) != 3 {
				t.Errorf("Load of %q names %d problems, want 3: %v", tc.file, len(e.Problems), e)
			}
		})
	}
}

func TestListeningBeyondThisMachineNeedsASayAndTLS(t *testing.T) {
	tls := map[string]string{"tls_cert": "c.pem", "tls_key": "k.pem"}
	for _, tc := range []struct {
		listen string
		allow  string
		tls    bool
		ok     bool
	}{
		{"127.0.0.1:0", "false", false, true}, {"localhost:1", "false", false, true}, {"[::1]:1", "false", false, true},
		{"0.0.0.0:1", "false", true, false}, {"0.0.0.0:1", "true", false, false}, {"192.168.1.2:1", "false", false, false},
		{"0.0.0.0:1", "true", true, true}, {"lab.example:1", "true", true, true}, {":1", "true", true, false},
	} {
		g := given{flags: map[string]string{"listen": tc.listen, "allow_remote": tc.allow}}
		if tc.tls {
			for k, v := range tls {
				g.flags[k] = v
			}
		}
		_, _, err := g.load()
		if (err == nil) != tc.ok {
			t.Errorf("listen on %s, allow_remote %s, TLS %v: %v, want ok %v", tc.listen, tc.allow, tc.tls, err, tc.ok)
		}
	}
}

func TestHomeDirectory(t *testing.T) {
	for _, tc := range []struct {
		name  string
		given given
		want  string
	}{
		{"default", given{}, "/home/u/.local/share/promptlab"},
		{"data directory", given{env: map[string]string{"XDG_DATA_HOME": "/data"}}, "/data/promptlab"},
		{"a relative data directory is ignored", given{env: map[string]string{"XDG_DATA_HOME": "data"}}, "/home/u/.local/share/promptlab"},
		{"variable", given{env: map[string]string{"XDG_DATA_HOME": "/data", "PROMPTLAB_HOME": "/lab"}}, "/lab"},
		{"flag", given{env: map[string]string{"PROMPTLAB_HOME": "/lab"}, flags: map[string]string{"home": "here"}}, "/work/here"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, _, err := tc.given.load()
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]string{tc.want, tc.want + "/ELNOR_MEMORY"}, []string{c.Home, c.Memory}); d != "" {
				t.Errorf("home and memory (-want +got):\n%s", d)
			}
		})
	}
}

// The file is read by a parser that other people's bytes reach: it never panics and
// never lets a broken file pass as an empty one with problems.
func FuzzFile(f *testing.F) {
	for _, s := range []string{"", "#", "listen: 127.0.0.1:0", "models: [{name: a}]", "a: &a [*a]", "? [x]\n: y", "\x00", "worker: {lease: 1s}", "models:\n- {limits: {concurrency: x}}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, file string) {
		_, _, err := given{file: file}.load()
		var e *config.Error
		if err != nil && (!errors.As(err, &e) || len(e.Problems) == 0) {
			t.Errorf("Load of %q: %v, want nil or named problems", file, err)
		}
	})
}
