"""What documents show of `simulate-agent` is what it prints."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from command_line import Run
from cli.shown_output import ROOT, Shown, commands, shown

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


def test_make_demo_replays_every_trace() -> None:
    traces = sorted(path.name for path in (ROOT / "examples" / "traces").iterdir())
    assert traces == ["agents.jsonl", "append.jsonl", "truncation.jsonl", "upload-first.jsonl"]
    text = (ROOT / "examples" / "README.md").read_text()
    assert all(f"examples/traces/{name}" in text for name in traces)
    assert "for trace in examples/traces/*.jsonl" in (ROOT / "Makefile").read_text()
