"""/metrics as Prometheus' own Python package reads it, in both of its forms."""
import urllib.request

import pytest

from program import LIMIT, Server

openmetrics = pytest.importorskip("prometheus_client.openmetrics.parser",
                                  reason="SKIP: there is no prometheus_client here (pip install prometheus_client)")
text_format = pytest.importorskip("prometheus_client.parser")

MOVING = ("process_", "http_")  # these differ between two requests


def families_of(server, accept, parser, expected_type):
    request = urllib.request.Request(server.url + "/metrics", headers={"Accept": accept} if accept else {})
    with urllib.request.urlopen(request, timeout=LIMIT) as answer:
        assert answer.headers["Content-Type"] == expected_type
        return list(parser.text_string_to_metric_families(answer.read().decode()))


def samples_of(families):
    """Name and labels to value; a bound is a number, however it is written."""
    found = {}
    for family in families:
        for sample in family.samples:
            labels = {name: float(value) if name == "le" else value for name, value in sample.labels.items()}
            found[sample.name, tuple(sorted(labels.items()))] = sample.value
    return found


def still_samples(families):
    """Of what does not change by asking."""
    return {key: value for key, value in samples_of(families).items() if not key[0].startswith(MOVING)}


def plain_samples(server):
    return still_samples(families_of(server, None, text_format, "text/plain; version=0.0.4; charset=utf-8"))


def test_both_forms_hold_the_same():
    with Server("demo", "--served-model-name", 'a "b" \\n') as server:
        assert server.ask("/v1/completions", {"prompt": "The capital of Italy is", "max_tokens": 5, "ignore_eos": True})[0] == 200
        strict, before, plain = None, None, plain_samples(server)
        while plain != before:  # the engine may end a step behind the answer
            before = plain
            strict = families_of(server, "application/openmetrics-text; version=1.0.0", openmetrics,
                                 "application/openmetrics-text; version=1.0.0; charset=utf-8")
            plain = plain_samples(server)
    strict_samples = samples_of(strict)
    assert len(plain) > 500 and still_samples(strict) == pytest.approx(plain, rel=1e-12)
    kinds = {family.name: family.type for family in strict}
    assert kinds["vllm:generation_tokens"] == kinds["process_cpu_seconds"] == kinds["http_requests"] == "counter"
    (tokens,) = [value for (name, labels), value in strict_samples.items() if name == "vllm:generation_tokens_total"]
    assert tokens == 5
