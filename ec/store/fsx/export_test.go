package fsx

// WalkOnly keeps a Root from using the short way of reading.
func WalkOnly(r *Root) {
	_ = r.dir.Close()
	r.dir = nil
}
