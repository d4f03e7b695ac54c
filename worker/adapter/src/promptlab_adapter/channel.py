"""The event channel: JSON lines on the descriptor that was standard output."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

BROKEN_PIPE = 3  # exit status when the parent is gone


class Channel:
    """Writes events in order, from any thread.

    One thread owns the descriptor, so a signal that interrupts the main thread never tears
    a line. After the final event nothing more is written.
    """

    def __init__(self, fd: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._fd = fd
        self._clock = clock
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._calls: Counter[str] = Counter()
        self._calls_told = -1.0
        self._lock = threading.Lock()
        self._final = False
        self._writer = threading.Thread(target=self._write, name="events", daemon=True)
        self._writer.start()

    @classmethod
    def take_stdout(cls) -> Channel:
        """Keeps descriptor 1 for events alone and points everybody else's stdout at stderr."""
        fd = os.dup(1)
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        return cls(fd)

    def emit(self, kind: str, **fields: Any) -> None:
        """Sends one event. NaN and infinity are a programming error (ValueError)."""
        with self._lock:
            if not self._final:
                self._put(kind, fields)

    def finish(self, kind: str, **fields: Any) -> None:
        """Sends the last counts and the final event, and waits until they are written."""
        with self._lock:
            if self._final:
                return
            self._put("calls", self._counts())
            self._put(kind, fields)
            self._final = True
            self._queue.put(None)
        self._writer.join()

    def count(self, role: str) -> None:
        """Counts a call (meta, measure, check); the counts are told at most once a second."""
        with self._lock:
            self._calls[role] += 1
            now = self._clock()
            due = self._calls_told < 0 or now - self._calls_told >= 1.0
            if due:
                self._calls_told = now
        if due:
            self.emit("calls", **self._counts())

    def _counts(self) -> dict[str, int]:
        return {role: self._calls[role] for role in ("meta", "measure", "check")}

    def _put(self, kind: str, fields: dict[str, Any]) -> None:
        line = json.dumps({"type": kind, **fields}, allow_nan=False, ensure_ascii=False)
        self._queue.put(line.encode("utf-8", "replace") + b"\n")

    def _write(self) -> None:
        while (line := self._queue.get()) is not None:
            view = memoryview(line)
            try:
                while view:
                    view = view[os.write(self._fd, view) :]
            except OSError:
                os._exit(BROKEN_PIPE)
