"""Keeps text that looks like a template placeholder from being filled in.

The optimizers build their prompts with plain ``replace`` and read answers by the ``<prompt>``
tags. A text under optimization may hold such words itself, so it goes in masked and comes
out unmasked.
"""

from __future__ import annotations

import re

NAMES = "instructions?|mother|father|task_desc|prev_prompt|examples|few_shots|/prompt|prompt[0-9]?"
_PLACEHOLDER = re.compile(f"<({NAMES})>")


class Mask:
    """A two-way renaming, chosen so that no masked word occurs in the given texts."""

    def __init__(self, *texts: str) -> None:
        mark = ""
        number = 0
        while any(re.search(f"⟪({NAMES}){re.escape(mark)}⟫", text) for text in texts):
            number += 1
            mark = f"~{number}"
        self._mark = mark
        self._masked = re.compile(f"⟪({NAMES}){re.escape(mark)}⟫")

    def mask(self, text: str) -> str:
        """Gives the text as the optimizer may see it."""
        return _PLACEHOLDER.sub(lambda m: f"⟪{m[1]}{self._mark}⟫", text)

    def unmask(self, text: str) -> str:
        """Gives the text as it is meant."""
        return self._masked.sub(lambda m: f"<{m[1]}>", text)
