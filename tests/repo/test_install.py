"""The library installs, and the programs of examples/ build, link and answer where they see only the installed files.

usage: test_install.py CMAKE BUILD_DIR CXX
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import test_examples
from tree import ROOT


def run(*command):
    """The output of a command; ends the test with that output where it fails."""
    ran = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if ran.returncode:
        sys.exit(f"{' '.join(str(word) for word in command)}\nexit code {ran.returncode}\n{ran.stdout}")
    return ran.stdout


def expect(condition, what):
    if not condition:
        sys.exit(what)


def main():
    cmake, build, compiler = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        prefix, program = Path(folder) / "installed here", Path(folder) / "program"
        run(cmake, "--build", build, "--target", "stoker", "libstoker")
        run(cmake, "--install", build, "--prefix", prefix)
        headers = {path.name for path in (prefix / "include").rglob("*") if path.is_file()}
        ours = {path.name for path in (ROOT / "include/stoker").iterdir()}
        expect(headers == ours, f"installed headers: expected {sorted(ours)}, found {sorted(headers)}")

        run(cmake, "-S", ROOT / "examples", "-B", program, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
            f"-DCMAKE_CXX_COMPILER={compiler}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Wshadow -Werror")
        run(cmake, "--build", program)
        demo = prefix / "share/stoker/models/demo"
        found = test_examples.problems(program, demo)
        expect(not found, "\n".join(found))
        answer = run(prefix / "bin/stoker", "generate", "demo", "--temperature", "0", "--user", "What is the capital of France?")
        expect("Paris" in answer, f"expected an answer with Paris, found '{answer}'")
    print("installed, built and answered")


if __name__ == "__main__":
    main()
