"""What bounds an answer and its prompt, over HTTP: a budget of reasoning, repetition, truncation; and how far a prompt is read."""
import json

import pytest

from program import Server, events, run

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
CHAT = {"messages": QUESTION, "temperature": 0, "max_tokens": 200}
BABBLE = {"prompt": "The capital of France is", "temperature": 0, "max_tokens": 200, "ignore_eos": True,
          "allowed_token_ids": [300, 301, 302, 303, 304]}
LONG = [7 + i * 37 % 3000 for i in range(700)]


def answered(server, path, body):
    status, answer = server.ask(path, body)
    assert status == 200, answer
    return answer


def reasoning_tokens(answer):
    return answer["usage"]["completion_tokens_details"]["reasoning_tokens"]


def test_a_budget_ends_the_reasoning(server):
    free = answered(server, "/v1/chat/completions", CHAT)
    assert reasoning_tokens(free) > 6
    whole = free["choices"][0]["message"]["reasoning"]
    for budget in (0, 1, 5):
        bounded = answered(server, "/v1/chat/completions", dict(CHAT, thinking_token_budget=budget))
        message = bounded["choices"][0]["message"]
        assert reasoning_tokens(bounded) == budget + 1 and message["content"]
        assert whole.startswith(message.get("reasoning", "")) and ("reasoning" in message) == (budget > 0)
    for none in (-1, None, 10_000):
        assert answered(server, "/v1/chat/completions", dict(CHAT, thinking_token_budget=none))["choices"] == free["choices"]


def test_other_interfaces_have_it(server):
    response = answered(server, "/v1/responses", {"input": QUESTION, "temperature": 0, "thinking_token_budget": 4})
    assert response["usage"]["output_tokens_details"]["reasoning_tokens"] == 5
    message = answered(server, "/v1/messages", {"messages": QUESTION, "temperature": 0, "max_tokens": 200,
                                                "thinking": {"type": "enabled", "budget_tokens": 4}})
    assert message["usage"]["output_tokens_details"]["thinking_tokens"] == 5
    assert [block["type"] for block in message["content"]] == ["thinking", "text"]


def test_a_budget_is_replayed(server, tmp_path):
    answer = answered(server, "/v1/chat/completions", dict(CHAT, thinking_token_budget=3, receipt=True, temperature=1))
    receipt = tmp_path / "receipt.json"
    receipt.write_text(json.dumps(answer["choices"][0]["receipt"]) + "\n")
    done = run("replay", receipt, "demo")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("fields", [
    {"repetition_detection": {"max_pattern_size": 8, "min_count": 3}},
    {"max_repetition_pattern_size": 8, "repetition_min_count": 3},
])
def test_repetition_ends_an_answer(server, fields):
    free = answered(server, "/v1/completions", dict(BABBLE, return_token_ids=True))["choices"][0]
    ended = answered(server, "/v1/completions", dict(BABBLE, return_token_ids=True, **fields))["choices"][0]
    assert (free["finish_reason"], ended["finish_reason"], ended["stop_reason"]) == ("length", "repetition", None)
    ids = ended["token_ids"]
    assert ids == free["token_ids"][:len(ids)] and len(ids) < 200
    assert any(ids[-size:] * 3 == ids[-3 * size:] for size in range(1, 9))
    told = answered(server, "/inference/v1/generate", {"token_ids": [5, 6, 7], "sampling_params": {
        "temperature": 0, "max_tokens": 200, "ignore_eos": True, "allowed_token_ids": [300],
        "repetition_detection": {"max_pattern_size": 1, "min_count": 5}}})
    assert told["choices"][0]["token_ids"] == [300] * 5 and told["choices"][0]["finish_reason"] == "repetition"
    last = list(events(server.open_stream("/v1/completions", dict(BABBLE, **fields))))[-2]
    assert json.loads(last)["choices"][0]["finish_reason"] == "repetition"


def test_a_long_prompt_is_cut(server):
    body = {"prompt": LONG, "max_tokens": 3, "temperature": 0, "return_token_ids": True}
    cut = answered(server, "/v1/completions", dict(body, truncate_prompt_tokens=50))
    alone = answered(server, "/v1/completions", dict(body, prompt=LONG[-50:]))
    assert cut["choices"] == alone["choices"] and cut["usage"]["prompt_tokens"] == 50
    assert cut["choices"][0]["prompt_token_ids"] == LONG[-50:]
    context = answered(server, "/v1/models", None)["data"][0]["max_model_len"]
    over = dict(body, prompt=(LONG * 20)[:context + 10])
    assert server.ask("/v1/completions", over)[0] == 400
    assert answered(server, "/v1/completions", dict(over, truncate_prompt_tokens=-1))["usage"]["prompt_tokens"] == context - 3
    status, error = server.ask("/tokenize", dict(body, truncate_prompt_tokens=50))
    assert (status, error["error"]["param"]) == (400, "truncate_prompt_tokens")


def test_progress_while_a_prompt_is_read():
    with Server("demo", "--max-num-batched-tokens", "64", "--max-num-seqs", "8") as server:
        body = {"prompt": LONG, "max_tokens": 3, "temperature": 0, "return_progress": True}
        chunks = [json.loads(event) for event in events(server.open_stream("/v1/completions", body)) if event != "[DONE]"]
        told = [chunk["prompt_progress"] for chunk in chunks if "prompt_progress" in chunk]
        processed = [progress["processed"] for progress in told]
        assert len(told) > 3 and processed == sorted(set(processed)) and processed[-1] == len(LONG)
        assert {(progress["total"], progress["cache"]) for progress in told} == {(len(LONG), 0)}
        assert all(progress["time_ms"] > 0 for progress in told)
        texts = [chunk["choices"][0]["text"] for chunk in chunks]
        plain = answered(server, "/v1/completions", {key: body[key] for key in ("prompt", "max_tokens", "temperature")})
        assert "".join(texts) == plain["choices"][0]["text"]
        assert server.ask("/v1/completions", body)[1]["error"]["param"] == "return_progress"
