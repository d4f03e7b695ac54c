// Package arch holds the map of the house as a table that a test compares with
// the imports there are: which package may know which, and which package owns a
// library. A new package fails the test until it has a place here.
package arch

// Rule says what one package may import: packages of this module (by folder) and
// libraries that have an owner. The standard library is free, except for what
// Forbidden names.
type Rule struct {
	Knows     []string // folders of this module
	Libraries []string // owned libraries
	Forbidden []string // packages of the standard library
}

// Owned lists the libraries that only some packages may touch.
func Owned() []string {
	return []string{
		"github.com/gin-gonic/gin", "github.com/danielgtaylor/huma/v2", "github.com/hibiken/asynq", "github.com/hibiken/asynqmon",
		"github.com/alicebob/miniredis/v2", "github.com/redis/go-redis/v9", "github.com/robfig/cron/v3",
		"go.yaml.in/yaml/v3", "gopkg.in/yaml.v3", "github.com/spf13/cobra", "os/exec",
		"github.com/tmaxmax/go-sse",
	}
}

// pure packages have no world: no files, no network, no clock of their own.
var pure = []string{"os", "net", "net/http", "log/slog", "os/exec"} //nolint:gochecknoglobals // part of the table

// Rules is the map. Tests are not held to it.
func Rules() map[string]Rule {
	return map[string]Rule{
		"internal/fault":   {Forbidden: pure},
		"internal/arch":    {},
		"internal/problem": {Knows: []string{"contracts", "internal/fault"}},
		"internal/life":    {},
		"internal/wall":    {Knows: []string{"internal/fault"}},
		"internal/trace":   {},

		"contracts": {Knows: []string{"internal/fault"}, Forbidden: pure},
		"prompt":    {Knows: []string{"contracts"}, Forbidden: pure},
		"evidence":  {Knows: []string{"internal/fault"}, Forbidden: pure},

		"ec":             {Knows: []string{"contracts", "prompt", "evidence", "internal/fault", "ec/frontmatter", "ec/lint"}, Forbidden: pure},
		"companion":      {Knows: []string{"contracts"}, Forbidden: pure},
		"ec/frontmatter": {Knows: []string{"contracts", "internal/fault"}, Libraries: []string{"go.yaml.in/yaml/v3"}, Forbidden: pure},
		"ec/lint":        {Knows: []string{"contracts", "internal/fault", "ec/frontmatter"}, Forbidden: pure},

		"ec/feed":            {Knows: []string{"contracts"}},
		"ec/store":           {Knows: []string{"internal/fault", "ec/store/fsx", "ec/store/internal/hook"}},
		"ec/store/fsx":       {},
		"ec/store/disksim":   {Knows: []string{"ec/store/fsx"}},
		"ec/store/crashtest": {Knows: []string{"ec/store", "ec/store/fsx", "ec/store/disksim", "ec/store/internal/hook", "internal/fault"}},

		"ec/store/internal/hook": {},

		"ec/writer":            {Knows: []string{"contracts", "ec", "ec/feed", "ec/store", "internal/fault"}},
		"ec/ectest":            {Knows: []string{"contracts", "ec", "ec/feed", "ec/store", "ec/store/fsx", "ec/writer"}},
		"ec/dispatch/queue":    {Knows: []string{"contracts", "internal/fault"}},
		"ec/dispatch":          {Knows: []string{"contracts", "ec", "ec/dispatch/broker", "ec/dispatch/queue", "internal/fault"}, Libraries: []string{"github.com/hibiken/asynq", "github.com/redis/go-redis/v9"}},
		"ec/dispatch/broker":   {Knows: []string{"contracts", "ec/dispatch/queue", "internal/fault"}, Libraries: []string{"github.com/hibiken/asynq", "github.com/hibiken/asynqmon", "github.com/alicebob/miniredis/v2", "github.com/redis/go-redis/v9"}},
		"ec/dispatch/doortest": {Knows: []string{"contracts", "ec", "ec/dispatch", "ec/ectest", "internal/fault"}},
		"ec/remote":            {Knows: []string{"contracts", "ec", "internal/fault", "internal/life", "internal/problem"}},

		"gateway":                     {Knows: []string{"contracts", "internal/fault"}},
		"gateway/internal/wire":       {Knows: []string{"gateway"}, Libraries: []string{"github.com/tmaxmax/go-sse"}},
		"gateway/anthropic":           {Knows: []string{"gateway", "gateway/internal/wire"}},
		"gateway/conformance":         {},
		"gateway/responses":           {Knows: []string{"gateway", "gateway/internal/wire"}},
		"gateway/openai":              {Knows: []string{"contracts", "gateway", "gateway/internal/wire", "internal/fault"}},
		"gateway/simulator":           {Knows: []string{"contracts", "gateway", "internal/fault"}},
		"gateway/simulator/simserver": {Knows: []string{"contracts", "gateway", "gateway/simulator"}},
		"gateway/loopback":            {Knows: []string{"contracts", "gateway", "internal/fault"}},

		"worker": {
			Knows: []string{
				"contracts", "prompt", "evidence", "gateway", "gateway/loopback", "gateway/openai", "gateway/simulator",
				"ec", "ec/lint", "ec/dispatch/queue", "worker/pyrun", "internal/fault",
			},
			Libraries: []string{"github.com/hibiken/asynq"},
		},
		"worker/pyrun": {Knows: []string{"contracts", "internal/fault"}, Libraries: []string{"os/exec"}},

		"chat":      {Knows: []string{"contracts", "gateway", "prompt", "internal/fault", "internal/problem", "internal/wall"}},
		"chat/seam": {Knows: []string{"chat", "contracts", "internal/fault", "internal/problem"}},

		"importer":         {Knows: []string{"contracts", "ec/frontmatter", "ec/lint", "internal/fault"}, Forbidden: pure},
		"presets":          {Knows: []string{"contracts", "ec", "ec/frontmatter", "ec/lint", "internal/fault"}},
		"presets/examples": {},

		"api": {
			Knows:     []string{"contracts", "ec", "gateway", "prompt", "internal/fault", "internal/problem", "internal/life", "internal/wall"},
			Libraries: []string{"github.com/gin-gonic/gin", "github.com/danielgtaylor/huma/v2"},
		},
	}
}

// Free is the prefix of packages that may know everything: the programs.
const Free = "cmd/"
