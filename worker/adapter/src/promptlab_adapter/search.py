"""The search: seeds, the optimizer with our thin parts in it, and what is left at the end."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from promptolution.optimizers import CAPO, OPRO, EvoPromptGA
from promptolution.optimizers.base_optimizer import BaseOptimizer
from promptolution.predictors.base_predictor import BasePredictor
from promptolution.tasks.base_task import BaseTask
from promptolution.utils.callbacks import BaseCallback
from promptolution.utils.formatting import extract_from_tag

from promptlab_adapter.board import Board, Warnings
from promptlab_adapter.channel import Channel
from promptlab_adapter.engine import choose_engine
from promptlab_adapter.guard import CLOSE, OPEN, GatewayLLM, GuardedMetaLLM
from promptlab_adapter.loopback import Loopback
from promptlab_adapter.report import describe_error
from promptlab_adapter.request import Request
from promptlab_adapter.stop import JobAbort, JobError
from promptlab_adapter.texts import Texts

SEED_ROUNDS = 2


class ReplayPredictor(BasePredictor):
    """Has nothing to predict: x is an example's id, and the parent composes, calls and scores."""

    def __init__(self, llm: GatewayLLM, board: Board, texts: Texts) -> None:
        super().__init__(llm)
        self._board = board
        self._texts = texts

    def predict(
        self, prompts: str | list[str], xs: list[str], system_prompts: str | list[str] | None = None
    ) -> tuple[list[Any], list[str]]:
        """Gives the scores in place of predictions, and no sequences."""
        del system_prompts
        inner = [prompts] * len(xs) if isinstance(prompts, str) else prompts
        real = [self._texts.real(p) for p in inner]
        self._board.measure(real, xs)
        return [self._board.value(t, x) for t, x in zip(real, xs, strict=True)], [""] * len(xs)

    def _extract_preds(self, preds: list[str]) -> list[str]:
        return preds


class ReplayTask(BaseTask):
    """The rows by id. Scores arrive as predictions, so evaluating is handing them on."""

    def _evaluate(self, xs: list[str], ys: list[str], preds: list[Any]) -> np.ndarray:
        del xs, ys
        return np.asarray(preds, dtype=float)


class ProgressCallback(BaseCallback):
    """Tells every finished step."""

    def __init__(self, channel: Channel, board: Board) -> None:
        super().__init__()
        self._channel = channel
        self._board = board
        self.steps = 0

    def on_step_end(self, optimizer: BaseOptimizer) -> bool:
        """Sends one step event; never stops the search."""
        self.steps += 1
        scores = [float(s) for s in optimizer.scores]
        fields = {"best": max(scores), "mean": sum(scores) / len(scores)} if scores else {}
        self._channel.emit("step", i=self.steps, n=len(self._board.others()), **fields)
        return True


def guard_steps(optimizer: BaseOptimizer) -> None:
    """Makes an error inside a step end the job.

    The library logs it and returns the prompts that it has, which looks like success.
    """
    step: Callable[[], Any] = optimizer._step

    def guarded() -> Any:
        try:
            return step()
        except Exception as err:
            raise JobError("temporary_backend_error", describe_error(err), retryable=True) from err

    optimizer._step = guarded  # type: ignore[method-assign]


@dataclass
class Search:
    """One search. Run may end by JobAbort; finish then gives what was found until then."""

    request: Request
    channel: Channel
    loopback: Loopback

    def __post_init__(self) -> None:
        request = self.request
        random.seed(request.seed)
        np.random.seed(request.seed)
        pool = ThreadPoolExecutor(request.concurrency, thread_name_prefix="call")
        self.texts = Texts(request.source_text, request.goal)
        self.warnings = Warnings(self.channel)
        self.board = Board(self.loopback, pool, self.channel, self.warnings, self.texts)
        self.progress = ProgressCallback(self.channel, self.board)
        self.meta = GuardedMetaLLM(
            self.loopback, pool, self.texts, self.warnings, self.board.mean, request.templates["repair"]
        )
        self.predictor = ReplayPredictor(GatewayLLM(self.loopback, pool), self.board, self.texts)
        self.engine = choose_engine(request.engine, len(request.example_ids))
        self.ended_by = "steps"

    def run(self) -> None:
        """Searches. Raises JobAbort when it is told to stop, JobError when it cannot go on."""
        self.board.start(self.request.example_ids, self.request.seed)
        self.engine = choose_engine(self.request.engine, len(self.board.rows))
        if self.request.engine not in ("auto", self.engine):
            self.warnings.add("too_few_rows_for_engine")
        seeds = self.make_seeds()
        if len(seeds) < 2:
            # One prompt makes CAPO and EvoPrompt do nothing without a word.
            self.warnings.add("too_few_seeds")
            self.ended_by = "too_few_seeds"
            return
        optimizer = self.make_optimizer(seeds)
        guard_steps(optimizer)
        optimizer.optimize(self.request.max_steps)
        self.board.complete(2 * self.request.max_candidates)

    def make_seeds(self) -> list[str]:
        """Gives the source, always first, and guarded variations of it, all different."""
        seeds = [self.texts.source_inner]
        wanted = self.request.population
        for attempt in range(SEED_ROUNDS):
            prompts = [self._variation(attempt * wanted + k) for k in range(wanted - len(seeds))]
            for child in extract_from_tag(self.meta.get_response(prompts), OPEN, CLOSE) if prompts else []:
                if child not in seeds:
                    seeds.append(child)
        self.channel.emit("seeds", n=len(seeds), rejected=wanted - len(seeds))
        return seeds

    def _variation(self, k: int) -> str:
        # A different emphasis each time: equal requests tend to get equal answers.
        emphases = self.request.emphases
        goal = f"{self.texts.goal}\n{emphases[k % len(emphases)]} (Attempt {k + 1}.)".strip()
        template = self.request.templates["variation"].replace("<task_desc>", goal)
        return template.replace("<prev_prompt>", self.texts.source_inner)

    def make_optimizer(self, seeds: list[str]) -> BaseOptimizer:
        """Builds the engine. None of them ever sees an example or gets few-shots."""
        rows, templates = self.board.rows, self.request.templates
        block = max(3, len(rows) // 4) if self.engine == "capo" else len(rows)
        task = ReplayTask(
            pd.DataFrame({"x": rows}, dtype=object),
            x_column="x",
            task_description=self.texts.goal,
            n_subsamples=block,
            eval_strategy="sequential_block" if self.engine == "capo" else "full",
            seed=self.request.seed,
        )
        if task.xs != rows:
            raise JobError("temporary_backend_error", "the library changed the example ids", retryable=False)
        common: dict[str, Any] = {
            "predictor": self.predictor,
            "task": task,
            "meta_llm": self.meta,
            "initial_prompts": seeds,
            "callbacks": [self.progress],
        }
        if self.engine == "capo":
            return CAPO(
                crossover_template=templates["crossover"],
                mutation_template=templates["mutation"],
                # Two meta calls a child: as many meta calls a step as EvoPrompt.
                crossovers_per_iter=max(2, len(seeds) // 2),
                upper_shots=0,
                df_few_shots=pd.DataFrame(),
                max_n_blocks_eval=task.n_blocks,
                length_penalty=0.01,
                **common,
            )
        if self.engine == "opro":
            return OPRO(
                prompt_template=templates["opro"].replace("<examples>", ""),
                num_instructions_per_step=len(seeds),
                num_few_shots=0,
                **common,
            )
        return EvoPromptGA(prompt_template=templates["evoprompt"], **common)


def run_search(search: Search) -> str:
    """Runs a search and gives its status: completed, budget or cancelled."""
    try:
        search.run()
    except JobAbort as stop:
        search.ended_by = stop.reason
        return stop.reason
    return "completed"
