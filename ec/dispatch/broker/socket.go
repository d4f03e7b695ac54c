package broker

import (
	"fmt"
	"net"
	"os"
)

// listenPrivate opens a unix socket that only this user may connect to. A file
// that an earlier process left at the path is taken away, if it is a socket.
func listenPrivate(path string) (net.Listener, error) {
	if fi, err := os.Lstat(path); err == nil && fi.Mode()&os.ModeSocket != 0 {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove old socket: %w", err)
		}
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = ln.Close()
		return nil, fmt.Errorf("protect socket: %w", err)
	}
	return ln, nil
}
