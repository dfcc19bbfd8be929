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
    title = f"Request {printable(found['id'])} ({printable(str(found['place']))}): {_found(found)}"
    spans = table(
        {"tokens": "left", "": "left", "cause": "left", "of": "left"},
        (_span(span) for span in found["spans"][:SHOWN_SPANS]),
    )
    return section(title, spans, *_repaired(found), *_difference(found), *_rest(found))


def _found(found: Row) -> str:
    """By all sources: what stands in front, and what is taken from elsewhere."""
    hit, shifted, prompt = (found[f"{name}_tokens"] for name in ("hit", "shifted", "prompt"))
    share = percent((hit + shifted) / prompt if prompt else None)
    if not shifted and not found["recomputed_tokens"]:
        return f"{hit:,} of {prompt:,} tokens hit ({share})"
    return (
        f"{hit + shifted:,} of {prompt:,} tokens found ({share}): {hit:,} in front, {shifted:,} at "
        "another position"
    )


def _span(span: Row) -> Iterator[str]:
    yield f"{span['start']:,} - {span['stop']:,}"
    yield span["kind"]
    yield span.get("cause") or ""
    last = span.get("last_message")
    goes_on = last is not None and last > (-1 if span["message"] is None else span["message"])
    yield _where(span) + (f", up to message {last}" if goes_on else "")


def _repaired(found: Row) -> Iterator[RenderableType]:
    if again := found["recomputed_tokens"]:
        yield note(
            f"of the moved text, {found['shifted_tokens']:,} tokens are taken as they are and "
            f"{again:,} are computed again (--repair)"
        )


def _where(part: Row) -> str:
    """The message and its field; the tools and the template have no message."""
    field, message = part.get("field") or "", part.get("message")
    return f"message {message}, {field}" if message is not None and message >= 0 else field


def _difference(found: Row) -> Iterator[RenderableType]:
    difference, other = found["first_difference"], found["compared_with"]
    if other is not None:
        yield note(_compared(other, found["shares_most_with"]))
    if difference is None:
        return
    pattern = f": {printable(difference['pattern'])}" if difference.get("pattern") else ""
    where = _where(difference)
    yield Text(f"  first difference at token {difference['token']:,}, {where}{pattern}")
    for name, key in (("was", "expected_window"), ("is", "found_window")):
        if difference.get(key) is not None:
            yield Text(f"    {name:>3}  ", style="dim").append(printable(difference[key]))


def _compared(other: Row, longest: Row) -> str:
    shared = f"{other['shared_tokens']:,} tokens"
    if other["id"] == longest["id"] or other["shared_tokens"] >= longest["shared_tokens"]:
        whose = "" if other["same_namespace"] else ", of another model or salt"
        return f"it begins like {printable(other['id'])} for {shared}{whose}"
    return (
        f"compared with {printable(other['id'])}, the request before it of its session: they share "
        f"the first {shared}; of all earlier ones {printable(longest['id'])} shares most, "
        f"{longest['shared_tokens']:,}"
    )


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
