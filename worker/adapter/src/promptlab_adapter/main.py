"""The process: one request in, events out, one result or error, and never a second one."""

from __future__ import annotations

import logging
import os
import platform
import signal
import sys
import threading
import warnings
from importlib import metadata
from typing import Any

from promptlab_adapter import PROMPTOLUTION, PROTOCOL
from promptlab_adapter.channel import Channel
from promptlab_adapter.engine import choose_engine
from promptlab_adapter.loopback import Loopback
from promptlab_adapter.report import candidates, describe_error
from promptlab_adapter.request import MAX_REQUEST, BadRequest, Request, parse
from promptlab_adapter.stop import JobAbort, JobError

PARENT_GONE = 3  # exit status when standard input ends


def main() -> None:
    """Runs the job and leaves: 0 after a result, 1 after an error, 3 when the parent is gone."""
    channel = Channel.take_stdout()
    be_quiet()
    job = Job(channel)
    try:
        code = job.run()
    except BaseException as err:  # noqa: BLE001 - the last net: whatever it is, the parent hears of it
        code = job.failed(err)
    # No waiting for threads that may hang in a call.
    os._exit(code)


def be_quiet() -> None:
    """Silences everything that could print prompt text to standard error."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    threading.excepthook = lambda _args: None
    sys.unraisablehook = lambda _args: None


class Job:
    """One job's life, and what its final event needs to know."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.version = installed_version()
        self.request: Request | None = None
        self.loopback: Loopback | None = None
        self.search: Any = None
        self.cancelled = False
        self.ending = False

    def run(self) -> int:
        """Runs to the final event and gives the exit status."""
        python = platform.python_version()
        self.channel.emit(
            "hello", protocol=PROTOCOL, pid=os.getpid(), python=python, promptolution=self.version
        )
        self.request = parse(read_line())
        self.loopback = Loopback(self.request, self.channel)
        threading.Thread(target=watch_stdin, name="parent", daemon=True).start()
        signal.signal(signal.SIGTERM, self.on_signal)
        signal.signal(signal.SIGINT, self.on_signal)
        if self.version != PROMPTOLUTION:
            message = f"promptolution {PROMPTOLUTION} is needed, {self.version} is installed"
            raise JobError("worker_unavailable", message, retryable=True)
        run_search = self.load()
        status = run_search(self.search)
        self.ending = True
        return self.result(status)

    def load(self) -> Any:
        """Imports the library, which takes seconds."""
        try:
            from promptlab_adapter import search
        except ImportError as err:
            if self.cancelled:
                raise
            message = f"the optimizer cannot be imported: {describe_error(err)}"
            raise JobError("worker_unavailable", message, retryable=True) from err
        engine = choose_engine(self.request.engine, len(self.request.example_ids))
        self.search = search.Search(self.request, self.channel, self.loopback)
        self.channel.emit("ready", promptolution=self.version, engine=engine)
        return search.run_search

    def on_signal(self, _number: int, _frame: object) -> None:
        """Cancels once. Runs in the main thread and interrupts whatever it waits for."""
        if self.cancelled or self.ending:
            return
        self.cancelled = True
        raise self.loopback.stop("cancelled") if self.loopback else JobAbort("cancelled")

    def failed(self, err: BaseException) -> int:
        """Turns what ended the run into the final event."""
        self.ending = True
        if self.cancelled or isinstance(err, JobAbort):
            return self.result("cancelled" if self.cancelled else str(err))
        if isinstance(err, BadRequest):
            fields = [{"field": name, "message": why} for name, why in sorted(err.fields.items())]
            return self.error("bad_request", str(err), retryable=False, fields=fields)
        if isinstance(err, JobError):
            return self.error(err.code, err.message, retryable=err.retryable)
        return self.error("temporary_backend_error", describe_error(err), retryable=True)

    def result(self, status: str) -> int:
        """Sends the result: the best of everything that was measured whole."""
        search = self.search
        source_score, ranked = search.board.rank() if search else (None, [])
        request = self.request
        self.channel.finish(
            "result",
            status=status,
            ended_by=search.ended_by if search and status == "completed" else status,
            source_score=source_score,
            candidates=candidates(request.source_text, ranked, request.max_candidates) if request else [],
            steps=search.progress.steps if search else 0,
            seed=request.seed if request else 0,
            engine=search.engine if search else "",
            promptolution=self.version,
            python=platform.python_version(),
            warnings=search.warnings.listed() if search else [],
        )
        return 0

    def error(self, code: str, message: str, *, retryable: bool, **more: Any) -> int:
        """Sends the error."""
        self.channel.finish("error", code=code, message=message, retryable=retryable, **more)
        return 1


def installed_version() -> str | None:
    """Gives the installed version of the library without importing it, None when it is not there."""
    try:
        return metadata.version("promptolution")
    except metadata.PackageNotFoundError:
        return None


def read_line() -> bytes:
    """Reads the request. Raises BadRequest when it is too long or does not end."""
    line = bytearray()
    while b"\n" not in line:
        if len(line) > MAX_REQUEST:
            raise BadRequest({"request": f"is longer than {MAX_REQUEST} bytes"})
        chunk = os.read(0, 1 << 16)
        if not chunk:
            raise BadRequest({"request": "ended before the end of its line"})
        line += chunk
    return bytes(line.partition(b"\n")[0])


def watch_stdin() -> None:
    """Waits for the end of standard input, which means that the parent is gone."""
    while os.read(0, 1 << 12):
        pass
    os._exit(PARENT_GONE)
