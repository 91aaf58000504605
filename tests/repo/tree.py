"""What the tests of the repository share: where it is, its files, tables in its documents, and unittest's result for ctest."""
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def tracked_files(root=ROOT):
    """The files that git knows or would add, as paths relative to root; in an exported copy without git, all but build/."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            capture_output=True, check=False)
    if listed.returncode == 0:
        names = listed.stdout.decode().split("\0")
    else:
        names = [str(path.relative_to(root)) for path in root.rglob("*")]
        names = [name for name in names if not name.startswith("build/") and "__pycache__" not in name]
    return sorted({Path(name) for name in names if name and (root / name).is_file()})


def text_of(path):
    """A file's text, or None for one that is not text."""
    data = path.read_bytes()
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def table_after(markdown, first_column):
    """The rows of the table whose first heading is `first_column`, each a list of cells."""
    lines = iter(markdown.splitlines())
    for line in lines:
        if cells_of(line)[:1] == [first_column]:
            next(lines)
            break
    else:
        raise LookupError(f"no table with the first column '{first_column}'")
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append(cells_of(line))
    return rows


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []


def code_spans(cell):
    return re.findall(r"`([^`]+)`", cell)
