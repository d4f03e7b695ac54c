"""The process as the parent starts it: one line in, events out, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from fake import Fake, request

SRC = str(Path(__file__).parent.parent / "src")
# -I leaves the path of the sources out, as the installed package does not need it.
START = "import sys; sys.path.insert(0, {src!r}); {before}from promptlab_adapter.main import main; main()"


def start(before: str = "") -> subprocess.Popen[bytes]:
    code = START.format(src=SRC, before=before)
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-I", "-B", "-c", code], stdin=pipe, stdout=pipe, stderr=pipe)


def send(process: subprocess.Popen[bytes], raw: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(raw).encode() + b"\n")
    process.stdin.flush()


def events(process: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    assert process.stdout is not None
    return [json.loads(line) for line in process.stdout]


def ended(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    assert process.stderr is not None
    assert process.stdin is not None
    code = process.wait(30)
    stderr = process.stderr.read()
    for stream in (process.stdin, process.stdout, process.stderr):
        assert stream is not None
        stream.close()
    return code, stderr


def test_a_whole_job(fake: Fake) -> None:
    """R-WRK-02: hello before the heavy import, one result at the end, silence on standard error."""
    process = start()
    send(process, request(fake.url))
    got = events(process)
    code, stderr = ended(process)
    assert (code, stderr) == (0, b"")
    assert [e["type"] for e in got[:2]] == ["hello", "ready"]
    hello = got[0]
    assert (hello["protocol"], hello["pid"], hello["promptolution"]) == (1, process.pid, "2.3.0")
    assert got[1] == {"type": "ready", "promptolution": "2.3.0", "engine": "evoprompt_ga"}
    assert [e["type"] for e in got].count("result") == 1
    assert got[-1]["type"] == "result"
    assert got[-1]["candidates"]


def test_stdout_is_stderr_for_everybody_else(fake: Fake) -> None:
    """Pitfall 1, also for C code and child processes that write to descriptor 1."""
    before = (
        "import os, platform; real = platform.python_version; "
        "noise = lambda: (os.write(1, b'raw '), os.system('echo child'), print('said')); "
        "platform.python_version = lambda: (noise(), real())[1]; "
    )
    process = start(before)
    send(process, {})
    got = events(process)
    code, stderr = ended(process)
    assert [e["type"] for e in got] == ["hello", "calls", "error"]
    assert code == 1
    assert [w in stderr for w in (b"raw", b"child", b"said")] == [True] * 3


def test_a_bad_request_is_one_error_before_anything_is_imported() -> None:
    process = start()
    send(process, {"protocol": 1, "engine": "x"})
    got = events(process)
    code, stderr = ended(process)
    assert (code, stderr) == (1, b"")
    assert [e["type"] for e in got] == ["hello", "calls", "error"]
    assert (got[-1]["code"], got[-1]["retryable"]) == ("bad_request", False)
    assert {"engine", "source_text", "token"} <= {f["field"] for f in got[-1]["fields"]}


def test_sigterm_gives_a_cancelled_result_within_two_seconds(fake: Fake) -> None:
    """Pitfall 21: the signal reaches the main thread while it waits for a call that hangs."""
    reached, release = threading.Event(), threading.Event()

    def hang(prompt: str, number: int) -> str:
        if "EVOPROMPT" in prompt:
            reached.set()
            release.wait(20)
        return Fake.add_a_rule(prompt, number)

    fake.meta = hang
    process = start()
    send(process, request(fake.url))
    assert reached.wait(30)
    begun = time.monotonic()
    process.send_signal(signal.SIGTERM)
    got = events(process)
    took = time.monotonic() - begun
    code, stderr = ended(process)
    release.set()
    assert (code, stderr) == (0, b"")
    assert (got[-1]["type"], got[-1]["status"], got[-1]["ended_by"]) == ("result", "cancelled", "cancelled")
    assert got[-1]["candidates"], "the seeds were measured whole"
    assert took < 2


def test_sigterm_while_the_library_is_imported(fake: Fake) -> None:
    process = start()
    assert process.stdout is not None
    assert b"hello" in process.stdout.readline()
    send(process, request(fake.url))
    while not signal_is_caught(process.pid):
        os.sched_yield()
    process.send_signal(signal.SIGTERM)
    got = events(process)
    code, _ = ended(process)
    assert code == 0
    assert (got[-1]["status"], got[-1]["candidates"]) == ("cancelled", [])


def signal_is_caught(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    mask = int(status.split("SigCgt:")[1].split()[0], 16)
    return bool(mask >> (signal.SIGTERM - 1) & 1)


def test_the_process_leaves_when_its_parent_is_gone(fake: Fake) -> None:
    reached, release = threading.Event(), threading.Event()

    def hang(_text: str, _x: str) -> float:
        reached.set()
        release.wait(20)
        return 0.5

    fake.score = hang
    process = start()
    send(process, request(fake.url))
    assert reached.wait(30)
    assert process.stdin is not None
    process.stdin.close()
    try:
        assert process.wait(5) == 3
    finally:
        process.kill()
        release.set()
    got = events(process)
    assert "result" not in [e["type"] for e in got]
    ended_streams(process)


def test_another_version_of_the_library_is_refused() -> None:
    before = "from importlib import metadata; metadata.version = lambda name: '2.2.3'; "
    process = start(before)
    send(process, request("http://127.0.0.1:9"))
    got = events(process)
    code, _ = ended(process)
    assert code == 1
    assert (got[-1]["code"], got[-1]["retryable"]) == ("worker_unavailable", True)


@pytest.mark.parametrize("module", ["promptolution.optimizers", "pandas"])
def test_a_broken_environment_is_told(module: str) -> None:
    """R-WRK-09"""
    process = start(f"import sys; sys.modules[{module!r}] = None; ")
    send(process, request("http://127.0.0.1:9"))
    got = events(process)
    code, stderr = ended(process)
    assert code == 1
    assert (got[-1]["code"], stderr) == ("worker_unavailable", b"")


def ended_streams(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout, process.stderr):
        assert stream is not None
        stream.close()
