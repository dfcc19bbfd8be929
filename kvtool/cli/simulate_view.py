"""The summary of a simulation for people; all of it is made from the document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from kvtool.cli.inspect_text import count
from kvtool.cli.printable import printable
from kvtool.cli.simulate_drawing import listed, note, seconds, section, to_text
from kvtool.cli.simulate_view_applied import applied_section
from kvtool.cli.simulate_view_explain import explain_section
from kvtool.cli.simulate_view_misses import (
    advice_section,
    causes_section,
    prefixes_section,
    sessions_section,
)
from kvtool.cli.simulate_view_rates import (
    capacity_section,
    memory_section,
    rates_section,
    schemes_section,
)
from kvtool.cli.simulate_view_replay import calibration_section, engine_section, replay_section

Document = Mapping[str, Any]

SECTIONS = (
    explain_section,
    rates_section,
    replay_section,
    engine_section,
    causes_section,
    capacity_section,
    schemes_section,
    memory_section,
    sessions_section,
    prefixes_section,
    advice_section,
    applied_section,
    calibration_section,
)


def render(document: Document) -> str:
    """Text as it goes to stdout: with colour on a terminal, plain anywhere else."""
    parts = [_head(document)]
    parts += [part for build in SECTIONS if (part := build(document)) is not None]
    parts += _tail(document)
    return to_text(*parts)


def _head(document: Document) -> RenderableType:
    source = document["input"]
    what = [
        count(source["requests"], "request"),
        f"{source['prompt_tokens']:,} prompt tokens",
        f"blocks of {count(source['block_size'], 'token')}",
    ]
    if source["sessions"]:
        what.append(count(source["sessions"], "session"))
    if source["duration_s"]:
        what.append(seconds(source["duration_s"]))
    files = printable(listed(source["files"], 3))
    lines = [
        Text(f"{files}: {', '.join(what)}", style="bold"),
        note(f"read as {source['title']} ({printable(source['why'])})"),
    ]
    if source["tokenizer"] is not None:
        lines.append(note(f"tokenised by {printable(source['tokenizer']['name'])}"))
    return Group(*lines)


def _tail(document: Document) -> Iterator[RenderableType]:
    reasons: dict[str, list[str]] = {}
    for part, reason in document["unanswered"].items():
        reasons.setdefault(reason, []).append(part)
    lines = [note(f"{', '.join(parts)}: {printable(reason)}") for reason, parts in reasons.items()]
    if lines:
        yield section("Not answered", *lines)
    yield section("Checks", *_checks(document))
    yield section("With", note(_options(document["effective"])))
    if document["outputs"]:
        yield section("Written", *(note(line) for line in _written(document["outputs"])))


def _checks(document: Document) -> Iterator[RenderableType]:
    failed = [name for name, holds in document["invariants"].items() if not holds]
    yield note(f"{count(len(document['invariants']), 'invariant')}, {len(failed)} broken")
    for name in failed:
        detail = document["invariant_details"][name]
        yield Text(f"  {name} is false ({detail}): please report it", style="bold red")


def _options(effective: Mapping[str, Any]) -> str:
    shown = {name: value for name, value in effective.items() if value not in (None, False, [])}
    return " ".join(f"{name}={_value(value)}" for name, value in shown.items())


def _value(value: object) -> str:
    if isinstance(value, list):
        return ",".join(str(item) for item in value)
    return printable(f"{value:g}" if isinstance(value, float) else str(value))


def _written(outputs: Mapping[str, Any]) -> Iterator[str]:
    for name, found in outputs.items():
        for one in found if isinstance(found, list) else [found]:
            kind = f"{name} {one['format']}" if "format" in one else name
            yield f"{kind}: {printable(one['path'])}"
