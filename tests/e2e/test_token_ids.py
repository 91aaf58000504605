"""`/inference/v1/generate`: token ids in, token ids out, as a completion chooses them."""
import json
import urllib.error
import urllib.request

import pytest

from program import LIMIT


def post(server, path, **body):
    request = urllib.request.Request(f"{server.url}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=LIMIT) as reply:
        return reply.read().decode()


@pytest.fixture(scope="module")
def prompt(server):
    return json.loads(post(server, "/tokenize", messages=[{"role": "user", "content": "What is the capital of France?"}]))["tokens"]


PARAMS = {"temperature": 1, "seed": 4, "max_tokens": 20, "logprobs": 2}


def test_ids_are_those_of_a_completion(server, prompt):
    answer = json.loads(post(server, "/inference/v1/generate", token_ids=prompt, sampling_params=PARAMS, request_id="mine"))
    (choice,) = answer["choices"]
    completion = json.loads(post(server, "/v1/completions", prompt=prompt, return_token_ids=True, **PARAMS))["choices"][0]
    assert answer["request_id"] == "mine" and choice["token_ids"] == completion["token_ids"]
    assert choice["finish_reason"] == completion["finish_reason"]
    entries = choice["logprobs"]["content"]
    assert [entry["token"] for entry in entries] == [f"token_id:{id}" for id in choice["token_ids"]]
    assert answer["usage"]["prompt_tokens"] == len(prompt) and answer["usage"]["completion_tokens"] == len(choice["token_ids"])


def test_a_stream_says_the_same(server, prompt):
    params = {**PARAMS, "n": 2}
    whole = json.loads(post(server, "/inference/v1/generate", token_ids=prompt, sampling_params=params))["choices"]
    events = post(server, "/inference/v1/generate", token_ids=prompt, sampling_params=params, stream=True).split("\n\n")
    ids, entries, ends = {0: [], 1: []}, {0: [], 1: []}, {}
    for event in events[:-2]:
        (choice,) = json.loads(event.removeprefix("data: "))["choices"]
        ids[choice["index"]] += choice["token_ids"]
        entries[choice["index"]] += choice["logprobs"]["content"]
        if choice["finish_reason"]:
            ends[choice["index"]] = choice["finish_reason"]
    assert events[-2:] == ["data: [DONE]", ""]
    for choice in whole:
        index = choice["index"]
        assert (ids[index], entries[index], ends[index]) == (choice["token_ids"], choice["logprobs"]["content"], choice["finish_reason"])


def test_the_end_of_text_is_a_token(server, prompt):
    fields = {"token_ids": prompt, "sampling_params": {"temperature": 0}}
    (choice,) = json.loads(post(server, "/inference/v1/generate", **fields))["choices"]
    assert choice["finish_reason"] == "stop"
    text = json.loads(post(server, "/detokenize", tokens=choice["token_ids"][:-1]))["prompt"]
    assert text.endswith("The capital of France is Paris.")


@pytest.mark.parametrize("fields, param", [
    ({"token_ids": [10**9]}, "token_ids"),
    ({"token_ids": []}, "token_ids"),
    ({"token_ids": [1] * 5000}, "token_ids"),
    ({"sampling_params": {"max_tokens": 10**6}}, "sampling_params.max_tokens"),
    ({"sampling_params": {"stop_token_ids": [10**9]}}, "sampling_params.stop_token_ids"),
    ({"sampling_params": {"zebra": 1}}, "sampling_params.zebra"),
])
def test_refusals_name_the_field(server, prompt, fields, param):
    with pytest.raises(urllib.error.HTTPError) as caught:
        post(server, "/inference/v1/generate", **{"token_ids": prompt, **fields})
    error = json.loads(caught.value.read())["error"]
    assert (caught.value.code, error["param"]) == (400, param) and error["message"]
