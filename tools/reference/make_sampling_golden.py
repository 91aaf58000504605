"""Golden vectors of v41/sampling.py: many random choices with every parameter: python make_sampling_golden.py OUT

sampling.safetensors holds, for the cases one after the other:
  numbers [cases, 12] i64      seed, position, vocabulary, chosen token; top_k; min_tokens; then, as the bits of a double, temperature,
                               top_p, min_p, repetition, presence, frequency
  logits f32                   [vocabulary] of each case
  NAME.counts [cases], NAME    lists: prompt, answer, bias.ids, bias.values (f32, -inf bans), allowed, ends, bad (runs, 0 behind each,
                               ids from 1 on)
  wide.numbers [cases, 8] i64  the same choice without lists from wide_logits(): case, position, token; top_k; temperature, top_p,
                               min_p as bits; kind
"""
import sys

import numpy as np

from make_golden import i64
from v41 import checkpoint as ck
from v41 import sampling as S

F32 = np.float32
WIDE = 129280


def bits(x):
    return int(np.float64(x).view(np.int64))


def wide_logits(case, kind):
    """Logits that a few exact operations give, so that they need not be kept. kind 0: flat, 1: with a peak, 2: wide, 3: few values."""
    ids = np.arange(1, WIDE + 1, dtype=np.uint64)
    h = ((ids * np.uint64(2654435761) + np.uint64(case * 40503)) ^ (ids >> np.uint64(3))) & np.uint64(0xFFFFFFFF)
    u = (h >> np.uint64(8)).astype(F32) * F32(2.0**-24)
    if kind == 3:
        return np.floor(u * F32(4)).astype(F32)
    x = (u - F32(0.5)) * F32((0.25, 8, 60, 0)[kind])
    if kind == 1:
        x[(case * 7919 + 13) % WIDE] += F32(30)
        x[(case * 104729 + 5) % WIDE] += F32(29)
    return x.astype(F32)


def shaped(logits, prompt, answer, bias, allowed, ends, min_tokens, bad, penalties):
    """Bias and bans, then penalties."""
    x = logits.astype(F32).copy()
    if len(allowed):
        mask = np.ones(len(x), bool)
        mask[allowed] = False
        x[mask] = -np.inf
    for i, value in bias:
        x[i] = F32(x[i] + F32(value))
    if len(answer) < min_tokens:
        x[ends] = -np.inf
    for word in bad:
        n = len(word) - 1
        if n <= len(answer) and list(answer[len(answer) - n:]) == list(word[:-1]):
            x[word[-1]] = -np.inf
    counts = np.bincount(answer, minlength=len(x))
    seen = np.zeros(len(x), bool)
    seen[prompt] = True
    return S.penalise(x, counts, seen, *penalties)


def some_logits(rng, n):
    kind = rng.integers(0, 9)
    x = rng.standard_normal(n)
    if kind == 0:
        x = np.round(x * 3, 1)
    elif kind == 1:
        x = np.zeros(n)
    elif kind == 2:
        x = x * 2
        x[rng.integers(n)] += 40
    elif kind == 3:
        x = x * 1e30
    elif kind == 4:
        x = x * 1e-39
    elif kind == 5:
        x = np.where(rng.random(n) < 0.5, -0.0, 0.0)
    elif kind == 6:
        x = np.clip(x * 2e38, -3.4e38, 3.4e38)
    elif kind == 7:
        x = x * 30 + 3e8
    return x.astype(F32)


def some_case(rng):
    n = int(rng.choice([1, 2, 7, 63, 64, 65, 130, 400]))

    def ids(most):
        return rng.integers(0, n, rng.integers(0, most + 1))

    def maybe(make, otherwise, chance=0.4):
        return make() if rng.random() < chance else otherwise

    prompt, answer = ids(20), ids(30)
    case = {"n": n, "logits": some_logits(rng, n), "prompt": prompt, "answer": answer,
            "seed": int(rng.integers(0, 2**64, dtype=np.uint64)), "position": len(prompt) + len(answer),
            "temperature": float(rng.choice([0, 1, 1, 0.3, 1.5, 1e-6, 1e4, 1e37])),
            "top_k": int(maybe(lambda: rng.choice([1, 2, 5, 50, n, 10**6]), 0)),
            "top_p": float(maybe(lambda: rng.choice([0.95, 0.9, 0.5, 1e-9, 0, 0.999999]), 1)),
            "min_p": float(maybe(lambda: rng.choice([0.05, 1, 1e-12, 0.5, 0.999999]), 0)),
            "penalties": (float(maybe(lambda: rng.choice([1.3, 0.7, 5]), 1)), float(maybe(lambda: rng.choice([0.4, -2, 2]), 0)),
                          float(maybe(lambda: rng.choice([0.2, -0.5, 2]), 0))),
            "allowed": np.unique(maybe(lambda: rng.integers(0, n, rng.integers(1, 10)), [], 0.2)).astype(int),
            "ends": np.unique(ids(3)), "min_tokens": int(maybe(lambda: rng.integers(0, 40), 0)), "bad": []}
    biased = np.unique(maybe(lambda: ids(8), []))
    case["bias"] = [(int(i), -np.inf if rng.random() < 0.3 else float(F32(rng.normal() * 20))) for i in biased]
    if rng.random() < 0.15:  # all but one
        one = rng.integers(n)
        case["bias"] = [(i, -np.inf) for i in range(n) if i != one]
    if rng.random() < 0.3:
        for _ in range(rng.integers(1, 4)):
            length = int(rng.integers(1, 4))
            start = answer[len(answer) - length + 1:] if rng.random() < 0.7 and len(answer) >= length else rng.integers(0, n, length - 1)
            case["bad"].append([int(i) for i in start] + [int(rng.integers(n))])
    return case


def main(path):
    rng = np.random.default_rng(26)
    numbers, lists = [], {name: [] for name in ("prompt", "answer", "bias.ids", "bias.values", "allowed", "ends", "bad")}
    all_logits = []
    while len(numbers) < 600:
        c = some_case(rng)
        with np.errstate(over="ignore"):
            x = shaped(c["logits"], c["prompt"], c["answer"], c["bias"], c["allowed"], c["ends"], c["min_tokens"], c["bad"], c["penalties"])
            top = x.max() / F32(c["temperature"] or 1)
        if not np.isfinite(x.max()) or not np.isfinite(top):  # no token is left, or an overflow, of which the reference says nothing
            continue
        with np.errstate(over="ignore", under="ignore"):
            token = S.sample(x, c["seed"], c["position"], c["temperature"], c["top_k"], c["top_p"], c["min_p"])
        numbers.append([c["seed"] - (c["seed"] >> 63 << 64), c["position"], c["n"], token, c["top_k"], c["min_tokens"]]
                       + [bits(v) for v in (c["temperature"], c["top_p"], c["min_p"], *c["penalties"])])
        all_logits.append(c["logits"])
        for name in ("prompt", "answer", "allowed", "ends"):
            lists[name].append(c[name])
        lists["bias.ids"].append([i for i, _ in c["bias"]])
        lists["bias.values"].append([v for _, v in c["bias"]])
        lists["bad"].append([v for word in c["bad"] for v in [i + 1 for i in word] + [0]])
    out = {"numbers": i64(numbers), "logits": ck.f32(np.concatenate(all_logits))}
    for name, values in lists.items():
        flat = np.concatenate([np.asarray(v, np.float64) for v in values])
        out[name + ".counts"] = i64([len(v) for v in values])
        out[name] = ck.f32(flat) if name == "bias.values" else i64(flat)
    wide = []
    filters = [(0, 1, 0), (0, 0.9, 0), (50, 1, 0), (0, 1, 0.05), (1000, 0.95, 0.001), (0, 0.999, 0)]
    for case, (kind, (k, p, m)) in enumerate((kind, f) for kind in range(4) for f in filters):
        temperature = (1, 0.7, 1.3)[case % 3]
        position = case + (case % 2 << 33)
        token = S.sample(wide_logits(case, kind), 7, position, temperature, k, p, m)
        wide.append([case, position, token, k, bits(temperature), bits(p), bits(m), kind])
    out["wide.numbers"] = i64(wide)
    ck.write(path, out)


if __name__ == "__main__":
    main(sys.argv[1])
