"""The cases that the gateway's suite and this one have in common: one list, held against both."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fake import Fake, Stop

CHAT = "/v1/chat/completions"
LIST = Path(__file__).resolve().parents[3] / "gateway" / "conformance" / "cases.json"


@dataclass
class Want:
    """How a job ends. An error has a failure code; everything else has a status."""

    answer: Callable[[Fake], Any]
    status: str = ""
    code: str = ""
    retryable: bool = False
    calls: int | None = 1
    warned: str = ""


def says(text: str, finish: str = "stop") -> Callable[[Fake], Any]:
    return lambda _fake: {"choices": [{"message": {"content": text}, "finish_reason": finish}]}


def body(raw: bytes) -> Callable[[Fake], Any]:
    return lambda _fake: raw


def refuses(status: int, code: str = "") -> Callable[[Fake], Any]:
    def answer(_fake: Fake) -> Any:
        raise Stop(status, code)

    return answer


def breaks(_fake: Fake) -> Any:
    raise ConnectionAbortedError  # the server's thread ends and closes the connection


TEMPORARY = {"code": "temporary_backend_error", "retryable": True}
TERMINAL = {"code": "provider_terminal"}
DECLINED = {"choices": [{"message": {"content": "", "refusal": "no"}, "finish_reason": "content_filter"}]}
NOTHING = {"choices": [{"message": {"content": None}, "finish_reason": "stop"}]}

CASES: dict[str, Want] = {
    "answer-plain": Want(says("<prompt>Be brief.\nCite the source.</prompt>"), "completed", calls=None),
    "answer-cut-by-the-cap": Want(
        says("<prompt>half", "length"), "completed", calls=6, warned="meta_truncated"
    ),
    "answer-refused-by-the-model": Want(lambda _f: DECLINED, "completed", calls=12, warned="meta_rejected"),
    "our-budget-is-spent": Want(refuses(402, "budget_exhausted"), "budget"),
    "status-400": Want(refuses(400, "invalid_request"), **TERMINAL),
    "status-401": Want(refuses(401), **TERMINAL),
    "status-403": Want(refuses(403), **TERMINAL),
    "status-404": Want(refuses(404), **TERMINAL),
    "status-429": Want(refuses(429), code="provider_rate_limited", retryable=True),
    "status-500": Want(refuses(500), **TEMPORARY),
    "status-503": Want(refuses(503), **TEMPORARY),
    "redirect-301": Want(refuses(301), **TEMPORARY),
    "shape-a-list": Want(body(b"[]"), **TEMPORARY),
    "shape-nothing": Want(body(b""), **TEMPORARY),
    "shape-null": Want(body(b"null"), **TEMPORARY),
    "shape-an-empty-object": Want(body(b"{}"), **TEMPORARY),
    "shape-half-a-document": Want(body(b'{"choices":[{"message":{"con'), **TEMPORARY),
    "shape-a-page": Want(body(b"<html><body>502</body></html>"), **TEMPORARY),
    "shape-no-content": Want(lambda _f: NOTHING, "completed", calls=12, warned="meta_rejected"),
    "closed-before-the-head": Want(breaks, **TEMPORARY),
    "nobody-listens": Want(breaks, **TEMPORARY, calls=0),
}


def test_the_list_is_what_is_played() -> None:
    """R-GWB-22: what is listed for the worker is played here, and the other way round."""
    listed = {c["id"] for c in json.loads(LIST.read_text()) if c.get("worker")}
    assert listed == set(CASES)


@pytest.mark.parametrize("case", sorted(CASES))
def test_a_case_ends_as_it_must(run, fake: Fake, case: str) -> None:
    """R-GWB-22, R-GWT-14: each case ends the job in its way, and no failure is called again."""
    want = CASES[case]
    usual = fake.answer

    def answer(path: str, sent: dict[str, Any], headers: dict[str, str]) -> Any:
        made = usual(path, sent, headers)
        return want.answer(fake) if path == CHAT else made

    fake.answer = answer
    if case == "nobody-listens":
        fake.server.shutdown()
        fake.server.server_close()
        fake.close = lambda: None
    ended = run(concurrency=1, max_steps=1)
    last = ended.last
    if want.code:
        assert (last["type"], last["code"], last["retryable"]) == ("error", want.code, want.retryable)
    else:
        assert (last["type"], last["status"]) == ("result", want.status)
    if want.warned:
        assert ended.warned().get(want.warned), last
        assert not [b for b in fake.made("/v1/measure") if "half" in b["text"]]
    if want.calls is not None:
        assert len(fake.made(CHAT)) == want.calls, "a failure is not asked again"
