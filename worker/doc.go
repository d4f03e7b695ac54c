// Package worker does the lab's work: it takes tasks from the queue, claims them
// at EC, runs a search in a Python process or measures texts on sealed examples,
// and delivers what came out. It keeps nothing: whatever happens to it, EC hands
// the task out again.
//
// It deliberately does not decide anything about a job. It neither retries a
// task (EC does) nor judges a measurement (package evidence does, in EC), and it
// cannot open the store. What comes from Redis and from Python is hostile.
package worker
