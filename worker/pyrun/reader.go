package pyrun

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// reader turns the event stream into events and at most one final one. It stops
// at the first violation.
type reader struct {
	maxLine, maxOutput int
	onEvent            func(Event)

	hello chan struct{} // closed at the first event
	final chan struct{} // closed at the result or error
	ended chan struct{} // closed at the end of the stream or a violation

	// To be read after ended is closed.
	greeted bool
	result  *Result
	failure *Failure // an error event
	broken  error    // the violation; nil at a clean end
}

func newReader(cfg Config, onEvent func(Event)) *reader {
	return &reader{
		maxLine: cfg.MaxLine, maxOutput: cfg.MaxOutput, onEvent: onEvent,
		hello: make(chan struct{}), final: make(chan struct{}), ended: make(chan struct{}),
	}
}

// run reads to the end.
func (r *reader) run(from io.Reader) {
	defer close(r.ended)
	r.broken = r.read(from)
}

func (r *reader) read(from io.Reader) error {
	// One byte more than allowed tells a flood from an end.
	limited := &io.LimitedReader{R: from, N: int64(r.maxOutput) + 1}
	buffered := bufio.NewReaderSize(limited, min(r.maxLine, 64<<10))
	for {
		line, err := r.line(buffered)
		if limited.N <= 0 {
			return errors.New("the process wrote more events than are allowed")
		}
		if errors.Is(err, io.EOF) {
			if len(line) > 0 {
				return errors.New("the last line was cut off")
			}
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.event(line); err != nil {
			return err
		}
	}
}

// line reads one line without its end. io.EOF comes with what was left.
func (r *reader) line(from *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := from.ReadSlice('\n')
		if len(line)+len(part) > r.maxLine {
			return nil, errors.New("a line is longer than is allowed")
		}
		line = append(line, part...)
		if err == nil {
			return bytes.TrimSuffix(line, []byte("\n")), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, io.EOF // a pipe that breaks has ended
		}
	}
}

func (r *reader) event(line []byte) error {
	kind, err := eventType(line)
	if err != nil {
		return err
	}
	if r.result != nil || r.failure != nil {
		return errors.New("an event came after the last one")
	}
	if (kind == "hello") == r.greeted {
		return errors.New("the first event, and only the first, must be hello")
	}
	switch kind {
	case "hello":
		if err := checkHello(line); err != nil {
			return err
		}
		r.greeted = true
		close(r.hello)
	case "result":
		if r.result, err = readResult(line); err != nil {
			return err
		}
		close(r.final)
		return nil
	case "error":
		if r.failure, err = readError(line); err != nil {
			return err
		}
		close(r.final)
		return nil
	default:
		known, err := checkProgress(kind, line)
		if err != nil || !known {
			return err
		}
	}
	r.onEvent(Event{Type: kind, Raw: line})
	return nil
}
