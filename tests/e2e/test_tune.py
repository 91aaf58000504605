"""`stoker tune`: measures, keeps and shows a plan; servers use it, and answer the same with any."""
import re

import pytest

from program import Server, run, run_well

ASKED = ["generate", "demo", "--user", "What is the capital of France?", "--temperature", "0"]


def rows_of(table):
    return [line.split() for line in table.split("\n\n")[1].splitlines()[1:]]


def plan_of(store, monkeypatch, *options):
    """Where a server that starts with this store has its plan from."""
    monkeypatch.setenv("STOKER_STORE", str(store))
    with Server("demo", "--threads", "2", *options) as server:
        return re.search(r"event=loaded .* plan=(\w+)", server.log)[1]


def test_what_is_measured_is_shown(tmp_path):
    table = run_well("tune", "--store", tmp_path, "--threads", "2", "--seconds", "2")
    assert "2 threads" in table and (tmp_path / "objects") in [path.parent for path in tmp_path.glob("objects/plans-*")]
    rows = rows_of(table)
    assert len(rows) == 4 * 7 + 2
    assert [row[0] for row in rows][-2:] == ["index_scores", "rest"]
    assert run_well("tune", "--store", tmp_path, "--threads", "2", "--show") == table


def test_answers_do_not_depend_on_it(tmp_path, monkeypatch):
    monkeypatch.setenv("STOKER_STORE", str(tmp_path))
    before = run_well(*ASKED)
    run_well("tune", "--seconds", "1")
    assert run_well(*ASKED) == before


def test_a_first_start_measures_and_the_next_one_knows(tmp_path, monkeypatch):
    assert plan_of(tmp_path, monkeypatch, "--no-tune") == "builtin"
    assert plan_of(tmp_path, monkeypatch) == "measured"
    assert plan_of(tmp_path, monkeypatch) == "store"
    assert plan_of(tmp_path, monkeypatch, "--no-tune") == "builtin"
    monkeypatch.setenv("STOKER_ISA", "avx2")
    assert plan_of(tmp_path, monkeypatch) == "environment"


@pytest.mark.parametrize("options, expected", [
    (["--show"], "stoker tune"),
    (["--seconds", "0"], "seconds"),
    (["--seconds", "soon"], "--seconds"),
    (["--threads", "-1"], "threads"),
    (["demo"], "demo"),
])
def test_refusals(options, expected, tmp_path):
    done = run("tune", "--store", tmp_path / "store", *options)
    assert (done.returncode, done.stdout) == (2, "") and expected in done.stderr
