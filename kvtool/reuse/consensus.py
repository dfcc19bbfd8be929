"""Which means of exact copies are worth making once a request has left its KV in the pool.

The KV of a text depends on what stood in front of it. Averaged over several contexts it fits a new
one better than any single copy does:

    m += (x - m) / n      for the n-th copy x, n up to MAX_MERGED

with keys turned to the home of the mean. A mean is never changed where somebody may be reading it:
the next one is made in blocks of its own and takes its place when it is complete. So it can be
given up, or begun again, at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvtool.cache.block_pool import Tokens
from kvtool.reuse.choose import choose
from kvtool.reuse.content_index import ContentIndex
from kvtool.reuse.donor_chains import Chain, DonorChains
from kvtool.reuse.donors import CONTEXT_TOKENS, slack_of
from kvtool.reuse.refusals import Limits, lacks_bos
from kvtool.reuse.repair import Repair
from kvtool.reuse.rolling_hash import Hashes, prefix_hashes
from kvtool.reuse.run import Run
from kvtool.reuse.runs import find_runs

MAX_MERGED = 4  # copies; more gain nothing measurable
_LENGTH_FACTOR = np.uint64(0xD6E8FEB86659FD93)


class Contribution(NamedTuple):
    """m += (x - m) / number. run: x at the positions of the mean, `delta` turns it to them."""

    run: Run
    number: int


class MeanPlan(NamedTuple):
    """A mean to be made. contributions: by number, the first fills it. The other fields are
    those of `donor_chains.Chain`. replaces: the mean that it continues."""

    tokens: Tokens
    home: int
    first_token: int
    context: Tokens
    num_merged: npt.NDArray[np.int32]
    contexts: Hashes
    contributions: tuple[Contribution, ...]
    replaces: Chain | None = None


class Text(NamedTuple):
    """Exact KV of one sequence. tokens: int32 [n]. blocks: the cached ones that hold it, from
    position 0 on. first: what stands in front of this position was looked at before."""

    tokens: Tokens
    blocks: Sequence[int]
    first: int
    namespace: bytes


def plan_means(
    text: Text, index: ContentIndex, chains: DonorChains, limits: Limits
) -> list[MeanPlan]:
    """Means of parts of `text` and of what the pool knows of them. Changes nothing.

    A context counts once in every block: the tokens in front of the block tell contexts apart.
    A text computed at position 0 leaves out its first block, which is an attention sink.
    """
    if lacks_bos(int(text.tokens[0]), limits.bos_id):
        return []
    size = index.block_size
    contexts = _contexts(text.tokens)
    found = find_runs(text.tokens, text.first, chains, text.namespace, limits=limits).runs
    known = {chains.chain(run.blocks[0]): run for run in reversed(found)}
    known = {chain: run for chain, run in known.items() if chain.is_mean}
    plans = [_continued(text, contexts, chain, run, size) for chain, run in known.items()]
    found = find_runs(text.tokens, text.first, index, text.namespace, limits=limits).runs
    own = set(text.blocks)
    others = [run for run in found if own.isdisjoint(run.blocks)]
    for run in choose(others, Repair("none"), limits.min_run, size):
        behind_sink = _without_sink(run, limits.min_run, size)
        if behind_sink and not any(_covers(each, behind_sink) for each in known.values()):
            plans.append(_begun(text, contexts, behind_sink, index))
    return [plan for plan in plans if plan is not None]


def _without_sink(run: Run, min_run: int, block_size: int) -> Run | None:
    if not run.at_sink:
        return run
    start = run.start + block_size
    return run.cut(start, run.stop, block_size) if run.stop - start >= min_run else None


def _covers(mean: Run, run: Run) -> bool:
    """But for the slack that a ranking of donors forgives."""
    both = min(mean.stop, run.stop) - max(mean.start, run.start)
    return both >= run.num_tokens - slack_of(run)


def _begun(text: Text, keys_at: Hashes, run: Run, index: ContentIndex) -> MeanPlan | None:
    """The mean of two: where the other copy stands, so that its keys need no turn."""
    size, home = index.block_size, run.start - run.delta
    places = np.arange(0, run.num_tokens, size)
    other = index.context(run.blocks[0], run.offset, home)
    other = np.concatenate((other, text.tokens[run.start : run.stop]))
    contexts = np.zeros((len(places), MAX_MERGED), dtype=np.uint64)
    contexts[:, 0] = _contexts(other)[home + places]
    contexts[:, 1] = keys_at[run.start + places]
    if contexts[0, 0] == contexts[0, 1]:
        return None
    there = Run(home, home + run.num_tokens, 0, run.blocks, run.offset)
    here = _own_run(text, home, run.start, run.num_tokens, size)
    return MeanPlan(
        tokens=text.tokens[run.start : run.stop].copy(),
        home=home,
        first_token=int(text.tokens[0]),
        context=_in_front(text, run.start),
        num_merged=np.full(len(places), 2, dtype=np.int32),
        contexts=contexts,
        contributions=(Contribution(there, 1), Contribution(here, 2)),
    )


def _continued(
    text: Text, keys_at: Hashes, mean: Chain, run: Run, block_size: int
) -> MeanPlan | None:
    """`run`: the text's tokens in the blocks of `mean`; blocks that it fills are continued."""
    begin = mean.home + run.delta  # where in the text slot 0 of the mean would be
    places = _filled_places(mean, run, begin, block_size)
    keys = keys_at[begin + places * block_size]
    counts, contexts = np.array(mean.num_merged), mean.contexts.copy()
    is_new = counts[places] < MAX_MERGED
    is_new &= (contexts[places] != keys[:, None]).all(axis=1)
    places, keys = places[is_new], keys[is_new]
    if not len(places):
        return None
    contexts[places, counts[places]] = keys
    counts[places] += 1
    end = mean.home + len(mean.tokens)
    contributions = [Contribution(Run(mean.home, end, 0, tuple(mean.blocks[0].tolist()), 0), 1)]
    for number, stretch in _stretches(places, counts):
        at = mean.home + stretch.start * block_size
        length = min(mean.home + stretch.stop * block_size, end) - at
        own = _own_run(text, at, at + run.delta, length, block_size)
        contributions.append(Contribution(own, number))
    return MeanPlan(
        tokens=mean.tokens,
        home=mean.home,
        first_token=mean.first_token,
        context=mean.context if places[0] else _in_front(text, begin),
        num_merged=counts,
        contexts=contexts,
        contributions=tuple(sorted(contributions, key=lambda each: each.number)),
        replaces=mean,
    )


def _filled_places(mean: Chain, run: Run, begin: int, block_size: int) -> npt.NDArray[np.int64]:
    """Which blocks of the mean the run fills to their last token, its own sink left out."""
    first = -(-(max(run.start, block_size) - begin) // block_size)
    end = run.stop - begin
    last = len(mean.blocks[0]) if end == len(mean.tokens) else end // block_size
    return np.arange(first, last)


def _stretches(
    places: npt.NDArray[np.int64], counts: npt.NDArray[np.int32]
) -> list[tuple[int, range]]:
    """Neighbouring places of equal count, as (count, range of places)."""
    pairs = enumerate(zip(places.tolist(), counts[places].tolist()))
    groups = groupby(pairs, key=lambda each: (each[1][0] - each[0], each[1][1]))
    found = [[pair for _, pair in group] for _, group in groups]
    return [(group[0][1], range(group[0][0], group[-1][0] + 1)) for group in found]


def _own_run(text: Text, at: int, position: int, length: int, block_size: int) -> Run:
    """Tokens from `position` on of the text itself, wanted at `at`."""
    first, offset = divmod(position, block_size)
    last = (position + length - 1) // block_size
    blocks = tuple(text.blocks[first : last + 1])
    return Run(at, at + length, at - position, blocks, offset)


def _contexts(tokens: Tokens) -> Hashes:
    """int32 [n] -> uint64 [n + 1]: tells apart what stands in front of each position."""
    # With its length, which zeros in front do not change the hash by.
    lengths = np.arange(len(tokens) + 1).astype(np.uint64)
    hashes: Hashes = prefix_hashes(tokens) + lengths * _LENGTH_FACTOR
    return hashes


def _in_front(text: Text, position: int) -> Tokens:
    before: Tokens = text.tokens[max(0, position - CONTEXT_TOKENS) : position].copy()
    return before
