"""The parts that need no library: request, masking, extraction, events, summaries."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from fake import TEMPLATES, request

from promptlab_adapter.channel import Channel
from promptlab_adapter.engine import choose_engine
from promptlab_adapter.guard import extract
from promptlab_adapter.main import Job
from promptlab_adapter.masking import Mask
from promptlab_adapter.report import delta_summary, describe_error
from promptlab_adapter.request import BadRequest, parse
from promptlab_adapter.texts import Texts, sha256, squeeze

URL = "http://127.0.0.1:8080"


def test_a_good_request_is_read_and_unknown_fields_are_ignored() -> None:
    """R-WRK-02"""
    got = parse(json.dumps(request(URL, later_field=1)).encode())
    assert got.example_ids == tuple(f"e{i}" for i in range(8))
    assert got.base_url == URL
    assert "pl-job" not in repr(got)


BAD_FIELDS: list[tuple[str, Any]] = [
    ("protocol", 2),
    ("protocol", True),
    ("job_id", ""),
    ("engine", "gepa"),
    ("seed", -1),
    ("seed", 1.5),
    ("source_text", "  "),
    ("source_text", "\ud800"),
    ("source_text", "x" * 70000),
    ("goal", None),
    ("artifact_kind", "overlay"),
    ("example_ids", []),
    ("example_ids", ["a", "a"]),
    ("example_ids", [1]),
    ("max_candidates", 9),
    ("max_candidates", 0),
    ("max_steps", 0),
    ("population", 1),
    ("population", True),
    ("base_url", "http://example.com:80"),
    ("base_url", "https://127.0.0.1:80"),
    ("base_url", "http://127.0.0.1"),
    ("base_url", "http://127.0.0.1:99999"),
    ("base_url", "http://u:p@127.0.0.1:80"),
    ("base_url", "http://127.0.0.1:80/v1"),
    ("token", "a\r\nX: y"),
    ("meta_model", ""),
    ("meta_max_tokens", 1),
    ("concurrency", 0),
    ("constraints", []),
]


@pytest.mark.parametrize(("field", "value"), BAD_FIELDS)
def test_a_bad_field_is_named(field: str, value: Any) -> None:
    with pytest.raises(BadRequest) as caught:
        parse(json.dumps(request(URL, **{field: value})).encode())
    assert set(caught.value.fields) == {field}


@pytest.mark.parametrize("field", sorted(set(request(URL)) - {"constraints"}))
def test_a_missing_field_is_named(field: str) -> None:
    raw = request(URL)
    del raw[field]
    with pytest.raises(BadRequest) as caught:
        parse(json.dumps(raw).encode())
    assert set(caught.value.fields) == {field}


def test_all_bad_fields_are_named_at_once() -> None:
    raw = request(URL, seed="x", engine=[], templates={**TEMPLATES, "mutation": "no place"}, token=5)
    raw["constraints"] = {"banned_phrases": [1], "max_growth": float("inf")}
    with pytest.raises(BadRequest) as caught:
        parse(json.dumps(raw).replace("Infinity", "1e999").encode())
    assert set(caught.value.fields) == {
        "seed",
        "engine",
        "token",
        "templates.mutation",
        "constraints.banned_phrases",
        "constraints.max_growth",
    }


@pytest.mark.parametrize("line", [b"", b"null", b"[]", b"{", b"\xff", b'{"seed": NaN}', b"[" * 100000])
def test_a_line_that_is_no_request_is_refused(line: bytes) -> None:
    with pytest.raises(BadRequest) as caught:
        parse(line)
    assert set(caught.value.fields) == {"request"}


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        ("<prompt>a</prompt>", "a"),
        ("Sure!\n<prompt>\n a\nb \n</prompt>\nBye", "a\nb"),
        ("<prompt>draft</prompt> then <prompt>final</prompt>", "final"),
        ("a chatty answer", None),
        ("<prompt>cut", None),
        ("cut</prompt>", None),
        ("<prompt>say <prompt> tags</prompt>", None),
        ("<prompt>a</prompt> and </prompt>", None),
        ("<prompt>a</prompt> and <prompt>", None),
        ("<prompt></prompt>", ""),
        ("", None),
    ],
)
def test_extract_takes_one_clean_block(answer: str, want: str | None) -> None:
    """The library takes any text for a prompt."""
    assert extract(answer) == want


def test_a_mask_avoids_words_that_are_there() -> None:
    text = "⟪mother⟫ <mother> ⟪prompt~1⟫ <prompt1> <b> <prompt>"
    mask = Mask(text)
    masked = mask.mask(text)
    assert "<mother>" not in masked
    assert "<prompt" not in masked
    assert "<b>" in masked
    assert mask.unmask(masked) == text


def test_texts_keep_the_source_and_shape_the_rest() -> None:
    source = "\n a <mother>\n\n\n\n\n\n\n\nb "
    texts = Texts(source, "goal")
    assert texts.real(texts.source_inner) == source
    assert squeeze(texts.source_inner) == texts.source_inner
    child = texts.add(" c <father> ")
    assert texts.real(child) == "c <father>"
    assert texts.within(f"x {child} y") == [child]
    assert texts.within("nothing known") == [texts.source_inner]
    assert texts.is_source("a <mother>\nb")


def test_the_hash_is_the_systems_content_hash() -> None:
    assert sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256("\ufeffa\r\nb") == sha256("a\nb")


def test_capo_needs_rows() -> None:
    assert [choose_engine("auto", n) for n in (1, 11, 12)] == ["evoprompt_ga", "evoprompt_ga", "capo"]
    assert choose_engine("opro", 1) == "opro"


def test_a_summary_counts_and_quotes_nothing() -> None:
    got = delta_summary("# A\nx\ny", "# A\nx1\ny\nz w\n# B")
    assert got == ["lines: 2 added, 1 changed", "words: +4", "headings: +1"]


def test_an_error_is_told_without_its_message() -> None:
    with pytest.raises(ValueError, match="invalid literal") as caught:
        int("secret")
    assert describe_error(caught.value).startswith("ValueError at test_parts.py:")


def test_events_are_lines_and_calls_come_once_a_second() -> None:
    read, write = os.pipe()
    now = [0.0]
    channel = Channel(write, clock=lambda: now[0])
    for tick in (0.0, 0.2, 0.9, 1.1, 1.2):
        now[0] = tick
        channel.count("meta")
    channel.emit("step", i=1)
    with pytest.raises(ValueError, match="JSON"):
        channel.emit("step", best=float("nan"))
    channel.finish("result", status="completed")
    channel.emit("late")
    channel.finish("error")
    os.close(write)
    with os.fdopen(read) as lines:
        got = [json.loads(x) for x in lines]
    assert [e["type"] for e in got] == ["calls", "calls", "step", "calls", "result"]
    assert [e["meta"] for e in got if e["type"] == "calls"] == [1, 4, 5]


def test_whatever_a_signal_breaks_the_job_is_cancelled() -> None:
    """Pitfall 21: an exception from a handler may come out as another one."""
    read, write = os.pipe()
    job = Job(Channel(write))
    job.cancelled = True
    assert job.failed(SystemError("interrupted import")) == 0
    os.close(write)
    with os.fdopen(read) as lines:
        last = [json.loads(x) for x in lines][-1]
    assert (last["type"], last["status"], last["ended_by"]) == ("result", "cancelled", "cancelled")
