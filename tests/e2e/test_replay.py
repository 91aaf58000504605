"""Receipts: from `generate`, over HTTP and out of batches; `replay` finds every answer equal, and what was changed."""
import json
import os

import pytest

from program import SMALL, events, run, run_well

PROMPT = "The capital of Italy is"
MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]
HOT = {"prompt": PROMPT, "temperature": 1.5, "seed": 3, "max_tokens": 20, "presence_penalty": 0.5, "n": 2, "receipt": True}


def receipts_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def replay(receipts, *options, model="demo", **how):
    """`receipts`: objects, or the text of a file."""
    text = receipts if isinstance(receipts, str) else "".join(json.dumps(each) + "\n" for each in receipts)
    return run("replay", "-", model, *options, stdin=text, **how)


def expect_equal(receipts, *options, **how):
    done = replay(receipts, *options, **how)
    assert done.returncode == 0, done.stdout + done.stderr
    tokens = sum(len(each["ids"]) for each in receipts)
    count = f"{len(receipts)} receipts, " if len(receipts) > 1 else ""
    assert done.stdout == f"equal: {count}{tokens} tokens\n"


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    """Receipts of four choices with penalties."""
    path = tmp_path_factory.mktemp("four") / "receipts.jsonl"
    run_well("generate", "demo", "--prompt", PROMPT, "--temperature", "4", "--seed", "7", "--n", "4", "--max-tokens", "20",
             "--repetition-penalty", "1.2", "--presence-penalty", "0.5", "--frequency-penalty", "0.3", "--receipt", path)
    receipts = receipts_of(path)
    assert len({tuple(each["ids"]) for each in receipts}) == 4
    return receipts


@pytest.mark.parametrize("options", [
    ["--prompt", PROMPT, "--temperature", "0"],
    ["--prompt", PROMPT, "--temperature", "0", "--max-tokens", "2"],
    ["--user", "What does tree mean?"],
    ["--prompt", PROMPT, "--temperature", "0", "--stop", "om"],
    ["--ids", "298,275", "--temperature", "3", "--top-k", "40", "--top-p", "0.9", "--min-p", "0.001", "--max-tokens", "12",
     "--min-tokens", "12", "--ignore-eos"],
])
def test_answers_are_equal(tmp_path, options):
    path = tmp_path / "receipt.json"
    told = json.loads(run_well("generate", "demo", *options, "--json", "--receipt", path))
    (receipt,) = receipts_of(path)
    assert receipt["ids"] == told["ids"] and receipt["prompt_ids"] == told["prompt_ids"]
    assert receipt["parameters"]["seed"] == told["seed"] and receipt["finish_reason"] == told["finish_reason"]
    assert run_well("replay", path, "demo") == f"equal: {len(told['ids'])} tokens\n"


def test_another_machine_finds_them_equal(four):
    expect_equal(four)
    expect_equal(four, "--speculative-config", "off")
    expect_equal(four, "--threads", "1", "--no-pack", env=dict(os.environ, STOKER_ISA="avx2"))


def test_the_first_position_that_differs(four):
    changed = json.loads(json.dumps(four))
    right = changed[2]["ids"][5]
    changed[2]["ids"][5] = changed[2]["ids"][9] = 77 if right != 77 else 78
    done = replay(changed)
    first, last = done.stdout.splitlines()
    assert done.returncode == 1 and last == "different: 1 of 4 receipts"
    assert first.startswith(f"line 3: differs at position 5: expected {changed[2]['ids'][5]} ") and f"found {right} " in first
    one = replay([changed[2]])
    assert one.returncode == 1 and one.stdout == first.removeprefix("line 3: ") + "\n"
    other_seed = dict(four[0], parameters=dict(four[0]["parameters"], seed=8))
    assert replay([other_seed]).returncode == 1


def test_answers_over_http(server):
    status, answer = server.ask("/v1/completions", HOT)
    assert status == 200
    plain = [choice["receipt"] for choice in answer["choices"]]
    assert [r["parameters"]["seed"] for r in plain] == [choice["seed"] % 2**64 for choice in answer["choices"]]
    expect_equal(plain)
    with server.open_stream("/v1/completions", HOT) as response:
        chunks = [json.loads(data) for data in events(response) if data != "[DONE]"]
    streamed = {c["index"]: c["receipt"] for chunk in chunks for c in chunk["choices"] if "receipt" in c}
    assert [streamed[0], streamed[1]] == plain
    chat = {"messages": MESSAGES, "thinking": {"type": "enabled"}, "stop": ["ris"], "receipt": True, "logit_bias": {"300": 1.5},
            "bad_words": ["Lyon"]}
    status, answer = server.ask("/v1/chat/completions", chat)
    assert status == 200 and answer["choices"][0]["receipt"]["reply"] == "thinking"
    expect_equal([answer["choices"][0]["receipt"]])
    assert "receipt" not in server.ask("/v1/completions", dict(HOT, receipt=False))[1]["choices"][0]


def test_answers_of_a_batch(tmp_path):
    lines = [{"custom_id": str(i), "method": "POST", "url": "/v1/chat/completions",
              "body": {"messages": MESSAGES, "temperature": 1.3, "max_tokens": 12, "receipt": True}} for i in range(8)]
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run_well("run-batch", "demo", "-i", source, "-o", out, "--quiet")
    expect_equal([json.loads(line)["response"]["body"]["choices"][0]["receipt"] for line in out.read_text().splitlines()])


def test_compact_replay_is_a_mode_of_its_own(tmp_path):
    body = {"prompt": [60 + i * 37 % 1900 for i in range(400)], "max_tokens": 6, "receipt": True}
    source = tmp_path / "in.jsonl"
    source.write_text(json.dumps({"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": body}) + "\n")
    out = run_well("run-batch", "demo", "-i", source, "-o", "-", "--quiet", "--bounded-replay", "compact")
    receipt = json.loads(out)["response"]["body"]["choices"][0]["receipt"]
    assert receipt["numeric_mode"] == "reference-1-compact"
    expect_equal([receipt])
    both = replay([dict(receipt, numeric_mode="reference-1"), receipt])
    assert both.returncode == 2 and "line 2: numeric_mode: expected reference-1 as in" in both.stderr


def test_what_cannot_be_run_again_is_refused(four, tmp_path):
    receipt = four[0]

    def changed(**members):
        return json.dumps(dict(receipt, **members))

    other = replay([receipt], model=SMALL / "checkpoint")
    assert other.returncode == 2 and other.stdout == ""
    assert f"found {receipt['model_digest']}: the receipt is of another model, \"demo\"" in other.stderr
    for text, told in (
            ("", "expected a receipt, found none"),
            ("{", "line 1: not JSON at byte 2"),
            (changed() + "\n\n" + changed(ids=[]), "line 3: ids: expected at least one token id"),
            (changed(stoker_receipt=2), "stoker_receipt: expected 1, the format that this Stoker reads, found 2"),
            (changed(numeric_mode="official"), "numeric_mode: expected reference-1 or reference-1-compact"),
            (changed(prompt=[1]), '"prompt": unknown in a receipt; did you mean "prompt_ids"?'),
            (changed(ids=[1 << 30] * len(receipt["ids"])), "line 1: ids[0]: expected token ids from 0 to"),
            (changed(prompt_ids=[1 << 30]), "line 1: expected token ids from 0 to 4095, found 1073741824"),
            (changed(parameters=dict(receipt["parameters"], top_p=2)), "line 1: top_p: expected a number above 0"),
            (changed(parameters=dict(receipt["parameters"], stop=["x" * 257])), "line 1: stop: expected strings of 1 to 256 bytes"),
    ):
        done = replay(text)
        assert done.returncode == 2 and told in done.stderr and done.stdout == "", (told, done.stderr)
    assert run("replay", tmp_path / "none", "demo").returncode == 2
    unwritable = run("generate", "demo", "--prompt", "a", "--receipt", tmp_path / "none" / "receipt.json")
    assert unwritable.returncode == 2 and unwritable.stdout == "" and "expected a file to write" in unwritable.stderr
