"""`stoker tokenize`: the golden texts through the command line and back."""
import json
import subprocess

import pytest

from program import SMALL, STOKER, run, run_well

CHECKPOINT = SMALL / "checkpoint"
GOLDEN = json.loads((SMALL / "golden" / "tokenize.json").read_text())


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: repr(case["text"][:12]))
def test_golden(case):
    line = " ".join(map(str, case["ids"])) + "\n"
    assert run_well("tokenize", CHECKPOINT, stdin=case["text"]) == line
    assert run_well("tokenize", CHECKPOINT, "--decode", stdin=line) == case["text"]


def test_input_that_is_not_utf8_is_read_as_replacement_characters():
    done = subprocess.run([STOKER, "tokenize", str(CHECKPOINT)], input=b"a\xffb", capture_output=True, check=True)
    assert run_well("tokenize", CHECKPOINT, "--decode", stdin=done.stdout.decode()) == "a\ufffdb"


@pytest.mark.parametrize("stdin, expected", [("1 two", "'two'"), ("99999999", "99999999"), ("-1", "-1")])
def test_ids_that_are_none(stdin, expected):
    done = run("tokenize", CHECKPOINT, "--decode", stdin=stdin)
    assert (done.returncode, done.stdout) == (2, "")
    assert expected in done.stderr


def test_ids_may_have_commas():
    assert run_well("tokenize", CHECKPOINT, "--decode", stdin="42,71,419,81") == "Hello"


def test_a_model_without_tokenizer():
    done = run("tokenize", SMALL / "golden")
    assert done.returncode == 2 and "tokenizer.json" in done.stderr
