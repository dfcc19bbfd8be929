"""A trace as the cache sees it, from any kind of prompt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from kvtool.errors import InputError
from kvtool.traces.hash_symbols import HashSymbols
from kvtool.traces.open_trace import Trace
from kvtool.traces.prepared import PreparedRequest, Symbols, Unit
from kvtool.traces.sharing import namespace_of
from kvtool.traces.trace_request import BlockPrompt, LengthPrompt, TraceRequest

_NO_REPLY: Symbols = np.empty(0, dtype=np.int32)


class Renderer(Protocol):
    """Turns text into token ids."""

    def render(self, index: int, request: TraceRequest) -> PreparedRequest:
        """index: see `PreparedRequest`. The prompt is a chat or text."""
        ...


def unit_of(trace: Trace, block_size: int) -> Unit:
    """Hash ids are blocks already; text is cut into blocks of `block_size` tokens."""
    if trace.kind == "text":
        return Unit(tokens_per_symbol=1, block_size=block_size)
    return Unit(tokens_per_symbol=trace.block_size or block_size, block_size=1)


def prepare(
    trace: Trace, renderer: Renderer | None, unit: Unit, *, load_only: bool = False
) -> Iterator[PreparedRequest]:
    """The requests in the order of the trace. renderer: needed for text only. Raises `InputError`
    for a trace of lengths, unless `load_only`: then each of its blocks is new, so that it loads an
    engine and hits nothing."""
    if trace.kind == "lengths" and not load_only:
        raise InputError(
            f"{trace.format.title} has lengths only: whether requests share anything is unknown, "
            "so no question about a cache has an answer.",
            hint="Log hash ids or messages with the requests.",
        )
    symbols = HashSymbols()
    for index, request in trace.indexed():
        prompt = request.prompt
        if isinstance(prompt, BlockPrompt):
            yield _prepared(index, request, symbols.of(prompt, request.scope), prompt.num_tokens)
        elif isinstance(prompt, LengthPrompt):
            blocks = symbols.fresh(-(-prompt.num_tokens // unit.tokens_per_symbol))
            yield _prepared(index, request, blocks, prompt.num_tokens)
        else:
            assert renderer is not None, "text needs a renderer"
            yield renderer.render(index, request)


def _prepared(index: int, request: TraceRequest, symbols: Symbols, tokens: int) -> PreparedRequest:
    return PreparedRequest(
        index=index,
        request=request,
        symbols=symbols,
        num_tokens=tokens,
        namespace=namespace_of(request),
        reply=_NO_REPLY,
        num_output_tokens=request.output_tokens or 0,
    )
