// Package frontmatter reads and writes the source files of overlays and
// recipes: a YAML header between two fences, then the exact text.
//
// It reads strictly. Everything that lets one file mean two things is refused:
// aliases, anchors, tags, merge keys, duplicate keys, second documents, line
// breaks that an editor does not show, values whose type a reader would have to
// guess. All problems of a file are reported at once, each with its line. It
// writes by splicing: a changed key moves no other byte.
//
// A fence is a line of exactly three hyphens. The tolerance is this and no more:
// a byte order mark before the first fence and CRLF line ends are accepted and
// normalised away, and the closing fence may end the file without a newline.
// Spaces after a fence are not accepted; the message says so.
//
// The package knows shapes, not rules: whether an id is free, a text safe or a
// conflict mutual is decided in ec/lint. It opens no files.
package frontmatter
