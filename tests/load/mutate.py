#!/usr/bin/env python3
"""Requests that are almost right, in great number: each must be answered, and none with a fault of the server.

mutate.py URL --pid PID [--runs 1000000] [--seed 1] [--processes 2]

URL is a server on this machine, best with a short context (`serve tests/data/small --max-model-len 128`), so that answers are short. Bodies
of every route are changed as JSON (values of other types and sizes, members taken away, doubled or exchanged, members of
docs/server.md's tables put in) and as bytes; heads as lines. Needs nothing but Python and Linux. Exit code 0: no status of 500 or
more, no silence, and the server is as it was; 1: not so; what was sent is in the folder that is named then.
"""
import argparse
import json
import multiprocessing
import random
import re
import socket
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

from process import Process

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60
SHORT_PATIENCE_S = 0.05  # for a request whose head may promise more than comes
GROWTH_KB = 128 << 10  # what the heap may keep
MOST_FAILURES = 20

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Hi\u00e9"}]},
            {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{\"at\": [1, 2]}"}}]},
            {"role": "tool", "tool_call_id": "call_1", "content": "seen"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "minimum": -3}, "b": {"enum": ["x", 1.5, None]},
                                           "c": {"type": "array", "items": {"$ref": "#/$defs/d"}, "maxItems": 3}},
          "required": ["a"], "additionalProperties": False, "$defs": {"d": {"type": "string", "pattern": "^[a-c]{1,4}$"}}}
TOOLS = [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": SCHEMA, "strict": True}}]
SEEDS = [
    ("/v1/completions", {"model": "m", "prompt": "Hello", "max_tokens": 4, "temperature": 0.7, "top_p": 0.9, "top_k": 5, "seed": 3,
                         "n": 2, "logprobs": 2, "stop": ["x", "yz"], "logit_bias": {"5": -2.5}, "echo": True}),
    ("/v1/completions", {"prompt": [[5, 6], [7]], "stream": True, "stream_options": {"include_usage": True}, "min_p": 0.1,
                         "presence_penalty": 1, "frequency_penalty": -1, "repetition_penalty": 1.1, "bad_words": ["a"],
                         "allowed_token_ids": [5, 6, 7], "ignore_eos": True, "min_tokens": 1, "max_tokens": 3}),
    ("/v1/completions", {"prompt": "a", "structured_outputs": {"regex": "(ab|c){2,5}"}, "max_tokens": 5}),
    ("/v1/completions", {"prompt": "a", "guided_grammar": "root ::= \"a\" root | [b-d]+", "max_tokens": 5}),
    ("/v1/completions", {"prompt": "a", "guided_choice": ["yes", "no"], "prompt_logprobs": 1}),
    ("/v1/chat/completions", {"messages": MESSAGES, "tools": TOOLS, "tool_choice": "auto", "max_completion_tokens": 4,
                              "logprobs": True, "top_logprobs": 3, "reasoning_effort": "low"}),
    ("/v1/chat/completions", {"messages": MESSAGES[:2], "stream": True, "max_tokens": 4, "thinking": {"type": "disabled"},
                              "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}}),
    ("/v1/messages", {"model": "m", "max_tokens": 4, "system": [{"type": "text", "text": "Be brief."}], "stream": True,
                      "messages": [{"role": "user", "content": "Hi"}], "thinking": {"type": "enabled", "budget_tokens": 1024},
                      "tools": [{"name": "look", "input_schema": SCHEMA}], "tool_choice": {"type": "any"}}),
    ("/v1/responses", {"model": "m", "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
                                               {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
                                               {"type": "function_call_output", "call_id": "c1", "output": "seen"}],
                       "instructions": "Be brief.", "max_output_tokens": 4, "stream": True, "reasoning": {"effort": "low"},
                       "tools": [{"type": "function", "name": "look", "parameters": SCHEMA, "strict": True}],
                       "text": {"format": {"type": "json_schema", "name": "s", "schema": SCHEMA}}, "metadata": {"a": "b"}}),
    ("/v1/responses", {"input": "Hi", "max_output_tokens": 3, "tool_choice": "none", "top_logprobs": 2, "store": False}),
    ("/inference/v1/generate", {"token_ids": [5, 6, 7], "sampling_params": {"max_tokens": 3, "temperature": 0.5, "logprobs": 1,
                                                                            "n": 2, "stop_token_ids": [9]}, "stream": True}),
    ("/v1/batches", {"input_file_id": "file-1", "endpoint": "/v1/completions", "completion_window": "24h", "metadata": {"a": "b"}}),
    ("/v1/messages/count_tokens", {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]}),
    ("/tokenize", {"messages": MESSAGES[:2], "return_token_strs": True}),
    ("/tokenize", {"prompt": "Hello", "add_special_tokens": True}),
    ("/detokenize", {"tokens": [5, 6, 7]}),
]
NUMBERS = ["0", "-1", "1", "-0", "1.0", "1e0", "2147483648", "-2147483649", "9223372036854775808", "-9223372036854775809",
           "18446744073709551616", "1e400", "-1e400", "1e-400", "0.1e1", "123456789012345678901234567890", "65536", "1025"]
STRINGS = ["", "\u0000", "\ud800", "\udfff\ud800", "\U0010ffff", "x" * 300, "\u202e", "<\uff5cend\u2581of\u2581sentence\uff5c>", "</think>",
           "null", "../../etc/passwd", "%00%ff", "a\r\nb: c", "(((((a*)*)*)*)*)", "root ::= root", "\u0301" * 50, "[" * 200]
INVALID_UTF8 = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80"]
HEADS = ["Transfer-Encoding: chunked", "Content-Length: 5", "Content-Length: -1", "Content-Length: 99999999999999999999",
         "Expect: 100-continue", "Connection: close", "X-Request-Id: " + "i" * 200, "Authorization: Bearer", "Host:", ": empty",
         "Content-Type: text/plain", "Content-Encoding: gzip", "X: " + "y" * 9000, "Traceparent: 00-zz", "Bad Name: x", "X\x00: y"]


class Number:
    """A number with its own spelling."""

    def __init__(self, text):
        self.text = text


def write(value):
    """JSON of a value; with spellings, and with pairs where a dict would not repeat a name."""
    if isinstance(value, Number):
        return value.text
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{write(member)}" for name, member in value.items()) + "}"
    if isinstance(value, tuple):
        return "{" + ",".join(f"{json.dumps(name)}:{write(member)}" for name, member in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write, value)) + "]"
    return json.dumps(value, ensure_ascii=isinstance(value, str) and any(0xD800 <= ord(c) < 0xE000 for c in value))


def fields():
    """Names of all fields that the tables of docs/server.md have."""
    return sorted(set(re.findall(r"^\| `(\w+)` \| (?:yes|-|refused)", (ROOT / "docs/server.md").read_text(), re.M)))


class Mutator:
    def __init__(self, seed, names):
        self.random = random.Random(seed)
        self.names = names
        self.paths = sorted({path for path, _ in SEEDS} | {"/v1/models", "/health", "/metrics", "/", "/v1/models/%2e%2e", "/nowhere"})

    def scalar(self):
        kind = self.random.randrange(4)
        if kind == 0:
            return Number(self.random.choice(NUMBERS))
        if kind == 1:
            return self.random.choice(STRINGS)
        return self.random.choice([None, True, False, [], {}, 0.5, 3, "x"])

    def value(self):
        kind = self.random.randrange(6)
        if kind == 0:
            return [self.scalar() for _ in range(self.random.randrange(1, 6))]
        if kind == 1:
            return {self.random.choice(self.names): self.scalar() for _ in range(self.random.randrange(1, 4))}
        if kind == 2:
            value = self.scalar()
            for _ in range(self.random.choice([1, 3, 126, 127, 128, 129, 200])):
                value = [value] if self.random.random() < 0.5 else {"a": value}
            return value
        return self.scalar()

    def change(self, value, depth=0):
        """The value with one place changed."""
        if isinstance(value, (dict, list)) and value and (depth == 0 or self.random.random() < 0.7):
            if self.random.random() < 0.75:
                value = value.copy()
                key = self.random.choice(list(value)) if isinstance(value, dict) else self.random.randrange(len(value))
                value[key] = self.change(value[key], depth + 1)
                return value
            return self.change_members(value)
        return self.value()

    def change_members(self, value):
        kind = self.random.randrange(4)
        items = list(value.items()) if isinstance(value, dict) else list(value)
        if kind == 0:
            items.pop(self.random.randrange(len(items)))
        elif kind == 1:
            items.append(self.random.choice(items))
        elif kind == 2 and isinstance(value, dict):
            items.append((self.random.choice(self.names), self.value()))
        else:
            self.random.shuffle(items)
        return tuple(items) if isinstance(value, dict) else items

    def body(self, seed):
        for _ in range(self.random.choice([0, 1, 1, 1, 2, 3])):
            if isinstance(seed, tuple):
                break
            seed = self.change(seed)
        body = write(seed).encode(errors="surrogatepass")
        if self.random.random() < 0.25:
            body = self.bytes_of(body)
        return body

    def bytes_of(self, body):
        at = self.random.randrange(len(body) + 1)
        kind = self.random.randrange(5)
        if kind == 0:
            return body[:at]
        if kind == 1:
            return body[:at] + self.random.choice(INVALID_UTF8) + body[at:]
        if kind == 2:
            return body[:at] + bytes([self.random.randrange(256)]) + body[at + 1:]
        if kind == 3:
            return body[:at] + body[self.random.randrange(len(body) + 1):]
        return body + body[at:]

    def request(self):
        """Its bytes, and whether the server may wait for more."""
        path, seed = self.random.choice(SEEDS)
        if self.random.random() < 0.05:
            path = self.random.choice(self.paths)
        body = self.body(seed)
        method = "POST" if self.random.random() < 0.98 else self.random.choice(["GET", "PUT", "HEAD", "OPTIONS", "DELETE", "get", "P\x01"])
        head = [f"{method} {path} HTTP/1.1", "Host: mutate", "Content-Type: application/json", "Connection: close",
                f"Content-Length: {len(body)}"]
        is_odd = self.random.random() < 0.08
        if is_odd:
            head.insert(self.random.randrange(1, len(head) + 1), self.random.choice(HEADS))
        text = "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body
        if self.random.random() < 0.02:
            at = self.random.randrange(len(text))
            return text[:at] + bytes([self.random.randrange(256)]) + text[at + 1:], True
        return text, is_odd


def ask(address, request, may_wait):
    """The status; 0 if there was no answer within PATIENCE_S, None if the connection ended without one."""
    with socket.create_connection(address, timeout=SHORT_PATIENCE_S if may_wait else PATIENCE_S) as client:
        answer = b""
        try:
            client.sendall(request)
            while piece := client.recv(1 << 16):
                answer += piece
        except TimeoutError:
            if not may_wait:
                return 0
            # The server waits for what was promised: it is told that nothing comes.
            answer = read_after_end(client, answer)
        except OSError:
            pass  # by then the answer may be there
    # What follows an interim answer counts.
    found = re.search(rb"HTTP/1\.[01] (\d{3}) ", answer.replace(b"HTTP/1.1 100 ", b""))
    return int(found[1]) if found else None


def read_after_end(client, answer):
    try:
        client.settimeout(PATIENCE_S)
        client.shutdown(socket.SHUT_WR)
        while piece := client.recv(1 << 16):
            answer += piece
    except OSError:
        pass
    return answer


def run(work):
    """(how often each status, requests that failed)."""
    address, seed, runs, names = work
    mutator = Mutator(seed, names)
    statuses, failures = Counter(), []
    for _ in range(runs):
        request, may_wait = mutator.request()
        status = ask(address, request, may_wait)
        statuses[status] += 1
        if (status == 0 or (status or 0) >= 500) and status != 505:
            failures.append((status, request))
            if len(failures) >= MOST_FAILURES:
                break
    return statuses, failures


def report(statuses, failures, before_kb, after_kb, seconds):
    """Prints it; whether all is well."""
    print(f"{sum(statuses.values())} requests in {seconds:.0f} s;", ", ".join(
        f"{count} x {status or ('silence' if status == 0 else 'closed')}" for status, count in sorted(statuses.items(), key=str)))
    print(f"memory {before_kb} KiB before, {after_kb} after")
    if failures:
        folder = Path(tempfile.mkdtemp(prefix="mutate-"))
        for number, (status, request) in enumerate(failures):
            (folder / f"{number}-{status}").write_bytes(request)
        print(f"{len(failures)} requests failed; they are in {folder}")
    return not failures and after_kb - before_kb < GROWTH_KB


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("url")
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    url = urlsplit(options.url)
    names = fields()
    share = options.runs // options.processes
    works = [((url.hostname, url.port), options.seed * 1000 + i, share, names) for i in range(options.processes)]
    run((works[0][0], 0, min(share, 20_000), names))  # the heap and the caches of the server fill
    process = Process(options.pid)
    before_kb, start = process.memory_kb(), time.monotonic()
    statuses, failures = Counter(), []
    with multiprocessing.Pool(options.processes) as pool:
        for counted, failed in pool.imap_unordered(run, works):
            statuses += counted
            failures += failed
    with urllib.request.urlopen(options.url + "/health", timeout=PATIENCE_S) as answer:
        is_well = answer.status == 200
    return 0 if report(statuses, failures, before_kb, process.memory_kb(), time.monotonic() - start) and is_well else 1


if __name__ == "__main__":
    sys.exit(main())
