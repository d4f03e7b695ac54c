// Package api is the HTTP face of the program: the public routes, the login of
// the browser, the event stream, and the wall around everything that shares the
// address (worker door, dashboard, console).
//
// A request goes one way: wall (guard.go), route (operation.go), one strict
// decoding, one command or one view, one answer. Faults become statuses in
// internal/problem only. The OpenAPI document is made from the operations as
// they are registered, its schemas from package contracts.
//
// The package knows the domain by ec.Service alone. It does not know how
// anything is stored, queued or optimized.
package api
