"""The board: every score that the parent gave, whatever the optimizer keeps of it."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TypeVar

from promptlab_adapter.channel import Channel
from promptlab_adapter.loopback import Loopback
from promptlab_adapter.stop import JobError
from promptlab_adapter.texts import Texts, sha256

MAX_UNSCORED = 0.2  # share of rows that a candidate may leave without a score

T = TypeVar("T")


class Warnings:
    """Counts warning codes and tells each once."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, code: str, count: int = 1) -> None:
        """Adds to a code's count."""
        with self._lock:
            first = code not in self._counts
            self._counts[code] = self._counts.get(code, 0) + count
        if first:
            self._channel.emit("warning", code=code)

    def listed(self) -> list[dict[str, object]]:
        """Gives the codes with their counts, in order of first appearance."""
        return [{"code": code, "count": count} for code, count in tuple(self._counts.items())]


def run_all(pool: ThreadPoolExecutor, calls: Sequence[Callable[[], T]]) -> list[T]:
    """Runs calls in the pool and gives their results in order; the first failure ends the wait."""
    futures: list[Future[T]] = [pool.submit(call) for call in calls]
    done, rest = wait(futures, return_when=FIRST_EXCEPTION)
    for future in rest:
        future.cancel()
    for future in futures:
        if future in done and (error := future.exception()) is not None:
            raise error
    return [future.result() for future in futures]


@dataclass(frozen=True)
class Ranked:
    """A candidate with its mean over n rows that every ranked text has a score on."""

    text: str
    score: float
    stderr: float
    n: int


class Board:
    """Scores by real text and example. Texts and rows keep the order of their arrival."""

    def __init__(
        self, loopback: Loopback, pool: ThreadPoolExecutor, channel: Channel, warnings: Warnings, texts: Texts
    ) -> None:
        self._loopback = loopback
        self._pool = pool
        self._channel = channel
        self._warnings = warnings
        self._texts = texts
        self._scores: dict[str, dict[str, float | None]] = {}
        self._told: set[str] = set()
        self.rows: list[str] = []

    def start(self, example_ids: Iterable[str], seed: int) -> None:
        """Measures the source everywhere; rows without a score for it take no part in the search."""
        ids = list(example_ids)
        random.Random(seed).shuffle(ids)
        self.rows = ids
        self.measure([self._texts.source] * len(ids), ids)
        got = self._scores[self._texts.source]
        self.rows = [x for x in ids if got[x] is not None]
        if lost := len(ids) - len(self.rows):
            self._warnings.add("unscored_rows", lost)
        if not self.rows:
            raise JobError("temporary_backend_error", "no example has a score for the source", retryable=True)

    def measure(self, texts: Sequence[str], ids: Sequence[str]) -> None:
        """Gets the scores of the pairs (texts[i], ids[i]) that are not known yet."""
        wanted: dict[str, dict[str, None]] = {}
        for text, x in zip(texts, ids, strict=True):
            if x not in self._scores.get(text, {}):
                wanted.setdefault(text, {})[x] = None
        run_all(self._pool, [lambda t=t, xs=xs: self._fetch(t, list(xs)) for t, xs in wanted.items()])
        for text in wanted:
            self._tell(text)

    def _fetch(self, text: str, ids: list[str]) -> None:
        # Kept at once: what is paid is not lost when another call of the batch ends the search.
        scores = self._loopback.measure(text, ids)
        self._scores.setdefault(text, {}).update(scores)

    def _tell(self, text: str) -> None:
        if text in self._told or self._texts.is_source(text) or not self.full(text):
            return
        self._told.add(text)
        score = self.mean(text)
        if score is not None:
            self._channel.emit("candidate", sha256=sha256(text), score=score)

    def value(self, text: str, x: str) -> float:
        """Gives what the optimizer sees: a missing score counts as the source's, so it moves nothing."""
        score = self._scores[text][x]
        if score is None:
            score = self._scores[self._texts.source][x]
        return 0.0 if score is None else score

    def full(self, text: str) -> bool:
        """Says whether a text was measured on every row."""
        got = self._scores.get(text, {})
        return all(x in got for x in self.rows)

    def mean(self, text: str) -> float | None:
        """Gives the mean of the scores that a text has, None without any."""
        got = self._scores.get(text, {})
        values = [v for x in self.rows if (v := got.get(x)) is not None]
        return math.fsum(values) / len(values) if values else None

    def others(self) -> list[str]:
        """Gives every measured text but the source."""
        return [t for t in tuple(self._scores) if not self._texts.is_source(t)]

    def complete(self, most: int) -> None:
        """Measures the most promising half-measured texts on the rows that they lack."""
        open_texts = [t for t in self.others() if not self.full(t)]
        open_texts.sort(key=lambda t: -(self.mean(t) or 0.0))
        pairs = [(t, x) for t in open_texts[:most] for x in self.rows]
        self.measure([t for t, _ in pairs], [x for _, x in pairs])

    def rank(self) -> tuple[float | None, list[Ranked]]:
        """Gives the source's score and the candidates, best first, all over the same rows.

        A row that lacks a score for any ranked text is left out for all of them. A text that
        lacks too many is not ranked, so that it cannot take the rows away from the others.
        """
        source = self._texts.source
        if not self.full(source):
            return None, []
        texts: list[str] = []
        for text in self.others():
            if not self.full(text):
                continue
            missing = sum(self._scores[text][x] is None for x in self.rows)
            if missing > MAX_UNSCORED * len(self.rows):
                self._warnings.add("candidate_unscored")
            else:
                texts.append(text)
        rows = [x for x in self.rows if all(self._scores[t][x] is not None for t in [source, *texts])]
        if len(rows) < len(self.rows):
            self._warnings.add("unscored_rows", len(self.rows) - len(rows))
        if not rows:
            return self.mean(source), []
        ranked = [self._ranked(t, rows) for t in texts]
        ranked.sort(key=lambda r: (-r.score, r.stderr, len(r.text), r.text))
        return self._ranked(source, rows).score, ranked

    def _ranked(self, text: str, rows: list[str]) -> Ranked:
        values = [v for x in rows if (v := self._scores[text][x]) is not None]
        n = len(values)
        mean = math.fsum(values) / n
        variance = math.fsum((v - mean) ** 2 for v in values) / (n - 1) if n > 1 else 0.0
        return Ranked(text, mean, math.sqrt(variance / n), n)
