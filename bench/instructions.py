"""Counts the instructions of the hot kernels: instructions.py PROGRAM TABLE, the program instruction_rows and
bench/baselines/instructions.json. Prints each row beside what it may take at most; exits 1 where one takes more, or where program
and table have different rows, and 77, which ctest counts as skipped, where there is no valgrind.

A time would say the same only on a machine that does nothing else; a number of instructions is the same everywhere, as far as the
compiler is. The ceilings are a quarter above what was found.
"""
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

SKIPPED = 77
VALGRIND = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no",
            "--toggle-collect=stoker_counted"]


def output_of(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return done


def instructions_for_a_unit(program, name):
    done = output_of([*VALGRIND, program, name])
    return int(re.search(r"Collected : (\d+)", done.stderr).group(1)) / int(done.stdout)


def main(program, table):
    if shutil.which("valgrind") is None:
        print("SKIP: valgrind is not installed")
        return SKIPPED
    rows = json.loads(Path(table).read_text())["rows"]
    names = output_of([program]).stdout.split()
    good = names == list(rows)
    if not good:
        print(f"{table}: expected the rows {names}, found {list(rows)}")
    for name in names:
        if name not in rows:
            continue
        found, most = instructions_for_a_unit(program, name), rows[name]["most"]
        # None at all: the function's name was not found, and nothing was counted.
        is_so = 0 < found <= most
        good = good and is_so
        print(f"{name:28} {found:8.3f} a {rows[name]['unit']}, at most {most}: {'ok' if is_so else 'MORE' if found else 'NOTHING COUNTED'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
