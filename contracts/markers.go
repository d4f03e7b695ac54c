package contracts

import (
	"encoding/json"
	"strings"
)

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
	lower := lowerASCII(text)
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

// lowerASCII folds the letters of the markers and no others, so that no letter
// of another script moves what stands behind it.
func lowerASCII(text string) string {
	b := []byte(text)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// EscapeMarkersOf escapes the markers in texts that a reader may see as one: a
// marker that begins in one text and ends in a later one is escaped too.
func EscapeMarkersOf(texts []string) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = EscapeMarkers(text)
	}
	whole := EscapeMarkers(strings.Join(texts, ""))
	if len(texts) < 2 || whole == strings.Join(out, "") {
		return out
	}
	for i, text := range texts { // whole is the texts with backslashes put in
		n := 0
		for j := 0; j < len(text); n++ {
			if n < len(whole) && whole[n] == text[j] {
				j++
			}
		}
		out[i], whole = whole[:n], whole[n:]
	}
	out[len(out)-1] += whole
	return out
}

// EscapeMarkersJSON escapes the markers in the strings of a JSON text, also those
// that are spelt with escapes; everything else stays as it is. What is not JSON
// is escaped as text.
func EscapeMarkersJSON(raw string) string {
	if !json.Valid([]byte(raw)) {
		return EscapeMarkers(raw)
	}
	var b strings.Builder
	last := 0
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			continue
		}
		end := i + 1
		for raw[end] != '"' {
			if raw[end] == '\\' {
				end++
			}
			end++
		}
		if literal := raw[i : end+1]; strings.Contains(literal, "[") || strings.Contains(literal, `\u`) {
			var text string
			if err := json.Unmarshal([]byte(literal), &text); err == nil && EscapeMarkers(text) != text {
				b.WriteString(raw[last:i])
				b.WriteString(quoted(EscapeMarkers(text)))
				last = end + 1
			}
		}
		i = end
	}
	b.WriteString(raw[last:])
	return b.String()
}

func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic("contracts: encode text: " + err.Error()) // a string always can be
	}
	return string(b)
}
