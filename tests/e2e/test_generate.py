"""The demo model answers over every way in: `generate`, `chat`, curl and OpenAI's client; and how `generate` and `chat` behave."""
import json
import os
import pty
import re
import select
import signal
import subprocess

import openai
import pytest

from program import LIMIT, STOKER, Server, run, run_well

QUESTION = "What is the capital of France?"
CAPITAL = "Paris"
# Sampled this hot, the demo model does not come to an end.
ENDLESS = ["--prompt", "a", "--temperature", "20", "--seed", "1"]


def generate_json(*arguments):
    return json.loads(run_well("generate", "demo", "--json", *arguments))


# The capital of France, five times


def test_generate_answers():
    assert CAPITAL in run_well("generate", "demo", "--user", QUESTION)


def test_chat_answers(tmp_path):
    saved = tmp_path / "saved.json"
    out = run_well("chat", "demo", stdin=f"/think off\n{QUESTION}\n/save {saved}\n/quit\nnever read\n")
    assert CAPITAL in out
    messages = json.loads(saved.read_text())["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert messages[0]["content"] == QUESTION and CAPITAL in messages[1]["content"]


def test_curl_gets_an_answer(server):
    body = json.dumps({"model": "demo", "messages": [{"role": "user", "content": QUESTION}], "thinking": {"type": "disabled"}})
    out = subprocess.run(["curl", "-sSf", f"{server.url}/v1/chat/completions", "-H", "Content-Type: application/json", "-d", body],
                         capture_output=True, text=True, timeout=LIMIT, check=True).stdout
    assert CAPITAL in json.loads(out)["choices"][0]["message"]["content"]


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", timeout=LIMIT, max_retries=0) as made:
        yield made


MESSAGES = [{"role": "user", "content": QUESTION}]


@pytest.mark.parametrize("thinking", ["disabled", "enabled"])
def test_openai_client_chat(client, thinking):
    answer = client.chat.completions.create(model="demo", messages=MESSAGES, extra_body={"thinking": {"type": thinking}})
    choice = answer.choices[0]
    assert CAPITAL in choice.message.content
    assert (choice.finish_reason, choice.message.role) == ("stop", "assistant")
    assert bool(getattr(choice.message, "reasoning_content", None)) == (thinking == "enabled")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_openai_client_chat_stream(client):
    plain = client.chat.completions.create(model="demo", messages=MESSAGES, temperature=0)
    chunks = list(client.chat.completions.create(model="demo", messages=MESSAGES, temperature=0, stream=True,
                                                 stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == plain.choices[0].message.content and CAPITAL in text
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage.completion_tokens == plain.usage.completion_tokens


def test_openai_client_completion(client):
    arguments = dict(model="demo", prompt=f"Question: {QUESTION}", max_tokens=12, temperature=0)
    plain = client.completions.create(**arguments)
    streamed = "".join(chunk.choices[0].text for chunk in client.completions.create(**arguments, stream=True))
    assert streamed == plain.choices[0].text
    assert plain.usage.completion_tokens <= 12


def test_openai_client_sees_errors(client):
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="another", messages=MESSAGES)
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="demo", messages=MESSAGES, top_p=2)
    assert caught.value.param == "top_p"
    assert [model.id for model in client.models.list()] == ["demo"]


# generate


def test_json_shape():
    answer = generate_json("--user", QUESTION)
    assert list(answer) == ["prompt_ids", "ids", "text", "finish_reason", "seed", "timings"]
    assert CAPITAL in answer["text"] and answer["finish_reason"] == "stop"
    assert answer["prompt_ids"][0] == 0 and answer["ids"][-1] == 1  # from begin of text to end of text
    timings = answer["timings"]
    assert 0 <= timings["queued_s"] <= timings["first_token_s"] <= timings["total_s"] < LIMIT


def test_prompts_of_every_kind_agree(tmp_path):
    by_text = generate_json("--prompt", QUESTION, "--max-tokens", "5")
    assert by_text["prompt_ids"][0] == 0
    (tmp_path / "prompt.txt").write_text(QUESTION)
    by_file = generate_json("--prompt-file", tmp_path / "prompt.txt", "--max-tokens=5")
    by_ids = generate_json("--ids", ",".join(map(str, by_text["prompt_ids"])), "--max-tokens", "5")
    for other in (by_file, by_ids):
        assert [other[key] for key in ("prompt_ids", "ids", "text")] == [by_text[key] for key in ("prompt_ids", "ids", "text")]
    assert run_well("generate", "demo", "--prompt", QUESTION, "--max-tokens", "5") == by_text["text"].rstrip("\n") + "\n"


def test_seeds():
    hot = ["--prompt", "The", "--temperature", "1.5", "--max-tokens", "20"]
    first = generate_json(*hot, "--seed", "7", "--threads", "1")
    again = generate_json(*hot, "--seed", "7", "--threads", "3")
    other = generate_json(*hot, "--seed", "8")
    assert first["ids"] == again["ids"] and first["seed"] == again["seed"] == 7
    assert other["ids"] != first["ids"]
    drawn = generate_json(*hot)
    assert generate_json(*hot, "--seed", drawn["seed"])["ids"] == drawn["ids"]


def test_stop_strings():
    whole = generate_json("--user", QUESTION)["text"]
    cut = generate_json("--user", QUESTION, "--stop", "never met", "--stop", CAPITAL)
    assert cut["finish_reason"] == "stop"
    assert cut["text"] == whole[:whole.index(CAPITAL)]


def test_max_tokens():
    answer = generate_json("--user", QUESTION, "--max-tokens", "2")
    assert len(answer["ids"]) == 2 and answer["finish_reason"] == "length"


@pytest.mark.parametrize("arguments, code, expected", [
    ([], 2, "Usage: stoker COMMAND"),
    (["dance"], 2, "'dance'"),
    (["generate"], 2, "MODEL"),
    (["generate", "demo"], 2, "--prompt"),
    (["generate", "demo", "--prompt", "a", "--user", "b"], 2, "found 2"),
    (["generate", "demo", "--prompt"], 2, "--prompt"),
    (["generate", "demo", "--promt", "a"], 2, "--promt"),
    (["generate", "demo", "--prompt", "a", "--seed", "one"], 2, "--seed: expected a whole number"),
    (["generate", "demo", "--prompt", "a", "--seed", "1", "--seed", "2"], 2, "--seed: expected once"),
    (["generate", "demo", "--prompt", "a", "--max-tokens", "0"], 2, "max_tokens"),
    (["generate", "demo", "--prompt", "a", "--temperature", "-1"], 2, "temperature"),
    (["generate", "demo", "--prompt", "a", "--top-p", "0"], 2, "top_p"),
    (["generate", "demo", "--prompt", "a", "--stop="], 2, "stop"),
    (["generate", "demo", "--prompt", "a", "--threads", "-1"], 2, "threads"),
    (["generate", "demo", "--ids", "4096"], 2, "4096"),
    (["generate", "demo", "--ids", "1,x"], 2, "'x'"),
    (["generate", "demo", "--prompt-file", "/nowhere"], 2, "/nowhere"),
    (["generate", "/nowhere", "--prompt", "a"], 2, "/nowhere"),
    (["generate", "/tmp", "--prompt", "a"], 2, "config.json"),
    (["generate", "demo", "--prompt", "a " * 5000], 2, "4096"),
    (["serve", "demo", "--port", "70000"], 2, "--port"),
    (["serve", "demo", "--host", "198.51.100.1"], 2, "198.51.100.1"),
    (["trace", "demo"], 2, "--ids-file"),
    (["inspect", "demo", "extra"], 2, "'extra'"),
    (["inspect", "demo", "--plan"], 2, "--kv-budget"),
    (["inspect", "demo", "--plan", "--kv-budget", "big"], 2, "such as 512M"),
    (["serve", "demo", "--port", "0", "--kv-budget", "1k"], 2, "such as 512M"),
    (["serve", "demo", "--port", "0", "--kv-budget", "1K"], 2, "expected at least"),
])
def test_bad_usage(arguments, code, expected):
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert expected in done.stderr
    assert "terminate called" not in done.stderr


@pytest.mark.parametrize("command", ["inspect", "generate", "chat", "tokenize", "trace", "serve"])
def test_help_has_examples(command):
    text = run_well(command, "--help")
    assert f"stoker {command} demo" in text.split("Examples:")[1]
    assert command in run_well("--help")


def test_version():
    assert run_well("--version").startswith("stoker ")


def test_inspect():
    text = run_well("inspect", "demo")
    told = json.loads(run_well("inspect", "demo", "--json"))
    assert told["problems"] == [] and told["max_tokens_in_memory"] > 0
    assert told["weight_bytes"] == sum(part["bytes"] for part in told["parts"])
    for part in told["parts"]:
        assert part["name"] in text


def test_plan():
    told = json.loads(run_well("inspect", "demo", "--plan", "--kv-budget", "1MiB", "--max-num-seqs", "4", "--json"))
    assert told["num_sequences"] == 4 and told["total_bytes"] <= told["budget_bytes"] == 1 << 20
    images = told["num_image_units"] * told["image_unit_bytes"]
    blocks = told["num_blocks"] * told["block_bytes"] + told["index_bytes"]
    assert told["total_bytes"] == 4 * told["sequence_bytes"] + images + blocks
    without = json.loads(run_well("inspect", "demo", "--plan", "--kv-budget", "1MiB", "--max-num-seqs", "4", "--json",
                                  "--no-enable-prefix-caching"))
    assert without["num_image_units"] == without["index_bytes"] == 0 and without["num_blocks"] > told["num_blocks"]
    assert told["num_tokens"] == told["num_blocks"] * told["block_tokens"]
    assert told["max_step_rows"] == 1024
    few = json.loads(run_well("inspect", "demo", "--plan", "--kv-budget", "1MiB", "--max-num-batched-tokens", "512",
                              "--max-num-seqs", "4", "--json"))
    assert few["max_step_rows"] == 512 and few["total_bytes"] == told["total_bytes"]
    assert 0 < few["workspace_bytes"] < told["workspace_bytes"]
    for fit in told["fits"]:
        blocks = -(-fit["tokens"] // told["block_tokens"])
        assert fit["sequences"] == min(4, told["num_blocks"] // blocks)
    assert str(told["num_tokens"]) in run_well("inspect", "demo", "--plan", "--kv-budget", "1M", "--max-num-seqs", "4")
    done = run("inspect", "demo", "--plan", "--kv-budget", "1000")
    assert done.returncode == 2 and "expected at least" in done.stderr


def test_inspect_tells_problems(tmp_path):
    for file in os.scandir(json.loads(run_well("inspect", "demo", "--json"))["path"]):
        if not file.name.startswith("model-00002"):
            os.symlink(file.path, tmp_path / file.name)
    done = run("inspect", tmp_path)
    assert done.returncode == 3
    assert "model-00002-of-00002.safetensors" in done.stdout.split("Problems")[1]


def test_interrupted():
    with subprocess.Popen([STOKER, "generate", "demo", *ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) == 4
        assert b"interrupted" in process.stderr.read()


def test_a_reader_that_leaves():
    with subprocess.Popen([STOKER, "generate", "demo", *ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.read(1)
        process.stdout.close()
        process.wait(LIMIT)
        assert process.stderr.read() == b""


def test_a_full_disk():
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([STOKER, "generate", "demo", "--user", QUESTION], stdout=full, stderr=subprocess.PIPE, text=True,
                              timeout=LIMIT, check=False)
    assert done.returncode == 3 and "No space left" in done.stderr


def num_threads(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


# --no-pack: a start over the store has one more thread for a while, which verifies.
def test_threads_are_as_many_as_asked_for():
    counts = []
    for threads in ("1", "13"):
        with subprocess.Popen([STOKER, "generate", "demo", "--no-pack", "--threads", threads, *ENDLESS], stdout=subprocess.PIPE) as process:
            assert process.stdout.read(1)
            counts.append(num_threads(process.pid))
            process.kill()
    assert counts[1] - counts[0] == 12
    with Server("demo", "--no-pack", "--threads", "1") as one, Server("demo", "--no-pack", "--threads", "13") as many:
        assert num_threads(many.process.pid) - num_threads(one.process.pid) == 12


# chat


def test_chat_from_a_script():
    done = run("chat", "demo", "--max-tokens", "3", stdin="/think off\nHello\n\n/dance\n/think 101\n/system Be brief.\nHello\n")
    assert done.returncode == 2
    assert "'/dance'" in done.stderr and "'101'" in done.stderr
    assert "\x1b" not in done.stdout


def test_chat_says_when_the_context_is_full():
    done = run("chat", "demo", "--max-tokens", "3", stdin="/think off\nHello\n" + "word " * 5000 + "\n/reset\nHello\n")
    assert done.returncode == 2
    assert "/reset" in done.stderr and "4096" in done.stderr
    answers = done.stdout.splitlines()
    assert len(answers) == 2 and answers[0] == answers[1]


def test_a_kept_conversation_goes_on(tmp_path):
    system = "/think off\n/system " + "Be brief and kind. " * 40 + "\n"
    chat = ("chat", "demo", "--temperature", "0", "--store", str(tmp_path / "store"))
    whole = run(*chat, stdin=f"{system}{QUESTION}\nAnd of Spain?\n")
    first = run(*chat, stdin=f"{system}{QUESTION}\n/keep trip.1\n/kept\n")
    kept = re.search(r"\(kept: 3 messages and (\d+) tokens", first.stderr)
    assert int(kept[1]) >= 128 and re.search(r"^trip\.1 +3 messages", first.stderr, re.MULTILINE)
    second = run(*chat, "--threads", "3", stdin="/load trip.1\nAnd of Spain?\n/keep trip.1\n")
    assert f"(loaded: 3 messages and {kept[1]} tokens)" in second.stderr and "(kept: 5 messages" in second.stderr
    assert (whole.returncode, first.returncode, second.returncode) == (0, 0, 0)
    assert first.stdout + second.stdout == whole.stdout

    (session,) = [path for path in (tmp_path / "store/objects").glob("session-*") if path.suffix != ".table"]
    assert session.stat().st_mode & 0o777 == 0o400
    session.chmod(0o600)
    session.write_bytes(session.read_bytes()[:-1] + b"?")
    session.chmod(0o400)
    damaged = run(*chat, stdin="/load trip.1\n")
    assert damaged.returncode == 3 and "in chunk 0" in damaged.stderr
    done = run(*chat, stdin="/forget trip.1\n/load trip.1\n/keep Trip\n/load\n")
    assert done.returncode == 2 and "(forgot trip.1)" in done.stderr and "no session 'trip.1'" in done.stderr
    assert done.stderr.count("expected a name of 1 to 64 of a-z") == 2


def test_saved_messages_can_be_sent(server, tmp_path):
    run_well("chat", "demo", "--system", "Be brief.", stdin=f"{QUESTION}\nAnd of Spain?\n/save {tmp_path}/saved.json\n")
    body = json.loads((tmp_path / "saved.json").read_text())
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "user", "assistant"]
    assert body["messages"][2]["reasoning_content"]
    status, answer = server.ask("/v1/chat/completions", dict(body, max_tokens=3))
    assert status == 200, answer


class Terminal:
    """`stoker chat` at a pseudo-terminal, for a with statement."""

    def __init__(self, home, *arguments):
        self.home, self.arguments, self.seen = home, arguments, ""

    def __enter__(self):
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm", LANG="C", XDG_STATE_HOME=str(self.home))
            os.execv(STOKER, [STOKER, "chat", "demo", *self.arguments])
        return self

    def __exit__(self, *_):
        os.close(self.file)
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def type(self, text):
        os.write(self.file, text.encode())

    def read(self):
        """What the terminal shows next, waited for; empty once the program has ended."""
        assert select.select([self.file], [], [], LIMIT)[0], f"nothing more after {self.seen!r}"
        try:
            return os.read(self.file, 4096).decode(errors="replace")
        except OSError:
            return ""

    def wait_for(self, text):
        """Reads until the terminal shows `text`; what comes up to its end is done with."""
        while text not in self.seen:
            more = self.read()
            assert more, f"the program ended, no {text!r} in {self.seen!r}"
            self.seen += more
        self.seen = self.seen[self.seen.index(text) + len(text):]

    def exit_code(self):
        while self.read():
            pass
        status = os.waitpid(self.pid, 0)[1]
        self.pid = 0
        return os.waitstatus_to_exitcode(status)


def test_chat_at_a_terminal(tmp_path):
    with Terminal(tmp_path, "--temperature", "20", "--seed", "1") as terminal:
        terminal.wait_for("> ")
        terminal.type("Héllo\n")
        terminal.wait_for("\x1b[2m")  # reasoning
        terminal.type("\x03")
        terminal.wait_for("(stopped)")
        terminal.wait_for("> ")
        terminal.type("half a line")
        terminal.wait_for("line")
        terminal.type("\x03")
        terminal.wait_for("> ")
        terminal.type("/help\n")
        terminal.wait_for("Ctrl-C stops an answer.")
        terminal.wait_for("> ")
        terminal.type("\x04")
        assert terminal.exit_code() == 0
    history = (tmp_path / "stoker" / "history").read_text()
    assert "Héllo" in history and "half" not in history
