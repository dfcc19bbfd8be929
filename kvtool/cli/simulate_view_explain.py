"""One request in full: what hit, what missed, and the text where it parts from another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from kvtool.cli.printable import printable
from kvtool.cli.simulate_drawing import note, percent, section, table

SHOWN_SPANS = 40

Row = Mapping[str, Any]


def explain_section(document: Row) -> RenderableType | None:
    found = document["explain"]
    if found is None:
        return None
    share = found["hit_tokens"] / found["prompt_tokens"] if found["prompt_tokens"] else None
    title = (
        f"Request {printable(found['id'])} ({printable(str(found['place']))}): "
        f"{found['hit_tokens']:,} of {found['prompt_tokens']:,} tokens hit ({percent(share)})"
    )
    spans = table(
        {"tokens": "left", "": "left", "cause": "left", "of": "left"},
        (_span(span) for span in found["spans"][:SHOWN_SPANS]),
    )
    return section(title, spans, *_difference(found), *_rest(found))


def _span(span: Row) -> Iterator[str]:
    yield f"{span['start']:,} - {span['stop']:,}"
    yield span["kind"]
    yield span.get("cause") or ""
    last = span.get("last_message")
    goes_on = last is not None and last > (-1 if span["message"] is None else span["message"])
    yield _where(span) + (f", up to message {last}" if goes_on else "")


def _where(part: Row) -> str:
    """The message and its field; the tools and the template have no message."""
    field, message = part.get("field") or "", part.get("message")
    return f"message {message}, {field}" if message is not None and message >= 0 else field


def _difference(found: Row) -> Iterator[RenderableType]:
    difference, other = found["first_difference"], found["compared_with"]
    if other is not None:
        shared = f"it begins like {printable(other['id'])} for {other['shared_tokens']:,} tokens"
        yield note(shared + ("" if other["same_namespace"] else ", of another model or salt"))
    if difference is None:
        return
    pattern = f": {printable(difference['pattern'])}" if difference.get("pattern") else ""
    where = _where(difference)
    yield Text(f"  first difference at token {difference['token']:,}, {where}{pattern}")
    for name, key in (("was", "expected_window"), ("is", "found_window")):
        if difference.get(key) is not None:
            yield Text(f"    {name:>3}  ", style="dim").append(printable(difference[key]))


def _rest(found: Row) -> Iterator[RenderableType]:
    if found["would_be_hit_rate"] is not None:
        yield note(f"without {found['main_cause']}: {percent(found['would_be_hit_rate'])}")
    if found["capacity_blocks"]:
        yield note(
            f"a cache of {found['capacity_blocks']:,} blocks would have had what was evicted"
        )
    for line in (found["advice"], *found["notes"]):
        if line:
            yield note(printable(line))
