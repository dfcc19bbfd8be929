"""`--diff A B`: two runs by their keys, or two files as prompts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from kvtool.cache.block_pool import Tokens
from kvtool.cli.inspect_difference import difference_lines, namespace_lines
from kvtool.cli.inspect_model import decoder_for, identity_of
from kvtool.cli.inspect_prompt import asked_tokens
from kvtool.cli.inspect_request import InspectRequest
from kvtool.cli.inspect_text import count, printable, short_key, shortened
from kvtool.cli.output import write, write_json
from kvtool.cli.prompt import read_prompt
from kvtool.cli.sizes import format_size
from kvtool.config import EngineConfig
from kvtool.errors import ConfigError
from kvtool.inspection.diff import Diff, DiffSide, diff_entries, diff_prompts
from kvtool.tiers.disk.catalog import Catalog

NAME_WIDTH = 40


def show_diff(catalog: Catalog, request: InspectRequest, engine: EngineConfig) -> None:
    """Two names of existing files are files, anything else is keys."""
    assert request.diff is not None
    are_files = all(os.path.isfile(name) for name in request.diff)
    diff = _of_files if are_files else _of_keys
    found = diff(catalog, request, engine, *request.diff)
    if request.format == "json":
        write_json(found)
    else:
        write("".join(f"{line}\n" for line in diff_lines(found)))


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
        yield "No token differs where both are known: one is the beginning of the other."
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
