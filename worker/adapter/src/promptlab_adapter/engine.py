"""Which engine fits how many rows. Free of the library, so that it is known before the import."""

from __future__ import annotations

CAPO_ROWS = 12  # fewer give blocks too small to race on, or none at all


def choose_engine(asked: str, rows: int) -> str:
    """Gives the engine for a number of rows: CAPO needs blocks, EvoPrompt takes any number."""
    if asked == "auto":
        asked = "capo"
    if asked == "capo" and rows < CAPO_ROWS:
        return "evoprompt_ga"
    return asked
