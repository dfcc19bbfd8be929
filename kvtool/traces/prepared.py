"""A request of a trace as the cache sees it: symbols, and what they weigh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvtool.traces.trace_request import TraceRequest

Symbols = npt.NDArray[np.int32]


class Unit(NamedTuple):
    """What a symbol of a trace is, and how many of them make a block.

    text           one symbol a token            tokens_per_symbol 1,   block_size 16
    hash-id trace  one symbol a recorded block   tokens_per_symbol 512, block_size 1
    """

    tokens_per_symbol: int
    block_size: int

    @property
    def block_tokens(self) -> int:
        return self.tokens_per_symbol * self.block_size


class Segment(NamedTuple):
    """Symbols [start, stop) of a prompt came from this part of the request.

    message: index into the chat's messages, -1 for the tools and what the template adds;
    field: content, tool_calls, tools, template.
    """

    start: int
    stop: int
    message: int
    field: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedRequest:
    """symbols: int32 [n], n > 0: equal symbols, equal content. num_tokens: what they stand for;
    the last symbol may weigh less than the unit's tokens_per_symbol. namespace: requests with
    different ones never share. reply: int32 [m], the symbols of the recorded reply as the model
    emitted them, empty where unknown; num_output_tokens: its length as recorded, 0 where unknown.
    segments: tile [0, n) of a chat prompt; empty for others.
    """

    index: int
    request: TraceRequest
    symbols: Symbols
    num_tokens: int
    namespace: bytes
    reply: Symbols
    num_output_tokens: int
    segments: tuple[Segment, ...] = ()
