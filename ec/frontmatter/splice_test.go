package frontmatter

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// edited is a file as a person keeps it: own order, own quotes, comments.
const edited = `---
# who: the notes team
title: 'Brief Notes'   # shown in the library
id: brief-notes

artifact_class: live_overlay
category: "quality"
description: >-
  Keeps notes
  brief.
# where it acts
supported_surfaces: [chat, room] # not task
avoid_when:
  - long reports   # they need room
  # more to come

  - poems
live_token_target: 100
# the end
---
Be brief.
---
`

func TestSpliceMovesNoOtherByte(t *testing.T) {
	tests := []struct {
		name   string
		change Change
		old    string // the only lines that may go
		now    string // what stands there instead
	}{
		{"a scalar keeps its comment", Change{"title", "Short Notes"}, "title: 'Brief Notes'   # shown in the library\n", "title: Short Notes   # shown in the library\n"},
		{"a scalar without comment", Change{"category", "review"}, "category: \"quality\"\n", "category: review\n"},
		{"a folded text", Change{"description", "Cuts: notes."}, "description: >-\n  Keeps notes\n  brief.\n", "description: \"Cuts: notes.\"\n"},
		{"a list on a line keeps its comment", Change{"supported_surfaces", []string{"chat"}}, "supported_surfaces: [chat, room] # not task\n", "supported_surfaces: [chat] # not task\n"},
		{"a list over lines", Change{"avoid_when", []string{"poems"}}, "avoid_when:\n  - long reports   # they need room\n  # more to come\n\n  - poems\n", "avoid_when: [poems]\n"},
		{"the last key", Change{"live_token_target", 90}, "live_token_target: 100\n", "live_token_target: 90\n"},
		{"a key is removed", Change{"avoid_when", nil}, "avoid_when:\n  - long reports   # they need room\n  # more to come\n\n  - poems\n", ""},
		{"a key is added", Change{"version", "1.0.1"}, "# the end\n", "# the end\nversion: \"1.0.1\"\n"},
		{"a missing key is removed", Change{"warns_with", nil}, "", ""},
	}
	for _, tt := range tests {
		t.Run("R-SRC-05 "+tt.name, func(t *testing.T) {
			want := strings.Replace(edited, tt.old, tt.now, 1)
			got, err := Splice([]byte(edited), tt.change)
			if err != nil {
				t.Fatalf("splice: %v", err)
			}
			if diff := cmp.Diff(want, string(got)); diff != "" {
				t.Errorf("file (-want +got):\n%s", diff)
			}
			crlf := func(s string) string { return "\ufeff" + strings.ReplaceAll(s, "\n", "\r\n") }
			got, err = Splice([]byte(crlf(edited)), tt.change)
			if err != nil {
				t.Fatalf("splice of the CRLF file: %v", err)
			}
			if diff := cmp.Diff(crlf(want), string(got)); diff != "" {
				t.Errorf("CRLF file (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSpliceRefusesWhatWouldBeInvalid(t *testing.T) {
	for _, c := range []Change{{"title", nil}, {"live_token_target", 9}, {"colour", "red"}, {"title", "a\u200bb"}} {
		if out, err := Splice([]byte(edited), c); err == nil {
			t.Errorf("splice %v: got\n%s\nwant an error", c, out)
		}
	}
	if _, err := Splice([]byte("no header"), Change{"title", "x"}); err == nil {
		t.Error("splice of a file without header: no error")
	}
}

func TestUpdateChangesOnlyWhatDiffers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		was, body := anyHeader(t), anyText(1).Draw(t, "body")
		is := anyHeader(t)
		keep := rapid.SliceOfN(rapid.Bool(), 4, 4).Draw(t, "keep")
		if keep[0] {
			is.Title = was.Title
		}
		if keep[1] {
			is.SuggestedUseCases = was.SuggestedUseCases
		}
		newBody := body
		if !keep[2] {
			newBody = anyText(1).Draw(t, "new body")
		}
		src := Format(was, body)
		if keep[3] {
			src = bytes.ReplaceAll(src, []byte("\ndescription:"), []byte("\n# a note\ndescription:"))
		}
		out, err := Update(src, is, newBody)
		if err != nil {
			t.Fatalf("update: %v\n%s", err, src)
		}
		doc, err := Parse(out)
		if err != nil {
			t.Fatalf("read the updated file: %v\n%s", err, out)
		}
		if diff := cmp.Diff(is, doc.Frontmatter, cmpopts.EquateEmpty()); diff != "" || doc.Body != newBody {
			t.Fatalf("updated file says (-want +got):\n%s\nbody %q, want %q", diff, doc.Body, newBody)
		}
		if keep[3] && !bytes.Contains(out, []byte("\n# a note\n")) {
			t.Fatal("the comment is gone")
		}
		if same, err := Update(out, doc.Frontmatter, doc.Body); err != nil || !bytes.Equal(same, out) {
			t.Fatalf("update without a change: error %v, bytes differ: %v", err, !bytes.Equal(same, out))
		}
	})
}
