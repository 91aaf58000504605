"""The program under test, whose path is in $STOKER: runs its commands and its server."""
import json
import os
import re
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SMALL = ROOT / "tests" / "data" / "small"
STOKER = os.environ.get("STOKER", str(ROOT / "build" / "release" / "stoker"))
BUILD = Path(STOKER).resolve().parent.parent  # build/: what takes long to make is kept there
os.environ.setdefault("STOKER_STORE", str(Path(STOKER).resolve().parent / "store"))  # never the user's
LIMIT = 300  # seconds, for anything


def run(*arguments, stdin="", **options):
    """Runs a command to its end. Input and output are UTF-8, line ends as they are; `options` as subprocess.run's."""
    done = subprocess.run([STOKER, *map(str, arguments)], input=stdin.encode(), capture_output=True, timeout=LIMIT, check=False,
                          **options)
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    return done


def run_well(*arguments, **options):
    """The standard output of a command that must succeed."""
    done = run(*arguments, **options)
    assert done.returncode == 0, f"{arguments}: exit code {done.returncode}\n{done.stderr}"
    return done.stdout


class Server:
    """`stoker serve`, on a free port unless one is given, for a with statement. `log` is what it wrote on standard error so far."""

    def __init__(self, *arguments):
        self.arguments = arguments
        self.log = ""
        self.url = None

    def __enter__(self):
        port = [] if "--port" in self.arguments else ["--port", "0"]
        self.process = subprocess.Popen([STOKER, "serve", *port, *self.arguments], stdin=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True, encoding="utf-8")
        self.is_ready = threading.Event()
        self.reader = threading.Thread(target=self._read_log, daemon=True)
        self.reader.start()
        self.is_ready.wait(LIMIT)
        assert self.url, f"the server did not get ready:\n{self.log}"
        return self

    def _read_log(self):
        for line in self.process.stderr:
            self.log += line
            found = re.search(r"stoker: ready; .* at (http://\S+)", line)
            if found:
                self.url = found[1]
                self.is_ready.set()
        self.is_ready.set()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stderr.close()

    @property
    def port(self):
        return int(self.url.rsplit(":", 1)[1])

    def stop(self, signal_number=signal.SIGTERM):
        """Sends a signal; returns the exit code."""
        self.process.send_signal(signal_number)
        return self.process.wait(LIMIT)

    def ask(self, path, body=None, method=None, headers=None):
        """(status, JSON of the answer). `body`: bytes, or what becomes JSON; None: GET."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **(headers or {})}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=LIMIT) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read() or b"null")

    def open_stream(self, path, body):
        """The response of a request for a stream, to be read line by line."""
        data = json.dumps(dict(body, stream=True)).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        return urllib.request.urlopen(request, timeout=LIMIT)


def events(response):
    """The data of each server-sent event, "[DONE]" included; comments left out."""
    for line in response:
        text = line.decode().rstrip("\r\n")
        if text.startswith("data: "):
            yield text[len("data: "):]
