// Package chat is the endpoint that programs talk to as they would to OpenAI's:
// it takes a session's overlay packet, composes the prompt in its layers, sends
// it through the gateway, and tells EC what became of each overlay.
//
// It deliberately owns no state that must survive: packets are held until EC
// says that they are out of date, receipts wait in memory while EC is away, and
// a turn without EC is answered without overlays. It never changes a session's
// set and never writes a file.
package chat
