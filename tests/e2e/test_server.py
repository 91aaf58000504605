"""`stoker serve` over its sockets: shapes, refusals, clients that vanish, and how it stops."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from program import LIMIT, ROOT, Server, events

QUESTION = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "thinking": {"type": "disabled"}}
# Sampled this hot, the demo model does not come to an end.
ENDLESS = {"prompt": "a", "temperature": 20, "seed": 1}


def test_models(server):
    status, models = server.ask("/v1/models")
    assert status == 200 and models["object"] == "list"
    (card,) = models["data"]
    assert (card["id"], card["object"], card["max_model_len"]) == ("demo", "model", 4096)
    assert server.ask("/v1/models/demo") == (200, card)


def test_health(server):
    assert server.ask("/health") == (200, None)


def test_a_checkpoint_shortened_while_it_is_served(tmp_path):
    copy = tmp_path / "model"
    shutil.copytree(ROOT / "models" / "demo", copy)
    with Server(copy) as server:
        assert server.ask("/v1/chat/completions", QUESTION)[0] == 200
        for file in copy.glob("*.safetensors"):
            os.truncate(file, 4096)
        with pytest.raises(OSError):  # nobody is left to answer
            server.ask("/v1/chat/completions", QUESTION)
        assert server.process.wait(LIMIT) == 70
        server.reader.join(LIMIT)
        assert re.search(r"/model/[^/]+\.safetensors, offset \d+: the file was shortened", server.log)


def test_names(tmp_path):
    with Server("demo", "--served-model-name", "org/first", "--served-model-name", "second") as named:
        assert [card["id"] for card in named.ask("/v1/models")[1]["data"]] == ["org/first", "second"]
        answers = [named.ask("/v1/completions", {"prompt": "a", "max_tokens": 1, **name})[1] for name in ({}, {"model": "second"})]
        assert [answer["model"] for answer in answers] == ["org/first", "second"]
        assert named.ask("/v1/completions", {"prompt": "a", "model": "demo"})[0] == 404


def test_chat_usage(server):
    status, answer = server.ask("/v1/chat/completions", QUESTION)
    assert status == 200 and answer["object"] == "chat.completion"
    usage = answer["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["completion_tokens"] > 0


def test_order_of_a_stream(server):
    plain = server.ask("/v1/chat/completions", QUESTION)[1]
    with server.open_stream("/v1/chat/completions", dict(QUESTION, stream_options={"include_usage": True})) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        received = list(events(response))
    assert received[-1] == "[DONE]"
    *chunks, end, usage = [json.loads(data) for data in received[:-1]]
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert all(chunk["choices"][0]["finish_reason"] is None for chunk in chunks)
    assert end["choices"][0]["finish_reason"] == "stop"
    assert usage["choices"] == [] and usage["usage"]["completion_tokens"] == plain["usage"]["completion_tokens"]
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks + [end])
    assert text == plain["choices"][0]["message"]["content"]


def test_ids_as_prompt(server):
    by_text = server.ask("/v1/completions", {"prompt": "The capital of France is", "max_tokens": 4})[1]
    assert by_text["choices"][0]["finish_reason"] in ("length", "stop")
    status, answer = server.ask("/v1/completions", {"prompt": [[0, 5], [0, 6]], "max_tokens": 4})
    assert status == 200 and [choice["index"] for choice in answer["choices"]] == [0, 1]
    assert answer["usage"]["prompt_tokens"] == 4


@pytest.mark.parametrize("path, body, status, param", [
    ("/v1/completions", {"prompt": "a", "logprobs": 21}, 400, "logprobs"),
    ("/v1/completions", {"prompt": "a", "suffix": "b"}, 400, "suffix"),
    ("/v1/completions", {"prompt": "a", "guided_regex": "("}, 400, "structured_outputs"),
    ("/v1/completions", {"prompt": "a", "n": 129}, 400, "n"),
    ("/v1/completions", {"prompt": "a", "n": 3, "best_of": 2}, 400, "best_of"),
    ("/v1/completions", {"prompt": "a", "min_p": 1.5}, 400, "min_p"),
    ("/v1/completions", {"prompt": "a", "repetition_penalty": 0}, 400, "repetition_penalty"),
    ("/v1/completions", {"prompt": "a", "logit_bias": {"4096": 1}}, 400, "logit_bias"),
    ("/v1/completions", {"prompt": "a", "logit_bias": {"5": -101}}, 400, "logit_bias.5"),
    ("/v1/completions", {"prompt": "a", "allowed_token_ids": [5], "banned_token_ids": [5]}, 400, "allowed_token_ids"),
    ("/v1/completions", {"prompt": "a", "min_tokens": 17}, 400, "min_tokens"),
    ("/v1/completions", {"prompt": "a", "stop_token_ids": [4096]}, 400, "stop_token_ids"),
    ("/v1/completions", {"prompt": "a", "prompt_logprobs": 1, "stream": True}, 400, "prompt_logprobs"),
    ("/v1/completions", {"prompt": "a", "max_tokens": 0}, 400, "max_tokens"),
    ("/v1/completions", {"prompt": "a", "temperature": -1}, 400, "temperature"),
    ("/v1/completions", {"prompt": "a", "temperature": "hot"}, 400, "temperature"),
    ("/v1/completions", {"prompt": "a", "stop": ["x" * 257]}, 400, "stop[0]"),
    ("/v1/completions", {"prompt": "a", "stream_options": {}}, 400, "stream_options"),
    ("/v1/completions", {"prompt": [4096]}, 400, "prompt"),
    ("/v1/completions", {"prompt": [-1]}, 400, "prompt[0]"),
    ("/v1/completions", {"prompt": [1.5]}, 400, "prompt[0]"),
    ("/v1/completions", {"prompt": [1] * 4097}, 400, "prompt"),
    ("/v1/completions", {"prompt": [1] * 4000, "max_tokens": 200}, 400, "max_tokens"),
    ("/v1/completions", {}, 400, "prompt"),
    ("/v1/completions", {"prompt": "a", "model": "another"}, 404, "model"),
    ("/v1/chat/completions", dict(QUESTION, tools=[{"type": "function", "function": {"name": "no good"}}]), 400, "tools[0].function.name"),
    ("/v1/chat/completions", {"messages": [{"role": "robot", "content": "a"}]}, 400, "messages[0].role"),
    ("/v1/chat/completions", {"messages": []}, 400, "messages"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "word " * 5000}]}, 400, "messages"),
    ("/v1/chat/completions", dict(QUESTION, reasoning_effort=101), 400, "reasoning_effort"),
    ("/v1/chat/completions", b'{"messages": [', 400, None),
    ("/v1/chat/completions", b'{"messages": "\xff"}', 400, None),
    ("/v1/embeddings", {"input": "a"}, 404, None),
])
def test_refusals(server, path, body, status, param):
    found, answer = server.ask(path, body)
    assert found == status, answer
    error = answer["error"]
    assert (error["code"], error["param"]) == (status, param) and error["message"]
    assert server.ask("/v1/completions", {"prompt": "a", "max_tokens": 1})[0] == 200


def test_unknown_fields_are_logged_and_ignored(server):
    assert server.ask("/v1/completions", {"prompt": "a", "max_tokens": 1, "zebra": 1})[0] == 200
    assert "zebra" in server.log


def test_a_wrong_method_is_refused(server):
    assert server.ask("/v1/completions", method="GET")[0] == 405


def test_clients_together_get_what_they_get_alone(server):
    bodies = [{"prompt": f"word {i}", "max_tokens": 12, "temperature": 1, "seed": i} for i in range(12)]
    alone = [server.ask("/v1/completions", body)[1]["choices"] for body in bodies]
    together = [None] * len(bodies)

    def ask(i):
        together[i] = server.ask("/v1/completions", bodies[i])[1]["choices"]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_survives_abuse():
    with Server("demo") as server:
        abuse = Path(__file__).with_name("abuse.py")
        done = subprocess.run([sys.executable, abuse, server.url, "--pid", str(server.process.pid)], capture_output=True, text=True,
                              timeout=LIMIT, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert server.ask("/v1/chat/completions", QUESTION)[0] == 200
        assert server.stop() == 0


def test_sigterm_lets_a_stream_finish():
    with Server("demo") as server:
        with server.open_stream("/v1/completions", dict(ENDLESS, max_tokens=200)) as response:
            stream = events(response)
            received = [next(stream)]
            server.process.send_signal(signal.SIGTERM)
            received += stream
        assert received[-1] == "[DONE]"
        assert json.loads(received[-2])["choices"][0]["finish_reason"] == "length"
        assert server.process.wait(LIMIT) == 0


def test_sigterm_cuts_what_takes_too_long():
    with Server("demo", "--shutdown-timeout", "4") as server:
        begun = time.monotonic()
        with server.open_stream("/v1/completions", dict(ENDLESS, max_tokens=4000)) as response:
            stream = events(response)
            next(stream)
            server.process.send_signal(signal.SIGTERM)
            rest = list(stream)
        assert server.process.wait(LIMIT) == 0
        assert time.monotonic() - begun < 25
        assert rest


def test_a_second_signal_ends_at_once():
    with Server("demo") as server:
        with server.open_stream("/v1/completions", dict(ENDLESS, max_tokens=4000)) as response:
            next(events(response))
            server.process.send_signal(signal.SIGINT)
            while "stopping" not in server.log:
                time.sleep(0.01)
            assert server.stop(signal.SIGTERM) == -signal.SIGTERM


def test_sigterm_while_idle():
    with Server("demo") as server:
        assert server.stop() == 0


def test_a_port_that_is_taken(server):
    with pytest.raises(AssertionError, match=str(server.port)):
        with Server("demo", "--port", str(server.port)):
            pass
