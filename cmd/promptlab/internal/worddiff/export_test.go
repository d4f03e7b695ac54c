package worddiff

// Words lets the tests count as Diff does.
func Words(s string) []string { return words(s) }
