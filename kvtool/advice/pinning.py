"""Keeping a prefix in the cache that many requests have and that is evicted between them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from kvtool.advice.pinned_replay import Prefix, replay_pinned
from kvtool.advice.situation import Proposal, Situation
from kvtool.analysis.accesses import Accesses, Ints
from kvtool.analysis.stack_distances import stack_distances
from kvtool.simulation.prefix_tree import PrefixNode, prefix_nodes

TRIED = 2  # prefixes
MAX_SHARE = 0.5  # of the cache, for one prefix


def pinning(situation: Situation) -> Iterator[Proposal]:
    """The prefixes that LRU at this capacity computes most often again."""
    accesses = situation.accesses
    if accesses.num_blocks <= situation.num_blocks or situation.settings.engine.reuse == "shift":
        return
    lost = lost_tokens(accesses, situation.num_blocks)
    found = [
        (_lost_of(node, accesses, lost), node)
        for node in prefix_nodes(accesses)
        if _num_blocks(node, accesses) <= MAX_SHARE * situation.num_blocks
    ]
    best = sorted(found, key=lambda each: (-each[0], each[1].id))[:TRIED]
    for again, node in best:
        if again:
            yield _proposal(situation, node, again)


def lost_tokens(accesses: Accesses, num_blocks: int) -> Ints:
    """Of each block: tokens that LRU has to compute again. Its depth in the stack says when."""
    again = (accesses.previous >= 0) & (stack_distances(accesses) > num_blocks)
    lost = np.bincount(accesses.blocks, weights=accesses.tokens * again)
    return lost.astype(np.int64)


def _proposal(situation: Situation, node: PrefixNode, again: int) -> Proposal:
    workload, accesses = situation.workload, situation.accesses
    request, blocks = int(accesses.requests[node.first]), _num_blocks(node, accesses)
    prepared = next(p for position, p in enumerate(workload) if position == request)
    symbols = prepared.symbols[: blocks * workload.unit.block_size]
    return Proposal(
        title=f"Pin the prefix of {node.start + node.tokens:,} tokens of request "
        f"{prepared.request.id}",
        why=(
            f"{node.requests:,} requests begin with it, and at {situation.num_blocks:,} blocks it "
            f"is evicted between them: {again:,} of its tokens are computed again. Pinned, it "
            f"takes {blocks:,} blocks for good."
        ),
        replay=partial(
            replay_pinned,
            workload,
            situation.settings,
            situation.num_blocks,
            Prefix(symbols, prepared.namespace),
        ),
    )


def _num_blocks(node: PrefixNode, accesses: Accesses) -> int:
    return -(-(node.start + node.tokens) // accesses.unit.block_tokens)


def _lost_of(node: PrefixNode, accesses: Accesses, lost: Ints) -> int:
    start = int(accesses.starts[accesses.requests[node.first]])
    blocks = accesses.blocks[start : start + _num_blocks(node, accesses)]
    return int(lost[blocks].sum())
