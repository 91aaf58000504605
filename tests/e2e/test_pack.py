"""Packed weights in a store: `stoker pack`, starts over it, and what happens where the store is damaged or cannot be used."""
import os
import re
import subprocess

import pytest

from program import LIMIT, STOKER, Server, run, run_well

QUESTION = ["--user", "What is the capital of France?", "--temperature", "0"]


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


def weights_in(store):
    """The one object of packed weights."""
    (found,) = [path for path in (store / "objects").iterdir() if re.fullmatch(r"weights-[0-9a-f]{32}", path.name)]
    return found


def damage(path):
    """Changes the last byte."""
    path.chmod(0o600)
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"X")
    path.chmod(0o400)


def test_pack_and_start(store):
    first = run_well("pack", "demo", "--store", store)
    path = weights_in(store)
    assert re.fullmatch(rf"{re.escape(str(path))}\npacked: {path.stat().st_size} bytes \(.* MiB\), digest [0-9a-f]{{32}}\n", first)
    assert run_well("pack", "demo", "--store", store, "--verify", "full") == first.replace("packed:", "was there:")
    before = path.stat()
    answers = [run_well("generate", "demo", *QUESTION, *options)
               for options in (["--store", store], ["--store", store, "--verify", "full"], ["--no-pack"])]
    assert answers == ["The capital of France is Paris.\n"] * 3
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_the_store_of_the_environment(store):
    environment = dict(os.environ, STOKER_STORE=str(store))
    for command in (["generate", "demo", *QUESTION, "--no-pack"], ["generate", "demo", *QUESTION]):
        assert not store.exists()
        run_well(*command, env=environment)
    assert weights_in(store)


def test_full_verification_makes_again(store):
    run_well("pack", "demo", "--store", store)
    damage(weights_in(store))
    done = run("generate", "demo", *QUESTION, "--store", store, "--verify", "full")
    assert (done.returncode, done.stdout) == (0, "The capital of France is Paris.\n")
    assert "event=weights_refused" in done.stderr and "in chunk" in done.stderr
    assert "was there" in run_well("pack", "demo", "--store", store, "--verify", "full")


def test_damage_ends_a_server(store):
    run_well("pack", "demo", "--store", store)
    path = weights_in(store)
    damage(path)
    with Server("demo", "--store", str(store)) as server:
        assert server.process.wait(LIMIT) == 70
        server.reader.join(LIMIT)
        assert "event=weights_damaged" in server.log and f"{path}: expected the bytes of its chunk table" in server.log
    assert not path.exists()
    with Server("demo", "--store", str(store)) as server:
        assert server.ask("/health")[0] == 200
        assert server.stop() == 0


def test_a_store_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    done = run("generate", "demo", *QUESTION, "--store", tmp_path / "file")
    assert (done.returncode, done.stdout) == (0, "The capital of France is Paris.\n")
    assert done.stderr.count("event=packing_in_memory") == 1 and "file" in done.stderr
    done = run("pack", "demo", "--store", tmp_path / "file")
    assert (done.returncode, done.stdout) == (2, "") and str(tmp_path / "file") in done.stderr
    nowhere = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME", "STOKER_STORE")}
    done = run("pack", "demo", env=nowhere)
    assert done.returncode == 2 and "STOKER_STORE" in done.stderr
    assert "Paris" in run_well("generate", "demo", *QUESTION, env=nowhere)


def test_several_at_once(store):
    running = [subprocess.Popen([STOKER, "pack", "demo", "--store", store], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = [process.communicate(timeout=LIMIT)[0] for process in running]
    assert [process.returncode for process in running] == [0] * 4
    assert sum("packed:" in text for text in said) == 1 and sum("was there:" in text for text in said) == 3
    assert list((store / "tmp").iterdir()) == []


@pytest.mark.parametrize("arguments, words", [
    (["/no/model"], "/no/model"),
    (["demo", "--verify", "half"], "--verify: expected full"),
    (["demo", "--threads", "-1"], "threads"),
    ([], "MODEL"),
])
def test_refusals(arguments, words):
    done = run("pack", *arguments)
    assert (done.returncode, done.stdout) == (2, "") and words in done.stderr
