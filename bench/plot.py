"""Plots of a baseline, each with the machine that it is from: plot.py BASELINE DIRECTORY."""
import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (after the choice of a backend without a screen)

BLUE, ORANGE, GREEN, GREY = "#2c6fbb", "#d9822b", "#3f8f5f", "#9aa0a6"


def axes(title, source):
    figure, plot = plt.subplots(figsize=(7, 4.2), layout="constrained")
    plot.set_title(title, fontsize=11)
    plot.grid(axis="y", color="#e6e6e6")
    plot.set_axisbelow(True)
    for side in ("top", "right"):
        plot.spines[side].set_visible(False)
    machine = source["machine"]
    threads = f"{source['threads']} thread" + ("s" if source["threads"] > 1 else "")
    shape = source.get("shape")
    model = f"checkpoint deep: {shape['num_hidden_layers']} layers, hidden size {shape['hidden_size']}; " if shape else ""
    others = source["figures"].get("machine_use", {}).get("other_cores")
    busy = f"; others kept {others:.2f} cores busy" if others is not None and others > 0.1 else ""
    figure.supxlabel(f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB; {threads}; {source['compiler']}\n"
                     f"{model}commit {source['commit']}{busy}", fontsize=7, color="#555555")
    return figure, plot


def label_bars(plot, bars, texts):
    for bar, text in zip(bars, texts):
        plot.annotate(text, (bar.get_x() + bar.get_width() / 2, bar.get_height()), ha="center", va="bottom", fontsize=8)


def throughput(source):
    f = source["figures"]
    figure, plot = axes("Tokens a second, by sequences that decode", source)
    rates = [rate["median"] for rate in f["tokens_per_s"]]
    errors = [[rate["median"] - rate["min"] for rate in f["tokens_per_s"]],
              [rate["max"] - rate["median"] for rate in f["tokens_per_s"]]]
    plot.errorbar(f["sequences"], rates, yerr=errors, marker="o", color=BLUE, capsize=3, label="tokens/s (median, min to max)")
    plot.set_xscale("log", base=2)
    plot.set_xticks(f["sequences"], [str(count) for count in f["sequences"]])
    plot.set_xlabel("sequences")
    plot.set_ylabel("tokens/s")
    plot.set_ylim(bottom=0)
    reads = plot.twinx()
    reads.plot(f["sequences"], [step["visits"] / count for step, count in zip(f["weights_a_step"], f["sequences"])],
               marker="s", color=ORANGE, label="panels read for a token")
    reads.set_ylabel("panels read for a token")
    reads.set_ylim(bottom=0)
    reads.spines["top"].set_visible(False)
    handles = [part for ax in (plot, reads) for part in ax.get_legend_handles_labels()[0]]
    plot.legend(handles, [handle.get_label() for handle in handles], frameon=False, fontsize=8, loc="lower left")
    return figure


def prefix(source):
    f = source["figures"]
    figure, plot = axes(f"Time to the first token, {f['prompt_tokens']} tokens of which {f['fresh_tokens']} are new", source)
    default = f["runs"][0]
    bars = [("cold", default["cold"], GREY), ("behind a\nfinished request", default["behind_finished"], BLUE)]
    bars += [(f"head of a longer\none, images\nevery {run['image_interval']}", run["head_of_longer"], GREEN) for run in f["runs"]]
    drawn = plot.bar([name for name, _, _ in bars], [found["first_token_s"] for _, found, _ in bars],
                     color=[color for _, _, color in bars], width=0.6)
    label_bars(plot, drawn, [f"{found['first_token_s']:.1f} s" + (f"\n{100 * found['ratio']:.1f} %" if "ratio" in found else "")
                             for _, found, _ in bars])
    plot.tick_params(axis="x", labelsize=8)
    plot.margins(y=0.15)
    plot.set_ylabel("seconds")
    return figure


def replay(source):
    f = source["figures"]
    figure, plot = axes(f"Prefill of {f['prompt_tokens']} tokens, by bounded replay", source)
    names = list(f["modes"])
    rates = [f["modes"][name]["rows_per_s"] for name in names]
    drawn = plot.bar(names, rates, color=[GREY, BLUE, GREEN], width=0.5)
    label_bars(plot, drawn, [f"{rate:.0f}\n{f['modes'][name]['ratio']:.2f} x" for name, rate in zip(names, rates)])
    plot.margins(y=0.15)
    plot.set_ylabel("rows a second")
    return figure


def decode(source):
    f = source["figures"]
    figure, plot = axes("Time of a token, by the length of its context", source)
    lengths = [point["context_tokens"] for point in f["made"]]

    def ms(values):
        return [1e3 * value for value in values]
    plot.plot(lengths, ms(p["token_s"]["median"] for p in f["made"]), marker="o", color=BLUE, label="a token")
    plot.plot(lengths, ms(p["rest_s"] for p in f["made"]), marker="o", color=ORANGE, label="without index scoring and choice")
    plot.plot([p["context_tokens"] for p in f["prompts"]], ms(p["token_s"]["median"] for p in f["prompts"]), "x", color="black",
              label="a token behind a real prompt")
    plot.set_xscale("log", base=2)
    plot.set_xticks(lengths, [f"{length // 1024}k" for length in lengths])
    plot.set_xlabel("tokens before it")
    plot.set_ylabel("ms")
    plot.set_ylim(bottom=0)
    plot.legend(frameon=False, fontsize=8)
    return figure


def overhead(source):
    f = source["figures"]
    figure, plot = axes(f"A step of {f['running']} sequences, without the model", source)
    names = [name.replace("queue/", "queued:\n").replace("_", "\n") for name in f["cases"]]
    drawn = plot.bar(names, [case["mean_us"] for case in f["cases"].values()], color=BLUE, width=0.6, label="mean")
    plot.plot(names, [case["p99_us"] for case in f["cases"].values()], "_", color=ORANGE, markersize=18, label="99 of 100 steps")
    label_bars(plot, drawn, [f"{case['mean_us']:.0f}" for case in f["cases"].values()])
    plot.axhline(150, color="black", linewidth=0.8, linestyle="--", label="what is wanted: 150")
    plot.tick_params(axis="x", labelsize=8)
    plot.set_ylabel("microseconds")
    plot.legend(frameon=False, fontsize=8)
    return figure


def main(path, folder):
    folder.mkdir(parents=True, exist_ok=True)
    baseline = json.loads(path.read_text())
    for draw in (throughput, prefix, replay, decode, overhead):
        if draw.__name__ in baseline:
            figure = draw(baseline[draw.__name__])
            figure.savefig(folder / f"{draw.__name__}.png", dpi=110, metadata={"Software": None})
            plt.close(figure)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
