"""What goes back: the result's candidates, and errors that can be told without any text."""

from __future__ import annotations

import difflib
import os
import traceback
from typing import Any

from promptlab_adapter.board import Ranked
from promptlab_adapter.texts import sha256

MAX_CANDIDATE_BYTES = 256 << 10  # of all candidates together


def candidates(source: str, ranked: list[Ranked], most: int) -> list[dict[str, Any]]:
    """Gives the best candidates as the result carries them, within the limit on their bytes."""
    out: list[dict[str, Any]] = []
    room = MAX_CANDIDATE_BYTES
    for r in ranked:
        size = len(r.text.encode("utf-8"))
        if len(out) == most:
            break
        if size > room:
            continue
        room -= size
        out.append(
            {
                "text": r.text,
                "sha256": sha256(r.text),
                "score": r.score,
                "n": r.n,
                "delta_summary": delta_summary(source, r.text),
            }
        )
    return out


def delta_summary(source: str, text: str) -> list[str]:
    """Says in numbers how a text differs from the source."""
    old, new = source.splitlines(), text.splitlines()
    added = removed = changed = 0
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        both = min(i2 - i1, j2 - j1)
        changed += both
        removed += i2 - i1 - both
        added += j2 - j1 - both
    lines = [f"{n} {what}" for n, what in ((added, "added"), (removed, "removed"), (changed, "changed")) if n]
    words = len(text.split()) - len(source.split())
    out = [f"lines: {', '.join(lines) or 'none changed'}", f"words: {words:+d}"]
    headings = sum(x.startswith("#") for x in new) - sum(x.startswith("#") for x in old)
    if headings:
        out.append(f"headings: {headings:+d}")
    return out


def describe_error(err: BaseException) -> str:
    """Names an error and its place; its message may hold prompt text and is left out."""
    frames = traceback.extract_tb(err.__traceback__)
    where = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return type(err).__name__ + where
