"""What documents show of `simulate-agent` is what it prints."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from cli.shown_output import ROOT, Shown, commands, shown
from command_line import Run

from kvtool.advice.kinds import REWRITINGS, SETTINGS
from kvtool.analysis.causes import CAUSES
from kvtool.analysis.hit_rates import DEFINITIONS
from kvtool.analysis.policies.policy import POLICIES
from kvtool.analysis.scheme import SCHEMES
from kvtool.report.exports.export import EXPORTS
from kvtool.traces.formats import FORMATS

DOCUMENTS = ("README.md", "examples/README.md", "docs/simulate-agent.md")
SHOWN = [one for document in DOCUMENTS for one in shown(document)]
COMMANDS = [command for document in DOCUMENTS for command in commands(document)]


@pytest.fixture(autouse=True)
def _at_the_top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that a command writes lie in no checkout."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)


def test_each_document_shows_something() -> None:
    assert {one.document for one in SHOWN} == set(DOCUMENTS)
    assert all(one.lines for one in SHOWN)


@pytest.mark.parametrize("one", SHOWN, ids=lambda one: f"{one.document}: {one.command}")
def test_shown_lines_are_printed_in_this_order(kvtool: Run, one: Shown) -> None:
    result = kvtool(*one.arguments)
    assert result.code == 0, result.err
    printed = iter([line.rstrip() for line in result.out.splitlines()])
    for line in one.lines:
        assert line in printed, f"not printed, or not at this place: {line}"


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(kvtool: Run, command: str) -> None:
    result = kvtool(*shlex.split(command)[1:])
    assert result.code == 0, result.err


@pytest.mark.parametrize(
    "names",
    [FORMATS, DEFINITIONS, POLICIES, SCHEMES, CAUSES, REWRITINGS, SETTINGS, EXPORTS],
    ids=("formats", "rates", "policies", "schemes", "causes", "rewritings", "settings", "exports"),
)
def test_every_name_is_explained(names: dict[str, str]) -> None:
    text = (ROOT / "docs" / "simulate-agent.md").read_text()
    told = text.replace("`ttl:SECONDS`", "`ttl`").replace("--export ", "`").replace(":OUT`", "`")
    assert {name for name in names if f"`{name}`" not in told} == set()


def test_make_demo_replays_every_trace() -> None:
    traces = sorted(path.name for path in (ROOT / "examples" / "traces").iterdir())
    assert traces == ["agents.jsonl", "append.jsonl", "truncation.jsonl", "upload-first.jsonl"]
    text = (ROOT / "examples" / "README.md").read_text()
    assert all(f"examples/traces/{name}" in text for name in traces)
    assert "for trace in examples/traces/*.jsonl" in (ROOT / "Makefile").read_text()
