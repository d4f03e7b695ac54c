"""Drives the official Python clients as a test tells it to.

Each line of standard input is one JSON object: which client (sdk), what to do
with it (do), where (base_url, key, headers) and with which parameters. Each
answer is one line too: what the client understood, or the error it raised.

It deliberately knows nothing of what is expected: that is the test's.
"""

import json
import sys
from typing import Any

import anthropic
import openai
from pydantic import BaseModel


class Verdict(BaseModel):
    """A shape that an answer is asked to have."""

    answer: str
    score: int


def parameters(given: dict[str, Any]) -> dict[str, Any]:
    """Puts what the clients have no parameter for where they want it."""
    p = dict(given)
    if "promptlab" in p:
        p["extra_body"] = {"promptlab": p.pop("promptlab")}
    return p


def extra(model: BaseModel) -> Any:
    """Gives the field that the clients' own types do not know."""
    return (model.model_extra or {}).get("promptlab")


class OpenAI:
    """What a test can do with the client of OpenAI."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.params = parameters(order.get("params", {}))
        self.seen: dict[str, Any] = {}  # of a stream, until it ends or fails
        self.client = openai.OpenAI(
            base_url=order["base_url"] + "/v1", api_key=order["key"], default_headers=order.get("headers")
        )
        self.chat = self.client.chat.completions

    def models(self) -> dict[str, Any]:
        return {"ids": [m.id for m in self.client.models.list()]}

    def model(self) -> dict[str, Any]:
        return {"ids": [self.client.models.retrieve(self.params["id"]).id]}

    def told(self, c: Any) -> dict[str, Any]:
        m, u = c.choices[0].message, c.usage
        cached = u and u.prompt_tokens_details.cached_tokens
        return {
            "id": c.id,
            "model": c.model,
            "text": m.content,
            "refusal": m.refusal,
            "finish": c.choices[0].finish_reason,
            "tools": [[t.id, t.function.name, t.function.arguments] for t in m.tool_calls or []],
            "usage": u and [u.prompt_tokens, u.completion_tokens, u.total_tokens, cached],
            "promptlab": extra(c),
        }

    def create(self) -> dict[str, Any]:
        raw = self.chat.with_raw_response.create(**self.params)
        return self.told(raw.parse()) | {"headers": dict(raw.headers)}

    def shaped(self) -> dict[str, Any]:
        c = self.chat.parse(response_format=Verdict, **self.params)
        return self.told(c) | {"parsed": c.choices[0].message.parsed.model_dump()}

    def stream(self) -> dict[str, Any]:
        out = self.seen = {"text": "", "pieces": 0, "finish": None, "usage": None, "promptlab": None}
        raw = self.chat.with_raw_response.create(stream=True, **self.params)
        out["headers"] = dict(raw.headers)
        for c in raw.parse():
            out["promptlab"] = out["promptlab"] or extra(c)
            if c.usage:
                out["usage"] = [c.usage.prompt_tokens, c.usage.completion_tokens, c.usage.total_tokens]
            for choice in c.choices:
                out["finish"] = choice.finish_reason or out["finish"]
                if choice.delta.content:
                    out["text"] += choice.delta.content
                    out["pieces"] += 1
        return out

    def helper(self) -> dict[str, Any]:
        with self.chat.stream(**self.params) as stream:
            for event in stream:
                if event.type == "content.delta":
                    self.seen["text"] = event.snapshot
        return self.told(stream.get_final_completion())

    def leave(self) -> dict[str, Any]:
        with self.chat.create(stream=True, **self.params) as stream:
            for c in stream:
                if c.choices and c.choices[0].delta.content:
                    return {"text": c.choices[0].delta.content}
        return {"text": ""}

    def tools(self) -> dict[str, Any]:
        """Asks, answers every call, and asks again with the client's own message in the history."""
        streamed = self.params.pop("stream", False)
        if streamed:
            with self.chat.stream(**self.params) as stream:
                first = stream.get_final_completion()
        else:
            first = self.chat.create(**self.params)
        m = first.choices[0].message
        history = [*self.params["messages"], m]
        for t in m.tool_calls:
            found = self.order["answers"][t.function.name]
            history.append({"role": "tool", "tool_call_id": t.id, "content": found})
        last = self.chat.create(**(self.params | {"messages": history}))
        return self.told(last) | {"tools": self.told(first)["tools"], "first": first.choices[0].finish_reason}


class Responses(OpenAI):
    """What a test can do with the same client by the protocol of responses."""

    def told(self, r: Any) -> dict[str, Any]:
        u = r.usage
        return {
            "id": r.id,
            "model": r.model,
            "text": r.output_text,
            "finish": r.status,
            "tools": [[o.call_id, o.name, o.arguments] for o in r.output if o.type == "function_call"],
            "usage": [u.input_tokens, u.output_tokens, u.total_tokens, u.input_tokens_details.cached_tokens],
            "promptlab": extra(r),
        }

    def create(self) -> dict[str, Any]:
        raw = self.client.responses.with_raw_response.create(**self.params)
        return self.told(raw.parse()) | {"headers": dict(raw.headers)}

    def shaped(self) -> dict[str, Any]:
        r = self.client.responses.parse(text_format=Verdict, **self.params)
        return self.told(r) | {"parsed": r.output_parsed.model_dump()}

    def stream(self) -> dict[str, Any]:
        out = self.seen = {"text": "", "pieces": 0}
        raw = self.client.responses.with_raw_response.create(stream=True, **self.params)
        last = None
        for e in raw.parse():
            if e.type == "response.output_text.delta":
                out["text"] += e.delta
                out["pieces"] += 1
            last = e
        return out | self.told(last.response) | {"headers": dict(raw.headers)}

    def helper(self) -> dict[str, Any]:
        with self.client.responses.stream(**self.params) as stream:
            return self.told(stream.get_final_response())

    def leave(self) -> dict[str, Any]:
        with self.client.responses.create(stream=True, **self.params) as stream:
            for e in stream:
                if e.type == "response.output_text.delta":
                    return {"text": e.delta}
        return {"text": ""}

    def tools(self) -> dict[str, Any]:
        streamed = self.params.pop("stream", False)
        if streamed:
            with self.client.responses.stream(**self.params) as stream:
                first = stream.get_final_response()
        else:
            first = self.client.responses.create(**self.params)
        history = [*self.params["input"], *first.output]
        for o in first.output:
            if o.type == "function_call":
                found = self.order["answers"][o.name]
                history.append({"type": "function_call_output", "call_id": o.call_id, "output": found})
        last = self.client.responses.create(**(self.params | {"input": history}))
        return self.told(last) | {"tools": self.told(first)["tools"], "first": first.status}


class Anthropic:
    """What a test can do with the client of Anthropic."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.params = parameters(order.get("params", {}))
        self.seen: dict[str, Any] = {}
        self.client = anthropic.Anthropic(
            base_url=order["base_url"], api_key=order["key"], default_headers=order.get("headers")
        )
        self.chat = self.client.messages

    def models(self) -> dict[str, Any]:
        return {"ids": [m.id for m in self.client.models.list()]}

    def model(self) -> dict[str, Any]:
        return {"ids": [self.client.models.retrieve(self.params["id"]).id]}

    def told(self, m: Any) -> dict[str, Any]:
        return {
            "id": m.id,
            "model": m.model,
            "text": "".join(b.text for b in m.content if b.type == "text"),
            "finish": m.stop_reason,
            "tools": [[b.id, b.name, json.dumps(b.input)] for b in m.content if b.type == "tool_use"],
            "usage": [m.usage.input_tokens, m.usage.output_tokens, m.usage.cache_read_input_tokens],
            "promptlab": extra(m),
        }

    def create(self) -> dict[str, Any]:
        raw = self.chat.with_raw_response.create(**self.params)
        return self.told(raw.parse()) | {"headers": dict(raw.headers)}

    def shaped(self) -> dict[str, Any]:
        told = self.told(self.chat.create(**self.params))
        return told | {"parsed": json.loads(told["text"])}

    def stream(self) -> dict[str, Any]:
        out = self.seen = {"text": "", "pieces": 0}
        with self.chat.stream(**self.params) as stream:
            for text in stream.text_stream:
                out["text"] += text
                out["pieces"] += 1
        return out | self.told(stream.get_final_message()) | {"headers": dict(stream.response.headers)}

    def leave(self) -> dict[str, Any]:
        with self.chat.create(stream=True, **self.params) as stream:
            for e in stream:
                if e.type == "content_block_delta":
                    return {"text": e.delta.text}
        return {"text": ""}

    def tools(self) -> dict[str, Any]:
        streamed = self.params.pop("stream", False)
        if streamed:
            with self.chat.stream(**self.params) as stream:
                first = stream.get_final_message()
        else:
            first = self.chat.create(**self.params)
        results = [
            {"type": "tool_result", "tool_use_id": b.id, "content": self.order["answers"][b.name]}
            for b in first.content
            if b.type == "tool_use"
        ]
        history = [
            *self.params["messages"],
            {"role": "assistant", "content": first.content},
            {"role": "user", "content": results},
        ]
        last = self.chat.create(**(self.params | {"messages": history}))
        return self.told(last) | {"tools": self.told(first)["tools"], "first": first.stop_reason}


def failure(e: Exception, seen: dict[str, Any]) -> dict[str, Any]:
    body = getattr(e, "body", None)
    error = body.get("error", body) if isinstance(body, dict) else {}
    return seen | {
        "error": type(e).__name__,
        "status": getattr(e, "status_code", None),
        "code": error.get("code"),
        "message": getattr(e, "message", str(e)),
        "request": getattr(e, "request_id", None),
    }


def main() -> None:
    clients = {"openai": OpenAI, "responses": Responses, "anthropic": Anthropic}
    for line in sys.stdin:
        order = json.loads(line)
        client = clients[order["sdk"]](order)
        try:
            answer = getattr(client, order["do"])()
        except (openai.OpenAIError, anthropic.AnthropicError) as e:
            answer = failure(e, client.seen)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
