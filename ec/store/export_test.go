package store

// EverythingAgain is for the tests.
const EverythingAgain = everythingAgain
