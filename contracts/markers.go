package contracts

import "strings"

// The frame of everything that is placed into a prompt as data. Lint, renderer
// and tests all take the markers from here.
const (
	markerOpen  = "[[promptlab:"
	markerClose = "[[/promptlab:"
	markerEnd   = "]]"
)

// FrameMarkers lists the reserved markers: no stored text may hold one.
func FrameMarkers() []string { return []string{markerOpen, markerClose} }

// Frame wraps a text of somebody else's as data called name. The text cannot
// close the frame: its markers are escaped first.
func Frame(name, text string) string {
	return markerOpen + name + markerEnd + "\n" + EscapeMarkers(text) + "\n" + markerClose + name + markerEnd
}

// OverlayFrame wraps an overlay's text and names it: by its id and the start of
// its hash, which holds for one text for ever.
func OverlayFrame(id OverlayID, hash, text string) string {
	const enough = 12
	return markerOpen + "overlay id=" + string(id) + " hash=" + hash[:min(len(hash), enough)] + markerEnd +
		"\n" + EscapeMarkers(text) + "\n" + markerClose + "overlay" + markerEnd
}

// EscapeMarkers puts a backslash into every reserved marker, so that the text
// is read as text. A marker that is already escaped gets one more backslash,
// which makes UnescapeMarkers its exact inverse.
func EscapeMarkers(text string) string { return shiftMarkers(text, 1) }

// UnescapeMarkers undoes EscapeMarkers.
func UnescapeMarkers(text string) string { return shiftMarkers(text, -1) }

// shiftMarkers finds "[" backslashes* "[promptlab:" (or "[/promptlab:"), in any
// case, and adds or removes one backslash.
func shiftMarkers(text string, by int) string {
	lower := strings.ToLower(text)
	if len(lower) != len(text) { // folding changed lengths: match exact case only
		lower = text
	}
	var b strings.Builder
	last := 0
	for i := 0; i < len(text); i++ {
		if text[i] != '[' {
			continue
		}
		j := i + 1
		for j < len(text) && text[j] == '\\' {
			j++
		}
		rest := lower[j:]
		if !strings.HasPrefix(rest, markerOpen[1:]) && !strings.HasPrefix(rest, markerClose[1:]) {
			continue
		}
		slashes := j - i - 1 + by
		if slashes < 0 {
			continue
		}
		b.WriteString(text[last:i])
		b.WriteByte('[')
		b.WriteString(strings.Repeat(`\`, slashes))
		last = j
	}
	b.WriteString(text[last:])
	return b.String()
}
