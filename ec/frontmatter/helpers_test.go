package frontmatter

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// good is a small valid header without its fences.
const good = `id: brief-notes
title: Brief Notes
artifact_class: live_overlay
category: quality
description: Keeps notes brief.
supported_surfaces: [chat]
live_token_target: 100
`

// file puts a header and a body together.
func file(header, body string) []byte { return []byte("---\n" + header + "---\n" + body) }

// with is the good header with one line replaced or appended.
func with(line string) string {
	key, _, _ := strings.Cut(line, ":")
	var out []string
	replaced := false
	for _, l := range strings.SplitAfter(good, "\n") {
		if l != "" && strings.HasPrefix(l, key+":") {
			l, replaced = line+"\n", true
		}
		out = append(out, l)
	}
	if !replaced {
		out = append(out, line+"\n")
	}
	return strings.Join(out, "")
}

func details(t *testing.T, err error) []fault.Detail {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) {
		t.Fatalf("parse: got error %v, want a fault", err)
	}
	if f.Kind != fault.Invalid || f.Code != "validation_failed" {
		t.Fatalf("parse: got %v %q, want invalid validation_failed", f.Kind, f.Code)
	}
	return f.Details
}

// refused asserts that src is refused with the rule at the field.
func refused(t *testing.T, src []byte, field, rule string) []fault.Detail {
	t.Helper()
	doc, err := Parse(src)
	if err == nil {
		t.Fatalf("parse %q: accepted as %+v, want %s at %s", src, doc, rule, field)
	}
	all := details(t, err)
	for _, d := range all {
		if d.Field == field && d.Rule == rule {
			return all
		}
	}
	t.Fatalf("parse %q: got %+v, want %s at %s", src, all, rule, field)
	return nil
}

func parsed(t *testing.T, src []byte) Document {
	t.Helper()
	doc, err := Parse(src)
	if err != nil {
		t.Fatalf("parse %q: %v", src, err)
	}
	return doc
}

// contractKeys lists the header's keys as the contract's JSON tags name them.
func contractKeys(t *testing.T) []string {
	t.Helper()
	var out []string
	for f := range reflect.TypeFor[contracts.OverlayTemplateFrontmatter]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, name)
	}
	return out
}
