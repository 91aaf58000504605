#!/usr/bin/env python3
"""Many streams at once from one server, for some minutes; a line for each figure and its bar.

load.py URL --pid PID [--streams 512] [--seconds 300] [--max-tokens 64] [--core-share SHARE]

URL is a server on this machine that takes token ids, http://HOST:PORT or unix:PATH, PID its process. Each stream asks for the next completion when its last one
has ended. What counts as the server's time is that of all threads of the process, kernel included, but for those called engine and
pool. Needs nothing but Python and Linux. Exit code 0: every row is ok; 1: one is not; 2: the command is wrong.
"""
import argparse
import json
import re
import selectors
import socket
import statistics
import sys
import time
from urllib.parse import urlsplit

from process import Process

EVENT = b"data: {"
END = b"\r\n0\r\n\r\n"
SAMPLE_S = 1.0
SETTLED = 0.25  # of the time, before memory has to be flat
MEMORY_GROWTH = 1.02
MEMORY_SLACK_KB = 4096
MOST_US_A_CHUNK = 15
MOST_SPREAD = 2.0  # p99 of the time between tokens, of the median
PATIENCE_S = 60  # for the last answers
LATENCY = "stoker_inter_token_latency_seconds_bucket"


def connect(url):
    """A socket to a server of http://HOST:PORT or unix:PATH."""
    parts = urlsplit(url)
    if parts.scheme != "unix":
        return socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S)
    unix = socket.socket(socket.AF_UNIX)
    unix.settimeout(PATIENCE_S)
    unix.connect(parts.path)
    return unix


class Stream:
    """A connection that asks for one completion after another."""

    def __init__(self, url, number, max_tokens):
        self.socket = connect(url)
        self.number = number
        self.max_tokens = max_tokens
        self.asked = self.answered = self.chunks = 0
        self.tail = b""
        self.error = None
        self.ask()

    @property
    def is_busy(self):
        return self.asked > self.answered

    def ask(self):
        seed = self.number * 1_000_003 + self.asked
        body = json.dumps({"prompt": [5 + seed * 7 % 200, 6 + seed % 200, 7], "max_tokens": self.max_tokens, "ignore_eos": True,
                           "temperature": 1, "seed": seed, "stream": True}).encode()
        self.socket.setblocking(True)
        self.socket.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: load\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                            % (len(body), body))
        self.socket.setblocking(False)
        self.asked += 1
        self.tail = b""
        self.is_head_read = False

    def read(self, may_ask):
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("closed by the server")
        text = self.tail + data
        if not self.is_head_read:
            if b"\r\n" not in text:
                self.tail = text
                return
            status = text.split(b"\r\n", 1)[0]
            if not status.startswith(b"HTTP/1.1 200"):
                raise ConnectionError(f"found {status!r}, expected 200")
            self.is_head_read = True
        if b'"error"' in text:
            raise ConnectionError(f"an error in the stream: {text[-300:]!r}")
        self.chunks += text.count(EVENT)
        self.tail = text[-(len(EVENT) - 1):]  # too short for what was counted to be counted again
        if text.endswith(END):
            self.answered += 1
            if may_ask:
                self.ask()


def latencies(url):
    """Upper bounds of the time between tokens as the server stamped them, and how many were below."""
    with connect(url) as server:
        server.sendall(b"GET /metrics HTTP/1.1\r\nHost: load\r\nConnection: close\r\n\r\n")
        text = b"".join(iter(lambda: server.recv(1 << 16), b"")).decode()
    found = re.findall(LATENCY + r'\{[^}]*le="([^"]+)"[^}]*\} (\S+)', text)
    return {float(bound): float(count) for bound, count in found}


def quantile(before, after, share):
    """By straight lines between the bounds, as Prometheus does."""
    counts = [(bound, after[bound] - before.get(bound, 0)) for bound in sorted(after)]
    wanted = share * counts[-1][1]
    low, below = 0.0, 0.0
    for bound, count in counts:
        if count >= wanted:
            return low if bound == float("inf") else low + (bound - low) * (wanted - below) / max(count - below, 1)
        low, below = bound, count
    return low


def drive(streams, process, seconds):
    """Reads all streams for so long, then to the end of their answers. Memory in KiB, sampled."""
    selector = selectors.EpollSelector()
    for stream in streams:
        selector.register(stream.socket, selectors.EVENT_READ, stream)
    memory = []
    start = time.monotonic()
    while any(stream.is_busy for stream in streams):
        now = time.monotonic() - start
        if now > seconds + PATIENCE_S:
            break
        if now >= len(memory) * SAMPLE_S and now < seconds:
            memory.append(process.memory_kb())
        for key, _ in selector.select(SAMPLE_S):
            try:
                key.data.read(now < seconds)
            except OSError as error:
                key.data.error = str(error)
                key.data.answered = key.data.asked
                selector.unregister(key.fileobj)
    for stream in streams:
        if stream.is_busy:
            stream.error = "no end"
    return memory


def rows(options, streams, memory, server_s, wall_s, before, after):
    """(what, figure, bar, whether it holds)."""
    errors = [stream.error for stream in streams if stream.error]
    answers = sum(stream.answered for stream in streams)
    chunks = sum(stream.chunks for stream in streams)
    missing = sum(stream.answered * options.max_tokens for stream in streams) - chunks
    yield "streams with an error", f"{len(errors)} of {len(streams)}", "0", not errors
    yield "answers", f"{answers}, {chunks} chunks, {chunks / wall_s:.0f} a second", "each stream some", all(s.answered for s in streams)
    yield "tokens that share a chunk", str(missing), "told", True
    settled = memory[int(len(memory) * SETTLED):]
    third = max(1, len(settled) // 3)
    first, last = statistics.median(settled[:third]), statistics.median(settled[-third:])
    yield ("memory, MiB", f"{first / 1024:.1f}, then {last / 1024:.1f}", "flat", last <= first * MEMORY_GROWTH + MEMORY_SLACK_KB)
    each = server_s / max(chunks, 1) * 1e6
    yield "server time a chunk, us", f"{each:.1f}", f"<= {MOST_US_A_CHUNK}", each <= MOST_US_A_CHUNK
    share = server_s / wall_s
    yield "server time, of a core", f"{share:.4f}", f"<= {options.core_share:g}", share <= options.core_share
    if sum(after.values()) > sum(before.values()):
        median, p99 = quantile(before, after, 0.5), quantile(before, after, 0.99)
        yield ("time between tokens, ms", f"median {median * 1e3:.1f}, p99 {p99 * 1e3:.1f}", f"p99 <= {MOST_SPREAD:g} x median",
               p99 <= MOST_SPREAD * median)
    if errors:
        yield "the first error", errors[0], "", False


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("url")
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--streams", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--core-share", type=float, default=1.0, help="the most of one core that the server may take")
    options = parser.parse_args()
    process = Process(options.pid)
    before = latencies(options.url)
    start, start_s = time.monotonic(), process.server_seconds()
    streams = [Stream(options.url, number, options.max_tokens) for number in range(options.streams)]
    memory = drive(streams, process, options.seconds)
    server_s, wall_s = process.server_seconds() - start_s, time.monotonic() - start
    is_good = True
    for what, figure, bar, holds in rows(options, streams, memory, server_s, wall_s, before, latencies(options.url)):
        print(f"{'ok   ' if holds else 'below'}  {what:<28}{figure:<40}{bar}")
        is_good = is_good and holds
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
