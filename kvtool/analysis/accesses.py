"""A trace as its accesses to blocks: what every figure of this package is computed from."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import nan

import numpy as np
import numpy.typing as npt

from kvtool.analysis.chains import Chains
from kvtool.traces.prepared import PreparedRequest, Unit

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Accesses:
    """R requests in the order they arrive, A accesses: the blocks of request r, from its first,
    are those in [starts[r], starts[r + 1]).

    Of text only full blocks are accesses; the tokens behind them are counted in `rest`. Of a
    hash-id trace every recorded id is a block, the last one perhaps partly filled.

    blocks [A]      prefix id: equal where namespace and content from position 0 on are equal;
                    never twice in one request
    contents [A]    content id: equal where the block's own content is, whatever is in front
    tokens [A]      tokens in the block
    starts [R + 1]
    rest [R]        prompt tokens behind the last block
    outputs [R]     recorded tokens of the reply, 0 where unknown
    namespaces [R]  requests share blocks where these are equal
    arrivals [R]    seconds, nan where unknown
    priorities [R]
    positions [R]   place in the file or files that the trace was read from
    """

    unit: Unit
    blocks: Ints
    contents: Ints
    tokens: Ints
    starts: Ints
    rest: Ints
    outputs: Ints
    namespaces: Ints
    arrivals: Floats
    priorities: Ints
    positions: Ints

    @classmethod
    def of(cls, requests: Iterable[PreparedRequest], unit: Unit) -> Accesses:
        """Reads the requests once and keeps none."""
        columns = {name: array("q") for name in _COLUMNS}
        arrivals = array("d")
        columns["starts"].append(0)
        chains = Chains(unit.block_size)
        for request in requests:
            chain = chains.add(request)
            tokens = _block_tokens(request, len(chain.blocks), unit)
            columns["blocks"].extend(chain.blocks)
            columns["contents"].extend(chain.contents)
            columns["tokens"].extend(tokens)
            columns["starts"].append(len(columns["blocks"]))
            columns["rest"].append(request.num_tokens - sum(tokens))
            columns["outputs"].append(request.num_output_tokens)
            columns["namespaces"].append(chain.namespace)
            arrival = request.request.arrival_s
            arrivals.append(nan if arrival is None else arrival)
            columns["priorities"].append(request.request.priority)
            columns["positions"].append(request.index)
        ints = {name: np.array(column, dtype=np.int64) for name, column in columns.items()}
        return cls(unit=unit, arrivals=np.array(arrivals, dtype=np.float64), **ints)

    def __len__(self) -> int:
        return len(self.blocks)

    @property
    def num_requests(self) -> int:
        return len(self.rest)

    @cached_property
    def num_tokens(self) -> int:
        """Of all prompts, those behind the last block too."""
        return int(self.tokens.sum() + self.rest.sum())

    @cached_property
    def requests(self) -> Ints:
        """[A]: the request of each access."""
        return np.repeat(np.arange(self.num_requests), np.diff(self.starts))

    @cached_property
    def depths(self) -> Ints:
        """[A]: how many blocks of its request are in front of each access."""
        return np.arange(len(self)) - self.starts[self.requests]

    @cached_property
    def previous(self) -> Ints:
        """[A]: the last access before it to the same block, -1 where it is the first."""
        order = np.argsort(self.blocks, kind="stable")
        same = self.blocks[order[1:]] == self.blocks[order[:-1]]
        previous = np.full(len(self), -1)
        previous[order[1:][same]] = order[:-1][same]
        return previous

    @cached_property
    def following(self) -> Ints:
        """[A]: the next access to the same block, -1 where it is the last."""
        following = np.full(len(self), -1)
        again = np.flatnonzero(self.previous >= 0)
        following[self.previous[again]] = again
        return following

    @property
    def num_blocks(self) -> int:
        """Distinct ones: a cache that holds so many never evicts."""
        return int(np.count_nonzero(self.previous < 0))

    def by_request(self) -> Iterator[list[int]]:
        """The blocks of each request."""
        bounds = self.starts.tolist()
        for start, stop in pairwise(bounds):
            yield self.blocks[start:stop].tolist()

    def reordered(self, order: Ints) -> Accesses:
        """The same requests in another order. order: int64 [R], a permutation."""
        lengths = np.diff(self.starts)[order]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        shifts = np.repeat(self.starts[:-1][order] - starts[:-1], lengths)
        of_accesses = np.arange(len(self)) + shifts
        ints = {name: getattr(self, name)[of_accesses] for name in _OF_ACCESSES}
        ints |= {name: getattr(self, name)[order] for name in _OF_REQUESTS}
        return Accesses(unit=self.unit, starts=starts, arrivals=self.arrivals[order], **ints)


_OF_ACCESSES = ("blocks", "contents", "tokens")
_OF_REQUESTS = ("rest", "outputs", "namespaces", "priorities", "positions")
_COLUMNS = ("starts", *_OF_ACCESSES, *_OF_REQUESTS)


def _block_tokens(request: PreparedRequest, num_blocks: int, unit: Unit) -> list[int]:
    """Full ones, but for a last one that is cut short by the end of the prompt."""
    tokens = [unit.block_tokens] * num_blocks
    missing = num_blocks * unit.block_tokens - request.num_tokens
    if missing > 0:
        tokens[-1] -= missing
    return tokens
