"""Golden vectors of the draft head for a made checkpoint: one round after each of several prompts.

    python make_draft_golden.py CHECKPOINT OUT.safetensors --seed 1

lengths [cases]; ids [cases, longest] the prompts, filled up with -1; pending [cases] the token that follows (any, not the
likeliest); drafts [cases, block]; confidence [cases, block]; logits [cases, block, vocab] from which each draft was chosen.
"""
import argparse

import numpy as np

from make_golden import i64, padded, read_checkpoint
from v41 import checkpoint as ck
from v41.dspark import DraftHead
from v41.model import Model, Sequence


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint")
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    cfg, weights, _, token_map, size = read_checkpoint(args.checkpoint)
    rng = np.random.default_rng(args.seed)
    window = cfg["sliding_window"]
    lengths = [1, 2, window - 1, window, window + 1, 3 * window + 2, 127, 128, 129, 200]
    prompts, rounds = [], []
    for length in lengths:
        prompt = [0] + [int(i) for i in rng.integers(3, size, length)]
        model, seq = Model(cfg, weights, token_map, "bf16"), Sequence(cfg)
        model.forward(seq, prompt[:-1])
        rounds.append(DraftHead(model).draft(prompt[-1], seq.target_hidden))
        prompts.append(prompt)
    drafts, confidence, logits = zip(*rounds)
    ck.write(args.out, {"lengths": i64(lengths), "ids": i64(padded([p[:-1] for p in prompts], max(lengths))),
                        "pending": i64([p[-1] for p in prompts]), "drafts": i64(drafts),
                        "confidence": ck.f32(np.float32(confidence)), "logits": ck.f32(np.stack(logits))})


if __name__ == "__main__":
    main()
