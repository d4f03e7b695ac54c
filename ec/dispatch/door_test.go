package dispatch_test

import (
	"testing"

	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/dispatch"
	"github.com/elnor/promptlab/ec/dispatch/doortest"
)

func TestDoorInProcess(t *testing.T) {
	doortest.Run(t, func(_ *testing.T, door *dispatch.Door) ec.Tasks { return door })
}
