package arch

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sources gives every Go file that is not a test, by path.
func sources(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && p != "." || slices.Contains([]string{"tools", "node_modules", "testdata", "bin"}, d.Name()) || p == sdkDriver):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go"):
			return nil
		}
		b, err := fs.ReadFile(root, p)
		out[p] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Some things are done in one place and nowhere else, which no import shows.
func TestOnePlaceEach(t *testing.T) {
	for _, rule := range []struct {
		name, does string
		only       []string // folders, with a slash
	}{
		{"R-BND-05 a live turn is composed by the chat endpoint alone", `\bComposeTurn\(`, []string{"prompt/", "chat/"}},
		{"R-PKT-29 a live turn is sent by the chat endpoint alone", `\bRoleChat\b`, []string{"gateway/", "contracts/", "chat/"}},
		{"R-PKT-29 receipts of live turns come from the chat endpoint alone", `OverlayRuntimeTruthSummary\{`, []string{"contracts/", "chat/", "ec/", "api/"}},
		{"R-BND-01 the store is opened by EC's process alone", `\bstore\.Open\(`, []string{"ec/", "cmd/promptlab/internal/app/"}},
		{"R-BND-01 the one writer is started by EC's process alone", `\bwriter\.Open\(`, []string{"ec/", "cmd/promptlab/internal/app/"}},
	} {
		t.Run(rule.name, func(t *testing.T) {
			does, found := regexp.MustCompile(rule.does), 0
			for p, src := range sources(t) {
				if !does.MatchString(src) {
					continue
				}
				found++
				if !slices.ContainsFunc(rule.only, func(folder string) bool { return strings.HasPrefix(p, folder) }) {
					t.Errorf("%s: %s does it too", rule.name, p)
				}
			}
			if found == 0 {
				t.Errorf("nobody does %s any more; the rule is about nothing", rule.does)
			}
		})
	}
}

// R-BND-01, R-BND-02: what is not EC writes no file: no client, no worker and no chat
// endpoint has a way to.
func TestOnlyECWritesFiles(t *testing.T) {
	writes := regexp.MustCompile(`\bos\.(WriteFile|Create|CreateTemp|OpenFile|Mkdir|MkdirAll|MkdirTemp|Rename|Remove|RemoveAll|Symlink|Link|Chmod|Truncate)\(`)
	may := []string{
		"ec/store/", "cmd/",
		"ec/dispatch/broker/", // the socket of the embedded queue
		"worker/pyrun/",       // the private folder of one Python process
		"tools/", "internal/trace/",
	}
	for p, src := range sources(t) {
		if m := writes.FindString(src); m != "" && !slices.ContainsFunc(may, func(folder string) bool { return strings.HasPrefix(p, folder) }) {
			t.Errorf("R-BND-01 %s calls %s", p, m)
		}
	}
}

// R-BND-04: a job may be asked for and its outcome shown, and no more: nothing here
// has a record of a promotion, a retirement or of who gets which variant, and no
// candidate is given one of the states that a canary or a promotion leads to. The
// words are known to contracts alone, which describes what others write.
func TestNobodyPromotes(t *testing.T) {
	states := regexp.MustCompile(`"(canary_approved|canary_running|promotion_ready|promoted|saved_as_version)"`)
	records := regexp.MustCompile(`\b(type|func|func \([^)]*\)) (Put|Write|Record|Save|New)?(Promot|Retire|Assign|VariantAssign|CanaryAssign|ReplayAssign)\w*`)
	known := 0
	for p, src := range sources(t) {
		if strings.HasPrefix(p, "contracts/") {
			known += len(states.FindAllString(src, -1))
			continue
		}
		if strings.HasPrefix(p, "internal/arch/") {
			continue
		}
		for _, rule := range []*regexp.Regexp{states, records} {
			if m := rule.FindString(src); m != "" {
				t.Errorf("R-BND-04 %s has %s", p, m)
			}
		}
	}
	if known < 5 {
		t.Errorf("contracts names %d of the states; the rule has lost them", known)
	}
}
