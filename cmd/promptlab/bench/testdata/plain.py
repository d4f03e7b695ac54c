"""The reference of the optimizer row: the same search as a plain script.

It runs the adapter's own search with the library, the seed and the texts of the job, and
puts in place of the loopback what somebody would write who has no lab: calls to the model
endpoint and a check of the answers, in this process. Standard input holds the request that
the worker would send, with "plain": the endpoint, the model, how a text and an input become
messages, and the examples. Standard output gets one JSON object.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from promptlab_adapter import request as requests
from promptlab_adapter.channel import Channel
from promptlab_adapter.loopback import Answer
from promptlab_adapter.search import Search, run_search


class Direct:
    """Talks to the model endpoint over one kept connection a thread."""

    def __init__(self, plain: dict, meta_max_tokens: int, concurrency: int) -> None:
        self.plain = plain
        self.url = urlsplit(plain["endpoint"])
        self.meta_max_tokens = meta_max_tokens
        self.pool = ThreadPoolExecutor(concurrency)
        self.local = threading.local()
        self.known: dict[tuple[str, str], float] = {}

    def ask(self, body: dict) -> dict:
        if not hasattr(self.local, "connection"):
            self.local.connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=60)
        payload = json.dumps({"model": self.plain["model"], **body})
        connection = self.local.connection
        connection.request("POST", self.url.path, payload, {"Content-Type": "application/json"})
        response = connection.getresponse()
        raw = response.read()
        if response.status != 200:
            raise SystemExit(f"the model endpoint answered {response.status}")
        return json.loads(raw)["choices"][0]

    def chat(self, prompt: str) -> Answer:
        choice = self.ask({"messages": [{"role": "user", "content": prompt}], "max_tokens": self.meta_max_tokens})
        return Answer(choice["message"]["content"], choice["finish_reason"] == "length")

    def measure(self, text: str, example_ids: list[str]) -> dict[str, float]:
        missing = [x for x in example_ids if (text, x) not in self.known]
        for x, score in zip(missing, self.pool.map(lambda x: self.score(text, x), missing), strict=True):
            self.known[text, x] = score
        return {x: self.known[text, x] for x in example_ids}

    def score(self, text: str, example_id: str) -> float:
        example = self.plain["examples"][example_id]
        system = self.plain["system"].replace(self.plain["mark"], text)
        messages = [{"role": "system", "content": system}, {"role": "user", "content": example["input"]}]
        answer = self.ask({"messages": messages, "max_tokens": 1024, "temperature": 0, "seed": self.plain["seed"]})
        content = answer["message"]["content"].lower()
        wanted = [line.removeprefix("contains: ").lower() for line in example["expected"].splitlines()]
        return sum(w in content for w in wanted) / len(wanted)

    def check(self, _text: str) -> list[str]:
        return []


def main() -> None:
    line = sys.stdin.buffer.readline()
    request = requests.parse(line)
    direct = Direct(json.loads(line)["plain"], request.meta_max_tokens, request.concurrency)
    search = Search(request, Channel(os.open(os.devnull, os.O_WRONLY)), direct)
    status = run_search(search)
    source, ranked = search.board.rank()
    steps, best = search.progress.steps, ranked[0].score if ranked else None
    print(json.dumps({"status": status, "steps": steps, "source": source, "best": best}), flush=True)
    os._exit(0)


main()
