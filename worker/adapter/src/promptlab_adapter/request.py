"""The request: one JSON line, checked whole before anything else happens."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from promptlab_adapter import PROTOCOL

MAX_REQUEST = 4 << 20  # bytes
MAX_TEXT = 64 << 10  # bytes of the source and of any candidate
ENGINES = ("auto", "capo", "evoprompt_ga", "opro")
KINDS = ("overlay_template", "prompt_recipe", "rewrite_template")
# Every placeholder that a template must and may carry; <task_desc> carries the goal.
TEMPLATES = {
    "variation": ("<prev_prompt>", "<task_desc>"),
    "crossover": ("<mother>", "<father>", "<task_desc>"),
    "mutation": ("<instruction>", "<task_desc>"),
    "evoprompt": ("<prompt1>", "<prompt2>", "<task_desc>"),
    "opro": ("<instructions>", "<task_desc>"),
    "repair": ("<request>", "<problems>"),
}


class BadRequest(Exception):
    """The request is not valid; fields maps every bad field to what is wrong with it."""

    def __init__(self, fields: dict[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {why}" for name, why in sorted(fields.items())))
        self.fields = fields


@dataclass(frozen=True)
class Request:
    """What the parent asks for. Texts of examples are not part of it."""

    job_id: str
    engine: str
    seed: int
    source_text: str
    goal: str
    artifact_kind: str
    example_ids: tuple[str, ...]
    max_candidates: int
    max_steps: int
    population: int
    templates: dict[str, str] = field(repr=False)
    emphases: tuple[str, ...]
    base_url: str
    token: str = field(repr=False)
    meta_model: str
    meta_max_tokens: int
    concurrency: int
    constraints: dict[str, Any]


def parse(line: bytes) -> Request:
    """Reads a request. Raises BadRequest that names every bad field; unknown fields are ignored."""
    try:
        raw = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise BadRequest({"request": "is not one line of JSON"}) from None
    if not isinstance(raw, dict):
        raise BadRequest({"request": "is not an object"})
    check = _Checker(raw)
    if raw.get("protocol") != PROTOCOL or isinstance(raw.get("protocol"), bool):
        check.bad["protocol"] = f"must be {PROTOCOL}"
    values = {
        "job_id": check.text("job_id", 1, 128),
        "engine": check.one_of("engine", ENGINES),
        "seed": check.number("seed", 0, 2**32 - 1),
        "source_text": check.text("source_text", 1, MAX_TEXT),
        "goal": check.text("goal", 0, 16 << 10),
        "artifact_kind": check.one_of("artifact_kind", KINDS),
        "example_ids": check.ids("example_ids", 10_000),
        "max_candidates": check.number("max_candidates", 1, 8),
        "max_steps": check.number("max_steps", 1, 100),
        "population": check.number("population", 2, 20),
        "templates": check.templates("templates"),
        "emphases": check.emphases("templates"),
        "base_url": check.loopback("base_url"),
        "token": check.token("token"),
        "meta_model": check.text("meta_model", 1, 256),
        "meta_max_tokens": check.number("meta_max_tokens", 16, 200_000),
        "concurrency": check.number("concurrency", 1, 64),
        "constraints": check.constraints("constraints"),
    }
    if check.bad:
        raise BadRequest(check.bad)
    return Request(**values)


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


class _Checker:
    """Reads fields by kind and collects what is wrong."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw
        self.bad: dict[str, str] = {}

    def text(self, name: str, low: int, high: int) -> str:
        value = self.raw.get(name)
        if not isinstance(value, str):
            self.bad[name] = "must be a string"
            return ""
        try:
            size = len(value.encode("utf-8"))
        except UnicodeEncodeError:
            self.bad[name] = "must be valid Unicode"
            return ""
        if not low <= size <= high or (low > 0 and not value.strip()):
            self.bad[name] = f"must have {low} to {high} bytes and not be blank"
        return value

    def one_of(self, name: str, allowed: tuple[str, ...]) -> str:
        value = self.raw.get(name)
        if not isinstance(value, str) or value not in allowed:
            self.bad[name] = "must be one of " + ", ".join(allowed)
            return ""
        return value

    def number(self, name: str, low: int, high: int) -> int:
        value = self.raw.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.bad[name] = f"must be a whole number from {low} to {high}"
            return low
        return value

    def ids(self, name: str, most: int) -> tuple[str, ...]:
        value = self.raw.get(name)
        if not isinstance(value, list) or not 1 <= len(value) <= most:
            self.bad[name] = f"must be a list of 1 to {most} ids"
            return ()
        if not all(isinstance(x, str) and 1 <= len(x) <= 256 for x in value):
            self.bad[name] = "must hold strings of 1 to 256 characters"
            return ()
        if len(set(value)) != len(value):
            self.bad[name] = "must not name an example twice"
        return tuple(value)

    def templates(self, name: str) -> dict[str, str]:
        value = self.raw.get(name)
        if not isinstance(value, dict):
            self.bad[name] = "must be an object"
            return {}
        for key, needed in TEMPLATES.items():
            template = value.get(key)
            if not isinstance(template, str) or len(template) > MAX_TEXT:
                self.bad[f"{name}.{key}"] = "must be a string"
            elif missing := [p for p in needed if p not in template]:
                self.bad[f"{name}.{key}"] = "must contain " + " ".join(missing)
        return {key: value[key] for key in TEMPLATES if isinstance(value.get(key), str)}

    def emphases(self, name: str) -> tuple[str, ...]:
        value = self.raw.get(name)
        if not isinstance(value, dict):
            return ()  # told by templates()
        items = value.get("emphases")
        good = isinstance(items, list) and 1 <= len(items) <= 32
        if not good or not all(isinstance(x, str) and 1 <= len(x) <= 1000 for x in items):
            self.bad[f"{name}.emphases"] = "must be a list of 1 to 32 sentences"
            return ()
        return tuple(items)

    def loopback(self, name: str) -> str:
        value = self.raw.get(name)
        try:
            url = urlsplit(value) if isinstance(value, str) else None
            good = url is not None and url.scheme == "http" and url.hostname in ("127.0.0.1", "::1")
            good = good and bool(url.port) and url.username is None and url.path in ("", "/")
        except ValueError:
            good = False
        if not good:
            self.bad[name] = "must be http://127.0.0.1:PORT"
            return ""
        return str(value).rstrip("/")

    def token(self, name: str) -> str:
        value = self.raw.get(name)
        if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9._~+/=-]{1,512}", value):
            self.bad[name] = "must be a bearer token"
            return ""
        return value

    def constraints(self, name: str) -> dict[str, Any]:
        value = self.raw.get(name, {})
        if not isinstance(value, dict):
            self.bad[name] = "must be an object"
            return {}
        for key in ("banned_phrases", "preserve_required_sections"):
            items = value.get(key, [])
            if not isinstance(items, list) or not all(isinstance(x, str) for x in items):
                self.bad[f"{name}.{key}"] = "must be a list of strings"
        growth = value.get("max_growth", 1.3)
        if isinstance(growth, bool) or not isinstance(growth, int | float) or not 0 < growth <= 100:
            self.bad[f"{name}.max_growth"] = "must be a number above 0"
        return value
