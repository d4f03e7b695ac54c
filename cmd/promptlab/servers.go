package main

import (
	"github.com/elnor/promptlab/cmd/promptlab/internal/app"
	"github.com/elnor/promptlab/cmd/promptlab/internal/cli"
)

// servers gives the composition of the long-running parts.
func servers() cli.Servers { return app.Servers{Version: version} }
