"""Runs clang-tidy 14 over what the preset clang compiles, tests excepted: tidy.py. Exit code 0: nothing to say.

Most of its time goes into headers. So sources of one folder with the same flags are looked at together, as one file that
includes them; names in the unnamed namespaces of a room differ (CONTRIBUTING.md). The analyzer takes what a file includes for
sources where that file is called UnifiedSource.
"""
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build/tidy"
FOLDERS = ("src", "apps", "examples", "tools")
ALONE = ("examples", "src/kernels/cpu")  # each file is a program, or an instruction set with names of its own
TOGETHER = 8
# Paths that the analyzer follows through one function, at most: the usual 225,000 take four times as long in all.
ANALYZER = ("-Xclang", "-analyzer-config", "-Xclang", "max-nodes=30000")


def groups():
    """(flags, sources) of each file to be made."""
    by_key = {}
    for command in json.loads((OUT / "cmake/compile_commands.json").read_text()):
        source = Path(command["file"]).relative_to(ROOT)
        if source.parts[0] not in FOLDERS or source.name.endswith("_test.cc"):
            continue
        words = shlex.split(command["command"])
        flags = tuple(words[:words.index("-o")])
        folder = str(source.parent)
        key = (flags, str(source) if folder in ALONE else folder)
        by_key.setdefault(key, []).append(source)
    for (flags, _), sources in by_key.items():
        yield from ((flags, sources[i:i + TOGETHER]) for i in range(0, len(sources), TOGETHER))


def write(number, sources):
    path = OUT / f"UnifiedSource{number}.cc"
    path.write_text("".join(f'#include "{ROOT / source}"\n' for source in sources))
    return path


def tidy(path):
    """What there is to say of it."""
    run = subprocess.run(["clang-tidy-14", "-p", OUT, "--quiet", "--checks=-bugprone-suspicious-include",
                          *(f"--extra-arg={word}" for word in ANALYZER), path],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    return run.stdout + run.stderr if run.returncode else ""


def configure():
    """One compile command for each source."""
    subprocess.run(["cmake", "--preset", "clang", "-B", OUT / "cmake", "-DSTOKER_TESTS=OFF", "-DCMAKE_UNITY_BUILD=OFF"],
                   cwd=ROOT, stdout=subprocess.DEVNULL, check=True)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    configure()
    found = sorted(groups(), key=lambda group: -len(group[1]))
    paths = [write(number, sources) for number, (_, sources) in enumerate(found)]
    (OUT / "compile_commands.json").write_text(json.dumps([
        {"directory": str(ROOT), "file": str(path), "arguments": [*flags, "-c", str(path)]}
        for path, (flags, _) in zip(paths, found)]))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        said = [text for text in pool.map(tidy, paths) if text]
    print("".join(said), end="")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
