"""A small loopback server: the parent's side of the protocol, with every call written down."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

RULES = ("Cite the source.", "Answer in one line.", "Say when you do not know.")
TOKEN = "pl-job-0123456789abcdef"
TEMPLATES = {
    "variation": "VARIATION\nTask: <task_desc>\nText:\n<prev_prompt>\nEnd.",
    "crossover": "CROSSOVER\nTask: <task_desc>\nA:\n<mother>\nB:\n<father>\nEnd.",
    "mutation": "MUTATION\nTask: <task_desc>\nText:\n<instruction>\nEnd.",
    "evoprompt": "EVOPROMPT\nTask: <task_desc>\nA:\n<prompt1>\nB:\n<prompt2>\nEnd.",
    "opro": "OPRO\nTask: <task_desc>\n<instructions>\n<examples>\nEnd.",
    "repair": "<request>\nREPAIR\n<problems>\nAgain.",
    "emphases": ["Be explicit.", "Be brief.", "Name the usual mistakes."],
}


class Stop(Exception):
    """Answer with a status and a code instead."""

    def __init__(self, status: int, code: str = "") -> None:
        super().__init__(status)
        self.status = status
        self.code = code


def rule_score(text: str, example_id: str) -> float:
    """The helpful world: each hidden rule in the text raises the score of every example."""
    wobble = (sum(example_id.encode()) % 7) / 100
    return min(1.0, 0.1 + wobble + 0.25 * sum(rule in text for rule in RULES))


class Fake:
    """Counts and answers. meta, score and check may be replaced; they may raise Stop."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.lock = threading.Lock()
        self.meta: Callable[[str, int], Any] = self.add_a_rule
        self.score: Callable[[str, str], Any] = rule_score
        self.check: Callable[[str], list[dict[str, str]]] = lambda _text: []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                try:
                    status, answer = 200, fake.answer(self.path, body, dict(self.headers))
                except Stop as stop:
                    status, answer = stop.status, {"error": {"code": stop.code, "message": "no"}}
                raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        # A job that ends hangs up in the middle of its calls.
        self.server.handle_error = lambda *_a: None  # type: ignore[method-assign]
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def answer(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> Any:
        with self.lock:
            self.calls.append((path, body, headers))
            number = sum(p == path for p, _, _ in self.calls)
        if headers.get("Authorization") != f"Bearer {TOKEN}":
            raise Stop(401)
        if path == "/v1/measure":
            rows = [
                {"example_id": x, "score": self.score(body["text"], x), "feedback": ""}
                for x in body["example_ids"]
            ]
            return {"results": rows}
        if path == "/v1/check":
            return {"violations": self.check(body["text"])}
        if path == "/v1/chat/completions":
            got = self.meta(body["messages"][-1]["content"], number)
            text, finish = got if isinstance(got, tuple) else (got, "stop")
            return {"choices": [{"message": {"content": text}, "finish_reason": finish}]}
        raise Stop(404)

    def made(self, path: str) -> list[dict[str, Any]]:
        """The bodies of the calls to a path."""
        return [b for p, b, _ in self.calls if p == path]

    @staticmethod
    def add_a_rule(prompt: str, number: int) -> str:
        """A helpful meta model: takes the first text of the meta prompt and adds one rule."""
        head = prompt.split("\nText:\n")[-1].split("\nA:\n")[-1]
        text = head.split("\nEnd.")[0].split("\nB:\n")[0]
        return f"Here it is.\n<prompt>{text}\n{RULES[number % len(RULES)]}</prompt>"


def request(url: str, **changes: Any) -> dict[str, Any]:
    """A request that is good, with changes."""
    good = {
        "protocol": 1,
        "job_id": "1b4e28ba-2fa1-41d2-883f-0016d3cca427",
        "engine": "auto",
        "seed": 7,
        "source_text": "# Role\nYou help with questions.\n",
        "goal": "Better answers.",
        "artifact_kind": "overlay_template",
        "example_ids": [f"e{i}" for i in range(8)],
        "max_candidates": 3,
        "max_steps": 3,
        "population": 4,
        "constraints": {"banned_phrases": [], "preserve_required_sections": [], "max_growth": 1.3},
        "templates": dict(TEMPLATES),
        "base_url": url,
        "token": TOKEN,
        "meta_model": "meta",
        "meta_max_tokens": 1024,
        "concurrency": 4,
    }
    return {**good, **changes}
