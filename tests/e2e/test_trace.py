"""`stoker trace` against the reference, bit for bit: every trace point, logit and draft, for every way to cut the prompt into
passes."""
import json
import shutil

import numpy as np
import pytest

import reference
from program import SMALL, run, run_well

CHUNKS = ["", "1", "7", "1,30,1000", "64,1000"]  # "": all at once
SHAPES = ["small", "other"]


@pytest.fixture(scope="module")
def all_cases():
    """{shape: (checkpoint, golden entries)}"""
    golden = reference.read(SMALL / "golden" / "golden.safetensors")
    return {"small": (SMALL / "checkpoint", golden), "other": reference.made_case("other", 3, 96)}


def entries(case, beginning):
    checkpoint, golden = case
    return checkpoint, {k: v for k, v in golden.items() if k.startswith(beginning) and k != "prompt.spread"}


@pytest.fixture(scope="module")
def cases(all_cases):
    """Those of the prompt."""
    return {shape: entries(case, "prompt.") for shape, case in all_cases.items()}


@pytest.fixture(scope="module")
def decode_cases(all_cases):
    """Those of the greedy continuation."""
    return {shape: entries(case, "decode.") for shape, case in all_cases.items()}


def values(entry):
    dtype, shape, data = entry
    return np.frombuffer(data, {"I64": np.int64, "F32": np.float32}[dtype]).reshape(shape)


def trace(checkpoint, ids, tmp_path, *options):
    (tmp_path / "ids.txt").write_text("\n".join(map(str, ids)))
    run_well("trace", checkpoint, "--ids-file", tmp_path / "ids.txt", "--out", tmp_path / "t.safetensors", *options)
    return reference.read(tmp_path / "t.safetensors")


def first_difference(found, expected):
    a, b = values(found), values(expected)
    at = np.argwhere(a.view(f"i{a.itemsize}") != b.view(f"i{b.itemsize}"))[0]
    return f"first at {at.tolist()}: {a[tuple(at)]!r}, expected {b[tuple(at)]!r}"


def assert_same(found, expected):
    assert sorted(found) == sorted(expected)
    for name, entry in expected.items():
        assert found[name][:2] == entry[:2], name
        assert found[name][2] == entry[2], f"{name}: {first_difference(found[name], entry)}"


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_the_reference(cases, tmp_path, shape, chunks, threads):
    checkpoint, golden = cases[shape]
    options = ["--layers", "--threads", threads] + (["--chunks", chunks] if chunks else [])
    assert_same(trace(checkpoint, values(golden["prompt.ids"]), tmp_path, *options), golden)


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.parametrize("level", ["avx2", "avx512", "avx512bf16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_level_equals_the_reference(cases, tmp_path, monkeypatch, shape, level, threads):
    monkeypatch.setenv("STOKER_ISA", level)
    checkpoint, golden = cases[shape]
    (tmp_path / "ids.txt").write_text("0")
    able = run("trace", checkpoint, "--ids-file", tmp_path / "ids.txt", "--out", tmp_path / "t.safetensors")
    if "expected a level of this processor" in able.stderr:
        pytest.skip(f"this processor lacks {level}")
    for chunks in CHUNKS:
        options = ["--layers", "--threads", threads] + (["--chunks", chunks] if chunks else [])
        assert_same(trace(checkpoint, values(golden["prompt.ids"]), tmp_path, *options), golden)


def test_without_layers_there_are_only_logits(cases, tmp_path):
    checkpoint, golden = cases["small"]
    found = trace(checkpoint, values(golden["prompt.ids"]), tmp_path)
    assert_same(found, {name: golden[name] for name in ("prompt.ids", "prompt.logits")})


def decode(checkpoint, golden, tmp_path, *options):
    found = trace(checkpoint, values(golden["decode.prompt"]), tmp_path, "--decode", len(values(golden["decode.ids"])), *options)
    assert sorted(name for name in found if name.startswith("prompt.")) == ["prompt.ids", "prompt.logits"]
    return {name: entry for name, entry in found.items() if name.startswith("decode.")}


@pytest.mark.parametrize("level", ["avx2", "avx512", "avx512bf16"])
@pytest.mark.parametrize("chunks", ["", "1", "5,2"])
@pytest.mark.parametrize("shape", SHAPES)
def test_drafts_equal_the_reference(decode_cases, tmp_path, monkeypatch, shape, chunks, level):
    monkeypatch.setenv("STOKER_ISA", level)
    checkpoint, golden = decode_cases[shape]
    (tmp_path / "ids.txt").write_text("0")
    able = run("trace", checkpoint, "--ids-file", tmp_path / "ids.txt", "--out", tmp_path / "t.safetensors")
    if "expected a level of this processor" in able.stderr:
        pytest.skip(f"this processor lacks {level}")
    threads = 1 + len(level) % 3
    options = ["--drafts", "--threads", threads] + (["--chunks", chunks] if chunks else [])
    assert_same(decode(checkpoint, golden, tmp_path, *options), golden)


def test_the_continuation_without_drafts(decode_cases, tmp_path):
    checkpoint, golden = decode_cases["small"]
    names = ("decode.prompt", "decode.ids", "decode.margin")
    assert_same(decode(checkpoint, golden, tmp_path), {name: golden[name] for name in names})


def test_drafts_need_a_draft_head(tmp_path):
    folder = tmp_path / "no-head"
    shutil.copytree(SMALL / "checkpoint", folder)
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    for shard in set(index["weight_map"].values()):
        tensors = {k: v for k, v in reference.read(folder / shard).items() if not k.startswith("mtp.")}
        reference.ck.write(folder / shard, tensors)
    index["weight_map"] = {k: v for k, v in index["weight_map"].items() if not k.startswith("mtp.")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "ids.txt").write_text("0 5 6")
    options = ["--ids-file", tmp_path / "ids.txt", "--out", tmp_path / "t.safetensors", "--decode", "2"]
    run_well("trace", folder, *options)
    refused = run("trace", folder, *options, "--drafts")
    assert refused.returncode == 2 and "draft head" in refused.stderr


def without_tokenizer(tmp_path, classes=None):
    """The small checkpoint without its tokenizer, and with another number of Engram classes."""
    folder = tmp_path / "ids-only"
    shutil.copytree(SMALL / "checkpoint", folder, ignore=shutil.ignore_patterns("tokenizer*"))
    config = json.loads((folder / "config.json").read_text())
    if classes:
        config["text_config"]["engram_compressed_vocab_size"] = classes
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_ids_alone_need_a_class_for_each(tmp_path):
    folder = without_tokenizer(tmp_path)
    (tmp_path / "ids.txt").write_text("0 5 6")
    done = run("trace", folder, "--ids-file", tmp_path / "ids.txt", "--out", tmp_path / "t.safetensors")
    assert done.returncode in (2, 3)
    assert "tokenizer.json" in done.stderr


def test_ids_alone_with_a_class_for_each(tmp_path):
    vocab = reference.text_config(SMALL / "checkpoint")["vocab_size"]
    folder = without_tokenizer(tmp_path, classes=vocab)
    ids = [0, 5, 6, 7, 5, 6, 7, 600, 703, 1, 2, 3]
    assert_same(trace(folder, ids, tmp_path, "--layers"), reference.prompt_trace(folder, ids, np.arange(vocab)))
    assert run_well("generate", folder, "--ids", "0,5,6", "--max-tokens", "3").split() != []
    refused = run("generate", folder, "--prompt", "Hello")
    assert refused.returncode == 2 and "tokenizer" in refused.stderr


@pytest.mark.parametrize("ids, options, code, expected", [
    ("0 704", [], 2, "704"), ("0 -1", [], 2, "-1"), ("", [], 2, "ids"), ("0 x", [], 2, "'x'"),
    ("0 5", ["--chunks", "0"], 2, "chunk"), ("0 5", ["--chunks", "1,a"], 2, "--chunks"),
    ("0 5", ["--decode", "-1"], 2, "decode"), ("0 5", ["--decode", "4095"], 2, "4096"), ("0 5", ["--drafts"], 2, "decode"),
    ("0 5", ["--threads", "-1"], 2, "threads"), ("0 5", ["--out", "/nowhere/t.safetensors"], 2, "/nowhere/t.safetensors"),
    ("0 5", ["--out", "/dev/null"], 3, "/dev/null"),
])
def test_refusals(tmp_path, ids, options, code, expected):
    (tmp_path / "ids.txt").write_text(ids)
    if "--out" not in options:
        options = options + ["--out", tmp_path / "t.safetensors"]
    done = run("trace", SMALL / "checkpoint", "--ids-file", tmp_path / "ids.txt", *options)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert expected in done.stderr
