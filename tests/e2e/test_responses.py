"""`stoker serve` through the Responses interface of the unmodified OpenAI client: whole, streamed, tools there and back, forms."""
import json

import openai
import pytest

from forms import RANKED, Capital, check_ranked
from program import LIMIT

QUESTION = "What is the capital of France?"
ANSWER = "The capital of France is Paris."
NUMBER = {"type": "integer"}
MULTIPLY = {"type": "function", "name": "multiply", "description": "Multiplies two numbers.", "strict": True,
            "parameters": {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"],
                           "additionalProperties": False}}
NO_THINKING = {"thinking": {"type": "disabled"}}


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", timeout=LIMIT, max_retries=0) as made:
        yield made


def fields_with(fields):
    return {"model": "demo", "input": QUESTION, "temperature": 0, "max_output_tokens": 400, **fields}


def ask(client, **fields):
    return client.responses.create(**fields_with(fields))


def without_ids(response):
    """What is the same in each answer to the same request."""
    items = [dict(item.to_dict(), id=None, call_id=None) for item in response.output]
    return items, response.status, response.usage.output_tokens, response.usage.output_tokens_details


def test_an_answer(client):
    response = ask(client, instructions="Be terse.", metadata={"purpose": "test"}, store=True)
    thought, message = response.output
    assert response.id.startswith("resp_") and (response.object, response.model, response.status) == ("response", "demo", "completed")
    assert (thought.type, thought.summary, thought.content[0].type) == ("reasoning", [], "reasoning_text")
    assert (message.type, message.role, message.status) == ("message", "assistant", "completed")
    assert response.output_text and message.content[0].text == response.output_text
    assert (response.instructions, response.metadata, response.store) == ("Be terse.", {"purpose": "test"}, False)
    assert (response.error, response.incomplete_details, response.previous_response_id) == (None, None, None)
    usage = response.usage
    assert 0 < usage.output_tokens_details.reasoning_tokens < usage.output_tokens
    assert usage.input_tokens_details.cached_tokens <= usage.input_tokens
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens


def test_without_thinking(client):
    response = ask(client, extra_body=NO_THINKING)
    assert [item.type for item in response.output] == ["message"]
    assert response.output_text == ANSWER


def test_what_is_cut_off(client):
    response = ask(client, max_output_tokens=3, extra_body=NO_THINKING)
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert response.output[-1].status == "incomplete" and response.usage.output_tokens == 3
    with client.responses.stream(**fields_with({"max_output_tokens": 3})) as events:
        assert [event.type for event in events][-1] == "response.incomplete"


@pytest.mark.parametrize("fields", [{}, {"extra_body": NO_THINKING}, {"tools": [MULTIPLY], "input": "What is 3 * 4?"},
                                    {"temperature": 1, "extra_body": {"seed": 5}}])
def test_a_stream_says_the_same(client, fields):
    events = list(ask(client, stream=True, **fields))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1].type == "response.completed"
    response = events[-1].response
    assert {event.response.id for event in events if hasattr(event, "response")} == {response.id}
    assert without_ids(response) == without_ids(ask(client, **fields))
    for index, item in enumerate(response.output):
        of_item = [event for event in events if getattr(event, "output_index", None) == index]
        assert of_item[0].type == "response.output_item.added" and of_item[0].item.id == item.id
        assert of_item[-1].type == "response.output_item.done" and of_item[-1].item == item
        told = "".join(event.delta for event in of_item if event.type.endswith(".delta"))
        assert told == (item.arguments if item.type == "function_call" else item.content[0].text)


@pytest.mark.parametrize("extra", [{}, NO_THINKING])
def test_a_tool_there_and_back(client, extra):
    fields = {"tools": [MULTIPLY], "extra_body": extra}
    question = [{"role": "user", "content": "What is 3 * 4?"}]
    with client.responses.stream(**fields_with({"input": question, **fields})) as events:
        streamed = events.get_final_response()
    called = ask(client, input=question, **fields)
    call = called.output[-1]
    assert (call.type, call.name, json.loads(call.arguments)) == ("function_call", "multiply", {"a": 3, "b": 4})
    assert (streamed.output[-1].name, streamed.output[-1].arguments) == (call.name, call.arguments)
    history = [*question, *called.output, {"type": "function_call_output", "call_id": call.call_id, "output": "12"}]
    answer = ask(client, input=history, **fields)
    assert answer.status == "completed" and "12" in answer.output_text


def test_which_tool_is_called(client):
    for choice in ("required", {"type": "function", "name": "multiply"}):
        forced = ask(client, tools=[MULTIPLY], tool_choice=choice, parallel_tool_calls=False, extra_body=NO_THINKING)
        assert [item.type for item in forced.output] == ["function_call"]
    assert ask(client, tools=[MULTIPLY], tool_choice="none", extra_body=NO_THINKING).output_text == ANSWER


@pytest.mark.parametrize("extra", [{}, NO_THINKING])
def test_an_answer_of_a_form(client, extra):
    text = {"format": {"type": "json_schema", "name": "city", "schema": RANKED, "strict": True}}
    response = ask(client, text=text, extra_body={"seed": 1, **extra})
    check_ranked(json.loads(response.output_text))
    parsed = client.responses.parse(**fields_with({"text_format": Capital, "extra_body": {"seed": 1, **extra}}))
    assert isinstance(parsed.output_parsed, Capital)
    with client.responses.stream(**fields_with({"text_format": Capital, "extra_body": {"seed": 1, **extra}})) as events:
        assert events.get_final_response().output_parsed == parsed.output_parsed


def test_a_conversation_goes_on(client):
    first = ask(client)
    follow_up = [{"role": "user", "content": QUESTION}, *first.output, {"role": "user", "content": "What is the capital of Italy?"}]
    assert "Rome" in ask(client, input=follow_up).output_text


def test_logprobs(client):
    fields = {"include": ["message.output_text.logprobs"], "top_logprobs": 2, "extra_body": NO_THINKING}
    entries = ask(client, **fields).output[0].content[0].logprobs
    assert "".join(entry.token for entry in entries) == ANSWER
    assert all(len(entry.top_logprobs) == 2 and entry.logprob <= 0 for entry in entries)
    streamed = [entry for event in ask(client, stream=True, **fields) if event.type == "response.output_text.delta"
                for entry in event.logprobs]
    assert [(entry.token, entry.logprob) for entry in streamed] == [(entry.token, entry.logprob) for entry in entries]


def test_nothing_is_stored(client):
    made = ask(client, store=True)
    for call in (client.responses.retrieve, client.responses.cancel):
        with pytest.raises(openai.NotFoundError, match="responses are not stored"):
            call(made.id)
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, previous_response_id=made.id)
    assert caught.value.body["param"] == "previous_response_id"


@pytest.mark.parametrize("fields, param", [
    ({"background": True}, "background"),
    ({"conversation": "conv_1"}, "conversation"),
    ({"truncation": "auto"}, "truncation"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "http://x"}]}]}, "input[0].content[0]"),
    ({"input": "word " * 100, "max_output_tokens": 4090}, "max_output_tokens"),
    ({"reasoning": {"effort": "extreme"}}, "reasoning.effort"),
    ({"text": {"format": {"type": "json_schema", "name": "n", "schema": {"if": {}, "then": {}}}}}, "text.format"),
])
def test_refusals_name_the_field(client, fields, param):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, **fields)
    assert caught.value.body["param"] == param and caught.value.body["message"].startswith(param)
