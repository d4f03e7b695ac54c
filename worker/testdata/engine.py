"""Stands in for the optimizer's adapter: speaks its protocol and does what the goal says."""

import hashlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time

request = json.loads(sys.stdin.readline())
mode, _, argument = request["goal"].partition(" ")


def emit(kind, **fields):
    sys.stdout.write(json.dumps({"type": kind, **fields}) + "\n")
    sys.stdout.flush()


def post(path, body):
    host = request["base_url"].removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=60)
    headers = {"Authorization": "Bearer " + request["token"], "Content-Type": "application/json"}
    connection.request("POST", path, json.dumps(body), headers)
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def ask(path, body):
    """Asks and, where the answer is no, says why as the adapter does."""
    status, got = post(path, body)
    if status == 200:
        return got
    code = got["error"]["code"]
    if status == 402:
        result("budget", [])
    elif status == 409:
        result("cancelled", [])
    elif status >= 500:
        emit("error", code="temporary_backend_error", message=f"status {status}", retryable=True)
    else:
        emit("error", code="provider_terminal", message=code, retryable=False)
    sys.exit(0 if status in (402, 409) else 1)


def measure(text):
    got = ask("/v1/measure", {"text": text, "example_ids": request["example_ids"]})
    scores = [r["score"] for r in got["results"] if r["score"] is not None]
    return sum(scores) / len(scores) if scores else 0.0


def result(status, texts):
    found = [
        {
            "text": t,
            "sha256": hashlib.sha256(t.encode()).hexdigest(),
            "score": s,
            "n": len(request["example_ids"]),
            "delta_summary": ["lines: 1 added"],
        }
        for t, s in texts
    ]
    emit(
        "result",
        status=status,
        ended_by="steps" if status == "completed" else status,
        source_score=0.0,
        candidates=found,
        steps=2,
        seed=request["seed"],
        engine="evoprompt_ga",
        promptolution="2.3.0",
        python="3.11.0",
        warnings=[{"code": "truncated", "count": 1}],
    )


emit("hello", protocol=1, pid=os.getpid(), python="3.11.0", promptolution="2.3.0")
source = request["source_text"]
better = source + "- Name the Owner.\n"

if mode == "search":
    emit("seeds", n=2, rejected=0)
    measure(source)
    score = measure(better)
    measure(better)
    emit("step", i=1, n=2, best=score, mean=score / 2)
    result("completed", [(better, score), (source, 0.0)])
elif mode == "check":
    texts = [better, better + "- Mention the quarterly plan.\n", source + "secret input 1 " * 9]
    verdicts = [[v["rule"] for v in ask("/v1/check", {"text": t})["violations"]] for t in texts]
    with open(argument, "w") as f:
        json.dump(verdicts, f)
    result("completed", [])
elif mode == "meta":
    ask("/v1/chat/completions", {"model": request["meta_model"], "messages": [{"role": "user", "content": "x"}], "max_tokens": 64})
    result("completed", [])
elif mode == "spend":
    for n in range(400):
        ask("/v1/measure", {"text": f"{better}{n}", "example_ids": request["example_ids"]})
    result("completed", [])
elif mode == "crash":
    os.kill(os.getpid(), signal.SIGSEGV)
elif mode == "silent":
    sys.exit(0)
elif mode == "malformed":
    print("this is no event", flush=True)
    time.sleep(30)
elif mode == "forged":
    emit("result", status="completed", ended_by="steps", source_score=7, candidates=[{"text": "x", "sha256": "0" * 64, "score": 1, "n": 1}])
elif mode == "flood":
    while True:
        emit("calls", meta=1, measure=1, check=1, padding="x" * 60000)
elif mode == "error":
    emit("error", code=argument, message="as the adapter says it", retryable=True)
    sys.exit(1)
elif mode == "cancelled":
    result("cancelled", [])
elif mode == "hang":
    time.sleep(600)
elif mode == "best":  # hands over what it has when it is told to stop
    def stop(*_):
        result("cancelled", [(better, 1.0)])
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    with open(argument, "w") as f:
        f.write("ready")
    time.sleep(600)
elif mode == "tree":  # does not want to die, and neither do its children
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    kids = [subprocess.Popen([sys.executable, "-c", child]), subprocess.Popen([sys.executable, "-c", child], start_new_session=True)]
    with open(argument + ".new", "w") as f:
        f.write(" ".join(str(p) for p in [os.getpid(), *(k.pid for k in kids)]))
    os.rename(argument + ".new", argument)
    time.sleep(600)
