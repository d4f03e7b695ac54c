package app

import "github.com/elnor/promptlab/companion"

// recommender gives the system that learned recommendations come from. None is
// part of this build: what asks for advice is told that there is none.
func recommender() companion.Recommender { return companion.Absent{} }

// measured says that candidates are measured: EC and its workers do it here.
func measured() bool { return true }
