"""Snapshots: made, listed, checked, brought up, collected; by several at once, and by those that are killed."""
import fcntl
import json
import os
import random
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest

from program import LIMIT, SMALL, STOKER, Server, run, run_well

KILLS = int(os.environ.get("STOKER_KILLS", "40"))
QUESTION = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0}


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


@pytest.fixture(autouse=True)
def runtime(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))


def create(store, model="demo", *options):
    """The id of a new snapshot."""
    return run_well("snapshot", "create", model, "--store", store, *options).split()[0]


def listed(store, *options):
    return [json.loads(line) for line in run_well("snapshot", "list", "--json", "--store", store, *options).splitlines()]


def object_of(store, section):
    (found,) = [part["object"] for part in listed(store)[0]["sections"] if part["name"] == section]
    return store / "objects" / found


def change(path, at=-1):
    path.chmod(0o600)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    path.chmod(0o400)


class Up(Server):
    """`stoker up`, as Server."""

    def __enter__(self):
        self.process = subprocess.Popen([STOKER, "up", "--port", "0", *map(str, self.arguments)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8")
        self.is_ready = threading.Event()
        self.reader = threading.Thread(target=self._read_log, daemon=True)
        self.reader.start()
        self.is_ready.wait(LIMIT)
        assert self.url, f"it did not come up:\n{self.log}"
        return self


def test_a_life(store):
    assert run("snapshot", "list", "--store", store).stderr == "stoker: no snapshots\n"
    snapshot = create(store)
    (one,) = listed(store)
    assert (one["id"], one["model"], one["fits"], one["plans"]) == (snapshot, "demo", True, True)
    assert {part["name"] for part in one["sections"]} == {"canary", "config", "generation", "packed", "plans", "tables",
                                                          "tensors", "tokenizer", "weights"}
    assert run_well("snapshot", "verify", snapshot[:6], "--store", store).startswith("undamaged: " + snapshot)
    assert run_well("snapshot", "canary", snapshot[:6], "--store", store).startswith("the same answers: " + snapshot)
    with Server("demo", "--no-pack") as cold, Up("demo", "--store", store, "--json") as warm:
        stages = json.loads(warm.process.stdout.readline())
        assert [stage["stage"] for stage in stages["stages"]] == ["select", "map", "populate", "verify", "plans", "canary"]
        answers = [server.ask("/v1/chat/completions", QUESTION)[1]["choices"] for server in (cold, warm)]
        assert answers[0] == answers[1]
        assert run("snapshot", "remove", snapshot, "--store", store).returncode == 7
        assert warm.stop() == 0
    assert run_well("snapshot", "gc", "--keep", "0", "--dry-run", "--store", store).startswith("snapshot " + snapshot)
    assert listed(store)
    run_well("snapshot", "gc", "--keep", "0", "--store", store)
    assert not listed(store)
    assert run("up", "demo", "--store", store, "--port", "0").returncode == 3


def test_the_port_says_503_until_the_canary_passed(store):
    create(store)
    with Up("demo", "--store", store) as server:
        port = server.port
        server.stop()
    statuses = []
    process = subprocess.Popen([STOKER, "up", "demo", "--store", store, "--port", str(port)], stdin=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + LIMIT
    while 200 not in statuses and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10) as answer:
                statuses.append(answer.status)
        except urllib.error.HTTPError as error:
            statuses.append(error.code)
            assert json.loads(error.read())["error"]["message"]
        except OSError:
            pass
    process.terminate()
    log = process.communicate(timeout=LIMIT)[1]
    assert statuses[-1] == 200 and set(statuses[:-1]) <= {503}
    assert log.index("canary ") < log.index("ready;")


@pytest.mark.parametrize("section", ["weights", "tables", "canary", "config"])
def test_damage_never_answers(store, section):
    create(store)
    change(object_of(store, section))
    done = run("up", "demo", "--store", store, "--port", "0")
    assert done.returncode == 4 and section in done.stderr and "ready" not in done.stderr
    assert run("snapshot", "verify", listed(store)[0]["id"], "--store", store).returncode == 4


def test_damage_found_while_it_answers(store):
    create(store)
    change(object_of(store, "weights"))  # zeros behind the last panel: no answer tells
    done = run("up", "demo", "--store", store, "--port", "0", "--verify", "background")
    assert done.returncode == (70 if "ready" in done.stderr else 4) and "weights" in done.stderr
    assert run("up", "demo", "--store", store, "--port", "0").returncode == 3


def test_names_flags_and_reasons(store):
    create(store, SMALL / "checkpoint", "--name", "tiny")
    assert [one["model"] for one in listed(store, "--for", "tiny")] == ["tiny"]
    why = run_well("snapshot", "list", "--why", "--for", "demo", "--store", store)
    assert re.search(r"weights of demo: expected [0-9a-f]{32}, found", why)
    assert run("up", "demo", "--store", store).returncode == 3
    done = run("up", "tiny", "--bounded-replay", "compact", "--store", store)
    assert done.returncode == 3 and "expected bounded_replay=compact, found bounded_replay=exact" in done.stderr
    assert run("up", "tiny", "--no-such-flag").returncode == 2
    assert run("snapshot", "verify", "zz", "--store", store).returncode == 2
    assert run("snapshot", "nonsense").returncode == 2


def test_cold_then_warm(store):
    with Up("demo", "--or-cold", "--store", store) as server:
        assert "making one" in server.log
        server.stop()
    with Up("demo", "--or-cold", "--store", store) as server:
        assert "making one" not in server.log
        server.stop()


def test_detached(store):
    create(store, SMALL / "checkpoint", "--name", "tiny")
    run_well("up", "tiny", "--store", store, "--port", "0", "--detach")
    (server,) = [json.loads(line) for line in run_well("ps", "--json").splitlines()]
    assert server["model"] == "tiny" and server["snapshot"] == listed(store)[0]["id"]
    with urllib.request.urlopen(server["url"] + "/health", timeout=LIMIT) as answer:
        assert answer.status == 200
    run_well("down", "tiny")
    assert run_well("ps") == ""
    assert run("down", "tiny").returncode == 2
    assert run("up", "nothing", "--store", store, "--detach").returncode == 3


def test_collecting_waits_for_nobody(store):
    create(store, SMALL / "checkpoint")
    with open(store / "use" / "changes", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        done = run("snapshot", "gc", "--store", store)
        assert done.returncode == 7 and "in use by another process" in done.stderr


def test_all_at_once(store):
    """Two that make, one that collects, three that come up: each ends well or says busy, and what is there is whole."""
    snapshot = create(store)
    commands = [["snapshot", "create", "demo"], ["snapshot", "create", "demo", "--name", "other"], ["snapshot", "gc"]]
    commands += [["snapshot", "canary", snapshot]] * 3
    processes = [subprocess.Popen([STOKER, *command, "--store", store], stderr=subprocess.PIPE, text=True)
                 for command in commands]
    codes = [(process.communicate(timeout=LIMIT), process.returncode)[1] for process in processes]
    assert codes[:2] == [0, 0] and codes[2] in (0, 7) and codes[3:] == [0, 0, 0]
    assert {one["model"] for one in listed(store)} == {"demo", "other"}
    assert all(one["fits"] for one in listed(store))


def test_killed_at_any_moment(store):
    """What a killed `create` leaves is a whole snapshot or none, and `gc` takes the rest; a killed `gc` loses nothing."""
    model = SMALL / "checkpoint"
    started = time.monotonic()
    create(store, model, "--name", "kept")
    longest = time.monotonic() - started
    seed = random.randrange(1 << 30)
    moments = random.Random(seed)
    for i in range(KILLS):
        verb = ["create", str(model), "--name", f"name{i}"] if i % 4 else ["gc", "--keep", "999"]
        if i % 5 == 0:
            for path in (store / "keys").glob("weights-*"):
                path.unlink()  # so that there is something to make
        process = subprocess.Popen([STOKER, "snapshot", *verb, "--store", store], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        time.sleep(moments.uniform(0, longest if verb[0] == "create" else 0.03))
        process.send_signal(signal.SIGKILL)
        process.wait()
        there = listed(store)
        assert all(one["fits"] for one in there), (seed, i)
        assert "kept" in [one["model"] for one in there], (seed, i)
    run_well("snapshot", "gc", "--keep", "999", "--store", store)
    assert not list((store / "tmp").iterdir())
    named = {part["object"] for one in listed(store) for part in one["sections"]}
    left = {path.name.removesuffix(".table") for path in (store / "objects").iterdir()}
    assert {name for name in left - named if not name.startswith(("plans-", "fingerprint-"))} == set()
    run_well("snapshot", "canary", "kept", "--store", store)


ADMIN = "sk-admin-secret"
LONG = "Tell me about the capital of France, and of Italy, and of Spain. " * 40


def ask_long(server, **fields):
    status, answer = server.ask("/v1/completions", {"prompt": LONG, "max_tokens": 12, "logprobs": 1, **fields})
    assert status == 200
    (choice,) = answer["choices"]
    return (choice["text"], choice["logprobs"]), answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def save_from(url, *options, key=ADMIN):
    return run("snapshot", "create", "--from", url, *options, env={**os.environ, "STOKER_ADMIN_API_KEY": key})


@pytest.mark.parametrize("of_snapshot", [False, True])
def test_a_warm_session(store, of_snapshot):
    if of_snapshot:
        create(store)
    begin = Up if of_snapshot else Server
    with begin("demo", "--store", str(store), "--admin-api-key", ADMIN) as server:
        greedy, cached = ask_long(server, temperature=0)
        assert cached == 0
        sampled, cached = ask_long(server, temperature=0.9, seed=7)
        assert cached > 0
        with server.open_stream("/v1/completions", {"prompt": "On and on", "max_tokens": 800, "ignore_eos": True}) as stream:
            stream.readline()
            saved = save_from(server.url, "--prefixes", "20", "--name", "warm")
            assert saved.returncode == 0, saved.stderr
            assert stream.read().rstrip().endswith(b"[DONE]")
        snapshot = saved.stdout.split()[0]
        assert f"`stoker up {snapshot[:8]}` brings it back" in saved.stderr and "may take minutes" in saved.stderr
        assert re.search(r"with 1 prefixes of \d+ tokens", saved.stderr)
        assert ask_long(server, temperature=0)[1] == cached, "nothing was forgotten"
        assert server.stop() == 0
    (one,) = [one for one in listed(store) if one["id"] == snapshot]
    assert one["model"] == "warm" and one["fits"]
    (kept,) = [part["object"] for part in one["sections"] if part["name"] == "prefix"]
    assert (store / "objects" / kept).stat().st_mode & 0o777 == 0o400
    for seed in (None, 7):
        with Up("warm", "--store", store) as server:
            assert "event=prefixes loaded=1" in server.log
            fields = {"temperature": 0} if seed is None else {"temperature": 0.9, "seed": seed}
            answer, found = ask_long(server, **fields)
            assert found == cached and answer == (greedy if seed is None else sampled)
            server.stop()
    change(store / "objects" / kept)
    with Up("warm", "--store", store) as server:
        assert re.search(r"event=prefixes loaded=0 tokens=0 dropped=all reason=", server.log)
        assert ask_long(server, temperature=0) == (greedy, 0)
        server.stop()
    for verb in ("export", "push"):
        done = run("snapshot", verb, snapshot, store.parent / "elsewhere", "--store", store)
        assert done.returncode == 2 and "cached prefixes" in done.stderr


def test_a_server_that_cannot_be_saved(store, tmp_path):
    with Server("demo", "--store", str(store), "--admin-api-key", "root=" + ADMIN) as server:
        assert save_from(server.url, key="wrong-key").returncode == 2
        assert save_from(server.url, "--admin-api-key", "root=" + ADMIN, key="").returncode == 0
        with open(store / "use" / "changes", "w") as changes:
            fcntl.flock(changes, fcntl.LOCK_EX)
            assert save_from(server.url).returncode == 7
        change(object_of(store, "weights"))
        done = save_from(server.url)
        assert done.returncode == 4 and "weights" in done.stderr
        server.stop()
        assert save_from(server.url).returncode == 3, "nobody there"
    with Server("demo", "--no-pack", "--admin-api-key", ADMIN) as server:
        done = save_from(server.url)
        assert done.returncode == 2 and "--no-pack" in done.stderr
    with Server("demo", "--no-pack") as server:
        done = save_from(server.url)
        assert done.returncode == 2 and "--admin-api-key" in done.stderr
    for arguments in ([], ["demo", "--from", "http://127.0.0.1:1"], ["demo", "--prefixes", "1"], ["--from", "nonsense"],
                      ["--from", "http://127.0.0.1:1", "--prefixes", "257"], ["--from", "http://127.0.0.1:1", "--sign", "key.pem"]):
        assert run("snapshot", "create", *arguments).returncode == 2, arguments


def test_saved_through_a_socket(store, tmp_path):
    path = tmp_path / "stoker.sock"
    process = subprocess.Popen([STOKER, "serve", "demo", "--store", str(store), "--uds", str(path), "--admin-api-key", ADMIN],
                               stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        while "ready;" not in process.stderr.readline():
            assert process.poll() is None
        (url,) = [json.loads(line)["url"] for line in run_well("ps", "--json").splitlines()]
        assert url == f"unix:{path}"
        saved = save_from(url)
        assert saved.returncode == 0, saved.stderr
        assert saved.stdout.split()[0] == listed(store)[0]["id"]
    finally:
        process.terminate()
        process.wait(LIMIT)
        process.stderr.close()
