"""The parent's loopback: model answers, scores and checks. Nothing is ever retried here."""

from __future__ import annotations

import http.client
import json
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from promptlab_adapter.channel import Channel
from promptlab_adapter.request import Request
from promptlab_adapter.stop import JobAbort, JobError

MAX_ANSWER = 8 << 20  # bytes
TIMEOUT = 900.0  # seconds without a byte; the parent's own limits are tighter
T = TypeVar("T")
FINAL_CODES = ("provider_terminal", "policy_refused", "safety_lint_failure")


@dataclass(frozen=True)
class Answer:
    """A model answer; truncated means that the model ran into its token limit."""

    text: str
    truncated: bool


class Loopback:
    """Speaks to the parent. Every method may be called from any thread.

    Raises JobAbort when the parent says stop (budget, cancel) and JobError otherwise. Once
    one call was told to stop, no further call leaves the process.
    """

    def __init__(self, request: Request, channel: Channel) -> None:
        url = urlsplit(request.base_url)
        self._host = url.hostname or ""
        self._port = url.port or 0
        self._token = request.token
        self._model = request.meta_model
        self._max_tokens = request.meta_max_tokens
        self._channel = channel
        self._stop: BaseException | None = None
        self._lock = threading.Lock()

    def stop(self, reason: str) -> JobAbort:
        """Ends all further calls; gives what they raise. Only sets a reference: safe in a signal handler."""
        stop = JobAbort(reason)
        self._stop = stop
        return stop

    def chat(self, prompt: str) -> Answer:
        """Asks the meta model. The prompt is complete: no system message is added."""
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": self._max_tokens,
        }
        return self._post("meta", "/v1/chat/completions", body, _answer)

    def measure(self, text: str, example_ids: Sequence[str]) -> dict[str, float | None]:
        """Scores a text on examples: id -> score in [0,1], or None for an example without a score."""
        body = {"text": text, "example_ids": list(example_ids)}
        return self._post("measure", "/v1/measure", body, lambda got: _scores(got, example_ids))

    def check(self, text: str) -> list[str]:
        """Gives what the text breaks, one plain sentence each; empty means that it may be a candidate."""
        return self._post("check", "/v1/check", {"text": text}, _violations)

    def _post(self, role: str, path: str, body: dict[str, Any], read: Callable[[dict[str, Any]], T]) -> T:
        """Makes one call and reads its answer. An answer that cannot be read ends all calls, too."""
        if self._stop is not None:
            raise self._stop
        self._channel.count(role)
        try:
            return read(self._exchange(role, path, body))
        except (JobAbort, JobError) as stop:
            with self._lock:
                self._stop = self._stop or stop
            raise

    def _exchange(self, role: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT)
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
            "X-Promptlab-Role": role,
        }
        try:
            payload = json.dumps(body, allow_nan=False).encode()
            connection.request("POST", path, payload, headers)
            response = connection.getresponse()
            status = response.status
            raw = response.read(MAX_ANSWER + 1)
        except (OSError, http.client.HTTPException) as err:
            what = type(err).__name__
            raise JobError("temporary_backend_error", f"{role} call: {what}", retryable=True) from None
        finally:
            connection.close()
        if len(raw) > MAX_ANSWER:
            raise _malformed(role)
        try:
            answer = json.loads(raw, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            answer = None
        if status != 200:
            raise _refusal(role, status, answer)
        if not isinstance(answer, dict):
            raise _malformed(role)
        return answer


def _answer(got: dict[str, Any]) -> Answer:
    try:
        choice = got["choices"][0]
        text = choice["message"]["content"]
        finish = choice.get("finish_reason")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise _malformed("chat") from None
    if text is None:
        text = ""
    if not isinstance(text, str):
        raise _malformed("chat")
    return Answer(text, finish == "length")


def _scores(got: dict[str, Any], example_ids: Sequence[str]) -> dict[str, float | None]:
    results = got.get("results")
    if not isinstance(results, list):
        raise _malformed("measure")
    scores: dict[str, float | None] = {}
    for row in results:
        if not isinstance(row, dict) or not isinstance(row.get("example_id"), str):
            raise _malformed("measure")
        scores[row["example_id"]] = _score(row.get("score"))
    if any(x not in scores for x in example_ids):
        raise _malformed("measure")
    return {x: scores[x] for x in example_ids}


def _violations(got: dict[str, Any]) -> list[str]:
    violations = got.get("violations")
    if violations is None:
        return []
    if not isinstance(violations, list) or not all(isinstance(v, dict) for v in violations):
        raise _malformed("check")
    return [f"{v.get('rule', 'rule')}: {v.get('message', '')}" for v in violations]


def _refusal(role: str, status: int, answer: Any) -> BaseException:
    """Turns a status into the end of the search. The message holds the status, never a body."""
    code = _code(answer)
    if status == 402 and code == "budget_exhausted":
        return JobAbort("budget")
    if status == 409:
        return JobAbort("cancelled")
    message = f"{role} call: status {status}"
    if status == 429:
        return JobError("provider_rate_limited", message, retryable=True)
    if status >= 500 or status < 400 or status == 408:
        return JobError("temporary_backend_error", message, retryable=True)
    return JobError(code if code in FINAL_CODES else "provider_terminal", message, retryable=False)


def _code(answer: Any) -> str:
    if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
        answer = answer["error"]
    code = answer.get("code") if isinstance(answer, dict) else None
    return code if isinstance(code, str) else ""


def _score(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _malformed("measure")
    if not 0.0 <= value <= 1.0:
        raise _malformed("measure")
    return float(value)


def _malformed(role: str) -> JobError:
    return JobError("temporary_backend_error", f"{role} call: the answer is malformed", retryable=True)


def _refuse_constant(name: str) -> None:
    raise ValueError(name)
