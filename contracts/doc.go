// Package contracts holds every shape that crosses a process or language
// boundary: documents on disk, HTTP bodies, the worker door, what Redis carries
// and what the optimizer process reads. Enumerations, defaults, bounds, hashes
// and reserved markers are declared here once; JSON Schema is generated from
// these types (schema/) and golden documents (golden/) are read by Go and
// Python alike.
//
// Struct tags are the single declaration of a field's rules:
//
//	json:"name"            required, json:"name,omitempty" optional
//	default:"v"            absent input takes v; output always carries the field
//	minimum, maximum       numbers
//	minLength, maxLength   strings, in code points
//	minItems, maxItems     lists
//	itemMaxLength          each string of a list
//	pattern, format, enum  strings (format: uuid)
//	server:"true"          set by EC: a client may leave the field out
//	client:"v"             as server, and absent client input takes v
//
// The package decides nothing: no rule that needs a library of overlays, a
// clock or a file lives here.
package contracts
