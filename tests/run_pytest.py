"""Runs one end-to-end test for ctest: run_pytest.py VENV STOKER TEST. Exits 77, which ctest counts as skipped, where the Python
environment is not there or every test of the file was skipped."""
import os
import re
import subprocess
import sys

SKIPPED = 77


def main():
    venv, program, test = sys.argv[1:]
    python = os.path.join(venv, "bin", "python")
    if not os.path.exists(os.path.join(venv, "complete")):
        print(f"SKIP: {venv} is not there or not complete; ./test makes it, which needs a network once")
        return SKIPPED
    environment = dict(os.environ, STOKER=program, PYTHONDONTWRITEBYTECODE="1")
    ran = subprocess.run([python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", test], env=environment,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print(ran.stdout, end="")
    last = ran.stdout.rstrip().rsplit("\n", 1)[-1]
    return SKIPPED if ran.returncode == 0 and re.match(r"\d+ skipped", last) else ran.returncode


if __name__ == "__main__":
    sys.exit(main())
