"""`stoker serve` through the unmodified Anthropic client: messages whole and streamed, tools there and back, tokens, errors."""
import json

import anthropic
import pytest

from forms import RANKED, Capital, check_ranked
from program import LIMIT, Server

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
ANSWER = "The capital of France is Paris."
GREEDY = {"temperature": 0}  # the client has no parameter for it
NUMBER = {"type": "integer"}
MULTIPLY = {"name": "multiply", "description": "Multiplies two numbers.",
            "input_schema": {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]}}
THINKING = {"type": "enabled", "budget_tokens": 1024}


def client_of(server, **options):
    return anthropic.Anthropic(base_url=server.url, timeout=LIMIT, max_retries=0, **dict({"api_key": "none"}, **options))


@pytest.fixture(scope="module")
def client(server):
    with client_of(server) as made:
        yield made


def ask(client, **parameters):
    return client.messages.create(**dict({"model": "demo", "max_tokens": 100, "messages": QUESTION, "extra_body": GREEDY}, **parameters))


def stream(client, **parameters):
    return client.messages.stream(**dict({"model": "demo", "max_tokens": 100, "messages": QUESTION, "extra_body": GREEDY}, **parameters))


def without_ids(message):
    blocks = [dict(block.to_dict(), id=None) for block in message.content]
    return blocks, message.stop_reason, message.stop_sequence, message.usage.output_tokens


def test_a_message(client):
    message = ask(client)
    assert message.id.startswith("msg_") and (message.type, message.role, message.model) == ("message", "assistant", "demo")
    (block,) = message.content
    assert (block.type, block.text) == ("text", ANSWER)
    assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)
    assert message.usage.output_tokens > 0
    counted = client.messages.count_tokens(model="demo", messages=QUESTION).input_tokens
    assert counted == message.usage.input_tokens + message.usage.cache_read_input_tokens


def test_thinking(client):
    message = ask(client, thinking=THINKING)
    thought, answer = message.content
    assert (thought.type, answer.type, answer.text) == ("thinking", "text", ANSWER)
    assert thought.thinking and thought.signature
    assert 0 < message.usage.output_tokens_details.thinking_tokens < message.usage.output_tokens
    follow_up = QUESTION + [message.to_param(), {"role": "user", "content": "What is the capital of Italy?"}]
    assert "Rome" in ask(client, thinking=THINKING, messages=follow_up).content[-1].text


def test_where_an_answer_stops(client):
    message = ask(client, stop_sequences=["France"])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "France")
    assert message.content[0].text == "The capital of "
    message = ask(client, max_tokens=2)
    assert (message.stop_reason, message.usage.output_tokens) == ("max_tokens", 2)


def test_an_answer_that_was_begun_goes_on(client):
    begun = QUESTION + [{"role": "assistant", "content": "The capital of France"}]
    assert ask(client, messages=begun).content[0].text == " is Paris."


@pytest.mark.parametrize("parameters", [{}, {"thinking": THINKING}, {"stop_sequences": ["France"]}, {"max_tokens": 3}])
def test_a_stream_says_the_same(client, parameters):
    with stream(client, **parameters) as events:
        kinds = [event.type for event in events]
        streamed = events.get_final_message()
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"
    assert kinds.count("text") > 0
    assert without_ids(streamed) == without_ids(ask(client, **parameters))


@pytest.mark.parametrize("thinking", [{"type": "disabled"}, THINKING])
def test_a_tool_there_and_back(client, thinking):
    question = [{"role": "user", "content": "What is 3 * 4?"}]
    called = ask(client, messages=question, tools=[MULTIPLY], thinking=thinking)
    use = called.content[-1]
    assert (called.stop_reason, use.type, use.name, use.input) == ("tool_use", "tool_use", "multiply", {"a": 3, "b": 4})
    with stream(client, messages=question, tools=[MULTIPLY], thinking=thinking) as events:
        assert without_ids(events.get_final_message()) == without_ids(called)
    result = {"type": "tool_result", "tool_use_id": use.id, "content": [{"type": "text", "text": "12"}]}
    history = question + [called.to_param(), {"role": "user", "content": [result]}]
    answer = ask(client, messages=history, tools=[MULTIPLY], thinking=thinking)
    assert answer.stop_reason == "end_turn" and answer.content[-1].text


def test_which_tool_is_called(client):
    forced = ask(client, tools=[MULTIPLY], tool_choice={"type": "tool", "name": "multiply", "disable_parallel_tool_use": True})
    assert [block.type for block in forced.content] == ["tool_use"]
    assert ask(client, tools=[MULTIPLY], tool_choice={"type": "any"}).stop_reason == "tool_use"
    question = [{"role": "user", "content": "What is 3 * 4?"}]
    assert ask(client, messages=question, tools=[MULTIPLY], tool_choice={"type": "none"}).stop_reason == "end_turn"


@pytest.mark.parametrize("thinking", [{"type": "disabled"}, THINKING])
def test_an_answer_of_a_form(client, thinking):
    fields = {"thinking": thinking, "max_tokens": 400, "extra_body": {"temperature": 0, "seed": 1}}
    message = ask(client, output_config={"format": {"type": "json_schema", "schema": RANKED}}, **fields)
    assert message.stop_reason == "end_turn"
    check_ranked(json.loads(message.content[-1].text))
    parsed = client.messages.parse(model="demo", messages=QUESTION, output_format=Capital, **fields)
    assert isinstance(parsed.parsed_output, Capital)


def test_tokens_are_counted(client):
    def count(**parameters):
        return client.messages.count_tokens(**dict({"model": "demo", "messages": QUESTION}, **parameters)).input_tokens

    system = [{"type": "text", "text": "Be terse.", "cache_control": {"type": "ephemeral"}}]
    assert 0 < count() < count(system="Be terse.") < count(system="Be terse.", tools=[MULTIPLY])
    assert count(system=system) == count(system="Be terse.")


def test_the_beta_client(client):
    message = client.beta.messages.create(model="demo", max_tokens=100, messages=QUESTION, extra_body=GREEDY,
                                          betas=["context-management-2025-06-27"],
                                          context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]})
    assert message.content[0].text == ANSWER


def test_errors(client):
    with pytest.raises(anthropic.BadRequestError) as caught:
        ask(client, messages=[{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "http://x"}}]}])
    assert caught.value.body["type"] == "error"
    assert caught.value.body["error"] == {"type": "invalid_request_error",
                                          "message": "messages[0].content[0]: content of type image is not supported yet"}
    with pytest.raises(anthropic.BadRequestError, match="max_tokens"):
        ask(client, messages=[{"role": "user", "content": "word " * 100}], max_tokens=4090)
    with pytest.raises(anthropic.BadRequestError, match="tools of type web_search_20250305"):
        ask(client, tools=[{"type": "web_search_20250305", "name": "web_search"}])
    with pytest.raises(anthropic.BadRequestError, match=r"output_config\.format: .*#/if"):
        ask(client, output_config={"format": {"type": "json_schema", "schema": {"if": {}, "then": {}}}})
    with pytest.raises(anthropic.NotFoundError) as caught:
        ask(client, model="another")
    assert caught.value.body["error"]["type"] == "not_found_error"


def test_keys():
    with Server("demo", "--api-key", "secret") as server:
        with client_of(server) as client, pytest.raises(anthropic.AuthenticationError) as caught:
            ask(client)
        assert caught.value.body["error"]["type"] == "authentication_error"
        for key in ({"api_key": "secret"}, {"api_key": None, "auth_token": "secret"},
                    {"api_key": "none", "default_headers": {"Authorization": "", "X-Api-Key": "secret"}}):
            with client_of(server, **key) as client:
                assert ask(client).content[0].text == ANSWER
