"""`/v1/files` and `/v1/batches` with OpenAI's client: every request answered once, whatever ends the server in between."""
import json
import random
import signal
import time

import openai
import pytest

from program import LIMIT, Server, run
from test_run_batch import CHAT, COMPLETIONS, ENDLESS, answers, line, requests

KEYS = ("--api-key", "team-a=sk-first", "--api-key", "team-b=sk-second")


def client_of(server, key="sk-first"):
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, timeout=LIMIT, max_retries=0)


def completions(count=100):
    """Requests for one endpoint, as a batch has them; some with a seed, some refused."""
    return [each for each in requests(2 * count) if each["url"] == COMPLETIONS][:count]


def text_of(lines):
    return "".join(json.dumps(each) + "\n" for each in lines).encode()


def create(client, lines, endpoint=COMPLETIONS, **fields):
    file = client.files.create(file=("requests.jsonl", text_of(lines)), purpose="batch")
    return client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window="24h", **fields)


def wait_for(client, batch, *states):
    limit = time.monotonic() + LIMIT
    while batch.status not in states:
        assert time.monotonic() < limit and batch.status not in ("completed", "failed", "cancelled"), batch
        time.sleep(0.02)
        batch = client.batches.retrieve(batch.id)
    return batch


def lines_of(client, file_id):
    return [json.loads(each) for each in client.files.content(file_id).text.splitlines()] if file_id else []


def found_in(client, batch):
    """The answers of both files: each custom_id must be there once, and refusals in the one of errors."""
    good, bad = lines_of(client, batch.output_file_id), lines_of(client, batch.error_file_id)
    assert {each["response"]["status_code"] for each in good} <= {200}
    assert 200 not in {each["response"]["status_code"] for each in bad}
    counts = batch.request_counts
    assert (counts.completed, counts.failed) == (len(good), len(bad))
    return answers(good + bad)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What becomes of completions(), from a server that nothing ends."""
    with Server("demo", "--batch-dir", tmp_path_factory.mktemp("undisturbed") / "state", *KEYS) as server, \
            client_of(server) as client:
        batch = wait_for(client, create(client, completions()), "completed")
        found = found_in(client, batch)
    assert found.keys() == {each["custom_id"] for each in completions()}
    assert {status for status, _ in found.values()} == {200, 400}
    return found


def test_a_batch_of_chats(tmp_path):
    state = tmp_path / "new" / "state"
    lines = [each for each in requests(100) if each["url"] == CHAT]
    with Server("demo", "--batch-dir", state) as server, client_of(server, "none") as client:
        batch = create(client, lines, CHAT, metadata={"note": "nightly"})
        assert batch.object == "batch" and batch.metadata == {"note": "nightly"} and batch.request_counts.total == 0
        batch = wait_for(client, batch, "completed")
        assert batch.request_counts.total == len(lines) and batch.errors is None and batch.error_file_id is None
        assert batch.created_at <= batch.in_progress_at <= batch.finalizing_at <= batch.completed_at
        found = found_in(client, batch)
        assert found.keys() == {each["custom_id"] for each in lines}
        for each in lines[:3]:  # the same as the route's, with the seed that the answer tells
            status, body = found[each["custom_id"]]
            asked, direct = server.ask(CHAT, dict(each["body"], seed=body["seed"]))
            assert (asked, direct["choices"]) == (status, body["choices"])
        assert [each.id for each in client.batches.list()] == [batch.id]
        output = client.files.retrieve(batch.output_file_id)
        assert output.purpose == "batch_output" and output.bytes == len(client.files.content(output.id).read())
        assert {each.id for each in client.files.list()} == {batch.input_file_id, output.id}
        assert client.files.delete(output.id).deleted
        with pytest.raises(openai.NotFoundError):
            client.files.content(output.id)
    assert state.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o077 == 0 for path in state.iterdir())


def test_answers_are_those_of_run_batch(tmp_path, undisturbed):
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(text_of(completions()))
    assert run("run-batch", "demo", "-i", source, "-o", out).returncode == 0
    assert answers([json.loads(each) for each in out.read_text().splitlines()]) == undisturbed


def test_keys_see_their_own_alone(tmp_path):
    with Server("demo", "--batch-dir", tmp_path / "state", *KEYS) as server, \
            client_of(server) as first, client_of(server, "sk-second") as second:
        batch = wait_for(first, create(first, completions(3)), "completed")
        for ask in (lambda: second.files.retrieve(batch.input_file_id), lambda: second.files.content(batch.output_file_id),
                    lambda: second.files.delete(batch.input_file_id), lambda: second.batches.retrieve(batch.id),
                    lambda: second.batches.cancel(batch.id),
                    lambda: second.batches.create(input_file_id=batch.input_file_id, endpoint=COMPLETIONS,
                                                  completion_window="24h")):
            with pytest.raises(openai.NotFoundError):
                ask()
        assert not list(second.files.list()) and not list(second.batches.list())
        assert len(list(first.files.list())) == 2 and len(list(first.batches.list())) == 1
        with pytest.raises(openai.AuthenticationError), client_of(server, "sk-none") as nobody:
            nobody.files.list()


def test_wrong_inputs(tmp_path):
    with Server("demo", "--batch-dir", tmp_path / "state", "--max-batch-file-bytes", "64K") as server, \
            client_of(server) as client:
        lines = [line("a", {"prompt": "x"}), line("a", {"prompt": "x"}), line("b", {"messages": []}, CHAT)]
        batch = wait_for(client, create(client, lines), "failed")
        assert [(each.code, each.line) for each in batch.errors.data] == [("duplicate_custom_id", 2), ("mismatched_endpoint", 3)]
        with pytest.raises(openai.APIStatusError) as caught:
            client.files.create(file=("large.jsonl", b"x" * (1 << 17)), purpose="batch")
        assert caught.value.status_code == 413
        with pytest.raises(openai.BadRequestError):
            client.files.create(file=("a.jsonl", b"{}"), purpose="assistants")
        with pytest.raises(openai.BadRequestError):
            client.batches.create(input_file_id=batch.input_file_id, endpoint="/v1/embeddings", completion_window="24h")
        with pytest.raises(openai.BadRequestError):
            client.batches.cancel(batch.id)


def test_cancelling(tmp_path):
    lines = [line("short", {"prompt": "a", "max_tokens": 1})] + [line(f"endless-{i}", ENDLESS) for i in range(100)]
    with Server("demo", "--batch-dir", tmp_path / "state") as server, client_of(server) as client:
        batch, waits = create(client, lines), create(client, lines)
        while client.batches.retrieve(batch.id).request_counts.completed == 0:
            time.sleep(0.02)
        begun = time.monotonic()
        for each in (waits, batch):
            assert client.batches.cancel(each.id).status == "cancelling"
        batch = wait_for(client, client.batches.retrieve(batch.id), "cancelled")
        assert list(found_in(client, batch)) == ["short"]
        assert wait_for(client, client.batches.retrieve(waits.id), "cancelled").output_file_id is None
        assert time.monotonic() - begun < 10
        assert wait_for(client, create(client, completions(2)), "completed").request_counts.total == 2


def test_live_requests_come_first(tmp_path):
    """With one sequence at a time, a request that arrives is answered before the batch's lines that wait."""
    lines = [line(f"{i}", dict(ENDLESS, max_tokens=300)) for i in range(50)]
    with Server("demo", "--batch-dir", tmp_path / "state", "--max-num-seqs", "1", "--batch-concurrency", "40") as server, \
            client_of(server) as client:
        batch = wait_for(client, create(client, lines), "in_progress")
        while client.batches.retrieve(batch.id).request_counts.completed == 0:
            time.sleep(0.01)
        for _ in range(3):
            assert server.ask(COMPLETIONS, {"prompt": "a", "max_tokens": 1})[0] == 200
        batch = wait_for(client, client.batches.cancel(batch.id), "cancelled")
        assert batch.request_counts.completed < 40, "the requests waited for the batch"


def test_a_folder_has_one_server(tmp_path):
    with Server("demo", "--batch-dir", tmp_path / "state"):
        second = run("serve", "demo", "--port", "0", "--batch-dir", tmp_path / "state")
    assert second.returncode == 4 and "no other server" in second.stderr
    (tmp_path / "file").write_text("x")
    assert run("serve", "demo", "--batch-dir", tmp_path / "file").returncode == 2
    for option in ("--max-batch-files", "--batch-concurrency", "--max-batch-file-bytes"):
        refused = run("serve", "demo", option, "0")
        assert refused.returncode == 2 and f"{option}: expected 1 to " in refused.stderr


def test_killed_again_and_again(tmp_path, undisturbed):
    state, chance, batch_id, num_cut = tmp_path / "state", random.Random(3), None, 0
    for attempt in range(40):
        with Server("demo", "--batch-dir", state, "--no-tune", *KEYS) as server, client_of(server) as client:
            if batch_id is None:
                batch_id = create(client, completions()).id
            if attempt < 12:
                time.sleep(chance.uniform(0, 0.08))
                server.process.kill()
                server.process.wait()
                num_cut += any(out.stat().st_size for out in state.glob("*.out"))
                for out in state.glob("*.out"):  # a kill in the middle of a write, which is too short to be hit
                    if chance.random() < 0.5:
                        kept = out.read_text()
                        out.write_text(kept[:kept.rfind("\n") + 1] + '{"id":"batch_req_0","custom_id":"'[:chance.randrange(1, 30)])
                continue
            batch = wait_for(client, client.batches.retrieve(batch_id), "completed")
            assert found_in(client, batch) == undisturbed
            assert batch.request_counts.total == len(undisturbed)
            assert len(list(client.files.list())) == 3
            break
    assert num_cut >= 3, "the kills came too early or too late"
    assert sorted(path.name.split(".")[0][:5] for path in state.iterdir()) == ["batch"] + ["file-"] * 6 + ["lock"]


def test_a_signal_lets_it_go_on_later(tmp_path, undisturbed):
    state, batch_id = tmp_path / "state", None
    for attempt in range(3):
        with Server("demo", "--batch-dir", state, *KEYS) as server, client_of(server) as client:
            batch = client.batches.retrieve(batch_id) if batch_id else create(client, completions())
            batch_id = batch.id
            if attempt < 2:
                wait_for(client, batch, "in_progress", "completed")
                assert server.stop(signal.SIGTERM) == 0
                continue
            assert found_in(client, wait_for(client, batch, "completed")) == undisturbed


def test_a_signal_does_not_wait_for_ever(tmp_path):
    with Server("demo", "--batch-dir", tmp_path / "state", "--shutdown-timeout", "1") as server, client_of(server) as client:
        wait_for(client, create(client, [line("a", ENDLESS)]), "in_progress")
        begun = time.monotonic()
        assert server.stop(signal.SIGTERM) == 0
        assert time.monotonic() - begun < 10


def test_a_damaged_state_is_a_failed_batch(tmp_path):
    state = tmp_path / "state"
    with Server("demo", "--batch-dir", state) as server, client_of(server) as client:
        batch = wait_for(client, create(client, completions(2)), "completed")
    (state / f"{batch.id}..json").unlink()
    (state / f"{batch.id}..json").write_text('{"id": "bat')
    with Server("demo", "--batch-dir", state) as server, client_of(server) as client:
        batch = client.batches.retrieve(batch.id)
        assert batch.status == "failed" and batch.errors.data[0].code == "damaged_state"
        wait_for(client, create(client, completions(2)), "completed")
