"""The model behind the optimizers: a thin BaseLLM and the guard that every child passes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from promptolution.llms.base_llm import BaseLLM

from promptlab_adapter.board import Warnings, run_all
from promptlab_adapter.loopback import Answer, Loopback
from promptlab_adapter.request import MAX_TEXT
from promptlab_adapter.texts import Texts

OPEN, CLOSE = "<prompt>", "</prompt>"


class GatewayLLM(BaseLLM):
    """Answers through the parent's loopback, in order, several at a time."""

    def __init__(self, loopback: Loopback, pool: ThreadPoolExecutor) -> None:
        super().__init__()
        self._loopback = loopback
        self._pool = pool

    def _get_response(self, prompts: list[str], system_prompts: list[str]) -> list[str]:
        # The library's default system prompt is dropped: meta prompts are complete.
        del system_prompts
        return run_all(self._pool, [lambda p=p: self._answer(p) for p in prompts])

    def _answer(self, prompt: str) -> str:
        return self._loopback.chat(prompt).text


class GuardedMetaLLM(GatewayLLM):
    """Gives children that may be candidates, or else the parent, which costs nothing to score.

    A truncated answer is no child. An answer without one clean <prompt> block, or one that
    breaks a rule, is asked for once more.
    """

    def __init__(
        self,
        loopback: Loopback,
        pool: ThreadPoolExecutor,
        texts: Texts,
        warnings: Warnings,
        score: Callable[[str], float | None],
        repair: str,
    ) -> None:
        super().__init__(loopback, pool)
        self._texts = texts
        self._warnings = warnings
        self._score = score
        self._repair = repair

    def _answer(self, prompt: str) -> str:
        return OPEN + (self._child(prompt) or self._parent(prompt)) + CLOSE

    def _parent(self, prompt: str) -> str:
        """Gives the best text that the meta prompt was about; of equals the longest, then the first."""
        found = self._texts.within(prompt)
        return max(found, key=lambda inner: (self._score(self._texts.real(inner)) or 0.0, len(inner)))

    def _child(self, prompt: str) -> str | None:
        ask = prompt
        for last in (False, True):
            answer = self._loopback.chat(ask)
            if answer.truncated:
                self._warnings.add("meta_truncated")
                return None
            text, problems = self._read(answer)
            if text is not None:
                return self._texts.add(text)
            if not last:
                self._warnings.add("meta_repaired")
                told = self._repair.replace("<problems>", "\n".join(f"- {p}" for p in problems))
                ask = told.replace("<request>", prompt)
        self._warnings.add("meta_rejected")
        return None

    def _read(self, answer: Answer) -> tuple[str | None, list[str]]:
        """Gives a text that may be a candidate, or the reasons why there is none."""
        raw = extract(answer.text)
        if raw is None:
            return None, ["the text did not stand between one <prompt> and one </prompt>"]
        text = self._texts.shape(raw)
        if not text:
            return None, ["the text was empty"]
        try:
            size = len(text.encode("utf-8"))
        except UnicodeEncodeError:
            return None, ["the text was not valid Unicode"]
        if size > MAX_TEXT:
            return None, ["the text was far too long"]
        if self._texts.is_source(text):
            return self._texts.source, []
        problems = self._loopback.check(text)
        return (None, problems) if problems else (text, [])


def extract(answer: str) -> str | None:
    """Gives the last complete <prompt> block, None without one or when the tags do not pair up.

    Stricter than the library, which takes a chatty answer without tags, or a cut one without
    the closing tag, for a prompt, and cuts a prompt that speaks about the tags itself.
    """
    depth, start, last = 0, 0, None
    position = 0
    while True:
        opening = answer.find(OPEN, position)
        closing = answer.find(CLOSE, position)
        if opening < 0 and closing < 0:
            return None if depth else last
        if closing < 0 or 0 <= opening < closing:
            depth += 1
            if depth > 1:
                return None
            position = start = opening + len(OPEN)
        else:
            depth -= 1
            if depth < 0:
                return None
            last = answer[start:closing].strip()
            position = closing + len(CLOSE)
