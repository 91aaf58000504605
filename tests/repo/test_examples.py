"""The programs of examples/ answer, the same each time: test_examples.py FOLDER, where they are built."""
import subprocess
import sys
from pathlib import Path

from tree import ROOT

# program, its arguments after MODEL, its standard input, words of its output in their order
RUNS = [
    ("generate", ["The capital of Italy is", "The capital of France is"], "", ["Rome", "Paris"]),
    ("chat_stream", [], "What is the capital of Italy?\nWhat is the capital of France?\n", ["The capital of Italy is Rome.\n", "\n"]),
    ("engine_stream", ["What is the capital of France?"], "", ["The capital of France is Paris.\n"]),
]


def run(program, arguments, text):
    ran = subprocess.run([program, *arguments], input=text, capture_output=True, text=True, timeout=300, check=False)
    return ran.returncode, ran.stdout, ran.stderr


def lacks(output, words):
    """The first of the words that does not follow the one before it in the output, or None."""
    at = 0
    for word in words:
        at = output.find(word, at)
        if at < 0:
            return word
        at += len(word)
    return None


def problems(folder, model):
    """What the programs in `folder` do wrong with that model, a line each."""
    found = []
    sources = {path.stem for path in (ROOT / "examples").glob("*.cc")}
    if sources != {name for name, *_ in RUNS}:
        found.append(f"expected a run for each of {sorted(sources)}")
    for name, arguments, text, words in RUNS:
        code, output, error = run(folder / name, [model, *arguments], text)
        again = run(folder / name, [model, *arguments], text)
        if code != 0:
            found.append(f"{name}: expected exit code 0, found {code}: {error}")
        elif lacks(output, words) is not None:
            found.append(f"{name}: expected {lacks(output, words)!r}, found {output!r}")
        elif again[1] != output:
            found.append(f"{name}: expected the same output twice, found {output!r} and {again[1]!r}")
        code, output, error = run(folder / name, ["/no/model", *arguments], text)
        if (code, output) != (2, "") or "/no/model" not in error:
            found.append(f"{name} without a model: expected exit code 2 and its name, found {code}: {output}{error}")
    return found


if __name__ == "__main__":
    assert lacks("a b c", ["a", "c"]) is None and lacks("a b c", ["c", "b"]) == "b"
    sys.exit("\n".join(problems(Path(sys.argv[1]), "demo")) or 0)
