// Package bench measures speed as ratios: each row times our side and something
// that does the same work on the same machine, in the same run, in turns. `make
// bench` prints the table. Without its flag the one test skips at once, so that
// no test run is ever timed.
//
// It deliberately does not know how to make anything faster, and a goal that
// does not hold is no failure of the test; a row that cannot be measured is.
package bench
