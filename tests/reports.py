"""Known failures of other KV-cache systems: which test covers each, or why none does.

A test that covers a report carries `@pytest.mark.report("S17")`. `make reports` prints the list;
tests/test_reports.py holds it complete.
"""

import ast
import json
from pathlib import Path

HERE = Path(__file__).parent
REPORTS = json.loads((HERE / "reports.json").read_text())


def marks_in(path: Path) -> dict[str, list[str]]:
    """report id -> tests of this file that carry its mark (also through pytest.param)."""
    found: dict[str, list[str]] = {}
    tree = ast.parse(path.read_text())
    owner = {
        inner: node.name
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "report"
        ):
            test = f"{path.relative_to(HERE)}::{owner.get(node, '*')}"
            for argument in node.args:
                assert isinstance(argument, ast.Constant), f"{test}: report ids are literals"
                found.setdefault(argument.value, []).append(test)
    return found


def coverage() -> dict[str, list[str]]:
    covered: dict[str, list[str]] = {}
    for path in sorted(HERE.rglob("test_*.py")):
        for report, tests in marks_in(path).items():
            covered.setdefault(report, []).extend(tests)
    return covered


def main() -> None:
    covered = coverage()
    for report, entry in REPORTS.items():
        print(f"{report} [{','.join(entry['classes'])}] {entry['title']}")
        for test in covered.get(report, []):
            print(f"    {test}")
        if "why_not" in entry:
            print(f"    not tested: {entry['why_not']}")
    print(f"{len(covered)} of {len(REPORTS)} reports have tests; every other one has a reason.")


if __name__ == "__main__":
    main()
