// Package lint decides whether a text may be saved: the rules of a library
// (ids, classes, conflicts, limits), the prompt lint (text that attacks the
// hierarchy of instructions or hides something), and the gates that an
// optimizer's candidate must pass beside its source.
//
// The prompt lint is a tripwire, not a boundary. It catches the known phrases
// through the known disguises; what keeps an overlay in its place is the frame
// it is inserted in, and a person who reads it.
//
// Everything here is a function of values: no library is kept, no file opened,
// no pattern taken from data.
package lint
