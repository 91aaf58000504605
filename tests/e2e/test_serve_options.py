"""How `stoker serve` is told what to do: files of options, keys, and what is wrong with them."""
import json
import os
import re
import subprocess
import urllib.request

import pytest

from program import LIMIT, ROOT, STOKER, Server, run, run_well


def test_options_from_a_file(tmp_path):
    config = tmp_path / "serve.yaml"
    config.write_text("""
model: demo
served_model_name: [org/first, second]
port: 1          # the command line comes first
max-num-seqs: 4
api-key: ["team=sk-first"]
speculative-config:
  method: dspark
  num_speculative_tokens: 2
no-tune: true
no-pack: null
""")
    with Server("--config", config) as server:
        assert server.ask("/v1/models")[0] == 401
        assert server.port != 1
        assert "drafts=2" in server.log and "max_num_seqs=4" in server.log


@pytest.mark.parametrize("text, told", [
    ("[1, 2]", "expected a mapping of options to values"),
    ("port: [1", "serve.yaml: "),
    ("prot: 1", "--prot"),
    ("port: many", "--port"),
    ("speculative-config: " + "[" * 40 + "{a: 1}" + "]" * 40, "nested too deep"),
    ("config: other.yaml", "expected names of options, found 'config'"),
])
def test_a_wrong_file(tmp_path, text, told):
    config = tmp_path / "serve.yaml"
    config.write_text(text)
    done = run("serve", "demo", "--config", config)
    assert done.returncode == 2 and told in done.stderr


def test_no_such_file(tmp_path):
    done = run("serve", "demo", f"--config={tmp_path / 'none.yaml'}")
    assert done.returncode == 2 and "none.yaml" in done.stderr
    assert run("serve", "demo", "--config").returncode == 2


@pytest.mark.parametrize("option", ["--api-key", "--admin-api-key"])
def test_a_wrong_key_is_not_shown(option):
    done = run("serve", "demo", option, "na me=secret-part")
    assert done.returncode == 2 and option in done.stderr and "secret-part" not in done.stderr


def test_a_key_from_the_environment():
    environment = dict(os.environ, STOKER_API_KEY="sk-first")
    process = subprocess.Popen([STOKER, "serve", "demo", "--port", "0"], stderr=subprocess.PIPE, text=True, env=environment)
    try:
        for line in process.stderr:
            if "stoker: ready; " in line:
                url = line.split(" answers at ")[1].split()[0]
                break
        server = Server("demo")
        server.url = url
        assert server.ask("/v1/models")[0] == 401 and server.ask("/version")[0] == 200
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_numbers_out_of_range():
    for option in ("--max-requests-per-key", "--shutdown-timeout"):
        done = run("serve", "demo", option, "-1")
        assert done.returncode == 2 and f"{option}: expected 0 to " in done.stderr


def test_a_unix_socket(tmp_path):
    path = tmp_path / "s"
    process = subprocess.Popen([STOKER, "serve", "demo", "--uds", path], stderr=subprocess.PIPE, text=True)
    try:
        assert any("stoker: ready; " in line for line in process.stderr)
        curl = ["curl", "-sf", "--unix-socket", path, "http://localhost/v1/models"]
        assert '"id":"demo"' in subprocess.run(curl, capture_output=True, text=True, check=True, timeout=LIMIT).stdout
        assert path.stat().st_mode & 0o777 == 0o660
        second = run("serve", "demo", "--uds", path)
        assert second.returncode == 3 and "another program listens" in second.stderr
        process.terminate()
        assert process.wait(LIMIT) == 0 and not path.exists()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def origin_told(server, origin):
    """What a page of that origin is told of itself, and of credentials."""
    request = urllib.request.Request(server.url + "/version", headers={"Origin": origin})
    with urllib.request.urlopen(request, timeout=LIMIT) as answer:
        return answer.headers["Access-Control-Allow-Origin"], answer.headers["Access-Control-Allow-Credentials"]


def test_origins_of_pages(tmp_path):
    mine, other = "https://chat.example", "https://other.example"
    with Server("demo") as server:
        assert origin_told(server, other) == ("*", None)
    with Server("demo", "--allowed-origins", json.dumps([mine]), "--allow-credentials") as server:
        assert origin_told(server, mine) == (mine, "true") and origin_told(server, other) == (None, None)
    config = tmp_path / "serve.yaml"
    config.write_text(f"model: demo\nallowed-origins: [{mine}, 'http://localhost:3000']\n")
    with Server("--config", config) as server:
        assert origin_told(server, mine) == (mine, None) and origin_told(server, other) == (None, None)


@pytest.mark.parametrize("option", ["--allowed-origins", "--allowed-methods", "--allowed-headers"])
def test_lists_that_are_none(option):
    for value in ("[", "[1]", "a b", '["a\\r\\nX: y"]'):
        done = run("serve", "demo", option, value)
        assert done.returncode == 2 and done.stderr.startswith(f"stoker serve: {option}: "), value


def test_paths_that_cannot_be_sockets(tmp_path):
    (tmp_path / "file").write_text("mine")
    done = run("serve", "demo", "--uds", tmp_path / "file")
    assert done.returncode == 2 and (tmp_path / "file").read_text() == "mine"
    assert run("serve", "demo", "--uds", "x" * 200).returncode == 2
    assert run("serve", "demo", "--uds", tmp_path / "no" / "such").returncode == 3


def told_options():
    """(option with its value, what --help says of it) of all that it shows."""
    lines = run_well("serve", "--help").split("\nExamples:")[0].splitlines()
    options = []
    for line in lines:
        found = re.match(r"  (--[\w-]+(?: \S+)?)(?: {2,}(.*)| (\S.*))?$", line)
        if found:
            options.append([found[1], (found[2] or found[3] or "").strip()])
        elif options and line.startswith(" " * 20):
            options[-1][1] = (options[-1][1] + " " + line.strip()).strip()
    return options


def foreign_options():
    """Name, the one value that is taken ("none": it is refused; None: any) and why, of the options of vLLM that say nothing here."""
    source = (ROOT / "apps/vllm_options.cc").read_text()
    rows = re.findall(r'\{"(--[\w-]+)", Takes::(kNothing|kValue), (?:nullptr|"([^"]+)"), "([^"]+)"\}', source)
    return [(name, takes == "kValue", only, why) for name, takes, only, why in rows]


def options_markdown():
    """What docs/server.md has of the options."""
    cell = lambda text: text.replace("|", "\\|")
    lines = ["| Option | |", "| --- | --- |", *(f"| `{cell(option)}` | {cell(told)} |" for option, told in told_options())]
    lines += ["", "| Option of vLLM | |", "| --- | --- |"]
    for name, _, only, why in foreign_options():
        what = {"": "no effect", "none": "refused"}.get(only, f"only `{only}`")
        lines.append(f"| `{name}` | {what}: {why} |")
    return "\n".join(lines) + "\n"


def test_the_documentation_has_all_options():
    assert len(told_options()) > 30 and len(foreign_options()) > 40
    assert options_markdown() in (ROOT / "docs/server.md").read_text(), options_markdown()


def test_options_of_vllm_are_taken_or_refused():
    taken = []
    for name, has_value, only, why in foreign_options():
        value = ["x" if not only else only] if has_value else []
        if only != "none":
            taken += [name, *value]
        if only:
            done = run("serve", "/no/model", name, *(["other"] if has_value else []))
            assert done.returncode == 2 and name in done.stderr and why in done.stderr
    done = run("serve", "/no/model", *taken)
    assert "/no/model" in done.stderr  # the command line was taken
    for name, _, only, why in foreign_options():
        assert (f"stoker: {name} has no effect: {why}" in done.stderr) == (only != "none")


@pytest.mark.parametrize("option, value, told", [
    ("--max-model-len", "4097", "expected 1 to 4096"),
    ("--max-model-len", "1.5", "expected auto, or a number such as"),
    ("--max-model-len", "0", "expected auto, or a number such as"),
    ("--max-model-len", "1M", "found 1048576"),
    ("--port", "65536", "expected 0 to 65535"),
    ("--max-queue", "-1", "--max-queue"),
    ("--max-request-body-bytes", "0", "--max-request-body-bytes"),
])
def test_values_beyond_limits(option, value, told):
    done = run("serve", "demo", option, value)
    assert done.returncode == 2 and told in done.stderr


def test_a_shorter_context():
    with Server("demo", "--max-model-len", "1k", "--strict-requests") as server:
        assert server.ask("/v1/models")[1]["data"][0]["max_model_len"] == 1000
        status, answer = server.ask("/v1/completions", {"prompt": [5] * 990, "max_tokens": 11})
        assert status == 400 and "1000" in answer["error"]["message"]
        assert server.ask("/v1/completions", {"prompt": "x", "temprature": 1})[1]["error"]["param"] == "temprature"
