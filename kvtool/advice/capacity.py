"""The smallest cache that finds nearly all that can be found."""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.advice.situation import Proposal, Situation
from kvtool.analysis.lru_curve import lru_curve

SHARES = ("0.95", "0.99", "1")  # of the hits of a cache that never evicts
MIN_GAIN = 0.01  # of the present misses


def capacity(situation: Situation) -> Iterator[Proposal]:
    """The smallest cache that reaches one of SHARES and finds enough of what is missed now."""
    curve = lru_curve(situation.accesses)
    hits = curve.at(situation.num_blocks)[1]
    enough = hits + MIN_GAIN * (situation.accesses.num_tokens - hits)
    for share in SHARES:
        wanted = curve.capacity_for(share)
        if wanted is not None and curve.at(wanted)[1] >= enough:
            yield _proposal(situation, wanted, share)
            return


def _proposal(situation: Situation, blocks: int, share: str) -> Proposal:
    tokens = blocks * situation.workload.unit.block_tokens
    return Proposal(
        title=f"Give the cache {blocks:,} blocks instead of {situation.num_blocks:,}",
        why=(
            f"{situation.evicted_tokens:,} tokens were evicted before they were asked for again. "
            f"{blocks:,} blocks are the fewest with which LRU finds {100 * float(share):g} % of what a "
            f"cache without limit finds; they hold {tokens:,} tokens."
        ),
        replay=lambda: situation.replay(num_blocks=blocks),
        command=f"--capacity {blocks}",
    )
