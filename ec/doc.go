// Package ec is the domain: what the system knows, what may be asked of it, and
// what follows from that. A Command goes through Decide, which is a function of
// the State and the command alone and gives Events; Apply puts events into the
// state; Changes says which documents and stream lines the events touch. Time
// and ids come in with the command.
//
// The package does not know files, networks, clocks or processes. ec/writer
// runs it, ec/store keeps its documents, ec/dispatch hands its work out.
package ec
