package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/internal/fault"
)

// key is one setting.
type key struct {
	name     string // as in config.yaml, parts joined by dots
	flag     string // empty: made from name
	usage    string
	fallback string
	path     bool
	set      func(*Config, string) error
	get      func(Config) string
}

// Env gives the name of the key's environment variable.
func (k key) Env() string {
	return "PROMPTLAB_" + strings.ToUpper(strings.ReplaceAll(k.name, ".", "_"))
}

// Flag gives the name of the key's flag, without dashes.
func (k key) Flag() string {
	if k.flag != "" {
		return k.flag
	}
	return strings.NewReplacer(".", "-", "_", "-").Replace(k.name)
}

// Setting describes a key to whoever makes flags or shows the set-up.
type Setting struct {
	Key, Flag, Env, Usage, Default string
	Switch                         bool // takes no value as a flag
}

// Settings lists every key, in the order in which they are shown.
func Settings() []Setting {
	var out []Setting
	for _, k := range keys() {
		out = append(out, Setting{Key: k.name, Flag: k.Flag(), Env: k.Env(), Usage: k.usage, Default: k.fallback, Switch: k.fallback == "false"})
	}
	return out
}

// Value gives one key's value as text; unknown keys give nothing.
func (c Config) Value(name string) string {
	if name == "home" {
		return c.Home
	}
	for _, k := range keys() {
		if k.name == name {
			return k.get(c)
		}
	}
	return ""
}

func moderatorsKey() key {
	return key{
		name: "companions.moderators", usage: "who keeps the overlays that moderators bring along: store, profiles or off", fallback: "store",
		set: func(c *Config, v string) error { return oneOf(&c.Companions.Moderators, v, "store", "profiles", "off") },
		get: func(c Config) string { return c.Companions.Moderators },
	}
}

func roomsKey() key {
	return key{
		name: "companions.rooms", usage: "whether rooms and their participants are kept: on or off", fallback: "on",
		set: func(c *Config, v string) error {
			var on string
			err := oneOf(&on, v, "on", "off")
			c.Companions.Rooms = on == "on"
			return err
		},
		get: func(c Config) string {
			if c.Companions.Rooms {
				return "on"
			}
			return "off"
		},
	}
}

func keys() []key {
	return []key{
		{name: "memory", usage: "data directory", fallback: "ELNOR_MEMORY", path: true,
			set: func(c *Config, v string) error { c.Memory = v; return needed(v) },
			get: func(c Config) string { return c.Memory }},
		{name: "listen", usage: "address to listen on; port 0 picks a free one", fallback: "127.0.0.1:7717",
			set: func(c *Config, v string) error { c.Listen = v; return address(v) },
			get: func(c Config) string { return c.Listen }},
		{name: "allow_remote", usage: "let listen be reachable from other machines (needs TLS files)", fallback: "false",
			set: func(c *Config, v string) error { return boolean(&c.AllowRemote, v) },
			get: func(c Config) string { return strconv.FormatBool(c.AllowRemote) }},
		{name: "tls_cert", usage: "certificate file", path: true,
			set: func(c *Config, v string) error { c.TLSCert = v; return nil },
			get: func(c Config) string { return c.TLSCert }},
		{name: "tls_key", usage: "private key file of the certificate", path: true,
			set: func(c *Config, v string) error { c.TLSKey = v; return nil },
			get: func(c Config) string { return c.TLSKey }},
		{name: "tls_trust", usage: "certificates to trust beside the system's and tls_cert, where EC is called", path: true,
			set: func(c *Config, v string) error { c.TLSTrust = v; return nil },
			get: func(c Config) string { return c.TLSTrust }},
		{name: "redis_url", flag: "redis", usage: "queue server, as redis://host:port/db; without it up brings its own",
			set: func(c *Config, v string) error { c.RedisURL = v; return redisURL(v) },
			get: func(c Config) string { return hidePassword(c.RedisURL) }},
		{name: "models", usage: "models, as a YAML or JSON list",
			set: setModels, get: showModels},
		{name: "python", usage: "Python that has the optimizer", path: true,
			set: func(c *Config, v string) error { c.Python = v; return nil },
			get: func(c Config) string { return c.Python }},
		{name: "sandbox.min_level", usage: "least isolation of the optimizer: L0, L1, L2, L2f, L3", fallback: "L0",
			set: func(c *Config, v string) error { return oneOf(&c.Sandbox.MinLevel, v, Levels()...) },
			get: func(c Config) string { return c.Sandbox.MinLevel }},
		{name: "scheduler.critic.cron", usage: "when the nightly critic starts, five cron fields", fallback: "30 3 * * *",
			set: func(c *Config, v string) error { c.Scheduler.CriticCron = v; return cronLine(v) },
			get: func(c Config) string { return c.Scheduler.CriticCron }},
		{name: "scheduler.time_zone", usage: "time zone of the schedule", fallback: "UTC",
			set: func(c *Config, v string) error { c.Scheduler.TimeZone = v; return zone(v) },
			get: func(c Config) string { return c.Scheduler.TimeZone }},
		{name: "worker.ec_url", flag: "ec", usage: "address of promptlab serve, for a worker or a chat endpoint elsewhere",
			set: func(c *Config, v string) error { c.Worker.ECURL = v; return webURL(v) },
			get: func(c Config) string { return c.Worker.ECURL }},
		{name: "worker.token_file", usage: "the worker's token", path: true,
			set: func(c *Config, v string) error { c.Worker.TokenFile = v; return nil },
			get: func(c Config) string { return c.Worker.TokenFile }},
		{name: "worker.concurrency", usage: "tasks at a time", fallback: "1",
			set: func(c *Config, v string) error { return integer(&c.Worker.Concurrency, v, 1, 64) },
			get: func(c Config) string { return strconv.Itoa(c.Worker.Concurrency) }},
		durationKey("worker.lease", "a silent worker loses its task after this", "30s", time.Second, time.Hour, func(c *Config) *time.Duration { return &c.Worker.Lease }),
		durationKey("worker.optimize_limit", "longest search", "30m", time.Second, 24*time.Hour, func(c *Config) *time.Duration { return &c.Worker.OptimizeLimit }),
		durationKey("worker.measure_limit", "longest measurement", "20m", time.Second, 24*time.Hour, func(c *Config) *time.Duration { return &c.Worker.MeasureLimit }),
		durationKey("worker.grace", "time to hand tasks back when stopping", "20s", 0, time.Hour, func(c *Config) *time.Duration { return &c.Worker.Grace }),
		{name: "chat.listen", usage: "address of the chat endpoint; without it one port above listen",
			set: func(c *Config, v string) error {
				if c.Chat.Listen = v; v == "" {
					return nil
				}
				return address(v)
			},
			get: func(c Config) string { return c.Chat.Listen }},
		durationKey("chat.ec_timeout", "how long a turn waits for EC before it goes on without overlays", "2s", 10*time.Millisecond, time.Minute, func(c *Config) *time.Duration { return &c.Chat.ECTimeout }),
		{name: "simulator.world", usage: "what the simulator plays: helpful (some instructions help) or null (nothing helps)", fallback: "helpful",
			set: func(c *Config, v string) error { return oneOf(&c.Simulator.World, v, "helpful", "null") },
			get: func(c Config) string { return c.Simulator.World }},
		// Chosen for a quiet control: with the examples that come with the program, equal
		// texts score alike in this world. In one world out of ten they do not, by chance
		// alone, and a job there rightly ends without a label.
		{name: "simulator.seed", usage: "chance of the simulator", fallback: "2",
			set: func(c *Config, v string) (err error) { c.Simulator.Seed, err = number(v); return err },
			get: func(c Config) string { return strconv.FormatUint(c.Simulator.Seed, 10) }},
		moderatorsKey(), roomsKey(),
		{name: "feedback.retention_days", usage: "feedback that is older is removed at a start; 0 keeps everything", fallback: "0",
			set: func(c *Config, v string) (err error) {
				if c.Feedback.RetentionDays, err = number(v); err == nil && c.Feedback.RetentionDays > 36_500 {
					return errors.New("must be at most 36500 days; 0 keeps everything")
				}
				return err
			},
			get: func(c Config) string { return strconv.FormatUint(c.Feedback.RetentionDays, 10) }},
		{name: "log.level", usage: "debug, info, warn or error", fallback: "info",
			set: func(c *Config, v string) error { return logLevel(&c.Log.Level, v) },
			get: func(c Config) string { return strings.ToLower(c.Log.Level.String()) }},
		{name: "log.format", usage: "text or json", fallback: "text",
			set: func(c *Config, v string) error { return oneOf(&c.Log.Format, v, "text", "json") },
			get: func(c Config) string { return c.Log.Format }},
	}
}

// Levels lists the isolation levels, weakest first.
func Levels() []string { return []string{"L0", "L1", "L2", "L2f", "L3"} }

func durationKey(name, usage, fallback string, least, most time.Duration, at func(*Config) *time.Duration) key {
	return key{name: name, usage: usage, fallback: fallback,
		set: func(c *Config, v string) error {
			d, err := time.ParseDuration(v)
			if err != nil || d < least || d > most {
				return fmt.Errorf("must be a duration from %s to %s, such as %s", least, most, fallback)
			}
			*at(c) = d
			return nil
		},
		get: func(c Config) string { return at(&c).String() }}
}

func needed(v string) error {
	if v == "" {
		return errors.New("must not be empty")
	}
	return nil
}

func boolean(to *bool, v string) error {
	switch v {
	case "true":
		*to = true
	case "false":
		*to = false
	default:
		return errors.New("must be true or false")
	}
	return nil
}

func oneOf(to *string, v string, allowed ...string) error {
	if !slices.Contains(allowed, v) {
		return fmt.Errorf("must be one of %s", strings.Join(allowed, ", "))
	}
	*to = v
	return nil
}

func integer(to *int, v string, least, most int) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		return fmt.Errorf("must be a whole number from %d to %d", least, most)
	}
	*to = n
	return nil
}

func number(v string) (uint64, error) {
	n, err := strconv.ParseUint(v, 10, 32)
	if err != nil {
		return 0, errors.New("must be a whole number from 0 to 4294967295")
	}
	return n, nil
}

func logLevel(to *slog.Level, v string) error {
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, v) {
		return errors.New("must be one of debug, info, warn, error")
	}
	return to.UnmarshalText([]byte(v))
}

func address(v string) error {
	host, port, err := net.SplitHostPort(v)
	if err != nil || host == "" {
		return errors.New("must be HOST:PORT, such as 127.0.0.1:7717")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return errors.New("must end in a port from 0 to 65535")
	}
	return nil
}

func redisURL(v string) error {
	if v == "" {
		return nil
	}
	u, err := url.Parse(v)
	if err != nil || u.Host == "" || u.Scheme != "redis" && u.Scheme != "rediss" {
		return errors.New("must look like redis://host:6379/0")
	}
	return nil
}

func webURL(v string) error {
	if v == "" {
		return nil
	}
	u, err := url.Parse(v)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("must look like http://127.0.0.1:7717")
	}
	return nil
}

func hidePassword(v string) string {
	u, err := url.Parse(v)
	if err != nil {
		return ""
	}
	return u.Redacted()
}

func cronLine(v string) error {
	if n := len(strings.Fields(v)); n != 5 {
		return fmt.Errorf("must have five fields (minute hour day month weekday), not %d", n)
	}
	return nil
}

func zone(v string) error {
	if v == "" || v == "Local" {
		return errors.New("must be a time zone such as UTC or Europe/Vienna")
	}
	if _, err := time.LoadLocation(v); err != nil {
		return errors.New("is not a time zone that this machine knows")
	}
	return nil
}

// setModels reads the list from a flag, a variable or the file; all three end here as YAML.
func setModels(c *Config, v string) error {
	models, err := decodeModels([]byte(v))
	if err != nil {
		return err
	}
	if _, err := gateway.Targets(models); err != nil {
		var f *fault.Error
		if errors.As(err, &f) && len(f.Details) > 0 {
			var parts []string
			for _, d := range f.Details {
				parts = append(parts, d.Field+" "+d.Message)
			}
			return errors.New(strings.Join(parts, ", "))
		}
		return err
	}
	c.Models = models
	return nil
}

func showModels(c Config) string {
	if len(c.Models) == 0 {
		return "[]"
	}
	b, err := json.Marshal(c.Models)
	if err != nil {
		return "?"
	}
	return string(b)
}
