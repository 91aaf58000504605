"""Snapshots that travel, by the real program: as streams, and through catalogues in folders and on servers."""
import contextlib
import http.server
import json
import os
import random
import re
import signal
import ssl
import subprocess
import threading
import time

import pytest

from program import LIMIT, STOKER, run, run_well

MODEL = "demo"
KILLS = int(os.environ.get("STOKER_KILLS", "15"))


def snapshot(verb, *arguments, store, **options):
    return run("snapshot", verb, *arguments, "--store", store, **options)


def files(store):
    """All that a store holds for its snapshots, as bytes; but for notes of this host's files, which belong to no snapshot."""
    return {path.relative_to(store): path.read_bytes()
            for folder in ("objects", "snapshots") for path in sorted((store / folder).iterdir())
            if not path.name.startswith("fingerprint-")}


def leftovers(store):
    return [path.name for path in (store / "tmp").iterdir()] + list(store.glob("snapshots/*"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(store, id) of a snapshot that nobody changes."""
    store = tmp_path_factory.mktemp("made") / "store"
    line = run_well("snapshot", "create", MODEL, "--name", "small", "--store", store)
    return store, line.split()[0]


@pytest.fixture(scope="module")
def stream(made, tmp_path_factory):
    store, snapshot_id = made
    path = tmp_path_factory.mktemp("stream") / "small.snapshot"
    run_well("snapshot", "export", snapshot_id[:8], path, "--store", store)
    return path


def kill_at_random(arguments, seconds, seed):
    """Starts a command and kills it within so many seconds; returns whether it was killed."""
    process = subprocess.Popen([STOKER, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(random.Random(seed).uniform(0, seconds))
    process.kill()
    return process.wait(LIMIT) == -signal.SIGKILL


def seconds_of(arguments):
    started = time.monotonic()
    run_well(*arguments)
    return time.monotonic() - started


def test_diff(made, tmp_path):
    store, first = made
    second = run_well("snapshot", "create", MODEL, "--name", "other", "--store", store).split()[0]
    try:
        text = run_well("snapshot", "diff", first[:8], second[:8], "--store", store)
        assert "model.name\n  A small\n  B other\n" in text and "both    weights" in text
        told = json.loads(run_well("snapshot", "diff", first, second, "--json", "--store", store))
        assert (told["a"], told["b"]) == (first, second)
        assert {"name": "model.name", "a": "small", "b": "other"} in told["fields"]
        shared = {part["name"]: part["shared"] for part in told["sections"]}
        assert shared["weights"] and shared["tensors"] and shared["config"]
        assert told["bytes_shared"] > 1000
        assert snapshot("diff", first, "0" * 32, store=store).returncode == 3
    finally:
        run_well("snapshot", "remove", second, "--store", store)


def test_export_and_import_bring_the_same_files(made, stream, tmp_path):
    store, snapshot_id = made
    assert run_well("snapshot", "import", stream, "--store", tmp_path).split()[0] == snapshot_id
    assert files(tmp_path) == files(store)
    assert run_well("snapshot", "verify", snapshot_id, "--store", tmp_path).startswith("undamaged")
    assert run_well("snapshot", "canary", snapshot_id, "--store", tmp_path).startswith("the same answers")


def test_through_a_pipe(made, stream, tmp_path):
    store, snapshot_id = made
    export = subprocess.Popen([STOKER, "snapshot", "export", snapshot_id, "-", "--store", store], stdout=subprocess.PIPE)
    done = subprocess.run([STOKER, "snapshot", "import", "-", "--store", tmp_path], stdin=export.stdout, timeout=LIMIT,
                          check=False, capture_output=True)
    export.stdout.close()
    assert export.wait(LIMIT) == 0 and done.returncode == 0, done.stderr
    assert files(tmp_path) == files(store)


def test_import_refuses_what_is_cut_or_changed(stream, tmp_path):
    good = stream.read_bytes()
    for change in (good[:-1], good[:len(good) // 2], good[:20], b"", good + b"x", b"no snapshot at all, but long enough" * 4,
                   good[:len(good) // 3] + bytes([good[len(good) // 3] ^ 1]) + good[len(good) // 3 + 1:]):
        (tmp_path / "bad").write_bytes(change)
        done = snapshot("import", tmp_path / "bad", store=tmp_path / "store")
        assert done.returncode == 4 and "of the stream" in done.stderr, done.stderr
        assert leftovers(tmp_path / "store") == []
    run_well("snapshot", "gc", "--store", tmp_path / "store")
    assert files(tmp_path / "store") == {}


def test_import_survives_kills(made, stream, tmp_path):
    store, _ = made
    arguments = ["snapshot", "import", stream, "--store", tmp_path]
    limit = seconds_of([*arguments[:-1], tmp_path / "timed"])
    target = tmp_path / "store"
    arguments[-1] = target
    for seed in range(KILLS):
        kill_at_random(arguments, limit, seed)
        if seed % 5 == 4:
            run_well("snapshot", "gc", "--keep", "0", "--store", target)
            assert files(target) == {} and leftovers(target) == []
    run_well(*arguments)
    run_well("snapshot", "gc", "--store", target)
    assert files(target) == files(store)
    assert list((target / "tmp").iterdir()) == []


class Files(http.server.BaseHTTPRequestHandler):
    """Hands out the files of server.folder, parts of them too; server.break_at(path) spoils an answer."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.requests.append((self.path, self.headers.get("Range")))
        path = self.server.folder / self.path.removeprefix("/base/")
        answer = self.server.answer(self, path) if self.server.answer else None
        if answer == "done":
            return
        if not path.is_file():
            self.send_error(404)
            return
        body, status = path.read_bytes(), 200
        size, start = len(body), 0
        if asked := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")):
            start, status = int(asked[1]), 206
            if start >= size:
                self.send_error(416)
                return
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        self.send_header("Content-Length", str(size - start))
        self.end_headers()
        body = body[start:]
        if answer:
            body = answer(body)
        for i in range(0, len(body), 1 << 16):
            self.wfile.write(body[i:i + (1 << 16)])
            time.sleep(self.server.pause)
        if len(body) < size - start:
            self.close_connection = True

    def log_message(self, *_):
        pass


class QuietServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass


@contextlib.contextmanager
def serving(folder, answer=None, pause=0.0, tls=None):
    """The address of a server of files; `answer(handler, path)` may return "done", or what it makes of the body."""
    server = QuietServer(("127.0.0.1", 0), Files)
    server.folder, server.answer, server.pause, server.requests = folder, answer, pause, []
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        server.url = f"{'https' if tls else 'http'}://{'localhost' if tls else '127.0.0.1'}:{server.server_port}/base"
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def catalogue(made, tmp_path_factory):
    store, snapshot_id = made
    folder = tmp_path_factory.mktemp("catalogue") / "new"
    assert run_well("snapshot", "push", snapshot_id[:8], folder, "--store", store).split()[0] == snapshot_id
    return folder


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """(certificate, key) of localhost, signed by itself."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


def weights_of(folder):
    return next(path.name for path in (folder / "objects").glob("weights-*") if not path.name.endswith(".table"))


def test_push_and_pull_through_a_folder(made, catalogue, tmp_path):
    store, snapshot_id = made
    assert files(catalogue) == files(store)
    assert f"snapshot={snapshot_id} small\n" in (catalogue / "index").read_text()
    assert (catalogue / "index").stat().st_mode & 0o777 == 0o444
    assert run_well("snapshot", "pull", "small", catalogue, "--store", tmp_path).split()[0] == snapshot_id
    assert files(tmp_path) == files(store)
    run_well("snapshot", "pull", snapshot_id[:6], catalogue, "--store", tmp_path)  # once more is as good
    assert run_well("snapshot", "canary", snapshot_id, "--store", tmp_path).startswith("the same answers")


def test_only_what_is_missing_travels(made, catalogue, tmp_path):
    store, snapshot_id = made
    with serving(catalogue) as server:
        run_well("snapshot", "pull", snapshot_id, server.url, "--store", tmp_path)
        assert files(tmp_path) == files(store)
        for path in tmp_path.glob("objects/config-*"):
            path.unlink()
        before = len(server.requests)
        run_well("snapshot", "pull", snapshot_id, server.url, "--store", tmp_path)
        objects = [path for path, _ in server.requests[before:] if "/objects/" in path]
        assert len(objects) == 2 and all("/config-" in path for path in objects)
    assert files(tmp_path) == files(store)


def test_pull_says_what_does_not_fit(catalogue, tmp_path):
    done = snapshot("pull", "small", catalogue, "--bounded-replay", "compact", store=tmp_path)
    assert done.returncode == 3 and "bounded_replay" in done.stderr
    done = snapshot("pull", "nobody", catalogue, store=tmp_path)
    assert done.returncode == 3 and "a snapshot of nobody" in done.stderr
    assert snapshot("pull", "small", tmp_path / "no", store=tmp_path).returncode == 3
    done = snapshot("push", "0" * 32, "https://example.org/", store=tmp_path)
    assert done.returncode == 2 and "expected a folder" in done.stderr


def test_tls(made, catalogue, certificate, tmp_path):
    with serving(catalogue, tls=certificate) as server:
        done = snapshot("pull", "small", server.url, store=tmp_path)
        assert done.returncode == 3 and "certificate" in done.stderr
        trusted = dict(os.environ, SSL_CERT_FILE=str(certificate[0]))
        run_well("snapshot", "pull", "small", server.url, "--store", tmp_path, env=trusted)
        other = server.url.replace("localhost", "127.0.0.1")
        done = snapshot("pull", "small", other, store=tmp_path / "x", env=trusted)
        assert done.returncode == 3 and "certificate" in done.stderr
    assert files(tmp_path) == files(made[0])


@pytest.mark.parametrize("what", ["cut", "changed", "short", "endless", "index", "manifest"])
def test_hostile_answers(made, catalogue, tmp_path, what):
    """Each is refused with what is wrong, and leaves nothing but what gc takes."""
    weights = weights_of(catalogue)

    def answer(handler, path):
        if what == "index" and path.name == "index":
            return lambda body: body.replace(b"small", b"smell")
        if what == "manifest" and path.suffix == ".manifest":
            return lambda body: body.replace(b"small", b"smell")
        if path.name != weights:
            return None
        if what == "cut":
            return lambda body: body[:1000]
        if what == "changed":
            return lambda body: body[:5000] + bytes([body[5000] ^ 1]) + body[5001:]
        if what == "short":
            handler.send_response(200)
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            handler.wfile.write(bytes(1000))
            return "done"
        if what == "endless":
            handler.send_response(200)
            handler.send_header("Connection", "close")
            handler.end_headers()
            with contextlib.suppress(OSError):
                while True:
                    handler.wfile.write(bytes(1 << 16))
            handler.close_connection = True
            return "done"
        return None

    with serving(catalogue, answer) as server:
        done = snapshot("pull", made[1], server.url, store=tmp_path)
        if what == "index":
            done = snapshot("pull", "small", server.url, store=tmp_path)
    assert done.returncode == (3 if what == "cut" else 4), done.stderr
    assert list(tmp_path.glob("snapshots/*")) == []
    run_well("snapshot", "gc", "--store", tmp_path)
    assert files(tmp_path) == {} and list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("verb", ["pull", "push"])
def test_survives_kills(made, catalogue, tmp_path, verb):
    store, snapshot_id = made
    with serving(catalogue, pause=0.01) as server:
        target = tmp_path / "target"
        if verb == "pull":
            arguments = ["snapshot", "pull", "small", server.url, "--store", target]
            timed = [*arguments[:-1], tmp_path / "timed"]
        else:
            arguments = ["snapshot", "push", snapshot_id, target, "--store", store]
            timed = [*arguments[:3], tmp_path / "timed", *arguments[4:]]
        limit = seconds_of(timed)
        for seed in range(KILLS):
            kill_at_random(arguments, limit, seed)
            if seed % 5 == 4 and target.exists():
                run_well("snapshot", "gc", "--keep", "0", "--store", target)
                assert files(target) == {} and list((target / "tmp").iterdir()) == []
        run_well(*arguments)
    run_well("snapshot", "gc", "--store", target)
    assert files(target) == files(store)
    assert list((target / "tmp").iterdir()) == []


def test_goes_on_where_it_was(made, catalogue, tmp_path):
    """Of a lost connection the next one, and of a killed process the next one's first, asks for the rest."""
    weights = weights_of(catalogue)
    size = (catalogue / "objects" / weights).stat().st_size
    assert size > 4 << 20, "more than one chunk"
    lost = []

    def answer(_, path):
        if path.name == weights and not lost:
            lost.append(path)
            return lambda body: body[:(4 << 20) + 100]
        return None

    with serving(catalogue, answer) as server:
        run_well("snapshot", "pull", "small", server.url, "--store", tmp_path)
        assert [asked for path, asked in server.requests if path.endswith(weights)] == [None, "bytes=4194304-"]
    assert files(tmp_path) == files(made[0])


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Paths of two pairs: {"ours": (private, public), "theirs": ...}."""
    folder, pairs = tmp_path_factory.mktemp("keys"), {}
    for name in ("ours", "theirs"):
        private, public = folder / f"{name}.pem", folder / f"{name}.pub"
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private], check=True, capture_output=True)
        subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True, capture_output=True)
        private.chmod(0o600)
        pairs[name] = private, public
    return pairs


@pytest.fixture(scope="module")
def signed(keys, tmp_path_factory):
    store = tmp_path_factory.mktemp("signed") / "store"
    line = run_well("snapshot", "create", MODEL, "--name", "small", "--sign", keys["ours"][0], "--store", store)
    return store, line.split()[0]


def test_signatures(made, signed, keys, tmp_path):
    store, snapshot_id = signed
    ours, theirs = keys["ours"][1], keys["theirs"][1]
    manifest = store / f"snapshots/{snapshot_id}.manifest"
    subprocess.run(["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", ours, "-in", manifest, "-sigfile",
                    manifest.with_suffix(".sig")], check=True, capture_output=True)
    for verb in ("verify", "canary"):
        assert snapshot(verb, snapshot_id, "--require-signature", ours, store=store).returncode == 0
        done = snapshot(verb, snapshot_id, "--require-signature", theirs, store=store)
        assert done.returncode == 4 and "another key" in done.stderr
        done = snapshot(verb, made[1], "--require-signature", ours, store=made[0])
        assert done.returncode == 3 and "no signature" in done.stderr
    assert snapshot("verify", snapshot_id, "--require-signature", tmp_path / "none", store=store).returncode == 3
    # They travel along.
    run_well("snapshot", "export", snapshot_id, tmp_path / "file", "--store", store)
    run_well("snapshot", "import", tmp_path / "file", "--store", tmp_path / "imported")
    run_well("snapshot", "push", snapshot_id, tmp_path / "catalogue", "--store", tmp_path / "imported")
    run_well("snapshot", "pull", "small", tmp_path / "catalogue", "--require-signature", ours, "--store", tmp_path / "pulled")
    run_well("snapshot", "verify", snapshot_id, "--require-signature", ours, "--store", tmp_path / "pulled")
    done = snapshot("pull", "small", tmp_path / "catalogue", "--require-signature", theirs, store=tmp_path / "other")
    assert done.returncode == 3 and "another key" in done.stderr
    assert list((tmp_path / "other").glob("snapshots/*")) == []


def test_a_signature_refuses_what_digests_would_take(signed, keys, tmp_path):
    """A manifest with other words and every digest right, and one whose signature is of another snapshot."""
    store, snapshot_id = signed
    run_well("snapshot", "push", snapshot_id, tmp_path, "--store", store)
    signature = tmp_path / f"snapshots/{snapshot_id}.sig"
    good = signature.read_bytes()
    signature.chmod(0o600)
    signature.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    signature.chmod(0o400)
    assert snapshot("verify", snapshot_id, store=tmp_path).returncode == 0
    done = snapshot("verify", snapshot_id, "--require-signature", keys["ours"][1], store=tmp_path)
    assert done.returncode == 4


def test_up_pulls_what_it_lacks(made, catalogue, keys, tmp_path):
    options = ["up", "small", "--port", "0", "--store", tmp_path, "--json"]
    done = run(*options)
    assert done.returncode == 3 and "none" in done.stderr
    done = run(*options, "--catalogue", catalogue, "--require-signature", keys["ours"][1])
    assert done.returncode == 3 and "no signature" in done.stderr
    assert list(tmp_path.glob("objects/*")) == []
    with serving(catalogue) as server:
        up = subprocess.Popen([STOKER, *map(str, options)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              env=dict(os.environ, STOKER_CATALOGUE=server.url))
        try:
            assert json.loads(up.stdout.readline())["snapshot"] == made[1]
            asked = len(server.requests)
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait(LIMIT)
            up.stdout.close()
        assert asked > 3
        up = subprocess.Popen([STOKER, *map(str, options), "--catalogue", server.url], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL)
        try:
            assert json.loads(up.stdout.readline())["snapshot"] == made[1]
            assert len(server.requests) == asked, "nothing is asked for where one fits"
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait(LIMIT)
            up.stdout.close()
