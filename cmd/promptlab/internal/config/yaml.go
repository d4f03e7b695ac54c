package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3" // the only file of the program that reads YAML besides ec/frontmatter

	"github.com/elnor/promptlab/gateway"
)

const maxFile = 1 << 20

// file reads config.yaml, if there is one.
func (l *loader) file(path string) {
	data, err := l.in.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		reason := "cannot be read"
		var p *fs.PathError
		if errors.As(err, &p) { // the path is told anyhow
			reason += ": " + p.Err.Error()
		}
		l.fail("config.yaml", path, "%s", reason)
		return
	case len(data) > maxFile:
		l.fail("config.yaml", path, "is larger than 1 MiB")
		return
	}
	root, err := parseYAML(data)
	if err != nil {
		l.fail("config.yaml", path, "%s", err)
		return
	}
	if root == nil {
		return
	}
	if root.Kind != yaml.MappingNode {
		l.fail("config.yaml", at(path, root), "must be a list of keys and values")
		return
	}
	known := map[string]key{}
	groups := map[string]bool{}
	for _, k := range keys() {
		known[k.name] = k
		for i, r := range k.name {
			if r == '.' {
				groups[k.name[:i]] = true
			}
		}
	}
	l.mapping(root, "", path, known, groups, map[string]bool{})
}

func (l *loader) mapping(n *yaml.Node, prefix, path string, known map[string]key, groups, seen map[string]bool) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := prefix+n.Content[i].Value, n.Content[i+1]
		where := at(path, n.Content[i])
		k, ok := known[name]
		switch {
		case seen[name]:
			l.fail(name, where, "is given twice")
		case groups[name] && value.Kind == yaml.MappingNode:
			l.mapping(value, name+".", path, known, groups, seen)
		case groups[name]:
			l.fail(name, where, "must hold keys of its own")
		case !ok:
			l.fail(printable(name), where, "is not a key that is known")
		case name == "models":
			l.models(k, value, where)
		case value.Kind != yaml.ScalarNode:
			l.fail(name, where, "must be a single value")
		case value.Tag == "!!null":
			l.fail(name, where, "has no value")
		default:
			l.set(k, value.Value, where, l.config.Home)
		}
		seen[name] = true
	}
}

func (l *loader) models(k key, n *yaml.Node, where string) {
	text, err := yaml.Marshal(n)
	if err != nil {
		l.fail(k.name, where, "cannot be read")
		return
	}
	if n.Kind == yaml.SequenceNode { // lines of the file, not of the piece
		if bad := unknownKeys(n, reflect.TypeFor[[]gateway.ModelConfig](), "models"); len(bad) > 0 {
			for _, b := range bad {
				l.fail(b.name, at(strings.TrimSuffix(where, lineOf(where)), b.node), "%s", b.reason)
			}
			return
		}
	}
	l.set(k, string(text), where, "")
}

func lineOf(where string) string { return where[strings.LastIndexByte(where, ':'):] }

func at(path string, n *yaml.Node) string { return fmt.Sprintf("%s:%d", path, n.Line) }

// parseYAML reads one document without aliases and tags of its own; an empty file gives nil.
func parseYAML(data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, nil //nolint:nilnil // an empty file sets nothing
	}
	if err != nil {
		return nil, errors.New("is not valid YAML: " + plain(err))
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("must hold one document")
	}
	root := doc.Content[0]
	if bad := fancy(root); bad != nil {
		return nil, fmt.Errorf("must not use anchors, aliases or tags (line %d)", bad.Line)
	}
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil //nolint:nilnil // only comments
	}
	return root, nil
}

// fancy finds the first node with an anchor, an alias or a tag that was written out.
func fancy(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 {
		return n
	}
	for _, c := range n.Content {
		if bad := fancy(c); bad != nil {
			return bad
		}
	}
	return nil
}

type unknown struct {
	name   string
	node   *yaml.Node
	reason string
}

// unknownKeys walks a node along a type's yaml tags and finds keys that have no field.
func unknownKeys(n *yaml.Node, t reflect.Type, name string) []unknown {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var out []unknown
	switch {
	case t.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		for i, c := range n.Content {
			out = append(out, unknownKeys(c, t.Elem(), fmt.Sprintf("%s[%d]", name, i))...)
		}
	case t.Kind() == reflect.Map && n.Kind == yaml.MappingNode: // which keys there may be is not said by the type
		for i := 0; i+1 < len(n.Content); i += 2 {
			out = append(out, unknownKeys(n.Content[i+1], t.Elem(), name+"."+printable(n.Content[i].Value))...)
		}
	case t.Kind() == reflect.Struct && n.Kind == yaml.MappingNode:
		fields := fieldsOf(t)
		var seen []string
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i].Value
			sub := name + "." + printable(k)
			ft, ok := fields[k]
			switch {
			case slices.Contains(seen, k):
				out = append(out, unknown{sub, n.Content[i], "is given twice"})
			case !ok || k == "":
				out = append(out, unknown{sub, n.Content[i], "is not a key that is known"})
			default:
				out = append(out, unknownKeys(n.Content[i+1], ft, sub)...)
			}
			seen = append(seen, k)
		}
	}
	return out
}

// fieldsOf gives a struct's fields by their keys, those of inlined structs too.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for f := range t.Fields() {
		key, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if options == "inline" {
			maps.Copy(fields, fieldsOf(f.Type))
			continue
		}
		fields[key] = f.Type
	}
	return fields
}

// decodeModels reads the list of models; nothing gives none.
func decodeModels(data []byte) ([]gateway.ModelConfig, error) {
	root, err := parseYAML(data)
	if err != nil || root == nil {
		return nil, err
	}
	if root.Kind != yaml.SequenceNode {
		return nil, errors.New("must be a list")
	}
	if bad := unknownKeys(root, reflect.TypeFor[[]gateway.ModelConfig](), "models"); len(bad) > 0 {
		return nil, fmt.Errorf("%s %s", bad[0].name, bad[0].reason)
	}
	var models []gateway.ModelConfig
	if err := root.Decode(&models); err != nil {
		return nil, errors.New("holds a value of the wrong type: " + plain(err))
	}
	return models, nil
}

var quoted = regexp.MustCompile("`[^`]*`")

// plain gives the first problem of a YAML error without the value that caused it.
func plain(err error) string {
	s := err.Error()
	var te *yaml.TypeError
	if errors.As(err, &te) && len(te.Errors) > 0 {
		s = te.Errors[0]
	}
	s = strings.TrimPrefix(strings.ReplaceAll(s, "\n", " "), "yaml: ")
	return quoted.ReplaceAllString(s, "the value")
}

func printable(name string) string {
	const most = 64
	q := fmt.Sprintf("%+q", filepath.ToSlash(name))
	q = q[1 : len(q)-1]
	if len(q) > most {
		q = q[:most] + "..."
	}
	return q
}
