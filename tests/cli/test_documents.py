"""What documents show of `simulate-agent` is what it prints."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from pathlib import Path
from typing import get_args

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
from kvtool.traces.trace_request import Prompt, TraceRequest

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


COUNTED = (*DOCUMENTS, "docs/roadmap.md", "docs/extending.md", "docs/cli.md")


def test_formats_are_counted() -> None:
    """CHANGELOG.md tells of a release, so it is not among them."""
    told = {
        document: set(re.findall(r"(\d+)\s+formats", (ROOT / document).read_text()))
        for document in COUNTED
    }
    assert told["README.md"] and told["docs/roadmap.md"]
    assert set().union(*told.values()) == {str(len(FORMATS))}


def test_the_recipe_for_a_format_has_all_there_is() -> None:
    recipes = (ROOT / "docs" / "extending.md").read_text()
    recipe = recipes.split("## A trace format")[1].split("\n## ")[0]
    names = {prompt.__name__ for prompt in get_args(Prompt)}
    names |= {field.name for field in fields(TraceRequest)}
    assert {name for name in names if f"`{name}`" not in recipe} == set()


def test_make_demo_replays_every_trace() -> None:
    traces = sorted(path.name for path in (ROOT / "examples" / "traces").iterdir())
    assert traces == ["agents.jsonl", "append.jsonl", "truncation.jsonl", "upload-first.jsonl"]
    text = (ROOT / "examples" / "README.md").read_text()
    assert all(f"examples/traces/{name}" in text for name in traces)
    assert "for trace in examples/traces/*.jsonl" in (ROOT / "Makefile").read_text()
