#!/usr/bin/env python3
"""Treats a running server badly, and checks that it answers with clear refusals and goes on working.

abuse.py BASE_URL [--pid PID] [--seed N]

BASE_URL is on this machine. With the server's PID, its descriptors and threads must go back to what they were. Needs nothing but
Python. Exit code 0: every answer was as expected; else 1, and a line for each that was not.
"""
import argparse
import http.client
import json
import os
import random
import socket
import struct
import sys
import threading
import time
from urllib.parse import urlsplit

LIMIT_S = 60  # for any one answer
NUM_VANISHING = 200
NUM_THREADS = 20
JUNK_BYTES = 10_000_000

COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"


class Abuser:
    def __init__(self, host, port, seed):
        self.address = (host, port)
        self.random = random.Random(seed)
        self.failures = []
        self.context = 0

    def fail(self, what):
        self.failures.append(what)
        print("FAILED:", what, flush=True)

    def connect(self):
        return socket.create_connection(self.address, timeout=LIMIT_S)

    def ask(self, method, path, body=None):
        """Status and body of one request on a connection of its own; (0, reason) if there is no answer."""
        connection = http.client.HTTPConnection(*self.address, timeout=LIMIT_S)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"} if body is not None else {})
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            return 0, repr(error).encode()
        finally:
            connection.close()

    def expect(self, what, status, answer, wanted, error_type=None, param=None):
        if status != wanted:
            return self.fail(f"{what}: expected {wanted}, found {status}: {answer[:300]!r}")
        if error_type is None:
            return None
        try:
            error = json.loads(answer)["error"]
            assert set(error) == {"message", "type", "param", "code"} and error["message"] and error["code"] == wanted
            assert error["type"] == error_type, f"expected the type {error_type}"
            assert param is None or (error["param"] or "").startswith(param), f"expected the param {param}"
        except (ValueError, KeyError, AssertionError) as reason:
            self.fail(f"{what}: not the error that was expected ({reason}): {answer[:300]!r}")
        return None

    def refused(self, what, path, body, param=None):
        """The body gets a 400 that says what is wrong."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.expect(what, *self.ask("POST", path, data), 400, "BadRequestError", param)

    # ---- What is done to the server

    def still_works(self, when):
        self.expect(f"/health {when}", *self.ask("GET", "/health"), 200)
        status, answer = self.ask("POST", COMPLETIONS, json.dumps({"prompt": "Hello", "max_tokens": 4}).encode())
        self.expect(f"a normal request {when}", status, answer, 200)
        if status == 200:
            reply = json.loads(answer)
            if reply["choices"][0]["finish_reason"] not in ("stop", "length") or reply["usage"]["completion_tokens"] < 1:
                self.fail(f"a normal request {when}: {answer[:300]!r}")

    def read_model(self):
        status, answer = self.ask("GET", "/v1/models")
        self.expect("/v1/models", status, answer, 200)
        self.context = json.loads(answer)["data"][0]["max_model_len"] if status == 200 else 0

    def request_bytes(self, path, body):
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        return head.encode(), data

    def vanish(self, choice):
        """Connects, sends some of a request, reads some of its answer, and is gone."""
        if choice.random() < 0.5:
            head, body = self.request_bytes(CHAT, {"messages": [{"role": "user", "content": "Tell me a long story."}],
                                                   "max_tokens": 200, "stream": choice.random() < 0.5})
        else:
            head, body = self.request_bytes(COMPLETIONS, {"prompt": "Once upon a time", "max_tokens": 200,
                                                          "stream": choice.random() < 0.5})
        request = head + body
        try:
            with self.connect() as client:
                client.sendall(request[: choice.randrange(len(request))] if choice.random() < 0.3 else request)
                time.sleep(choice.random() * 0.3)
                if choice.random() < 0.3:
                    client.settimeout(0.2)
                    client.recv(choice.choice([1, 100, 10_000]))
                if choice.random() < 0.5:  # RST instead of FIN
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except TimeoutError:
            pass  # nothing to read yet: goes away without it
        except OSError as error:
            self.fail(f"a client that vanishes: {error!r}")

    def many_vanish(self):
        def one_thread(seed):
            choice = random.Random(seed)
            for _ in range(NUM_VANISHING // NUM_THREADS):
                self.vanish(choice)

        threads = [threading.Thread(target=one_thread, args=(self.random.random(),)) for _ in range(NUM_THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def status_of_raw(self, data):
        """The status that a half-closed connection gets for these bytes; 0 for none."""
        answer = b""
        try:
            with self.connect() as client:
                try:
                    client.sendall(data)
                    client.shutdown(socket.SHUT_WR)
                except OSError:
                    pass  # the server may have said enough already
                while piece := client.recv(65536):
                    answer += piece
        except TimeoutError:
            self.fail(f"no end of the answer to {data[:60]!r} in {LIMIT_S} s")
        except OSError:
            pass  # what was read before counts
        return int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0

    def truncated(self):
        head, body = self.request_bytes(CHAT, {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4})
        for length in sorted({1, len(head) // 2, len(head) - 1, len(head), len(head) + 1, len(head) + len(body) - 1}):
            status = self.status_of_raw((head + body)[:length])
            if status != 400:
                self.fail(f"a request cut after {length} bytes: expected 400, found {status}")
        for length in range(0, len(body), 7):  # whole for HTTP, cut short as JSON
            self.refused(f"JSON cut after {length} bytes", CHAT, body[:length])

    def junk(self):
        noise = self.random.randbytes(JUNK_BYTES)
        self.refused("10 MB of noise", COMPLETIONS, noise)
        self.refused("10 MB of brackets", CHAT, b"[" * JUNK_BYTES)
        self.refused("10 MB of objects", CHAT, b'{"a":' * (JUNK_BYTES // 5))
        status = self.status_of_raw(noise)
        if status not in (400, 431):
            self.fail(f"10 MB of noise instead of HTTP: expected 400 or 431, found {status}")

    def invalid_text(self):
        for bad in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82"):
            self.refused(f"the bytes {bad!r} as text", COMPLETIONS, b'{"prompt":"a' + bad + b'"}')
            self.refused(f"the bytes {bad!r} as chat", CHAT, b'{"messages":[{"role":"user","content":"' + bad + b'"}]}')

    def ids_out_of_range(self):
        for bad in (-1, 2**31 - 1, 2**31, 2**63, -(2**63), 10**30):
            self.refused(f"the id {bad}", COMPLETIONS, {"prompt": [bad], "max_tokens": 1}, "prompt")
            self.refused(f"the id {bad} in a second prompt", COMPLETIONS, {"prompt": [[5], [5, bad]], "max_tokens": 1}, "prompt")
        for bad in (1.5, True, None, "x", [5]):
            self.refused(f"{bad!r} as an id", COMPLETIONS, {"prompt": [5, bad], "max_tokens": 1}, "prompt")

    def too_long(self):
        text = "supercalifragilistic " * self.context
        self.refused("too many ids", COMPLETIONS, {"prompt": [5] * (self.context + 1), "max_tokens": 1}, "prompt")
        self.refused("too long a text", COMPLETIONS, {"prompt": text, "max_tokens": 1}, "prompt")
        self.refused("too long a message", CHAT, {"messages": [{"role": "user", "content": text}]}, "messages")


def process_counts(pid):
    return len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))


def check_counts(abuser, pid, before):
    """Descriptors and threads go back to what they were, soon."""
    deadline = time.monotonic() + 30
    while (now := process_counts(pid)) > before and time.monotonic() < deadline:
        time.sleep(0.1)
    if now[0] > before[0] or now[1] > before[1]:
        abuser.fail(f"descriptors, threads: {before} before, {now} after")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base_url")
    parser.add_argument("--pid", type=int)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    url = urlsplit(arguments.base_url)
    if url.scheme != "http" or url.hostname not in ("127.0.0.1", "localhost", "::1"):
        parser.error(f"expected http:// and an address of this machine, found {arguments.base_url}")
    abuser = Abuser(url.hostname, url.port or 80, arguments.seed)
    abuser.still_works("at the start")
    if abuser.failures:
        return 1
    before = process_counts(arguments.pid) if arguments.pid else None
    abuser.read_model()
    for what in (abuser.many_vanish, abuser.truncated, abuser.junk, abuser.invalid_text, abuser.ids_out_of_range, abuser.too_long):
        started = time.monotonic()
        what()
        abuser.still_works(f"after {what.__name__}")
        print(f"{what.__name__}: {time.monotonic() - started:.1f} s", flush=True)
    if before:
        check_counts(abuser, arguments.pid, before)
    print(f"{len(abuser.failures)} failures (seed {arguments.seed})")
    return 1 if abuser.failures else 0


if __name__ == "__main__":
    sys.exit(main())
