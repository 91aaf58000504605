"""What those who run a server do with it: keys that change, what it does, sleep, profiles."""
import json
import re
import signal
import time

import pytest

from program import Server

ADMIN = {"Authorization": "Bearer sk-admin"}
CHAT = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0, "max_tokens": 20}


def until(is_so):
    """Waits for something to be so."""
    for _ in range(500):
        if is_so():
            return
        time.sleep(0.02)
    pytest.fail("it never was so")


def memory_of(server):
    """Anonymous memory and pages of files, in KiB."""
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as status:
        text = status.read()
    return [int(re.search(rf"{name}:\s+(\d+) kB", text)[1]) for name in ("RssAnon", "RssFile")]


def test_sighup_reads_the_keys_again(tmp_path):
    config = tmp_path / "serve.yaml"
    config.write_text("model: demo\napi-key: [team=sk-first]\n")

    def status(key):
        return server.ask("/v1/models", headers={"Authorization": f"Bearer {key}"})[0]

    with Server("--config", config) as server:
        assert (status("sk-first"), status("sk-other")) == (200, 401)
        config.write_text("model: demo\napi-key: [team=sk-other]\nport: 1\n")
        server.process.send_signal(signal.SIGHUP)
        until(lambda: "event=reload api_keys=1" in server.log)
        until(lambda: status("sk-other") == 200)
        assert status("sk-first") == 401
        for wrong in ("model: demo\napi-key: [", "model: demo\n", "model: demo\napi-key: ['na me=sk-first']\n"):
            config.write_text(wrong)
            before = server.log.count("the keys stay as they are")
            server.process.send_signal(signal.SIGHUP)
            until(lambda: server.log.count("the keys stay as they are") > before)
            assert (status("sk-first"), status("sk-other")) == (401, 200)


def test_sigusr1_tells_what_runs():
    with Server("demo") as server:
        server.process.send_signal(signal.SIGUSR1)
        until(lambda: "event=scheduler running=0 waiting=0" in server.log)
        assert "event=server connections=" in server.log and "event=engine running=0" in server.log
        with server.open_stream("/v1/completions", {"prompt": "x", "max_tokens": 3000, "ignore_eos": True}) as stream:
            stream.readline()
            server.process.send_signal(signal.SIGUSR1)
            until(lambda: "event=sequence state=running" in server.log)
        assert re.search(r"event=sequence state=running arrival=0 priority=0 age_ms=\d+ prompt_tokens=\d+ chosen_tokens=[1-9]\d* "
                         r"max_tokens=3000", server.log)


def test_sleep_gives_memory_back_and_changes_no_answer():
    with Server("demo", "--admin-api-key", "sk-admin") as server:
        long = {"prompt": [7 + i * 37 % 3000 for i in range(3000)], "max_tokens": 4, "temperature": 0}
        before = server.ask("/v1/completions", long)[1]["choices"]
        for i in range(12):  # fills the prefix cache
            server.ask("/v1/completions", dict(long, prompt=[100 + i, *long["prompt"]]))
        used = memory_of(server)
        for level in (1, 2):
            assert server.ask(f"/sleep?level={level}", {}, headers=ADMIN)[0] == 200
            until(lambda: server.ask("/is_sleeping", headers=ADMIN)[1] == {"is_sleeping": True, "has_released_memory": True})
            asleep = memory_of(server)
            assert level == 2 or asleep[0] < used[0] - 1000, (used, asleep)  # it is not filled again
            assert level == 1 or asleep[1] < used[1] - 1000, (used, asleep)
            assert server.ask("/v1/chat/completions", CHAT)[0] == 503
            assert server.ask("/health")[0] == 200
            assert server.ask("/wake_up", {}, headers=ADMIN)[0] == 200
            assert server.ask("/v1/completions", long)[1]["choices"] == before


def test_a_profile_is_a_time_line(tmp_path):
    with Server("demo", "--admin-api-key", "sk-admin", "--profile-dir", tmp_path) as server:
        assert server.ask("/start_profile", {}, headers=ADMIN)[0] == 200
        assert server.ask("/v1/chat/completions", CHAT)[0] == 200
        status, told = server.ask("/stop_profile", {}, headers=ADMIN)
        assert status == 200 and told["file"].startswith(str(tmp_path))
        until(lambda: any(tmp_path.glob("steps-*.json")))
        events = json.loads(next(tmp_path.glob("steps-*.json")).read_text())["traceEvents"]
        steps = [event for event in events if event["name"] == "step"]
        assert sum(step["args"]["tokens"] for step in steps) >= 8
        assert all(event["ph"] == "X" and event["dur"] >= 0 for event in events)
