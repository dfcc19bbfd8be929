"""The smallest cache that finds nearly all that can be found."""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.advice.situation import Proposal, Situation
from kvtool.analysis.lru_curve import lru_curve

SHARE = "0.95"  # of the hits of a cache that never evicts


def capacity(situation: Situation) -> Iterator[Proposal]:
    """More blocks, where these are too few for that share."""
    wanted = lru_curve(situation.accesses).capacity_for(SHARE)
    if wanted is None or wanted <= situation.num_blocks:
        return
    blocks, tokens = wanted, wanted * situation.workload.unit.block_tokens
    yield Proposal(
        title=f"Give the cache {blocks:,} blocks instead of {situation.num_blocks:,}",
        why=(
            f"{situation.evicted_tokens:,} tokens were evicted before they were asked for again. "
            f"{blocks:,} blocks are the fewest with which LRU finds {float(SHARE):.0%} of what a "
            f"cache without limit finds; they hold {tokens:,} tokens."
        ),
        replay=lambda: situation.replay(num_blocks=blocks),
        command=f"--capacity {blocks}",
    )
