package importer

import (
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"
)

// Files of Windows editors: UTF-16 with its mark is read as the text that it is;
// half a character in it is refused in words.
func TestTextsInUTF16(t *testing.T) {
	encode := func(order binary.AppendByteOrder, text string) []byte {
		var out []byte
		for _, u := range utf16.Encode([]rune("\ufeff" + text)) {
			out = order.AppendUint16(out, u)
		}
		return out
	}
	for name, order := range map[string]binary.AppendByteOrder{"little endian": binary.LittleEndian, "big endian": binary.BigEndian} {
		t.Run(name, func(t *testing.T) {
			rep := Plan([]File{{Path: "review.md", Data: encode(order, "# Prüfung 🔍\r\n\r\nLies zweimal.\r\n")}}, Options{})
			f := rep.Files[0]
			if f.Refused != "" || len(f.Overlays) != 1 || f.Overlays[0].Frontmatter.Title != "Prüfung 🔍" || !strings.HasSuffix(f.Overlays[0].Body, "Lies zweimal.\n") {
				t.Fatalf("got %+v", f)
			}
			if !strings.Contains(strings.Join(f.Notes, "\n"), "UTF-16") {
				t.Errorf("it is not said how the file was read: %v", f.Notes)
			}
			broken := append(encode(order, "# A\n\nText.\n"), order.AppendUint16(nil, 0xd800)...)
			if f := Plan([]File{{Path: "half.md", Data: broken}}, Options{}).Files[0]; !strings.Contains(f.Refused, "UTF-16") {
				t.Errorf("half a character: %+v", f)
			}
			if f := Plan([]File{{Path: "odd.md", Data: append(encode(order, "# A\n"), 'x')}}, Options{}).Files[0]; !strings.Contains(f.Refused, "UTF-16") {
				t.Errorf("an odd number of bytes: %+v", f)
			}
		})
	}
}

func TestFilesWithoutAnyText(t *testing.T) {
	for name, data := range map[string]string{"space": " \n\t\n", "a mark alone": "\ufeff", "a mark and a line": "\ufeff\r\n"} {
		for _, path := range []string{"a.md", "a.json", "a.mdc", "SKILL.md", "a.instructions.md"} {
			if f := Plan([]File{{Path: path, Data: []byte(data), Named: true}}, Options{}).Files[0]; f.Refused != "holds no text" || len(f.Overlays) > 0 {
				t.Errorf("%s in %s: got %+v, want it told that it holds no text", name, path, f)
			}
		}
	}
}
