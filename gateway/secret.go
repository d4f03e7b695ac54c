package gateway

import "log/slog"

// Secret is a string that no formatter or logger prints.
type Secret string

// String hides the secret.
func (Secret) String() string { return "[redacted]" }

// GoString hides the secret from %#v.
func (Secret) GoString() string { return "[redacted]" }

// LogValue hides the secret from slog.
func (Secret) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// MarshalText hides the secret from encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte("[redacted]"), nil }

// Reveal gives the secret itself, for the one header that needs it.
func (s Secret) Reveal() string { return string(s) }
