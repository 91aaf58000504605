"""Rules over the text of the files: sizes, head comments, links that lead nowhere, code that is shown, and the error table of the
documents."""
import json
import re
import tempfile
import unittest
from pathlib import Path

from tree import ROOT, cells_of, table_after, text_of, tracked_files

MAX_LINES = 800
CODE = {".h", ".cc", ".py", ".sh", ".cmake"}

# Places outside the repository. Spelled in two parts, so that this file does not hold them.
OUTSIDE = ["../" + "shared", "/wor" + "k/", "shared/" + "spec", "shared/" + "reference", "shared/" + "fixtures", "/tmp/" + "venv",
           "shared/" + "style"]


def too_long(path, text):
    """Over MAX_LINES lines, unless the head comment says why ("long because ...") or that a script made the file."""
    head = "\n".join(text.splitlines()[:12])
    return text.count("\n") > MAX_LINES and not re.search(r"long because|[Gg]enerated by", head)


def lacks_head_comment(path, text):
    lines = text.splitlines()
    first = next((line for line in lines if line and not line.startswith("#!")), "")
    return bool(lines) and not first.startswith({".h": "// ", ".cc": "// ", ".py": '"""'}.get(path.suffix, "# "))


def names_outside(text):
    return [place for place in OUTSIDE if place in text]


def dead_links(root, path, text):
    """Targets of relative Markdown links that do not exist."""
    targets = re.findall(r"\]\(([^)#\s]+)", text)
    return [target for target in targets if "://" not in target and not (root / path.parent / target).exists()]


def shown_code(path, text):
    """The C++ that a document shows in ```cpp, or a header in comments of five blanks or more: a list of lines for each piece."""
    if path.suffix == ".md":
        return [piece.splitlines() for piece in re.findall(r"^```cpp\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]
    pieces = re.findall(r"(?:^ *///? {5}.*\n)+", text, re.MULTILINE)
    return [[line.lstrip(" /") for line in piece.splitlines()] for piece in pieces]


def is_part_of(piece, program):
    """Whether the lines follow each other in the program, however they are indented."""
    wanted, lines = ([line.strip() for line in whole] for whole in (piece, program.splitlines()))
    return any(lines[at:at + len(wanted)] == wanted for at in range(len(lines)))


def error_rows(source):
    """(code, HTTP status, Python type, exit code) of each row of src/base/error.cc."""
    return re.findall(r'\{ErrorCode::\w+, "(\w+)", (\d+), "(\w+)", (\d+)\}', source)


class Rules(unittest.TestCase):
    def setUp(self):
        texts = {path: text_of(ROOT / path) for path in tracked_files()}
        self.texts = {path: text for path, text in texts.items() if text is not None}
        self.code = {path: text for path, text in self.texts.items()
                     if path.suffix in CODE and not path.match("tests/data/*")}

    def check(self, found):
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_no_file_is_too_long(self):
        self.check([f"{path}: {text.count(chr(10))} lines; split it, or say in the head comment why it is long"
                    for path, text in self.code.items() if path.parts[0] != "tests" and too_long(path, text)])

    def test_every_file_has_a_head_comment(self):
        self.check([f"{path}: no head comment" for path, text in self.code.items()
                    if lacks_head_comment(path, text) and not (path.suffix == ".cc" and self.has_header(path))])

    def has_header(self, path):
        """A .cc file or its test may leave the head comment to its header: beside it, above it (ref/foo.cc) or in the door."""
        header = path.stem.removesuffix("_test") + ".h"
        return any(folder / header in self.code for folder in (path.parent, path.parent.parent, Path("include/stoker")))

    def test_headers_say_pragma_once(self):
        self.check([f"{path}: no #pragma once" for path, text in self.code.items()
                    if path.suffix == ".h" and "\n#pragma once\n" not in text])

    def test_nothing_outside_the_repository_is_named(self):
        self.check([f"{path}: names {place}" for path, text in self.texts.items() for place in names_outside(text)])

    def test_links_lead_somewhere(self):
        self.check([f"{path}: link to {target}, which is not there" for path, text in self.texts.items()
                    if path.suffix == ".md" for target in dead_links(ROOT, path, text)])

    def test_shown_code_is_that_of_the_examples(self):
        programs = [text for path, text in self.texts.items() if path.match("examples/*.cc")]
        shown = {path: shown_code(path, text) for path, text in self.texts.items()
                 if path.suffix == ".md" or path.match("include/stoker/*.h")}
        self.assertTrue(shown[Path("README.md")] and shown[Path("include/stoker/llm.h")])
        self.check([f"{path}: in no program of examples/: {piece}" for path, pieces in shown.items() for piece in pieces
                    if not any(is_part_of(piece, program) for program in programs)])

    def test_documents_have_the_error_table_of_the_code(self):
        rows = error_rows((ROOT / "src/base/error.cc").read_text())
        documented = [tuple(row) for row in table_after((ROOT / "docs/architecture.md").read_text(), "code")]
        self.assertEqual(documented, [(code, "—" if http == "0" else http, python, leave)
                                      for code, http, python, leave in rows])

    def test_ci_builds_every_preset(self):
        ci = (ROOT / ".ci/run").read_text()
        presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
        self.check([f".ci/run: does not build the preset {preset['name']}" for preset in presets
                    if "hidden" not in preset and not re.search(rf"\b{preset['name']}\b", ci)])


class CanFail(unittest.TestCase):
    """Each rule finds what it is for."""

    def test_long_files(self):
        body = "int x;\n" * (MAX_LINES + 1)
        self.assertTrue(too_long(Path("a.cc"), "// A head.\n" + body))
        self.assertFalse(too_long(Path("a.cc"), "// A head. The file is long because of x.\n" + body))
        self.assertFalse(too_long(Path("a.cc"), "// A head.\n"))

    def test_head_comments(self):
        self.assertTrue(lacks_head_comment(Path("a.cc"), "#include <x>\n"))
        self.assertFalse(lacks_head_comment(Path("a.cc"), "// What it owns.\nint y;\n"))
        self.assertFalse(lacks_head_comment(Path("a.py"), '#!/usr/bin/env python3\n"""What."""\n'))

    def test_places_outside(self):
        self.assertEqual(names_outside("see " + OUTSIDE[0] + "/x"), [OUTSIDE[0]])

    def test_links(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "there.md").touch()
            self.assertEqual(dead_links(Path(folder), Path("a.md"), "[x](there.md) [y](gone.md) [z](http://h/gone)"), ["gone.md"])

    def test_shown_code(self):
        self.assertEqual(shown_code(Path("a.md"), "x\n```cpp\na;\n  b;\n```\n```sh\nc\n```\n"), [["a;", "  b;"]])
        self.assertEqual(shown_code(Path("a.h"), "// As in:\n//\n//     a;\n  ///       b;\n// more\n"), [["a;", "b;"]])
        self.assertTrue(is_part_of(["a;", "b;"], "x\n  a;\n  b;\ny\n"))
        self.assertFalse(is_part_of(["a;", "b;"], "x\n  a;\n  c;\n  b;\n"))

    def test_tables(self):
        self.assertEqual(cells_of("| a | `b` |"), ["a", "`b`"])
        self.assertEqual(error_rows('{ErrorCode::kIo, "kIo", 500, "OSError", 3},'), [("kIo", "500", "OSError", "3")])


if __name__ == "__main__":
    unittest.main()
