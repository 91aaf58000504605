"""`stoker run-batch`: the answers of the server, each exactly once, whatever interrupts it."""
import json
import os
import pty
import random
import resource
import signal
import subprocess
import time

import pytest

from program import LIMIT, STOKER, run, run_well

NUM_REQUESTS = 200
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
# Sampled this hot, the demo model does not come to an end.
ENDLESS = {"prompt": "a", "temperature": 20, "seed": 1, "max_tokens": 4000}


def line(custom_id, body, url=COMPLETIONS):
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body}


def requests(count=NUM_REQUESTS):
    """Sampled, so that an answer is the same only with the same seed; chats among them, some with a seed, some refused."""
    made = []
    for i in range(count):
        body = {"prompt": f"word {i}", "max_tokens": 4 + i % 9, "temperature": 1}
        if i % 10 == 3:
            body = {"messages": [{"role": "user", "content": f"What is {i}?"}], "max_tokens": 8, "thinking": {"type": "disabled"}}
        elif i % 10 == 5:
            body["seed"] = -i
        elif i % 20 == 7:
            body["max_tokens"] = 0
        made.append(line(f"request-{i}", body, CHAT if "messages" in body else COMPLETIONS))
    return made


def write_lines(path, lines):
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return path


def read_lines(path):
    text = path.read_text()
    assert text == "" or text.endswith("\n"), "half a line is left"
    return [json.loads(each) for each in text.splitlines()]


def answers(lines):
    """custom_id -> (status, what does not change from run to run); each custom_id must be there once."""
    found = {}
    for each in lines:
        assert each["custom_id"] not in found, each["custom_id"]
        assert each["id"].startswith("batch_req_") and each["error"] is None
        found[each["custom_id"]] = (each["response"]["status_code"], plain(each["response"]["body"]))
    return found


def plain(body):
    """Without what may differ: ids, the time, and how much of a prompt was computed before."""
    kept = {name: value for name, value in body.items() if name not in ("id", "created")}
    if "usage" in kept:
        kept["usage"] = {name: kept["usage"][name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
    return kept


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    source, out = write_lines(folder / "in.jsonl", requests()), folder / "out.jsonl"
    done = run("run-batch", "demo", "-i", source, "-o", out)
    assert done.returncode == 0, done.stderr
    assert f"batch finished done={NUM_REQUESTS} total={NUM_REQUESTS} failed=10 skipped=0" in done.stderr
    found = answers(read_lines(out))
    assert found.keys() == {each["custom_id"] for each in requests()}
    assert [status for status, _ in found.values()].count(400) == 10
    return found


def test_answers_are_the_servers(server, undisturbed):
    for each in requests()[:30]:
        status, body = undisturbed[each["custom_id"]]
        asked = dict(each["body"])
        if status == 200:
            assert asked.get("seed", body["seed"]) == body["seed"] < 1 << 53
            asked["seed"] = body["seed"]
        found, answer = server.ask(each["url"], asked)
        assert (found, plain(answer)) == (status, body)


def test_the_order_and_the_number_at_a_time_change_nothing(tmp_path, undisturbed):
    shuffled = requests()
    random.Random(1).shuffle(shuffled)
    source, out = write_lines(tmp_path / "in.jsonl", shuffled), tmp_path / "out.jsonl"
    run_well("run-batch", "demo", f"--input={source}", f"--output={out}", "--max-num-seqs", "3", "--threads", "1")
    assert answers(read_lines(out)) == undisturbed


def test_another_seed_gives_other_answers(tmp_path, undisturbed):
    source, out = write_lines(tmp_path / "in.jsonl", requests(30)), tmp_path / "out.jsonl"
    run_well("run-batch", "demo", "-i", source, "-o", out, "--seed", "1")
    found = answers(read_lines(out))
    same = {name for name in found if found[name] == undisturbed[name]}
    assert {"request-5", "request-15", "request-25", "request-7", "request-27"} <= same
    assert len(same) < 15


def test_killed_again_and_again(tmp_path, undisturbed):
    source, out = write_lines(tmp_path / "in.jsonl", requests()), tmp_path / "out.jsonl"
    chance = random.Random(2)
    arguments = [STOKER, "run-batch", "demo", "-i", source, "-o", out, "--no-tune"]
    num_kills = num_halves = 0
    before = ""
    while True:
        process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(chance.uniform(0.02, 0.15) if num_kills < 20 else LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
        if process.wait() != -signal.SIGKILL:
            break
        num_kills += 1
        text = out.read_text() if out.exists() else ""
        assert text.startswith(before), "a finished line is lost"
        before = text[:text.rfind("\n") + 1]
        if chance.random() < 0.5:  # a kill in the middle of a write, which is too short to be hit
            out.write_text(before + '{"id":"batch_req_0","custom_id":"request-0","response":'[:chance.randrange(1, 50)])
            num_halves += 1
    assert process.returncode == 0
    assert num_kills >= 5 and num_halves >= 1
    assert answers(read_lines(out)) == undisturbed
    assert sorted(os.listdir(tmp_path)) == ["in.jsonl", "out.jsonl"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_whole_lines(tmp_path, number):
    lines = [line("short", {"prompt": "a", "max_tokens": 1})] + [line(f"endless-{i}", ENDLESS) for i in range(100)]
    source, out = write_lines(tmp_path / "in.jsonl", lines), tmp_path / "out.jsonl"
    process = subprocess.Popen([STOKER, "run-batch", "demo", "-i", source, "-o", out], stdin=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    with process:
        wait_for_line(out)
        begun = time.monotonic()
        process.send_signal(number)
        _, log = process.communicate(timeout=LIMIT)
    assert process.returncode == 4
    assert time.monotonic() - begun < 10
    assert "the same command goes on" in log and "batch ended done=1 total=101" in log
    assert list(answers(read_lines(out))) == ["short"]


def wait_for_line(path):
    limit = time.monotonic() + LIMIT
    while not path.exists() or not path.read_text().endswith("\n"):
        assert time.monotonic() < limit
        time.sleep(0.01)


def test_from_standard_input_to_standard_output(undisturbed):
    asked = "".join(json.dumps(each) + "\n\n" for each in requests(12))
    done = run("run-batch", "demo", "-i", "-", "-o", "-", stdin=asked)
    assert done.returncode == 0 and "batch finished done=12 failed=1 " in done.stderr
    found = answers([json.loads(each) for each in done.stdout.splitlines()])
    assert found == {each["custom_id"]: undisturbed[each["custom_id"]] for each in requests(12)}


def test_wrong_lines_stand_alone(tmp_path):
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    good = [json.dumps(line(name, {"prompt": "a", "max_tokens": 1})) for name in ("first", "last", "first")]
    source.write_text("\n".join([
        good[0], "", "nonsense", '{"method": "POST"}', good[2],
        json.dumps(line("url", {}, "/v1/embeddings")), json.dumps(line("stream", {"prompt": "a", "stream": True})),
        json.dumps(line("long", {"prompt": [1] * 5000})), json.dumps(line("model", {"prompt": "a", "model": "another"})), good[1]]))
    for _ in range(2):  # a second run makes the lines without an answer again
        done = run("run-batch", "demo", "-i", source, "-o", out)
        assert done.returncode == 0, done.stderr
        lines = read_lines(out)
        assert len(lines) == 9
        by_response = {each["custom_id"]: each["response"]["status_code"] for each in lines if each["response"]}
        assert by_response == {"first": 200, "last": 200, "url": 404, "stream": 400, "long": 400, "model": 404}
        errors = sorted((each["error"]["code"], each["error"]["message"].split(":")[0]) for each in lines if each["error"])
        assert errors == [("duplicate_custom_id", "line 5"), ("invalid_line", "line 3"), ("invalid_line", "line 4")]


def test_served_names(tmp_path):
    source = write_lines(tmp_path / "in.jsonl", [line("a", {"prompt": "a", "max_tokens": 1, "model": "org/name"})])
    done = run_well("run-batch", "demo", "-i", source, "-o", "-", "--served-model-name", "org/name", "--quiet")
    assert json.loads(done)["response"]["body"]["model"] == "org/name"


def test_a_full_disk(tmp_path, undisturbed):
    source, out = write_lines(tmp_path / "in.jsonl", requests(40)), tmp_path / "out.jsonl"

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))

    done = run("run-batch", "demo", "-i", source, "-o", out, preexec_fn=limit)
    assert done.returncode == 3 and f"{out}: cannot write an answer: File too large" in done.stderr
    kept = out.read_text()
    assert 1 <= len(answers(read_lines(out))) < 40
    run_well("run-batch", "demo", "-i", source, "-o", out)
    assert out.read_text().startswith(kept)
    assert answers(read_lines(out)) == {each["custom_id"]: undisturbed[each["custom_id"]] for each in requests(40)}
    with open("/dev/full", "w") as full:
        done = subprocess.run([STOKER, "run-batch", "demo", "-i", source, "-o", "-"], stdin=subprocess.DEVNULL, stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 3 and "standard output: cannot write an answer: No space left" in done.stderr


def test_refusals(tmp_path):
    source = write_lines(tmp_path / "in.jsonl", requests(1))
    other = tmp_path / "other.txt"
    other.write_text("a text\n")
    for arguments, code, message in [
            (["-i", source], 2, "expected --input and --output, found --input alone"),
            (["-i", tmp_path / "none", "-o", "-"], 2, "expected a file to read"),
            (["-i", source, "-o", source], 2, "found the input"),
            (["-i", source, "-o", source, "--overwrite"], 2, "found the input"),
            (["-i", source, "-o", other], 2, "--overwrite begins anew"),
            (["-i", source, "-o", tmp_path / "none" / "out"], 3, "expected a file to write")]:
        done = run("run-batch", "demo", *arguments)
        assert done.returncode == code and message in done.stderr, done.stderr
    assert other.read_text() == "a text\n"
    run_well("run-batch", "demo", "-i", source, "-o", other, "--overwrite")
    assert list(answers(read_lines(other))) == ["request-0"]


def test_one_run_at_a_time(tmp_path):
    source, out = write_lines(tmp_path / "in.jsonl", [line("a", ENDLESS)]), tmp_path / "out.jsonl"
    arguments = ["run-batch", "demo", "-i", source, "-o", out]
    with subprocess.Popen([STOKER, *arguments], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
        limit = time.monotonic() + LIMIT
        while not out.exists():
            assert time.monotonic() < limit
            time.sleep(0.01)
        time.sleep(0.1)
        done = run(*arguments, "--overwrite")
        first.kill()
    assert done.returncode == 4 and "another run" in done.stderr


def test_progress_on_a_terminal(tmp_path):
    source = write_lines(tmp_path / "in.jsonl", requests(600))
    main, terminal = pty.openpty()
    with subprocess.Popen([STOKER, "run-batch", "demo", "-i", source, "-o", tmp_path / "out.jsonl"], stdin=subprocess.DEVNULL,
                          stderr=terminal) as process:
        os.close(terminal)
        shown = b""
        try:
            while part := os.read(main, 4096):
                shown += part
        except OSError:  # the other side is closed
            pass
        assert process.wait(LIMIT) == 0
    os.close(main)
    assert b"\rstoker: " in shown and b"/600 requests" in shown and b"tokens/s" in shown and b" left" in shown
    assert b"batch finished done=600 total=600" in shown


def test_quiet(tmp_path):
    source = write_lines(tmp_path / "in.jsonl", requests(3))
    assert run("run-batch", "demo", "-i", source, "-o", tmp_path / "out.jsonl", "--quiet").stderr == ""
