"""What requests may say about sampling, stopping, choices and log-probabilities, through OpenAI's client, curl's way and `generate`."""
import json

import openai
import pytest

from program import LIMIT, run, run_well

PROMPT = "The capital of Italy is"
GREEDY = {"prompt": PROMPT, "temperature": 0, "max_tokens": 8}
HOT = {"prompt": PROMPT, "temperature": 20, "max_tokens": 8, "seed": 3}
MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", timeout=LIMIT, max_retries=0) as made:
        yield made


def complete(server, **fields):
    status, answer = server.ask("/v1/completions", {**GREEDY, **fields})
    assert status == 200, answer
    return answer["choices"]


def test_choices_have_seeds_of_their_own(server):
    choices = complete(server, **HOT, n=4)
    assert [choice["index"] for choice in choices] == [0, 1, 2, 3]
    assert len({choice["text"] for choice in choices}) == 4
    for choice in choices:
        (alone,) = complete(server, **{**HOT, "seed": choice["seed"]})
        assert alone["text"] == choice["text"]
    told = json.loads(run_well("generate", "demo", "--ids", "298,275", "--temperature", "20", "--max-tokens", "8", "--seed", "3",
                               "--n", "4", "--json"))
    assert len(told["others"]) == 3 and len({tuple(other["ids"]) for other in told["others"]}) == 3


def test_choices_stream(client):
    plain = client.completions.create(model="demo", prompt=PROMPT, temperature=20, seed=3, n=3, max_tokens=8)
    texts = ["", "", ""]
    ends = {}
    for chunk in client.completions.create(model="demo", prompt=PROMPT, temperature=20, seed=3, n=3, max_tokens=8, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            if choice.finish_reason:
                ends[choice.index] = choice.finish_reason
    assert texts == [choice.text for choice in plain.choices]
    assert len(ends) == 3
    assert plain.usage.completion_tokens == 24 and plain.usage.prompt_tokens == 5


def test_the_best_of_several(server):
    every = complete(server, **HOT, n=4, logprobs=0)
    means = [sum(c["logprobs"]["token_logprobs"]) / len(c["logprobs"]["token_logprobs"]) for c in every]
    if all(len(c["logprobs"]["tokens"]) == 8 for c in every):  # no token without text
        best = complete(server, **HOT, n=2, best_of=4)
        order = sorted(range(4), key=lambda i: -means[i])
        assert [choice["text"] for choice in best] == [every[i]["text"] for i in order[:2]]


def test_logprobs_of_a_completion(client):
    answer = client.completions.create(model="demo", prompt=PROMPT, temperature=0, max_tokens=8, logprobs=3)
    told = answer.choices[0].logprobs
    assert "".join(told.tokens) == answer.choices[0].text
    assert told.text_offset == [len("".join(told.tokens[:i])) for i in range(len(told.tokens))]
    for token, logprob, top in zip(told.tokens, told.token_logprobs, told.top_logprobs):
        assert len(top) == 3 and max(top, key=top.get) == token and top[token] == logprob <= 0


def test_logprobs_of_a_chat(client):
    def ask(**fields):
        return client.chat.completions.create(model="demo", messages=MESSAGES, temperature=0, logprobs=True, top_logprobs=2,
                                              extra_body={"thinking": {"type": "enabled"}}, **fields)
    choice = ask().choices[0]
    assert b"".join(bytes(entry.bytes) for entry in choice.logprobs.content).decode() == choice.message.content
    assert all(len(entry.top_logprobs) == 2 for entry in choice.logprobs.content)
    assert b"".join(bytes(entry["bytes"]) for entry in choice.logprobs.reasoning_content).decode() == choice.message.reasoning
    streamed = [entry for chunk in ask(stream=True) if chunk.choices[0].logprobs for entry in chunk.choices[0].logprobs.content]
    assert [(e.token, e.logprob) for e in streamed] == [(e.token, e.logprob) for e in choice.logprobs.content]


def test_logprobs_of_a_prompt_are_those_of_the_answer(server):
    status, answer = server.ask("/v1/completions", {**GREEDY, "prompt": [298, 275, 264], "logprobs": 0, "ignore_eos": True})
    assert status == 200
    ids = json.loads(run_well("generate", "demo", "--ids", "298,275,264", "--temperature", "0", "--max-tokens", "8", "--ignore-eos",
                              "--logprobs", "0", "--json"))
    whole = ids["prompt_ids"] + ids["ids"]
    (again,) = complete(server, prompt=whole, max_tokens=1, prompt_logprobs=2)
    assert again["prompt_logprobs"][0] is None and len(again["prompt_logprobs"]) == len(whole)
    tail = [entry[str(token)] for entry, token in zip(again["prompt_logprobs"][3:], ids["ids"])]
    assert [entry["logprob"] for entry in tail] == pytest.approx([told["logprob"] for told in ids["logprobs"]], abs=1e-7)
    assert all(entry["rank"] == 1 for entry in tail), "greedy"


def test_bias_and_bans(server):
    (usual,) = complete(server, logprobs=0)
    (word,) = complete(server, bad_words=["Rome"], logprobs=0)
    assert " Rome" in usual["logprobs"]["tokens"]
    assert not {"Rome", " Rome"} & set(word["logprobs"]["tokens"])  # it may be spelled in other tokens
    (forced,) = complete(server, logit_bias={"77": 100}, max_tokens=3)
    (allowed,) = complete(server, allowed_token_ids=[77], max_tokens=3)
    assert forced["text"] == allowed["text"] != usual["text"]


def test_how_answers_end(server):
    (usual,) = complete(server, max_tokens=30)
    assert usual["finish_reason"] == "stop" and usual["stop_reason"] is None
    (longer,) = complete(server, max_tokens=30, ignore_eos=True)
    assert longer["finish_reason"] == "length" and longer["text"].startswith(usual["text"])
    (least,) = complete(server, max_tokens=30, min_tokens=20)
    assert least["text"].startswith(usual["text"]) and len(least["text"]) > len(usual["text"])
    (stopped,) = complete(server, stop=["Ro"])
    (with_it,) = complete(server, stop=["Ro"], include_stop_str_in_output=True)
    assert with_it["text"] == stopped["text"] + "Ro" and with_it["stop_reason"] == "Ro"
    first = run_well("generate", "demo", "--ids", "298", "--temperature", "0", "--max-tokens", "1", "--json")
    token = json.loads(first)["ids"][0]
    status, answer = server.ask("/v1/completions", {**GREEDY, "prompt": [298], "stop_token_ids": [token]})
    assert status == 200 and answer["choices"][0]["text"] == "" and answer["choices"][0]["stop_reason"] == token


def test_penalties_change_the_answer(server):
    usual = complete(server, **{**HOT, "temperature": 1, "max_tokens": 40, "ignore_eos": True})[0]["text"]
    for penalty in ({"presence_penalty": 2}, {"frequency_penalty": 2}, {"repetition_penalty": 2}):
        other = complete(server, **{**HOT, "temperature": 1, "max_tokens": 40, "ignore_eos": True}, **penalty)[0]["text"]
        assert len(set(other.split())) > len(set(usual.split())) or other != usual


def test_generate_refuses(server):
    for options, told in ((("--n", "0"), "n: expected 1 to 128, found 0"), (("--min-p", "2"), "min_p: expected a number from 0 to 1"),
                          (("--min-tokens", "9", "--max-tokens", "8"), "min_tokens: expected 0 to 8"),
                          (("--logprobs", "3"), "only with --json"), (("--stop-token-ids", "x"), "--stop-token-ids")):
        done = run("generate", "demo", "--prompt", "a", *options)
        assert done.returncode == 2 and told in done.stderr, done.stderr
