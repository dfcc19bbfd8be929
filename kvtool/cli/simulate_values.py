"""Values of `simulate-agent` options: lists, capacities, and formats with their files.

Defaults are lists already and pass unchanged (see `parsers`).
"""

from __future__ import annotations

from typing import NamedTuple

from kvtool.cli.parsers import choice, integer, non_empty
from kvtool.cli.sizes import parse_size

MAX_CAPACITY = 2**30  # blocks


class Capacity(NamedTuple):
    """A number of blocks, or bytes."""

    blocks: int | None
    num_bytes: int | None = None


class Export(NamedTuple):
    format: str
    path: str


def capacities(text: str) -> tuple[Capacity, ...]:
    return tuple(_capacity(item) for item in _items(text))


def policies(text: str | tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(text, str):
        return text
    from kvtool.analysis.policies.policy import parse_policy

    return tuple(parse_policy(name).name for name in _items(text))


def schemes(text: str | tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(text, str):
        return text
    from kvtool.analysis.scheme import SCHEMES

    return tuple(choice(SCHEMES)(name) for name in _items(text))


def input_format(text: str) -> str:
    from kvtool.traces.formats import FORMATS

    return choice(FORMATS)(text)


def export(text: str) -> Export:
    from kvtool.report.exports.export import EXPORTS

    name, _, path = text.partition(":")
    known = choice(EXPORTS)(name)
    if not path:
        raise ValueError(f"{text!r} names no file; allowed: {known}:OUT.")
    return Export(known, out_file(path))


def out_file(path: str) -> str:
    if path == "-":
        raise ValueError("stdout carries the report; name a file.")
    return non_empty(path)


def _capacity(text: str) -> Capacity:
    if text[-1:].isdigit():
        return Capacity(integer(1, MAX_CAPACITY)(text))
    return Capacity(None, parse_size(text))


def _items(text: str) -> list[str]:
    """Of a list with commas, each once."""
    items = [item.strip() for item in text.split(",")]
    if not all(items):
        raise ValueError(f"{text!r} has an empty item; allowed: a list like A,B.")
    return list(dict.fromkeys(items))
