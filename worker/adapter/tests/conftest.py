"""Fixtures: a fake parent, and a job that runs inside the test's process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from fake import Fake, request

from promptlab_adapter import request as requests
from promptlab_adapter.channel import Channel
from promptlab_adapter.loopback import Loopback
from promptlab_adapter.main import Job


@pytest.fixture
def fake() -> Iterator[Fake]:
    server = Fake()
    yield server
    server.close()


@dataclass
class Ended:
    """A job's events and its final one."""

    events: list[dict[str, Any]]
    code: int
    job: Job

    @property
    def last(self) -> dict[str, Any]:
        return self.events[-1]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [e for e in self.events if e["type"] == kind]

    def warned(self) -> dict[str, int]:
        return {w["code"]: w["count"] for w in self.last["warnings"]}


@pytest.fixture
def run(fake: Fake, tmp_path: Any) -> Callable[..., Ended]:
    """Runs a job against the fake parent; changes go into the request, prepare sees the search."""

    def run_job(prepare: Callable[[Any], None] = lambda _s: None, **changes: Any) -> Ended:
        path = tmp_path / "events"
        fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        channel = Channel(fd)
        job = Job(channel)
        try:
            job.request = requests.parse(json.dumps(request(fake.url, **changes)).encode())
            job.loopback = Loopback(job.request, channel)
            run_search = job.load()
            prepare(job.search)
            code = job.result(run_search(job.search))
        except BaseException as err:  # noqa: BLE001 - as main does
            code = job.failed(err)
        os.close(fd)
        return Ended([json.loads(x) for x in path.read_text().splitlines()], code, job)

    return run_job
