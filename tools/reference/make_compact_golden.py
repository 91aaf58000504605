"""Golden vectors of bounded replay "compact" for a made checkpoint, by masking.

    python make_compact_golden.py CHECKPOINT OUT.safetensors --seed 1

Every row runs every layer; only the windows of the last KV source and of the layers after it stop at the gate, for the
rows from the gate on. These rows then have the values that they have where the others are left out: nothing else of the
rows below the gate is read there. gate = length - (window + 12).

ids [S]; gate [1]; chosen [n] the greedy continuation; logits [n, vocab] from which each id of it was chosen.
"""
import argparse

import numpy as np

from make_golden import i64, read_checkpoint
from v41 import checkpoint as ck
from v41.model import Model, Sequence


class Masked(Model):
    """The windows of late layers hold nothing below the gate."""

    def __init__(self, *args, gate):
        super().__init__(*args)
        self.gate, self.rows = gate, None

    def attention(self, layer, x, positions, cache, shared):
        is_late = layer >= max(self.c["kv_source_layer_ids"])
        self.rows = iter(positions) if is_late else None
        return super().attention(layer, x, positions, cache, shared)

    def attend(self, q, keys, sink):
        if self.rows is not None:
            position = next(self.rows)
            first = max(position - self.c["sliding_window"] + 1, 0)
            if position >= self.gate:
                keys = keys[max(self.gate - first, 0):]
        return super().attend(q, keys, sink)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint")
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--length", type=int, default=75)
    args = parser.parse_args()
    cfg, weights, _, token_map, size = read_checkpoint(args.checkpoint)
    rng = np.random.default_rng(args.seed)
    ids = [0] + [int(i) for i in rng.integers(3, size, args.length - 1)]
    gate = len(ids) - (cfg["sliding_window"] + 12)
    model, seq = Masked(cfg, weights, token_map, "bf16", gate=gate), Sequence(cfg)
    logits, chosen = [model.forward(seq, ids)[-1]], []
    while len(chosen) < 12:
        chosen.append(int(np.argmax(logits[-1])))
        logits.append(model.forward(seq, chosen[-1:])[-1])
    off = Model(cfg, weights, token_map, "bf16").forward(Sequence(cfg), ids)[-1]
    print("largest difference to off", np.abs(off - logits[0]).max())
    ck.write(args.out, {"ids": i64(ids), "gate": i64([gate]), "chosen": i64(chosen),
                        "logits": ck.f32(np.stack(logits[:12]))})


if __name__ == "__main__":
    main()
