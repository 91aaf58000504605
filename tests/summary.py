"""Says how the tests went: summary.py REPORT.xml..., the JUnit reports of ctest.

Names what failed and what was skipped and why, then one line "N passed, N failed, N skipped". A test that pytest ran counts as
the tests that pytest counted in it. Exits 1 where a test failed or none ran.
"""
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

PYTEST_RESULT = re.compile(r"^(?=.*\bin [\d.]+s)(?:\d+ (?:passed|failed|skipped|errors?|warnings?|deselected)(?:, )?)+ in .*$", re.MULTILINE)


def counts_of_pytest(output):
    """(passed, failed, skipped) as pytest's closing line has them, or None where there is no such line."""
    lines = PYTEST_RESULT.findall(output)
    if not lines:
        return None
    numbers = {word.rstrip("s"): int(number) for number, word in re.findall(r"(\d+) (\w+)", lines[-1])}
    return numbers.get("passed", 0), numbers.get("failed", 0) + numbers.get("error", 0), numbers.get("skipped", 0)


def counts_of(case, output):
    """(passed, failed, skipped) of one test."""
    if case.get("status") == "fail" or case.find("failure") is not None:
        return 0, 1, 0
    if case.get("status") in ("notrun", "disabled"):
        return 0, 0, 1
    return 1, 0, 0


def reasons(output):
    """The lines of a test's output that say what it skips and why."""
    lines = output.splitlines()
    found = [line.strip() for line in lines if "SKIP" in line and "[  SKIPPED ]" not in line]
    found += [lines[i + 1].strip() for i, line in enumerate(lines[:-1]) if line.endswith(": Skipped")]
    return list(dict.fromkeys(found)) or ["it does not say why"]


def main():
    totals = [0, 0, 0]
    for report in sys.argv[1:]:
        if not os.path.exists(report):
            print(f"failed:  ctest wrote no {report}")
            totals[1] += 1
            continue
        for case in ElementTree.parse(report).iter("testcase"):
            output = case.findtext("system-out") or ""
            counts = counts_of_pytest(output) or counts_of(case, output)
            totals = [total + count for total, count in zip(totals, counts)]
            if counts[1]:
                print(f"failed:  {case.get('name')}")
            if counts[2]:
                print(f"skipped: {case.get('name')}: {'; '.join(reasons(output))}")
    print("{} passed, {} failed, {} skipped".format(*totals))
    return 1 if totals[1] or not totals[0] else 0


if __name__ == "__main__":
    sys.exit(main())
