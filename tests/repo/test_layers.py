"""Rooms include only what docs/architecture.md lets them: the code and the tables there are compared, include by include."""
import re
import tempfile
import unittest
from pathlib import Path

from tree import ROOT, code_spans, table_after, tracked_files

SOURCES = {".h", ".cc"}
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
TEST_FILE = re.compile(r"^test_|_test$|_fixture$")
LINKED_ROOM = re.compile(r"\bstoker_(?!room\b|test\b|fuzz\b)(\w+)")


class Rules:
    """The tables of docs/architecture.md, and what follows from them."""

    def __init__(self, markdown):
        self.direct = {code_spans(row[0])[0]: code_spans(row[2]) for row in table_after(markdown, "room")}
        self.libraries = {prefix: code_spans(row[2])
                          for row in table_after(markdown, "library") for prefix in code_spans(row[1])}

    def may_include(self, room):
        """The room itself and all that lies beneath: names of rooms, and headers of the door."""
        found, waiting = set(), [room]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self.direct.get(name, [])
        return found

    def allows(self, path, header):
        """Whether the file may include "header" (a path from src/ or include/)."""
        top = header.split("/")[0]
        if path.parts[0] in ("tests", "bench", "tools") or (top == "support" and TEST_FILE.search(path.stem)):
            return True
        if path.parts[0] in ("include", "examples"):
            return top == "stoker"
        if path.parts[0] == "apps":
            may_serve = path.stem.startswith(("serve", "run_batch"))
            return top in ("apps", "stoker") or "/" not in header or (top == "server" and may_serve)
        allowed = self.may_include(path.parts[1])
        return top in allowed or header in allowed or (top == "stoker" and "stoker/*" in allowed)

    def allows_library(self, path, header):
        """Whether the file may include <header>, as far as the table of libraries speaks of it."""
        for prefix, users in self.libraries.items():
            if header == prefix or (prefix.endswith("/") and header.startswith(prefix)):
                is_test = path.parts[0] == "tests" or TEST_FILE.search(path.stem)
                place = path.parts[1] if path.parts[0] == "src" else path.parts[0]
                return place in users or (is_test and "tests" in users)
        return True


def violations(root, files, rules):
    """Every include and every linked room that the rules do not allow, one line each."""
    found = []
    for path in files:
        if path.parts[0] not in ("src", "include", "apps", "examples", "bench", "tests", "tools"):
            continue
        if path.parts[0] == "src" and path.parts[1] not in rules.direct:
            found.append(f"{path}: the room '{path.parts[1]}' is not in docs/architecture.md")
        elif path.suffix in SOURCES:
            for ours, theirs in INCLUDE.findall((root / path).read_text()):
                if (ours and not rules.allows(path, ours)) or (theirs and not rules.allows_library(path, theirs)):
                    found.append(f"{path}: may not include {ours or theirs}")
        elif path.parts[0] == "src" and path.name == "CMakeLists.txt":
            text = re.sub(r"#.*", "", (root / path).read_text())
            for room in LINKED_ROOM.findall(text):
                if room in rules.direct and room not in rules.may_include(path.parts[1]):
                    found.append(f"{path}: may not link {room}")
    return found


class Layers(unittest.TestCase):
    def setUp(self):
        self.rules = Rules((ROOT / "docs/architecture.md").read_text())

    def test_every_include_is_allowed(self):
        found = violations(ROOT, tracked_files(), self.rules)
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_every_room_of_the_table_exists(self):
        folders = {path.name for path in (ROOT / "src").iterdir() if path.is_dir()}
        self.assertEqual(set(self.rules.direct), folders)

    def test_rooms_depend_one_way(self):
        for room in self.rules.direct:
            for lower in self.rules.may_include(room) - {room}:
                self.assertNotIn(room, self.rules.may_include(lower), f"{room} and {lower} include each other")


class CanFail(unittest.TestCase):
    """Each kind of violation is found where it is made on purpose, and its allowed neighbour is not."""

    CASES = [
        ("src/base/a.cc", '#include "tensor/dtype.h"', True),
        ("src/base/a.cc", '#include "stoker/engine.h"', True),
        ("src/base/a.cc", '#include "stoker/result.h"', False),
        ("src/model/a.cc", '#include "stoker/error.h"', False),
        ("src/model/a.cc", '#include "base/check.h"', False),
        ("src/model/a.cc", '#include "engine/engine.h"', True),
        ("src/tokenizer/a.cc", '  #  include "tensor/dtype.h"', True),
        ("src/server/a.cc", '#include "api/api.h"', True),
        ("src/server/a.cc", '#include "stoker/engine.h"', False),
        ("src/attic/a.cc", "", True),
        ("src/chat/CMakeLists.txt", "stoker_room(chat LINKS stoker_model)", True),
        ("src/chat/CMakeLists.txt", "stoker_room(chat LINKS stoker_tokenizer)  # not stoker_model", False),
        ("include/stoker/a.h", '#include "base/check.h"', True),
        ("apps/chat.cc", '#include "engine/engine.h"', True),
        ("apps/chat.cc", '#include "server/server.h"', True),
        ("apps/serve.cc", '#include "server/server.h"', False),
        ("examples/a.cc", '#include "stoker/llm.h"', False),
        ("examples/a.cc", '#include "base/check.h"', True),
        ("examples/a.cc", "#include <boost/asio.hpp>", True),
        ("apps/run_batch.cc", '#include "server/batch.h"', False),
        ("src/chat/a.cc", "#include <nlohmann/json.hpp>", True),
        ("src/base/json.cc", "#include <nlohmann/json.hpp>", False),
        ("src/chat/a.cc", "#include <gtest/gtest.h>", True),
        ("src/chat/a_test.cc", "#include <gtest/gtest.h>", False),
        ("tools/a.cc", '#include "checkpoint/config.h"', False),
        ("tools/a.cc", "#include <CLI/CLI.hpp>", True),
        ("tools/a_test.cc", "#include <gtest/gtest.h>", False),
        ("src/chat/a.cc", "#include <vector>", False),
    ]

    def test_violations_are_found(self):
        rules = Rules((ROOT / "docs/architecture.md").read_text())
        for name, text, is_wrong in self.CASES:
            with self.subTest(name=name, text=text), tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / name
                path.parent.mkdir(parents=True)
                path.write_text(text + "\n")
                self.assertEqual(bool(violations(Path(folder), [Path(name)], rules)), is_wrong)


if __name__ == "__main__":
    unittest.main()
