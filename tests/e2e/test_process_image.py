"""Servers that are quiesced: nothing of the outside is left in them, and they come back elsewhere, perhaps from an image."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

from program import LIMIT, STOKER, Server, run, run_well
from test_operations import until
from test_snapshots import Up, change, create, object_of, runtime, store  # noqa: F401 (fixtures)

QUESTION = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0}


def probed():
    done = run("snapshot", "probe", "--json")
    needs = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == (0 if all(need["met"] for need in needs) else 3)
    return needs


def answer_of(url):
    data = json.dumps(QUESTION).encode()
    done = subprocess.run(["curl", "-sS", "-H", "Content-Type: application/json", "-d", data, url + "/v1/chat/completions"],
                          capture_output=True, timeout=LIMIT, check=True)
    return json.loads(done.stdout)["choices"]


def held(pid, text):
    """Mappings and descriptors of a process with that text in their names."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        found = [line for line in maps if text in line]
    links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    return found + [link for link in links if text in link]


def sockets(pid):
    return held(pid, "socket:")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def quiesce(server):
    before = server.log.count("event=quiesced")
    server.process.send_signal(signal.SIGUSR2)
    until(lambda: server.log.count("event=quiesced") > before)


def test_it_comes_back_from_another_store(store, tmp_path):  # noqa: F811
    create(store)
    config = tmp_path / "up.yaml"
    config.write_text(f"model: demo\nstore: {store}\napi-key: [team=sk-first]\n")
    with Up("--config", config) as server:
        key = {"Authorization": "Bearer sk-first"}
        before = server.ask("/v1/chat/completions", QUESTION, headers=key)[1]["choices"]
        pid, old_port = server.process.pid, server.port
        assert held(pid, str(store)) and sockets(pid)
        quiesce(server)
        assert not held(pid, str(store)) and not sockets(pid)
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", old_port), timeout=10)
        assert run_well("ps") == ""
        shutil.move(store, tmp_path / "moved")
        server.process.send_signal(signal.SIGUSR2)
        until(lambda: "event=server state=quiesced" in server.log)

        for wrong in (f"model: demo\nstore: {tmp_path}/moved\n", "model: demo\napi-key: [team=sk-first]\nport: [\n"):
            config.write_text(wrong)
            refused = server.log.count("it stays quiesced")
            server.process.send_signal(signal.SIGHUP)
            until(lambda: server.log.count("it stays quiesced") > refused)
        config.write_text(f"model: demo\nstore: {tmp_path}/moved\napi-key: [team=sk-other]\nmax-num-seqs: 7\n")
        server.process.send_signal(signal.SIGHUP)
        until(lambda: server.log.count("stoker: ready;") == 2)
        assert "event=resume option=--max-num-seqs" in server.log
        key = {"Authorization": "Bearer sk-other"}
        assert server.ask("/v1/chat/completions", QUESTION, headers=key)[1]["choices"] == before
        (listed,) = [json.loads(line) for line in run_well("ps", "--json").splitlines()]
        assert (listed["pid"], listed["url"]) == (pid, server.url)
        assert held(pid, str(tmp_path / "moved")) and not held(pid, str(store))
        assert server.stop() == 0


def test_the_port_comes_from_the_file(tmp_path):
    config = tmp_path / "serve.yaml"
    ports = [free_port(), free_port()]
    config.write_text(f"port: {ports[0]}\n")
    with Server("demo", "--config", config, "--port", "0") as server:  # the command line comes first
        quiesce(server)
        server.process.send_signal(signal.SIGHUP)
        until(lambda: server.log.count("stoker: ready;") == 2)
        assert server.ask("/health") == (200, None)
    process = subprocess.Popen([STOKER, "serve", "demo", "--config", config], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               text=True)
    seen = []

    def read_until(text):
        while text not in (line := process.stderr.readline()):
            assert line, seen
            seen.append(line)

    try:
        read_until("ready;")
        answer = answer_of(f"http://127.0.0.1:{ports[0]}")
        process.send_signal(signal.SIGUSR2)
        read_until("event=quiesced")
        config.write_text(f"port: {ports[1]}\n")
        process.send_signal(signal.SIGHUP)
        read_until("ready;")
        assert answer_of(f"http://127.0.0.1:{ports[1]}") == answer
        process.send_signal(signal.SIGUSR2)
        read_until("event=quiesced")
        process.terminate()
        assert process.wait(LIMIT) == 0
    finally:
        process.kill()
        process.stderr.close()
        process.wait()


@pytest.mark.parametrize("section", ["weights", "tensors", "tables"])
def test_wrong_bytes_do_not_come_back(store, section):  # noqa: F811
    create(store)
    with Up("demo", "--store", store) as server:
        before = server.ask("/v1/chat/completions", QUESTION)[1]["choices"]
        quiesce(server)
        change(object_of(store, section))
        server.process.send_signal(signal.SIGHUP)
        until(lambda: "it stays quiesced" in server.log)
        assert re.search(rf"event=resume reason=.*{section}-\w+: expected the bytes of its chunk table", server.log)
        assert not sockets(server.process.pid)
        change(object_of(store, section))
        server.process.send_signal(signal.SIGHUP)
        until(lambda: server.log.count("stoker: ready;") == 2)
        assert server.ask("/v1/chat/completions", QUESTION)[1]["choices"] == before
        assert server.stop() == 0


def test_weights_in_memory_are_not_quiesced():
    with Server("demo", "--no-pack") as server:
        server.process.send_signal(signal.SIGUSR2)
        until(lambda: "event=quiesce reason=" in server.log)
        assert "packed in memory" in server.log and server.ask("/health") == (200, None)


def test_probe(tmp_path):
    assert [need["need"] for need in probed()] == ["criu", "criu check", "privileges", "kernel"]
    done = run("snapshot", "probe", env=dict(os.environ, PATH=str(tmp_path)))
    assert done.returncode == 3 and "criu: expected 4.2 or newer in PATH, found none\n" in done.stdout
    assert done.stdout.endswith("images of processes cannot be tried here; snapshots need none of this\n")
    criu = tmp_path / "criu"
    criu.write_text("#!/bin/sh\necho Version: 3.17.1\n")
    criu.chmod(0o700)
    done = run("snapshot", "probe", env=dict(os.environ, PATH=str(tmp_path)))
    assert done.returncode == 3 and "found 3.17\n" in done.stdout


def test_an_image_of_a_quiesced_server(store, tmp_path):  # noqa: F811
    """Frozen and thawed by CRIU: verified, and the same answers at the same process id."""
    lacking = [f"{need['need']}: expected {need['expected']}, found {need['found']}" for need in probed() if not need["met"]]
    if lacking:
        pytest.skip("no images of processes here: " + "; ".join(lacking))
    create(store)
    log, images, port = tmp_path / "log", tmp_path / "images", free_port()
    images.mkdir(mode=0o700)
    run_well("up", "demo", "--store", store, "--port", str(port), "--log", log, "--detach")
    (listed,) = [json.loads(line) for line in run_well("ps", "--json").splitlines()]
    before = answer_of(listed["url"])
    os.kill(listed["pid"], signal.SIGUSR2)
    until(lambda: "event=quiesced" in log.read_text())
    subprocess.run(["criu", "dump", "-t", str(listed["pid"]), "-D", images, "-o", "dump.log"], check=True, timeout=LIMIT)
    subprocess.run(["criu", "restore", "-d", "-D", images, "-o", "restore.log"], check=True, timeout=LIMIT)
    path = object_of(store, "weights")
    change(path)
    os.kill(listed["pid"], signal.SIGHUP)
    until(lambda: "it stays quiesced" in log.read_text())
    change(path)
    os.kill(listed["pid"], signal.SIGHUP)
    until(lambda: log.read_text().count("event=resumed") == 1 and run_well("ps") != "")
    assert answer_of(listed["url"]) == before
    run_well("down", str(listed["pid"]))
