"""`--diff A B`: two runs by their keys, or two files as prompts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from kvtool.cache.block_pool import Tokens
from kvtool.cli.inspect_difference import difference_lines, namespace_lines
from kvtool.cli.inspect_model import decoder_for, identity_of
from kvtool.cli.inspect_prompt import asked_tokens
from kvtool.cli.inspect_request import InspectRequest
from kvtool.cli.inspect_text import count, short_key, shortened
from kvtool.cli.output import write, write_json
from kvtool.cli.printable import printable
from kvtool.cli.prompt import check_stdin_once, read_prompt
from kvtool.cli.sizes import format_size
from kvtool.config import EngineConfig
from kvtool.errors import ConfigError
from kvtool.inspection.diff import Diff, DiffSide, diff_entries, diff_prompts
from kvtool.tiers.disk.catalog import Catalog

NAME_WIDTH = 40

_KEY = re.compile("[0-9a-f]+")


def show_diff(catalog: Catalog, request: InspectRequest, engine: EngineConfig) -> None:
    """Hex digits that name no file are the beginning of a key, anything else is a file."""
    assert request.diff is not None
    are_keys = [_is_key(name) for name in request.diff]
    if any(are_keys) and not all(are_keys):
        a_key, a_file = sorted(request.diff, key=_is_key, reverse=True)
        raise ConfigError(
            f"{a_key!r} is a key, {a_file!r} a file; --diff compares two keys or two files.",
            hint=f"kvtool inspect-cache --file {a_file} compares a file with all that is stored.",
        )
    diff = _of_keys if all(are_keys) else _of_files
    found = diff(catalog, request, engine, *request.diff)
    if request.format == "json":
        write_json(found)
    else:
        write("".join(f"{line}\n" for line in diff_lines(found)))


def _is_key(name: str) -> bool:
    return bool(_KEY.fullmatch(name)) and not os.path.exists(name)


def _of_keys(
    catalog: Catalog, request: InspectRequest, engine: EngineConfig, a: str, b: str
) -> Diff:
    if request.raw or request.system is not None:
        raise ConfigError("--raw and --system go with --diff of two files.")
    decode = None
    if request.show_text:
        decoders = decoder_for(engine, [catalog.find(a), catalog.find(b)])
        decode = next(iter(decoders.values()))
    return diff_entries(catalog, a, b, decode)


def _of_files(
    catalog: Catalog, request: InspectRequest, engine: EngineConfig, a: str, b: str
) -> Diff:
    check_stdin_once((a, b))
    conversations = [read_prompt(None, [name], request.system) for name in (a, b)]
    identity = identity_of(engine)

    def prompt(index: int) -> tuple[str, Tokens]:
        return (a, b)[index], asked_tokens(identity, conversations[index], raw=request.raw)

    return diff_prompts(
        catalog, identity.namespace, prompt(0), prompt(1), identity.tokenizer.decode
    )


def diff_lines(diff: Diff) -> Iterator[str]:
    names = [_name(side) for side in (diff.a, diff.b)]
    width = max(len(name) for name in names)
    for name, side in zip(names, (diff.a, diff.b)):
        yield f"{name:<{width}}  {_side_line(side)}"
    if diff.differences:
        yield "Their namespaces differ, so they share no KV:"
        yield from namespace_lines(diff.differences)
    yield f"{count(diff.common_tokens, 'token')} in common"
    if diff.first_difference is None:
        is_same = (diff.a.start, diff.a.tokens) == (diff.b.start, diff.b.tokens)
        what = "they are the same" if is_same else "one is the beginning of the other"
        yield f"No token differs where both are known: {what}."
        return
    yield f"The first difference is at token {diff.first_difference.position}:"
    yield from difference_lines(diff.first_difference, *names)


def _name(side: DiffSide) -> str:
    is_key = len(side.name) > NAME_WIDTH and Path(side.name).name == side.name
    return short_key(side.name) if is_key else shortened(printable(side.name), NAME_WIDTH)


def _side_line(side: DiffSide) -> str:
    known = f"{count(side.tokens, 'token')}"
    if side.start:
        known += f" from position {side.start} on (what stands in front is not stored)"
    stored = f"{side.stored_tokens:,} of them stored and found"
    return f"{known}, {stored}, in {count(side.runs, 'run')} of {format_size(side.bytes)}"
