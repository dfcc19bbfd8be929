"""Finds the text of a prompt in the cache at any offset: rsync's search, then extension.

Every window of the prompt is looked up by its rolling hash. Where a cached block holds the same
tokens, the run through it is followed along the donor's chain in both directions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvtool.cache.block_pool import Tokens
from kvtool.reuse.donor_source import MIN_CONTEXT_TOKENS, DonorSource
from kvtool.reuse.extent import Extent
from kvtool.reuse.refusals import SHORTER_THAN_MIN_RUN, Limits, is_too_short, refuse_donor
from kvtool.reuse.run import Run


class Found(NamedTuple):
    """runs: they may overlap; by place of their first whole block, then last used donor first; what
    is found through a block behind a bare header alone comes last.

    num_verified: tokens found equal to a donor's, at most limits.max_depth * (n - first).
    refused: how often each rule of `refusals` said no.
    """

    runs: list[Run]
    num_verified: int
    refused: Counter[str]


def find_runs(
    tokens: Tokens,
    first: int,
    source: DonorSource,
    namespace: bytes,
    *,
    limits: Limits,
    excluded: Set[int] = frozenset(),
) -> Found:
    """All maximal runs in prompt positions [first, n) that hold at least one whole donor block.

    A (chain, delta) diagonal is followed once. Of text with many donors only the last used are
    looked at, and no token is compared with more than limits.max_depth of them (see `Extent`).
    excluded: blocks that must not donate.
    """
    tokens = np.ascontiguousarray(tokens, dtype=np.int32)
    extent = Extent(tokens, first, source, limits.max_depth)
    newest = source.newest(tokens[first:], namespace)
    runs, refused = [], Counter[str]()
    followed: set[tuple[int, int]] = set()  # (block, prompt position of its slot 0)
    for block, start in _candidates(newest, extent, source):
        if (block, start) in followed or block in excluded or extent.is_exhausted(start):
            continue
        rule = refuse_donor(start - source.home(block), source.first_token(block), limits)
        run = None if rule else extent.run(block, start)
        if run is not None:
            begin = run.start - run.offset
            followed.update(zip(run.blocks, range(begin, run.stop, source.block_size)))
            if is_too_short(run.num_tokens, limits.min_run):
                rule = SHORTER_THAN_MIN_RUN
            elif excluded.isdisjoint(run.blocks):
                runs.append(run)
        if rule:
            refused[rule] += 1
    return Found(runs, extent.num_verified, refused)


def _candidates(
    newest: npt.NDArray[np.int32], extent: Extent, source: DonorSource
) -> Iterator[tuple[int, int]]:
    """(block, prompt position of its slot 0), in order, while the prompt is not exhausted there.

    Blocks behind a bare header come last: they find what nobody else has.
    """
    bare = []
    for at in np.flatnonzero(newest >= 0).tolist():
        start = extent.first + at
        if extent.is_exhausted(start):
            continue
        for block in source.copies(int(newest[at])):
            if source.home(block) < MIN_CONTEXT_TOKENS:
                bare.append((block, start))
            else:
                yield block, start
    yield from bare
