"""The reference in tools/reference, for the tests: its checkpoints, and what it computes of a prompt."""
import hashlib
import json
import os
import shutil
import sys
import tempfile

import numpy as np

from program import BUILD, ROOT

REFERENCE = ROOT / "tools" / "reference"
sys.path.insert(0, str(REFERENCE))

import make_checkpoint  # noqa: E402
from make_golden import Traced, decode_case, i64, padded  # noqa: E402
from v41 import checkpoint as ck  # noqa: E402
from v41.engram import compressed_map  # noqa: E402
from v41.model import Sequence  # noqa: E402


def read(path):
    """{name: (dtype, shape, bytes)} of a safetensors file."""
    return ck.read(path)


def text_config(checkpoint):
    with open(os.path.join(checkpoint, "config.json"), encoding="utf-8") as f:
        cfg = json.load(f)["text_config"]
    return dict({"gate_temp": 1.0, "engram_pad_id": cfg["engram_pad_token_id"]}, **cfg)


def token_map(checkpoint):
    """Engram's class of every id that the tokenizer has; 0 for those beyond it."""
    from tokenizers import Tokenizer
    texts, strings = make_checkpoint.token_texts(Tokenizer.from_file(os.path.join(checkpoint, "tokenizer.json")))
    classes, _ = compressed_map(texts, strings)
    return np.concatenate([classes, np.zeros(text_config(checkpoint)["vocab_size"] - len(classes), np.int64)])


def prompt_trace(checkpoint, ids, classes):
    """The entries `prompt.*` of a golden file (tools/reference/make_golden.py), but for the spread: one pass over `ids`."""
    cfg = text_config(checkpoint)
    model = Traced(cfg, ck.dequantise(ck.read_dir(checkpoint)), classes, "bf16")
    model.trace = {}
    out = {"prompt.ids": i64(ids), "prompt.logits": ck.f32(model.forward(Sequence(cfg), ids))}
    for name, parts in model.trace.items():
        if name.startswith("mtp.") or name == "hidden":
            continue
        if name.endswith("selected"):
            out["prompt." + name] = i64(padded(parts, cfg["index_topk"]))
        elif name.endswith("routes"):
            out["prompt." + name] = i64(np.concatenate(parts).astype(np.int64))
        else:
            out["prompt." + name] = ck.f32(np.concatenate(parts))
    out["prompt.engram_rows"] = i64(model.hash([int(classes[i]) for i in ids], 0))
    return out


def decode_trace(checkpoint, prompt, n):
    """The entries `decode.*` of a golden file: n greedy tokens after `prompt`, each with a draft round before it."""
    weights = ck.dequantise(ck.read_dir(checkpoint))
    case = decode_case(text_config(checkpoint), weights, token_map(checkpoint), prompt, n)
    out = {"decode." + key: i64(case[key]) for key in ("ids", "pending", "at", "drafts")}
    out.update({"decode." + key: ck.f32(np.float32(case[key])) for key in ("margin", "confidence")})
    return dict(out, **{"decode.prompt": i64(prompt)})


def _key(*extra):
    """Changes with the reference and with this file."""
    digest = hashlib.sha256(repr(extra).encode())
    for path in sorted(REFERENCE.rglob("*.py")) + [ROOT / "tests" / "e2e" / "reference.py"]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def made_case(shape, seed, length):
    """A made checkpoint with the trace of a random prompt, and of what follows the first quarter of it: (folder, trace). Kept
    in the build folder, as it takes a while."""
    folder = BUILD / "e2e" / f"{shape}-{_key(shape, seed, length)}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        making = tempfile.mkdtemp(dir=folder.parent)
        _, tokenizer = make_checkpoint.make(os.path.join(making, "checkpoint"), shape, seed)
        checkpoint = os.path.join(making, "checkpoint")
        rng = np.random.default_rng(seed)
        ids = [0] + [int(i) for i in rng.integers(3, tokenizer.get_vocab_size(with_added_tokens=True), length - 1)]
        ids[length // 2:length // 2 + 8] = ids[length // 4:length // 4 + 8]  # n-grams and the indexer meet the same rows again
        trace = prompt_trace(checkpoint, ids, token_map(checkpoint))
        ck.write(os.path.join(making, "trace.safetensors"), dict(trace, **decode_trace(checkpoint, ids[:length // 4], 20)))
        try:
            os.rename(making, folder)
        except OSError:  # another run was faster
            shutil.rmtree(making)
    return folder / "checkpoint", read(folder / "trace.safetensors")
