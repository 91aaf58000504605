"""Chats as OpenAI's client has them: tools in and out, answers in a given form, continued messages, keys."""
import enum
import json
import urllib.request
from typing import Annotated

import openai
import pydantic
import pytest

from program import LIMIT, Server

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
NO_THINKING = {"thinking": {"type": "disabled"}}
TIDE = {
    "type": "function",
    "function": {
        "name": "tide",
        "description": "Tide height at a harbour.",
        "parameters": {
            "type": "object",
            "properties": {"harbour": {"type": "string", "maxLength": 20}, "hours": {"type": "integer", "minimum": 0, "maximum": 48}},
            "required": ["harbour", "hours"],
            "additionalProperties": False,
        },
    },
}


class Kind(enum.Enum):
    OLD = "old"
    NEW = "new"


class City(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=20)
    kind: Kind
    districts: list[Annotated[int, pydantic.Field(ge=0, le=99)]] = pydantic.Field(max_length=3)


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", timeout=LIMIT, max_retries=0) as made:
        yield made


def ask(client, **fields):
    return client.chat.completions.create(**{"model": "demo", "messages": QUESTION, "max_tokens": 400, "seed": 4, **fields})


@pytest.mark.parametrize("thinking", ["enabled", "disabled"])
def test_an_answer_of_a_model(client, thinking):
    answer = client.chat.completions.parse(model="demo", messages=QUESTION, response_format=City, seed=1, max_tokens=400,
                                           extra_body={"thinking": {"type": thinking}})
    (choice,) = answer.choices
    assert choice.finish_reason == "stop"
    assert isinstance(choice.message.parsed, City) and choice.message.parsed.kind in Kind
    assert bool(getattr(choice.message, "reasoning", None)) == (thinking == "enabled")


def test_a_schema_that_cannot_be_held(client):
    schema = {"type": "object", "properties": {"a": {"if": {}, "then": {}}}}
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
    assert "#/properties/a/if" in str(caught.value) and caught.value.body["param"] == "response_format"


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "tide"}}])
@pytest.mark.parametrize("extra", [{}, NO_THINKING])
def test_a_call_that_must_come(client, choice, extra):
    answer = ask(client, tools=[TIDE], tool_choice=choice, parallel_tool_calls=False, temperature=1.3, extra_body=extra)
    (call,) = answer.choices[0].message.tool_calls
    arguments = json.loads(call.function.arguments)
    assert call.type == "function" and call.function.name == "tide" and list(arguments) == ["harbour", "hours"]
    assert 0 <= arguments["hours"] <= 48
    assert answer.choices[0].finish_reason == ("tool_calls" if choice == "required" else "stop")


def test_a_stream_is_the_whole_answer(client):
    fields = {"tools": [TIDE], "tool_choice": "required", "temperature": 1, "parallel_tool_calls": False}
    whole = ask(client, **fields).choices[0].message
    reasoning, arguments, names, ids, end = "", "", [], set(), None
    for chunk in ask(client, **fields, stream=True):
        (choice,) = chunk.choices
        end = choice.finish_reason or end
        reasoning += getattr(choice.delta, "reasoning", None) or ""
        for call in choice.delta.tool_calls or []:
            assert call.index == 0
            if call.id:
                ids.add(call.id)
                names.append(call.function.name)
            arguments += call.function.arguments
    assert (names, len(ids), end) == (["tide"], 1, "tool_calls")
    assert arguments == whole.tool_calls[0].function.arguments and reasoning == whole.reasoning


def test_results_go_back(client):
    call = {"id": "call_1", "type": "function", "function": {"name": "tide", "arguments": '{"harbour": "Hull", "hours": 6}'}}
    messages = [*QUESTION, {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "Need it."},
                {"role": "tool", "tool_call_id": "call_1", "content": "3.1 m"}]
    answer = ask(client, messages=messages, tools=[TIDE], temperature=0)
    with_tools = answer.usage.prompt_tokens
    assert answer.choices[0].finish_reason in ("stop", "tool_calls", "length")
    assert ask(client, messages=messages, tools=[TIDE], tool_choice="none", temperature=0).usage.prompt_tokens < with_tools


def test_a_message_is_continued(client):
    messages = [*QUESTION, {"role": "assistant", "content": "The capital of France"}]
    for extra in ({"continue_final_message": True, "add_generation_prompt": False}, {}):
        if not extra:
            messages[-1]["prefix"] = True
        answer = ask(client, messages=messages, temperature=0, extra_body={**extra, **NO_THINKING})
        assert answer.choices[0].message.content == " is Paris."


def test_keys():
    with Server("demo", "--api-key", "team=sk-first", "--api-key", "sk-second", "--admin-api-key", "root-key") as server:
        for key in ("sk-first", "sk-second"):
            with openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, timeout=LIMIT, max_retries=0) as made:
                assert [model.id for model in made.models.list()] == ["demo"]
        for key in ("sk-third", "root-key"):
            with openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, timeout=LIMIT, max_retries=0) as made:
                with pytest.raises(openai.AuthenticationError):
                    made.models.list()
        with urllib.request.urlopen(f"{server.url}/metrics", timeout=LIMIT) as response:
            assert "vllm:num_requests_running" in response.read().decode()
        reset = urllib.request.Request(f"{server.url}/reset_prefix_cache", method="POST", headers={"Authorization": "Bearer root-key"})
        with urllib.request.urlopen(reset, timeout=LIMIT) as response:
            assert response.status == 200
        assert "sk-" not in server.log and "key=team" in server.log


def test_aborted_requests():
    with Server("demo", "--admin-api-key", "root-key") as server:
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", timeout=LIMIT, max_retries=0) as made:
            stream = made.completions.create(model="demo", prompt="The capital of Italy is", max_tokens=4000, stream=True,
                                             extra_body={"ignore_eos": True})
            body = json.dumps({"request_ids": [next(iter(stream)).id, "cmpl-none"]}).encode()
            abort = urllib.request.Request(f"{server.url}/abort_requests", body,
                                           {"Authorization": "Bearer root-key", "Content-Type": "application/json"})
            with urllib.request.urlopen(abort, timeout=LIMIT) as response:
                assert json.load(response) == {"aborted": 1}
            with pytest.raises(openai.APIError, match="the request was aborted"):
                for _ in stream:
                    pass
        assert server.ask("/v1/completions", {"prompt": "The capital of Italy is", "max_tokens": 1})[0] == 200
