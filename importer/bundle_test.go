package importer

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elnor/promptlab/contracts"
)

func pack(t interface{ Fatal(...any) }, overlays []Overlay) []byte {
	b, err := Pack(overlays)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestExportImportExportGivesTheSameBytes(t *testing.T) {
	text := rapid.StringMatching(`[A-Za-z0-9 äß"':#{}\[\]*&!|>%@,-]{1,40}`).Filter(func(s string) bool { return strings.TrimSpace(s) == s })
	body := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"\n", "---\n", "Do it.", "\t", " ", "äöü 😀", "```\n", "id: x\n", "{{x}}", "\\"}), 1, 12).Draw(t, "parts"), "")
	})
	overlay := rapid.Custom(func(t *rapid.T) Overlay {
		fm := overlayFM(rapid.StringMatching(`[a-z][a-z0-9-]{0,20}`).Draw(t, "id"))
		fm.Title, fm.Description, fm.Version = text.Draw(t, "title"), text.Draw(t, "description"), text.Draw(t, "version")
		fm.Preset = rapid.Bool().Draw(t, "preset")
		fm.LiveTokenTarget = rapid.IntRange(40, 450).Draw(t, "target")
		fm.AvoidWhen = rapid.SliceOfN(text, 0, 3).Draw(t, "avoid")
		fm.ResearchTags = rapid.SliceOfN(text, 0, 3).Draw(t, "tags")
		fm.RecommendedModelClasses = contracts.List[contracts.ModelClass]{"unknown", "general_chat"}[:rapid.IntRange(0, 2).Draw(t, "models")]
		return Overlay{fm, body.Draw(t, "body")}
	})
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfNDistinct(overlay, 1, 6, func(o Overlay) contracts.OverlayID { return o.Frontmatter.ID }).Draw(t, "overlays")
		first := pack(t, list)
		rep := Plan([]File{{Path: "x.tar", Data: first, Named: true}}, Options{})
		var taken []Overlay
		for _, p := range rep.Files[0].Overlays {
			taken = append(taken, Overlay{p.Frontmatter, p.Body})
		}
		if len(taken) != len(list) {
			t.Fatalf("took %d of %d overlays: %s", len(taken), len(list), rep.Files[0].Refused)
		}
		if second := pack(t, taken); !bytes.Equal(first, second) {
			t.Fatalf("the second export differs from the first:\n%q\n%q", first, second)
		}
	})
}

func TestABundleSaysNothingOfMachineOrDay(t *testing.T) {
	list := []Overlay{{overlayFM("b-two"), "B.\n"}, {overlayFM("a-one"), "A.\n"}}
	b := pack(t, list)
	list[0], list[1] = list[1], list[0]
	if !bytes.Equal(b, pack(t, list)) {
		t.Error("the order of the overlays changes the bundle")
	}
	var names []string
	r := tar.NewReader(bytes.NewReader(b))
	for h, err := r.Next(); err == nil; h, err = r.Next() {
		names = append(names, h.Name)
		if !h.ModTime.Equal(time.Unix(0, 0)) || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Mode != 0o644 {
			t.Errorf("entry %s: time %v, owner %d/%d %q, mode %o", h.Name, h.ModTime, h.Uid, h.Gid, h.Uname, h.Mode)
		}
	}
	if d := cmp.Diff([]string{"manifest.json", "overlays/a-one.md", "overlays/b-two.md"}, names); d != "" {
		t.Errorf("entries (-want +got):\n%s", d)
	}
	for name, list := range map[string][]Overlay{"twice": {{overlayFM("a"), "A"}, {overlayFM("a"), "B"}}, "no id": {{overlayFM("../a"), "A"}}} {
		if _, err := Pack(list); err == nil {
			t.Errorf("%s: packed without an error", name)
		}
	}
}

// entry is a file of a hand-made tar.
type tarEntry struct {
	name string
	kind byte
	data string
}

func handmade(t *testing.T, entries ...tarEntry) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Mode: 0o644, Size: int64(len(e.data))}
		if e.kind == tar.TypeSymlink {
			h.Size, h.Linkname = 0, "/etc/passwd"
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte(e.data)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestDamagedAndHostileBundlesAreRefused(t *testing.T) {
	good := pack(t, []Overlay{{overlayFM("a-one"), "A.\n"}})
	var man, file string
	r := tar.NewReader(bytes.NewReader(good))
	for h, err := r.Next(); err == nil; h, err = r.Next() {
		var b bytes.Buffer
		_, _ = b.ReadFrom(r)
		if h.Name == manifestName {
			man = b.String()
		} else {
			file = b.String()
		}
	}
	const name = "overlays/a-one.md"
	m := tarEntry{manifestName, tar.TypeReg, man}
	f := tarEntry{name, tar.TypeReg, file}
	listing := func(files ...manifestEntry) tarEntry {
		b, _ := json.Marshal(manifest{SchemaVersion: 1, RosterSHA256: roster(files), Files: files})
		return tarEntry{manifestName, tar.TypeReg, string(b)}
	}
	entry := func(name, data string) manifestEntry {
		return manifestEntry{name, contracts.HashBytes([]byte(data)), len(data)}
	}
	wrongID := strings.Replace(file, "id: a-one", "id: b-two", 1)
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"without manifest", handmade(t, f), "without manifest"},
		{"manifest twice", handmade(t, m, m, f), "twice"},
		{"file twice", handmade(t, m, f, f), "twice"},
		{"file missing", handmade(t, m), "not there"},
		{"file more", handmade(t, m, f, tarEntry{"overlays/b.md", tar.TypeReg, "x"}), "does not list"},
		{"changed body", handmade(t, m, tarEntry{name, tar.TypeReg, strings.Replace(file, "A.", "B.", 1)}), "another hash"},
		{"changed list", handmade(t, tarEntry{manifestName, tar.TypeReg, strings.Replace(man, `"bytes": `, `"bytes": 1`, 1)}, f), "another hash"},
		{"changed roster", handmade(t, tarEntry{manifestName, tar.TypeReg, strings.Replace(man, `"roster_sha256": "`, `"roster_sha256": "0`, 1)}, f), "its own hash"},
		{"listed twice", handmade(t, listing(entry(name, file), entry(name, file)), f), "listed twice"},
		{"another id", handmade(t, listing(entry(name, wrongID)), tarEntry{name, tar.TypeReg, wrongID}), "header says"},
		{"no overlay", handmade(t, listing(entry(name, "x")), tarEntry{name, tar.TypeReg, "x"}), "no overlay file"},
		{"zip-slip", handmade(t, m, tarEntry{"../../etc/passwd", tar.TypeReg, "x"}), "no name"},
		{"zip-slip below overlays", handmade(t, m, tarEntry{"overlays/../../x.md", tar.TypeReg, "x"}), "no name"},
		{"absolute", handmade(t, m, tarEntry{"/overlays/a.md", tar.TypeReg, "x"}), "no name"},
		{"symlink", handmade(t, m, tarEntry{name, tar.TypeSymlink, ""}), "no plain file"},
		{"folder", handmade(t, m, tarEntry{"overlays/", tar.TypeDir, ""}), "no plain file"},
		{"huge file", handmade(t, m, tarEntry{name, tar.TypeReg, strings.Repeat("a", maxBundleFile+1)}), "more than"},
		{"deep manifest", handmade(t, tarEntry{manifestName, tar.TypeReg, strings.Repeat("[", 1000)}), "deeper"},
		{"other version", handmade(t, tarEntry{manifestName, tar.TypeReg, strings.Replace(man, `"schema_version": 1`, `"schema_version": 9`, 1)}, f), "form 9"},
		{"cut off", good[:len(good)-1500], "readable tar"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := one("x.tar", string(c.data))
			if !strings.Contains(got.Refused, c.want) || len(got.Overlays) != 0 {
				t.Errorf("got %+v, want a refusal with %q and nothing taken", got, c.want)
			}
		})
	}
	t.Run("the same files packed by another tar are taken", func(t *testing.T) {
		if got := one("x.tar", string(handmade(t, f, m))); len(got.Overlays) != 1 {
			t.Errorf("got %+v, want one overlay", got)
		}
	})
	t.Run("every flipped bit of the contents is seen", func(t *testing.T) {
		at := bytes.Index(good, []byte("A.\n"))
		for bit := range 8 {
			b := bytes.Clone(good)
			b[at] ^= 1 << bit
			if got := one("x.tar", string(b)); got.Refused == "" {
				t.Errorf("bit %d flipped and taken", bit)
			}
		}
	})
}

func ExampleInteresting() {
	fmt.Println(Interesting("a/.cursorrules"), Interesting("a/README.md"), Interesting("a/x.mdc"), Interesting("a/x.py"))
	// Output: true false true false
}
