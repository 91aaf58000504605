#!/usr/bin/env python3
"""A server among clients that are many, idle, slow or too loud, and one that is told to stop while it answers 512 of them.

faults.py [PATH OF stoker]

Starts `stoker serve demo` itself, on a free port. Prints a line for each row; needs nothing but Python, Linux, and as many open files as
rows have connections (`ulimit -n`); a row that the limit does not allow says so and fails. Exit code 0: all rows are ok.
"""
import asyncio
import json
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

from process import Process

ROOT = Path(__file__).resolve().parents[2]
NUM_IDLE = 10_000
NUM_SLOW = 500
NUM_STREAMS = 512
STREAM_TOKENS = 24
SOON_S = 5  # for an answer beside the trouble; other requests wait for steps of the engine
HEADER_TIMEOUT_S = 10  # of the server
STOP_S = 120  # for 512 answers on a slow machine
SPARE_FILES = 100


def request(path, body=None, headers=""):
    if body is None:
        return f"GET {path} HTTP/1.1\r\nHost: f\r\nConnection: close\r\n{headers}\r\n".encode()
    data = json.dumps(body).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: f\r\nConnection: close\r\nContent-Type: application/json\r\n{headers}"
            f"Content-Length: {len(data)}\r\n\r\n").encode() + data


class Server:
    def __init__(self, program, *options):
        self.process = subprocess.Popen([program, "serve", "demo", "--port", "0", *options], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            found = re.search(r"ready; .* at http://[^:]+:(\d+)", line)
            if found:
                self.port = int(found[1])
                break
        else:
            raise SystemExit("the server did not start")
        # What it says goes on, and nobody waits for it.
        self.reader = subprocess.Popen(["cat"], stdin=self.process.stderr, stdout=subprocess.DEVNULL)

    async def connect(self):
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, text, limit=SOON_S):
        """(status, all that came) of a request on a connection of its own; status 0: there was none in time."""
        try:
            return await asyncio.wait_for(self._ask(text), limit)
        except (TimeoutError, OSError):
            return 0, b""

    async def _ask(self, text):
        reader, writer = await self.connect()
        writer.write(text)
        answer = await reader.read(-1)
        writer.close()
        found = re.match(rb"HTTP/1\.1 (\d{3}) ", answer)
        return (int(found[1]) if found else 0), answer

    async def is_well(self):
        return (await self.ask(request("/v1/completions", {"prompt": "a", "max_tokens": 2})))[0] == 200

    def memory_kb(self):
        return Process(self.process.pid).memory_kb()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_S)


def allow_files(number):
    """Whether so many files may be open."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < number:
        return False
    resource.setrlimit(resource.RLIMIT_NOFILE, (number if hard == resource.RLIM_INFINITY else hard, hard))
    return True


async def idle_connections(server):
    """10,000 that send nothing: others are answered."""
    before = server.memory_kb()
    open_ones = [await server.connect() for _ in range(NUM_IDLE)]
    start = time.monotonic()
    is_well = await server.is_well()
    took = time.monotonic() - start
    grown_kb = server.memory_kb() - before
    for _, writer in open_ones:
        writer.close()
    return is_well, f"an answer beside them in {took * 1e3:.0f} ms, {grown_kb / NUM_IDLE:.1f} KiB each"


async def slow_loris(server):
    """Heads that come byte by byte: others are answered, these are cut at the limit."""
    async def drip():
        reader, writer = await server.connect()
        start = time.monotonic()
        for byte in b"POST /v1/completions HTTP/1.1\r\nHost: " + b"x" * 10_000:
            writer.write(bytes([byte]))
            try:
                await asyncio.wait_for(reader.read(1), 0.25)
                break
            except TimeoutError:
                pass
        writer.close()
        return time.monotonic() - start

    slow = [asyncio.create_task(drip()) for _ in range(NUM_SLOW)]
    await asyncio.sleep(1)
    is_well = await server.is_well()
    times = await asyncio.gather(*slow)
    is_cut = HEADER_TIMEOUT_S - 1 <= min(times) and max(times) <= HEADER_TIMEOUT_S + SOON_S
    return is_well and is_cut, f"cut after {min(times):.1f} to {max(times):.1f} s"


async def floods(server):
    """Too many headers, too long ones, a body beyond the limit: refused, each in words."""
    rows = [("many headers", b"".join(b"X-%d: y\r\n" % i for i in range(100_000)), 431),
            ("a long header", b"X: " + b"y" * 5_000_000 + b"\r\n", 431),
            ("a huge body", b"Content-Length: 99999999999\r\nContent-Type: application/json\r\n", 413)]
    wrong = []
    for name, lines, wanted in rows:
        status, _ = await server.ask(b"POST /v1/completions HTTP/1.1\r\nHost: f\r\n" + lines + b"\r\n", 30)
        if status != wanted:
            wrong.append(f"{name}: expected {wanted}, found {status}")
    return not wrong and await server.is_well(), "; ".join(wrong) or "431, 431, 413"


async def stop_under_streams(server):
    """SIGTERM while 512 streams run: all end as if nothing had come."""
    body = {"prompt": [5, 6, 7], "max_tokens": STREAM_TOKENS, "ignore_eos": True, "stream": True}
    streams = [asyncio.create_task(server.ask(request("/v1/completions", body), STOP_S)) for _ in range(NUM_STREAMS)]
    await asyncio.sleep(1)
    num_done = sum(stream.done() for stream in streams)
    server.process.send_signal(signal.SIGTERM)
    answers = await asyncio.gather(*streams)
    whole = sum(status == 200 and b'"finish_reason":"length"' in text and b"data: [DONE]" in text for status, text in answers)
    refused = sum(status == 503 for status, _ in answers)
    code = await asyncio.to_thread(server.process.wait, STOP_S)
    figure = f"{num_done} had ended before, {whole} whole, {refused} refused as they came late, exit code {code}"
    return whole + refused == NUM_STREAMS and whole > NUM_STREAMS // 2 and code == 0, figure


async def run_all(program):
    is_good = True
    server = Server(program)
    for row in (idle_connections, slow_loris, floods):
        is_ok, figure = await row(server)
        print(f"{'ok   ' if is_ok else 'below'}  {row.__name__:<20}{figure}", flush=True)
        is_good = is_good and is_ok
    is_good = server.stop() == 0 and is_good
    is_ok, figure = await stop_under_streams(Server(program, "--shutdown-timeout", str(STOP_S)))
    print(f"{'ok   ' if is_ok else 'below'}  {'stop_under_streams':<20}{figure}")
    return is_good and is_ok


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/release/stoker")
    if not allow_files(NUM_IDLE + SPARE_FILES):
        print(f"below  idle_connections    the limit on open files is below {NUM_IDLE + SPARE_FILES} (ulimit -Hn)")
        return 1
    return 0 if asyncio.run(run_all(program)) else 1


if __name__ == "__main__":
    sys.exit(main())
