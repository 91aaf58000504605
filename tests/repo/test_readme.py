"""README.md says only what is true: test_readme.py STOKER, the path of the program.

Blocks marked `console` are run: each "$ command" in bash, and the lines below it are its whole output. Blocks marked `sh` are not
run, for they serve, download or talk; their commands and options must exist.
"""
import os
import re
import shlex
import subprocess
import sys
import unittest

from tree import ROOT

STOKER = ""
README = (ROOT / "README.md").read_text()


def blocks(markdown, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", markdown, re.MULTILINE | re.DOTALL)


def sessions(block):
    """(command, output) for each "$ command" of a console block."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [tuple(part.split("\n", 1)) for part in parts]


def commands(block):
    """The simple commands of an sh block as lists of words; pipes and background marks separate them."""
    text = block.replace("\\\n", " ")
    lines = [shlex.split(line, comments=True) for line in text.splitlines()]
    found = []
    for line in lines:
        start = 0
        for i, word in enumerate(line + ["|"]):
            if word in ("|", "&", "&&", ";"):
                found.append(line[start:i])
                start = i + 1
    return [words for words in found if words]


def run(command):
    environment = dict(os.environ, PATH=os.path.dirname(STOKER) + ":" + os.environ["PATH"], COLUMNS="100")
    return subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)


def unknown(words, help_of):
    """What of a command does not exist, or None."""
    name, arguments = words[0], words[1:]
    if "/" in name and not name.startswith("build/"):
        return None if os.access(ROOT / name, os.X_OK) else f"{name} is not there"
    if os.path.basename(name) != "stoker":
        return None
    known = set(re.findall(r"--[a-z][a-z0-9-]*", help_of(arguments[0]) or ""))
    if not known:
        return f"stoker has no command {arguments[0]}"
    wrong = [word for word in arguments[1:] if word.startswith("--") and word.split("=")[0] not in known]
    return f"stoker {arguments[0]} has no option {wrong[0]}" if wrong else None


def help_of_stoker(command):
    ran = run(f"stoker {shlex.quote(command)} --help")
    return ran.stdout if ran.returncode == 0 else None


class Readme(unittest.TestCase):
    maxDiff = None

    def test_console_blocks_print_what_they_show(self):
        shown = [session for block in blocks(README, "console") for session in sessions(block)]
        self.assertTrue(shown)
        for command, output in shown:
            with self.subTest(command=command):
                ran = run(command)
                self.assertEqual(ran.stdout, output, ran.stderr)

    def test_commands_exist(self):
        shown = [words for block in blocks(README, "sh") for words in commands(block)]
        self.assertTrue(shown)
        for words in shown:
            with self.subTest(command=words):
                self.assertIsNone(unknown(words, help_of_stoker))

    def test_curl_is_what_run_prints(self):
        printed = re.search(r"^curl .*\n.*$", (ROOT / "run").read_text(), re.MULTILINE).group()
        self.assertIn(printed.replace("$2", "http://127.0.0.1:8000").replace("\\\\", "\\"), README)

    def test_every_package_has_its_reason(self):
        lists = re.findall(r"^packages_\w+=\(([^)]*)\)", (ROOT / "tools/shell.sh").read_text(), re.MULTILINE)
        packages = [package for text in lists for package in text.split()]
        self.assertTrue(packages)
        self.assertEqual([package for package in packages if f"`{package}`" not in README], [])


class CanFail(unittest.TestCase):
    def test_missing_commands_and_options_are_found(self):
        def help_of(name):
            return "--port" if name == "serve" else None
        self.assertIsNotNone(unknown(["./gone"], help_of))
        self.assertIsNotNone(unknown(["stoker", "fly"], help_of))
        self.assertIsNotNone(unknown(["stoker", "serve", "demo", "--wings"], help_of))
        self.assertIsNone(unknown(["stoker", "serve", "demo", "--port=1"], help_of))
        self.assertIsNone(unknown(["./run"], help_of))

    def test_blocks_are_read(self):
        self.assertEqual(sessions("$ a b\nout\nmore\n$ c\n"), [("a b", "out\nmore\n"), ("c", "")])
        self.assertEqual(commands("./run -- --port 1  # why\necho 'x y' | stoker a \\\n  --b\n"),
                         [["./run", "--", "--port", "1"], ["echo", "x y"], ["stoker", "a", "--b"]])


if __name__ == "__main__":
    STOKER = os.path.abspath(sys.argv.pop())
    unittest.main()
