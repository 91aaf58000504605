"""Puts the released tokenizer.json where its tests look for it: build/real/tokenizer.json, kept between runs.

python3 tools/fetch_real_tokenizer.py [OUT]. Exits with 1 and says why where it cannot be had, without network for one.
"""
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAKER = ROOT / "tests/data/tokenizer/make_real.py"
TIMEOUT_S = 180


def published_sha256():
    spec = importlib.util.spec_from_file_location("make_real", MAKER)
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    return maker.SHA256


def is_there(path):
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == published_sha256()


def python_with_pip(folder):
    """This interpreter, or one of a virtual environment in `folder`."""
    if importlib.util.find_spec("pip"):
        return sys.executable
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=TIMEOUT_S, capture_output=True)
    return str(Path(folder) / "bin/python")


def fetch(out):
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        made = out.with_suffix(".part")
        environment = {**os.environ, "PIP_RETRIES": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        subprocess.run([python_with_pip(folder), str(MAKER), str(made)], check=True, timeout=TIMEOUT_S, env=environment,
                       capture_output=True, text=True)
        made.replace(out)


def reason(error):
    """pip's first complaint, or the last line of what was printed."""
    lines = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
    return next((line for line in lines if line.startswith("ERROR")), lines[-1])


def main():
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/real/tokenizer.json"
    if is_there(out):
        print(f"{out}: already there")
        return
    try:
        fetch(out)
    except (OSError, subprocess.SubprocessError) as error:
        sys.exit(f"{out}: the released tokenizer could not be made: {reason(error)}")
    print(f"{out}: made")


if __name__ == "__main__":
    main()
