"""Drafts change no answer: `--speculative-config` and `speculate`, through commands, the server and its log."""
import re

import pytest

from program import Server, run, run_well

EVERY = '{"method": "dspark", "enable_adaptive_verification": false}'
THREE = '{"num_speculative_tokens": 3, "enable_adaptive_verification": false, "rejection_sample_method": "match"}'
QUESTION = {"messages": [{"role": "user", "content": "What does water mean?"}], "max_tokens": 60}
SAMPLINGS = [{"temperature": 0}, {"temperature": 1, "seed": 7}, {"temperature": 1.5, "seed": 8, "n": 3, "frequency_penalty": 0.5},
             {"temperature": 0, "stop": ["liquid", "a"]}, {"temperature": 0, "logprobs": True, "top_logprobs": 2}]


@pytest.mark.parametrize("sampling", [["--temperature", "0"], ["--temperature", "1", "--seed", "5", "--n", "2"]])
def test_generate_says_the_same(sampling):
    answers = {run_well("generate", "demo", "--user", "What does tree mean?", "--max-tokens", "60", *sampling,
                        "--speculative-config", config) for config in ("off", "auto", EVERY, THREE)}
    assert len(answers) == 1


def drafts_in(log):
    """(verified, accepted) of each finished request."""
    return [(int(a), int(b)) for a, b in re.findall(r"event=finished .* verified_drafts=(\d+) accepted_drafts=(\d+)", log)]


def test_the_server_answers_the_same():
    def choices_of(server, **fields):
        status, answer = server.ask("/v1/chat/completions", {**QUESTION, **fields})
        assert status == 200, answer
        return answer["choices"]

    with Server("demo", "--speculative-config", "off") as plain, Server("demo", "--speculative-config", EVERY) as drafting:
        for sampling in SAMPLINGS:
            expected = choices_of(plain, **sampling)
            assert choices_of(drafting, **sampling) == expected
            assert choices_of(drafting, **sampling, speculate=False) == expected
        status, answer = drafting.ask("/v1/chat/completions", {**QUESTION, "speculate": "no"})
        assert status == 400 and answer["error"]["param"] == "speculate"
    assert {verified for verified, _ in drafts_in(plain.log)} == {0}
    drafted = [verified for verified, _ in drafts_in(drafting.log)]
    assert 0 in drafted and max(drafted) > 0, "with and without"
    assert max(accepted for _, accepted in drafts_in(drafting.log)) > 0


@pytest.mark.parametrize("config, expected", [
    ("on", "expected auto, off or a JSON object"),
    ('{"method": "ngram"}', 'expected "dspark"'),
    ('{"rejection_sample_method": "block"}', "would change answers"),
    ('{"num_speculative_token": 5}', 'did you mean "num_speculative_tokens"?'),
    ('{"num_speculative_tokens": 6}', "expected 1 to 5"),
])
def test_bad_configs_are_refused(config, expected):
    done = run("generate", "demo", "--prompt", "a", "--speculative-config", config)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert expected in done.stderr
