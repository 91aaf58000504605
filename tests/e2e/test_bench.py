"""`stoker bench`: every case is measured, the table, JSON and CSV agree, and what cannot be measured is refused."""
import csv
import json
import subprocess
from pathlib import Path

import pytest

from program import LIMIT, SMALL, STOKER, run, run_well

MAKE_SLICE = Path(STOKER).parent / "tools" / "make_slice"

QUICK = ["--warmup", "0", "--repetitions", "2", "--prompt-tokens", "8", "--output-tokens", "4"]
MEASURES = {
    "latency": ["first_token_s", "token_s"],
    "throughput": ["prompt_tokens_per_s", "output_tokens_per_s", "total_tokens_per_s"],
}


def bench(kind, model, tmp_path, *options):
    """(table, JSON, rows of the CSV)"""
    files = ["--json", tmp_path / "out.json", "--csv", tmp_path / "out.csv"]
    table = run_well("bench", kind, model, *files, *options)
    with open(tmp_path / "out.csv", newline="", encoding="utf-8") as file:
        return table, json.loads((tmp_path / "out.json").read_text()), list(csv.DictReader(file))


def rows_of(table):
    lines = table.split("\n\n")[1].splitlines()[2:]
    return [line.split() for line in lines if line]


@pytest.mark.parametrize("kind", MEASURES)
def test_table_json_and_csv_agree(kind, tmp_path):
    table, told, rows = bench(kind, "demo", tmp_path, *QUICK, "--batch", "1,3", "--seed", "5", "--threads", "2")
    assert told["benchmark"] == kind and told["model"]["name"] == "demo"
    assert told["machine"]["cpu"] in table and told["machine"]["logical_cores"] > 0
    assert (told["machine"]["other_cores"] > 0.1) == ("other processes" in table)
    assert [told["options"][name] for name in ("warmup", "repetitions", "seed", "threads")] == [0, 2, 5, 2]
    assert len(told["results"]) == len(rows) == len(rows_of(table)) == 2
    for result, row, shown, batch in zip(told["results"], rows, rows_of(table), [1, 3]):
        assert shown[:3] == [str(batch), "8", "4"]
        assert (result["batch"], result["prompt_tokens"], result["output_tokens"], result["requests"]) == (batch, 8, 4, 2 * batch)
        for name in MEASURES[kind]:
            spread = result[name]
            assert 0 < spread["min"] <= spread["median"] <= spread["p90"] <= spread["max"]
            assert {part: float(row[f"{name}_{part}"]) for part in spread} == spread


def test_latency_shows_milliseconds(tmp_path):
    table, told, _ = bench("latency", "demo", tmp_path, *QUICK, "--batch", "2")
    first, token = (told["results"][0][name] for name in MEASURES["latency"])
    expected = [f"{spread[part] * 1000:.2f}" for spread in (first, token) for part in ("median", "p90", "min")]
    assert rows_of(table)[0][3:] == expected


def test_every_combination_is_a_case(tmp_path):
    _, told, _ = bench("throughput", SMALL / "checkpoint", tmp_path, "--batch", "1,2", "--prompt-tokens", "3,30",
                       "--output-tokens", "1,5", "--warmup", "0", "--repetitions", "1")
    found = [(r["prompt_tokens"], r["output_tokens"], r["batch"]) for r in told["results"]]
    assert found == [(p, o, b) for p in (3, 30) for o in (1, 5) for b in (1, 2)]


def test_one_token_has_no_later_ones(tmp_path):
    table, told, rows = bench("latency", "demo", tmp_path, "--batch", "1", "--prompt-tokens", "4", "--output-tokens", "1",
                              "--repetitions", "1")
    assert told["results"][0]["token_s"] is None and rows[0]["token_s_median"] == ""
    assert rows_of(table)[0][6:] == ["-", "-", "-"]


def test_more_requests_than_run_at_a_time(tmp_path):
    _, told, _ = bench("throughput", "demo", tmp_path, *QUICK, "--batch", "9", "--max-num-seqs", "2")
    assert told["results"][0]["requests"] == 18


def make_slice(*arguments):
    return subprocess.run([MAKE_SLICE, *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT, check=False)


def test_a_made_checkpoint_can_be_measured(tmp_path):
    made = make_slice(tmp_path / "slice", "--shape", "tiny", "--layers", "6", "--experts", "12", "--vocab", "300", "--seed", "2")
    assert made.returncode == 0 and "GB of weights" in made.stdout
    assert json.loads(run_well("inspect", tmp_path / "slice", "--json"))["problems"] == []
    _, told, _ = bench("throughput", tmp_path / "slice", tmp_path, *QUICK, "--batch", "2")
    assert told["model"]["vocab_size"] == 300 and told["results"][0]["requests"] == 4


@pytest.mark.parametrize("arguments, code, expected", [
    ([], 2, "a directory"),
    (["a", "b"], 2, "'b'"),
    (["a", "--shape", "large"], 2, "'large'"),
    (["a", "--layers", "3"], 2, "expected 4"),
    (["a", "--layers", "x"], 2, "'x'"),
    (["a", "--experts", "1"], 2, "num_experts_per_tok"),
    (["a", "--seed", "-1"], 2, "--seed"),
    (["a", "--depth", "3"], 2, "--depth"),
    (["a", "--vocab"], 2, "after --vocab"),
    (["/dev/null/a", "--shape", "tiny"], 3, "/dev/null/a"),
])
def test_make_slice_refuses(arguments, code, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = make_slice(*arguments)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert expected in done.stderr and not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments, code, expected", [
    ([], 2, "KIND"),
    (["latency"], 2, "MODEL"),
    (["speed", "demo"], 2, "'speed'"),
    (["latency", "demo", "--batch", "0"], 2, "--batch: expected numbers of at least 1"),
    (["latency", "demo", "--batch", "1,x"], 2, "'x'"),
    (["latency", "demo", "--batch="], 2, "--batch"),
    (["latency", "demo", "--warmup", "-1"], 2, "--warmup"),
    (["latency", "demo", "--repetitions", "0"], 2, "--repetitions"),
    (["latency", "demo", "--prompt-tokens", "4096"], 2, "4096"),
    (["latency", "demo", "--threads", "-1"], 2, "threads"),
    (["latency", "demo", "--json", "/nowhere/a.json"], 2, "/nowhere/a.json"),
    (["latency", "/nowhere"], 2, "/nowhere"),
])
def test_refusals(arguments, code, expected):
    done = run("bench", *arguments)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert expected in done.stderr


def test_a_full_device_is_told():
    done = run("bench", "latency", "demo", *QUICK, "--batch", "1", "--json", "/dev/full")
    assert done.returncode == 3 and "/dev/full" in done.stderr


def test_help():
    text = run_well("bench", "--help")
    assert "stoker bench latency demo" in text.split("Examples:")[1]
    assert "bench" in run_well("--help")
