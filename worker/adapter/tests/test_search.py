"""The search with the real library: what comes out, and every trap of the library that applies."""

from __future__ import annotations

import threading

import pytest
from fake import RULES, TEMPLATES, Fake, Stop

CHAT, MEASURE, CHECK = "/v1/chat/completions", "/v1/measure", "/v1/check"


@pytest.mark.parametrize(("engine", "rows"), [("evoprompt_ga", 8), ("capo", 16), ("opro", 8)])
def test_a_helpful_world_gives_better_candidates(run, fake: Fake, engine: str, rows: int) -> None:
    ended = run(engine=engine, example_ids=[f"e{i}" for i in range(rows)])
    last = ended.last
    assert (last["type"], last["status"], last["ended_by"]) == ("result", "completed", "steps"), last
    assert last["engine"] == engine
    assert last["promptolution"] == "2.3.0"
    assert last["steps"] == 3
    best = last["candidates"][0]
    assert best["score"] > last["source_score"] + 0.2
    assert best["n"] == rows
    assert any(rule in best["text"] for rule in RULES)
    assert [c["score"] for c in last["candidates"]] == sorted(
        (c["score"] for c in last["candidates"]), reverse=True
    )
    assert 1 <= len(last["candidates"]) <= 3
    assert [e["i"] for e in ended.of("step")] == [1, 2, 3]
    assert ended.of("seeds") == [{"type": "seeds", "n": 4, "rejected": 0}]
    shas = {e["sha256"] for e in ended.of("candidate")}
    assert {c["sha256"] for c in last["candidates"]} <= shas
    # Every candidate passed the parent's check.
    assert {c["text"] for c in last["candidates"]} <= {b["text"] for b in fake.made(CHECK)}


def test_the_same_seed_gives_the_same_candidates(run, fake: Fake) -> None:
    fake.meta = lambda prompt, _n: Fake.add_a_rule(prompt, len(prompt))
    first = run(concurrency=1).last["candidates"]
    fake.calls.clear()
    assert run(concurrency=1).last["candidates"] == first


def test_no_example_ever_reaches_a_meta_prompt_and_nothing_gets_few_shots(run, fake: Fake) -> None:
    """Pitfall 20: few-shots and the examples of OPRO would copy data into the text."""
    for engine in ("capo", "opro", "evoprompt_ga"):
        run(engine=engine, example_ids=[f"secret-row-{i}" for i in range(16)])
    asked = fake.made(CHAT)
    assert asked
    assert not [b for b in asked if "secret-row" in str(b)]
    assert not [b for b in fake.made(MEASURE) if "secret-row" in b["text"] or "Input:" in b["text"]]
    # The meta prompt is whole: no system prompt of the library, no label extraction (pitfall 11).
    assert all([m["role"] for m in b["messages"]] == ["user"] for b in asked)
    assert not [b for b in asked if "final_answer" in str(b) or "<task_desc>" in str(b)]


def test_the_task_description_reaches_opro(run, fake: Fake) -> None:
    """The library's own OPRO template has no place for it."""
    run(engine="opro", goal="Be a good harbour pilot.")
    opro = [b["messages"][0]["content"] for b in fake.made(CHAT) if "OPRO" in str(b)]
    assert opro
    assert all("Be a good harbour pilot." in p and "<examples>" not in p for p in opro)


def test_an_error_in_a_step_is_an_error(run) -> None:
    """Pitfall 2: optimize() swallows it and returns as if it had finished."""

    def prepare(search) -> None:
        made = search.make_optimizer

        def broken(seeds):
            optimizer = made(seeds)
            optimizer._crossover = lambda *_a: {}["secret prompt text"]
            return optimizer

        search.make_optimizer = broken

    ended = run(prepare)
    assert ended.code == 1
    assert ended.last["type"] == "error"
    assert ended.last["code"] == "temporary_backend_error"
    assert ended.last["message"].startswith("KeyError at test_search.py:")
    assert "secret" not in str(ended.events)


@pytest.mark.parametrize("engine", ["capo", "evoprompt_ga"])
def test_one_usable_seed_is_said_and_nothing_is_spent(run, fake: Fake, engine: str) -> None:
    """Pitfall 3: with one prompt CAPO and GA fail silently."""
    fake.meta = lambda _p, _n: "<prompt># Role\n\nYou help with questions.</prompt>"
    ended = run(engine=engine, example_ids=[f"e{i}" for i in range(16)])
    assert (ended.last["status"], ended.last["ended_by"]) == ("completed", "too_few_seeds")
    assert ended.last["candidates"] == []
    assert "too_few_seeds" in ended.warned()
    assert {b["text"] for b in fake.made(MEASURE)} == {"# Role\nYou help with questions.\n"}


def test_capo_with_few_rows_becomes_evoprompt(run, fake: Fake) -> None:
    """Pitfalls 4 and 6: fewer rows than a block give no blocks and NaN scores."""
    ended = run(engine="capo", example_ids=["a", "b", "c", "d"])
    assert ended.last["engine"] == "evoprompt_ga"
    assert ended.warned()["too_few_rows_for_engine"] == 1
    assert ended.last["candidates"]


def test_capo_races_on_real_blocks_and_all_rows_are_measured_in_the_end(run, fake: Fake) -> None:
    """Pitfalls 5 and 19: no few-shot pool is popped, and scores over different blocks are not compared."""
    ids = [f"e{i}" for i in range(14)]
    ended = run(engine="capo", example_ids=ids)
    assert ended.last["engine"] == "capo"
    assert {len(b["example_ids"]) for b in fake.made(MEASURE)} >= {3, 14}
    assert [c["n"] for c in ended.last["candidates"]] == [14] * len(ended.last["candidates"])
    assert sorted(set(sum((b["example_ids"] for b in fake.made(MEASURE)), []))) == sorted(ids)


def test_a_missing_score_reaches_no_optimizer_and_leaves_the_row_out_for_all(run, fake: Fake) -> None:
    """Pitfalls 7 and 13: NaN passes through unnoticed, a zero looks like a bad answer."""
    seen: list[float] = []

    def score(text: str, x: str):
        if x == "e1" or (x == "e2" and RULES[0] in text):
            return None
        return 0.9 if RULES[0] in text else 0.5

    def prepare(search) -> None:
        value = search.board.value
        search.board.value = lambda t, x: seen.append(value(t, x)) or seen[-1]

    fake.score = score
    ended = run(prepare)
    assert seen
    assert all(0 <= s <= 1 for s in seen)
    assert {c["n"] for c in ended.last["candidates"]} == {6}
    assert ended.warned()["unscored_rows"] == 2
    assert ended.last["source_score"] == 0.5
    assert ended.last["candidates"][0]["score"] == pytest.approx(0.9)


def test_a_text_without_scores_is_no_candidate_and_takes_no_rows_away(run, fake: Fake) -> None:
    fake.score = lambda text, x: None if RULES[1] in text else 0.5
    ended = run()
    assert ended.warned()["candidate_unscored"] >= 1
    assert {c["n"] for c in ended.last["candidates"]} == {8}
    assert not [c for c in ended.last["candidates"] if RULES[1] in c["text"]]


def test_without_any_score_the_job_fails_for_now(run, fake: Fake) -> None:
    fake.score = lambda _t, _x: None
    ended = run()
    assert (ended.last["type"], ended.last["code"]) == ("error", "temporary_backend_error")


@pytest.mark.parametrize("bad", [-0.1, 1.5, "4/5", True, float("nan"), [1]])
def test_a_score_that_is_none_ends_the_job(run, fake: Fake, bad: object) -> None:
    """Pitfall 12: nothing is ever read into a score."""
    fake.score = lambda _t, _x: bad
    ended = run()
    assert (ended.last["type"], ended.last["code"]) == ("error", "temporary_backend_error")


@pytest.mark.parametrize(
    "ids", [["x", "X", " x", "nan", "None", "1", "1.0", "01"], ["é", "e\u0301", "<NA>", "inf"]]
)
def test_ids_arrive_as_they_are(run, fake: Fake, ids: list[str]) -> None:
    """Pitfalls 9 and 10: inputs that look alike are dropped, labels are lower-cased."""
    run(example_ids=ids)
    assert {tuple(sorted(b["example_ids"])) for b in fake.made(MEASURE)} == {tuple(sorted(ids))}


def test_the_source_is_measured_verbatim_and_case_is_kept(run, fake: Fake) -> None:
    """The library strips prompts and squeezes empty lines; pitfall 10 lower-cases answers."""
    source = '\n  # ROLE\n\n\n\n\n\n\n\nKeep JSON {"Key": 1}.\n\n'
    ended = run(source_text=source)
    measured = {b["text"] for b in fake.made(MEASURE)}
    assert source in measured
    assert source.strip() not in measured
    assert all("# ROLE" in t and '{"Key": 1}' in t for t in measured)
    assert not [c for c in ended.last["candidates"] if c["text"].split() == source.split()]


def test_placeholders_in_the_source_stay_text(run, fake: Fake) -> None:
    """Pitfall 24: templates are filled by replace, and the tags end an answer early."""
    source = (
        "Use <instruction>, <mother>, <father>, <task_desc>, <few_shots> and <prev_prompt>.\n"
        "Write <prompt>x</prompt> and <prompt1>, <prompt2>, <instructions>, <examples>; ⟪mother⟫ is a word."
    )
    for engine in ("capo", "evoprompt_ga", "opro"):
        ended = run(
            engine=engine,
            source_text=source,
            goal="About <mother>.",
            example_ids=[f"e{i}" for i in range(12)],
        )
        assert ended.last["candidates"], ended.events
        for candidate in ended.last["candidates"]:
            assert source in candidate["text"]
        assert all(source in b["text"] for b in fake.made(MEASURE) + fake.made(CHECK))
        fake.calls.clear()


def test_placeholders_that_the_model_writes_stay_text(run, fake: Fake) -> None:
    fake.meta = lambda _p, n: f"<prompt>Rule {n}: never say <mother> or <instruction>.</prompt>"
    run()
    assert not [b for b in fake.made(CHAT) if "<mother>" in str(b) or "<instruction>" in str(b)]
    texts = {b["text"] for b in fake.made(MEASURE)} - {"# Role\nYou help with questions.\n"}
    assert texts
    assert all("<mother> or <instruction>" in t for t in texts)


def test_a_truncated_answer_is_no_child(run, fake: Fake) -> None:
    """A cut answer without its closing tag would be accepted by the library."""
    fake.meta = lambda p, n: ("<prompt>half", "length") if "EVOPROMPT" in p else Fake.add_a_rule(p, n)
    ended = run()
    assert ended.warned()["meta_truncated"] == 12
    assert len(fake.made(CHAT)) == 3 + 12, "a truncated answer is not asked for again"
    assert not [b for b in fake.made(MEASURE) if "half" in b["text"]]
    assert len({b["text"] for b in fake.made(MEASURE)}) == 4, "the parent costs nothing"


def test_an_answer_without_tags_is_asked_for_once_more(run, fake: Fake) -> None:
    """The library takes a chatty answer for a prompt."""
    fake.meta = lambda p, n: "I cannot do that." if "EVOPROMPT" in p else Fake.add_a_rule(p, n)
    ended = run(max_steps=1)
    evo = [b["messages"][0]["content"] for b in fake.made(CHAT) if "EVOPROMPT" in str(b)]
    assert len(evo) == 8
    assert sum("REPAIR" in p for p in evo) == 4
    assert (ended.warned()["meta_repaired"], ended.warned()["meta_rejected"]) == (4, 4)
    assert not [b for b in fake.made(MEASURE) if "cannot" in b["text"]]


def test_a_child_that_breaks_a_rule_is_repaired_or_dropped(run, fake: Fake) -> None:
    fake.check = lambda text: [{"rule": "banned_phrase", "message": "no bad words"}] if "bad" in text else []
    fake.meta = lambda p, n: Fake.add_a_rule(p, n) if "no bad words" in p else f"<prompt>bad {n}</prompt>"
    ended = run()
    assert ended.last["candidates"]
    assert not [b for b in fake.made(MEASURE) if "bad" in b["text"]]
    assert ended.warned()["meta_repaired"] == len(fake.made(CHAT)) / 2


def test_every_measured_candidate_counts_not_only_the_last_population(run, fake: Fake) -> None:
    """Pitfall 18: the population forgets; the source may fall out of it."""
    fake.score = lambda text, _x: 1.0 if "first" in text else 0.2
    fake.meta = lambda p, n: (
        f"<prompt>first {n}</prompt>" if "VARIATION" in p else f"<prompt>later {n}</prompt>"
    )
    ended = run(population=2, max_candidates=8)
    texts = [c["text"] for c in ended.last["candidates"]]
    assert texts[0].startswith("first")
    assert any(t.startswith("later") for t in texts)
    assert ended.last["source_score"] == pytest.approx(0.2)


def test_equal_scores_are_ranked_by_spread_and_then_by_length(run, fake: Fake) -> None:
    texts = ["wild", "a longer calm text", "calm"]
    fake.meta = lambda _p, n: f"<prompt>{texts[n % 3]}</prompt>"
    fake.score = lambda text, x: (0.5 if int(x[1:]) % 2 else 0.7) if text == "wild" else 0.6
    ended = run(concurrency=1)
    assert [c["text"] for c in ended.last["candidates"]] == ["calm", "a longer calm text", "wild"]


def test_the_budget_ends_the_search_and_keeps_the_best(run, fake: Fake) -> None:
    """Pitfall 14: the library's client would retry 402 for half a minute."""
    fake.meta = lambda p, n: stop(402, "budget_exhausted") if n > 6 else Fake.add_a_rule(p, n)
    ended = run(concurrency=1)
    assert (ended.code, ended.last["status"], ended.last["ended_by"]) == (0, "budget", "budget")
    assert ended.last["candidates"][0]["score"] > ended.last["source_score"]
    assert len(fake.made(CHAT)) == 7, "no call after the refusal"


def test_what_was_paid_before_an_abort_is_kept(run, fake: Fake) -> None:
    """The library forgets a batch that did not finish, and one failed call fails all (pitfall 15)."""
    measured: list[str] = []
    lock = threading.Lock()

    def score(text: str, _x: str) -> float:
        with lock:
            if text not in measured:
                measured.append(text)
            if measured.index(text) >= 3:
                stop(402, "budget_exhausted")
        return 0.5

    fake.score = score
    ended = run(concurrency=1)
    assert ended.last["status"] == "budget"
    assert [c["text"] for c in ended.last["candidates"]] != []
    assert {c["text"] for c in ended.last["candidates"]} == set(measured[1:3])


@pytest.mark.parametrize(
    ("status", "code", "want", "retryable"),
    [
        (401, "", "provider_terminal", False),
        (402, "", "provider_terminal", False),
        (403, "", "provider_terminal", False),
        (403, "policy_refused", "policy_refused", False),
        (400, "weird", "provider_terminal", False),
        (404, "", "provider_terminal", False),
        (429, "", "provider_rate_limited", True),
        (500, "", "temporary_backend_error", True),
        (503, "", "temporary_backend_error", True),
        (302, "", "temporary_backend_error", True),
    ],
)
def test_a_refusal_ends_the_job_after_one_call(
    run, fake: Fake, status: int, code: str, want: str, retryable: bool
) -> None:
    """Pitfall 14: nothing is retried here; the parent did that already."""
    fake.meta = lambda _p, _n: stop(status, code)
    ended = run(concurrency=1)
    assert (ended.code, ended.last["type"]) == (1, "error")
    assert (ended.last["code"], ended.last["retryable"]) == (want, retryable)
    assert len(fake.made(CHAT)) == 1


def test_a_cancel_from_the_parent_ends_the_search(run, fake: Fake) -> None:
    fake.score = lambda _t, _x: stop(409, "cancelled")
    ended = run()
    assert (ended.last["status"], ended.last["candidates"], ended.last["source_score"]) == (
        "cancelled",
        [],
        None,
    )


def test_a_connection_that_breaks_is_not_tried_again(run, fake: Fake) -> None:
    fake.server.shutdown()
    fake.server.server_close()
    ended = run()
    assert (ended.last["code"], ended.last["retryable"]) == ("temporary_backend_error", True)
    fake.server.server_close = lambda: None


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"choices":[]}', b'{"choices":[{"message":{"content":5}}]}', b"[" * 99999]
)
def test_a_malformed_answer_is_temporary(run, fake: Fake, body: bytes) -> None:
    answer = fake.answer
    fake.answer = lambda path, b, h: body if path == CHAT else answer(path, b, h)
    ended = run()
    assert (ended.last["type"], ended.last["code"]) == ("error", "temporary_backend_error"), ended.last


def test_surrogates_empty_and_huge_children_are_dropped(run, fake: Fake) -> None:
    bad = ["<prompt>\ud800</prompt>", "<prompt> </prompt>", f"<prompt>{'x' * 70000}</prompt>"]
    fake.meta = lambda p, n: bad[n % 3] if "EVOPROMPT" in p else Fake.add_a_rule(p, n)
    ended = run(max_steps=1)
    assert ended.warned()["meta_rejected"] == 4
    assert ended.last["status"] == "completed"


def test_the_candidates_together_stay_within_their_limit(run, fake: Fake) -> None:
    fake.meta = lambda _p, n: f"<prompt>{n} {'x' * 65000}</prompt>"
    ended = run(max_candidates=8, population=10)
    total = sum(len(c["text"]) for c in ended.last["candidates"])
    assert 0 < total <= 256 << 10
    assert len(ended.last["candidates"]) == 4


def test_the_guard_gives_the_better_parent(run, fake: Fake) -> None:
    """A failed child must not pull the population down."""
    got: list[str] = []

    def prepare(search) -> None:
        good, poor = search.texts.add("a good text"), search.texts.add("a poor text, a little longer")
        search.board.measure(["a good text", "a poor text, a little longer"], ["e0", "e0"])
        search.board.rows = ["e0"]
        fake.meta = lambda _p, _n: "no tags"
        got.extend(search.meta.get_response([f"A:\n{good}\nB:\n{poor}", f"A:\n{poor}\nB:\n{good}"]))

    fake.score = lambda text, _x: 0.9 if "good" in text else 0.1
    run(prepare)
    assert got == ["<prompt>a good text</prompt>"] * 2


@pytest.mark.parametrize("engine", ["capo", "evoprompt_ga", "opro"])
def test_the_source_is_the_first_seed(run, engine: str) -> None:
    firsts: list[str] = []

    def prepare(search) -> None:
        made = search.make_optimizer

        def watched(seeds):
            optimizer = made(seeds)
            firsts.extend(search.texts.real(p.construct_prompt()) for p in optimizer.prompts)
            return optimizer

        search.make_optimizer = watched

    run(prepare, engine=engine, example_ids=[f"e{i}" for i in range(12)])
    assert firsts[0] == "# Role\nYou help with questions.\n"
    assert len(set(firsts)) == 4


def test_the_headers_carry_role_and_token(run, fake: Fake) -> None:
    run()
    roles = {(p, h["X-Promptlab-Role"]) for p, _, h in fake.calls}
    assert roles == {(CHAT, "meta"), (MEASURE, "measure"), (CHECK, "check")}
    assert {b["max_tokens"] for b in fake.made(CHAT)} == {1024}
    assert {b["model"] for b in fake.made(CHAT)} == {"meta"}


def test_templates_are_the_requests_own(run, fake: Fake) -> None:
    run(engine="capo", example_ids=[f"e{i}" for i in range(12)])
    assert {b["messages"][0]["content"].split("\n")[0] for b in fake.made(CHAT)} == {
        "VARIATION",
        "CROSSOVER",
        "MUTATION",
    }
    assert set(TEMPLATES) == {"variation", "crossover", "mutation", "evoprompt", "opro", "repair", "emphases"}


def stop(status: int, code: str) -> None:
    raise Stop(status, code)
