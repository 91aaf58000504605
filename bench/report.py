"""Takes what the benchmarks wrote into a baseline, and prints what ran beside what is wanted of it: report.py DATA_DIR BASELINE
[--json]. Exit code 1: something is below what is wanted.

The baseline holds, for each benchmark, its figures and where they are from: machine, commit, compiler, threads, shapes. A
benchmark that did not run keeps what it had.
"""
import json
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOISE = 0.97  # a rate that falls by less than this did not fall: two runs of one program differ by as much
QUIET = 0.1  # cores that others may keep busy
SHAPE_KEYS = ["hidden_size", "num_hidden_layers", "num_attention_heads", "head_dim", "n_routed_experts", "num_experts_per_tok",
              "moe_intermediate_size", "sliding_window", "kv_source_layer_ids", "index_source_layer_ids", "index_n_heads",
              "index_head_dim", "index_topk", "candidate_topk_blocks", "candidate_block_size", "vocab_size"]


def machine():
    """What the figures are from, in the words of the system."""
    cpu = [line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    memory = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    return {"cpu": cpu[0] if cpu else "unknown", "cores": len(cpu), "memory_gib": round(int(memory.split()[1]) / 2**20, 1)}


def commit():
    """The commit, with "+" where the tree differs from it in more than the benchmarks' own results."""
    def git(*arguments):
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    changed = git("status", "--porcelain", "--", ".", ":!bench/baselines", ":!bench/plots")
    return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")


def compiler():
    """As the build knows it."""
    cache = dict(line.split("=", 1) for line in (ROOT / "build/bench/CMakeCache.txt").read_text().splitlines() if "=" in line)
    path = next(value for key, value in cache.items() if key.startswith("CMAKE_CXX_COMPILER:"))
    return subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


def shape(data):
    text = json.loads((data / "deep/config.json").read_text())["text_config"]
    return {key: text[key] for key in SHAPE_KEYS}


def overhead(raw):
    """The cases of scheduler_bench: of each figure the median over the repetitions."""
    cases = {}
    for run in raw["benchmarks"]:
        if run["run_type"] == "iteration":
            if "error_message" in run:
                raise SystemExit(f"report.py: {run['name']}: {run['error_message']}")
            cases.setdefault(run["name"].split("/iterations:")[0], []).append(run)
    return {"running": 256, "cases": {
        name: {"mean_us": median(runs, "cpu_time"), "median_us": median(runs, "median_us"), "p99_us": median(runs, "p99_us"),
               "max_us": median(runs, "max_us"), "images": int(runs[0]["images"])} for name, runs in cases.items()}}


def rows(raw):
    """Rows of kernel_bench, step_bench and sampling_bench by name."""
    found = {}
    for run in raw["benchmarks"]:
        name = run["name"].split("/iterations:")[0]
        if "error_message" in run:
            found[name] = {"skipped": run["error_message"]}
            continue
        label = run.get("label", "")
        skipped, _, note = label.partition("; ") if label.startswith("skipped: ") else ("", "", label)
        found[name] = {"found": float("%.3g" % run["found"]), "target": run["target"], "at_most": run["at_most"] == 1,
                       "skipped": skipped.removeprefix("skipped: "), "note": note}
    return found


def median(runs, key):
    return float("%.4g" % statistics.median(run[key] for run in runs))


def read(path):
    return json.loads(path.read_text()) if path.exists() else {}


# --- What is wanted. Each gives (what, found, wanted, whether it is so, a remark). ---

def check_throughput(t):
    steps = t["weights_a_step"]
    yield ("64 sequences to 1, tokens/s", f"{t['growth']:.2f} x", "", None,
           " ".join(f"{count}: {rate['median']:.0f}" for count, rate in zip(t["sequences"], t["tokens_per_s"])))
    yield ("least growth from one count to the next", f"{t['least_growth']:.2f} x", f">= {NOISE}", t["least_growth"] >= NOISE, "")
    yield ("reads of one panel in a step of 64", str(steps[-1]["most_of_one"]), "1", steps[-1]["most_of_one"] == 1,
           f"{steps[-1]['panels']} panels; {steps[0]['panels']} for one sequence")


def check_prefix(p):
    for run in p["runs"]:
        bars = {"behind_finished": 0.08, "head_of_longer": 0.16} if run is p["runs"][0] else {}
        for name, words in (("behind_finished", "behind a finished request"), ("head_of_longer", "head of a longer one"),
                            ("head_again", "that head again")):
            if name in run:
                found, bar = run[name], bars.get(name)
                yield (f"{words}, image interval {run['image_interval']}", percent(found["ratio"]),
                       f"<= {percent(bar)}" if bar else "", found["ratio"] <= bar if bar else None,
                       f"{percent(found['ratio_without_index'])} without index work, which is "
                       f"{percent(found['index_share'])} of it and {percent(run['cold']['index_share'])} of cold; "
                       f"{found['computed_tokens']} rows")


def check_replay(r):
    for name, bar in (("exact", 1.6), ("compact", None)):
        found = r["modes"][name]["ratio"]
        yield (f"{name} to off, rows/s of {r['prompt_tokens']}", f"{found:.2f} x", f">= {bar}" if bar else "",
               found >= bar if bar else None,
               f"{r['modes'][name]['rows_per_s']:.0f} to {r['modes']['off']['rows_per_s']:.0f} rows/s; "
               f"{r['modes'][name]['ratio_without_index']:.2f} x without index work")


def check_decode(d):
    first, last = d["made"][0], d["made"][-1]
    # The window and the chosen rows are full from some thousands of tokens on.
    rests = [point["rest_s"] for point in d["made"]]
    yield (f"a token at {last['context_tokens']} to one at {first['context_tokens']}",
           f"{last['token_s']['median'] / first['token_s']['median']:.2f} x", "", None,
           f"index scoring {percent(last['index_scoring_s']['median'] / last['token_s']['median'])}, choice "
           f"{percent(last['index_choice_s']['median'] / last['token_s']['median'])} of the longer")
    yield ("the same without the index work, most to least", f"{max(rests) / min(rests):.2f} x", "<= 1.25",
           max(rests) / min(rests) <= 1.25, "")
    made = {point["context_tokens"]: point["token_s"]["median"] for point in d["made"]}
    ratios = [point["token_s"]["median"] / made[point["context_tokens"]] for point in d["prompts"]]
    yield ("real prompts to made contexts", f"{min(ratios):.2f} .. {max(ratios):.2f} x", "0.8 .. 1.25",
           min(ratios) >= 0.8 and max(ratios) <= 1.25, f"up to {d['prompts'][-1]['context_tokens']} tokens")


def check_steady(s):
    tenths = s["tenths"]
    # As in tests/steady.
    for key, words, late in (("resident", "memory of the process", 256 << 10), ("heap", "memory that is allocated", 4 << 10)):
        grown = s[f"{key}_growth_bytes"]
        yield (f"{words}, last tenth of {s['steps']} steps less the second, bytes", str(grown), f"<= {late}", grown <= late,
               f"{tenths[-1][f'{key}_bytes'] / 2**20:.1f} MiB; {sum(tenth['requests'] for tenth in tenths)} requests")
    others = s["machine_use"]["other_cores"]
    is_so = s["step_growth"] <= 1.05 if others is not None and others <= QUIET else "skipped: others kept cores busy meanwhile"
    yield ("time of a step, last tenth to the second", f"{s['step_growth']:.2f} x", "<= 1.05", is_so,
           f"{1e3 * tenths[1]['step_s']:.2f} ms, then {1e3 * tenths[-1]['step_s']:.2f}")


def check_drafts(d):
    for load in d["loads"]:
        what = f"{load['load']}, {load['batch']} at once"
        rates = zip([0, *load["fixed_drafts"]], [load["plain"], *load["fixed"]])
        yield (f"{what}: of the best fixed number", f"{load['of_best']:.2f}", ">= 0.9", load["of_best"] >= 0.9,
               "tokens/s by drafts in every step: " + ", ".join(f"{n}: {rate['median']:.0f}" for n, rate in rates) +
               f"; as many as pay: {load['adaptive']['median']:.0f}")
        yield (f"{what}: of no drafts", f"{load['gain']:.2f}", ">= 0.97", load["gain"] >= 0.97,
               f"{load['tokens_per_round']:.2f} tokens a round")


def check_overhead(o):
    cases = o["cases"]
    for name, found in cases.items():
        yield (f"{name}, us a step", f"{found['mean_us']:.0f}", "<= 150", found["mean_us"] <= 150,
               f"median {found['median_us']:.0f}, p99 {found['p99_us']:.0f}, most {found['max_us']:.0f}")
    growth = cases["queue/10000"]["median_us"] / cases["queue/0"]["median_us"]
    yield ("10,000 queued to none", f"{growth:.2f} x", "<= 1.1", growth <= 1.1, "")


def check_rows(found):
    for name, row in found.items():
        if "found" not in row:
            yield (name, "", "", f"skipped: {row['skipped']}", "")
            continue
        so = row["found"] <= row["target"] if row["at_most"] else row["found"] >= row["target"]
        yield (name, f"{row['found']:.3g}", f"{'<=' if row['at_most'] else '>='} {row['target']:.3g}",
               f"skipped: {row['skipped']}" if row["skipped"] else so, row["note"])


CHECKS = {"kernels": check_rows, "steps": check_rows, "sampling": check_rows, "throughput": check_throughput, "prefix": check_prefix,
          "replay": check_replay, "decode": check_decode, "steady": check_steady, "drafts": check_drafts, "overhead": check_overhead}


def percent(ratio):
    return f"{100 * ratio:.1f} %"


def judged(baseline, names):
    """A line for each figure of these benchmarks: benchmark, what, found, wanted, "ok", "below", "skipped: why" or "", remark."""
    words = {None: "", True: "ok", False: "below"}
    return [(name, what, found, wanted, is_so if isinstance(is_so, str) else words[is_so], remark)
            for name in names for what, found, wanted, is_so, remark in CHECKS[name](baseline[name]["figures"])]


def table(lines):
    lines = [("benchmark", "what", "found", "wanted", "", ""), *lines]
    widths = [max(len(line[i]) for line in lines) for i in range(5)]
    return "\n".join("  ".join([*(cell.ljust(width) for cell, width in zip(line, widths)), line[5]]).rstrip() for line in lines)


def main(data, path, as_json):
    engine, steps, baseline = read(data / "engine_run.json"), read(data / "overhead_run.json"), read(path)
    ran = [name for name in CHECKS if name in engine]
    source = {"machine": machine(), "commit": commit(), "compiler": compiler()}
    for name in CHECKS:
        if name in engine:
            baseline[name] = {**source, "threads": engine["threads"], "shape": shape(data), "figures": engine[name]}
    if steps:
        baseline["overhead"] = {**source, "threads": 1, "figures": overhead(steps)}
        ran.append("overhead")
    for name in ("kernels", "steps", "sampling"):
        if raw := read(data / f"{name}_run.json"):
            baseline[name] = {**source, "figures": rows(raw)}
            ran.append(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(baseline, indent=1) + "\n")
    lines = judged(baseline, [name for name in CHECKS if name in ran])
    if as_json:
        keys = ["benchmark", "what", "found", "wanted", "judgement", "remark"]
        print(json.dumps([dict(zip(keys, line)) for line in lines], indent=1))
    else:
        print(table(lines))
    for name in ran:
        others = baseline.get(name, {}).get("figures", {}).get("machine_use", {}).get("other_cores")
        if others is not None and others > QUIET:
            print(f"{name}: others kept {others:.2f} cores busy meanwhile. Its figures mean little; run it again on an idle machine.",
                  file=sys.stderr)
    return 1 if any(line[4] == "below" for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), "--json" in sys.argv[3:]))
