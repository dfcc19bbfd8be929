"""Another eviction policy at the same capacity."""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.advice.situation import Proposal, Situation
from kvtool.analysis.policies.policy import parse_policy
from kvtool.analysis.policy_hits import policy_hits
from kvtool.cache.eviction import POLICIES


def eviction(situation: Situation) -> Iterator[Proposal]:
    """The engine's policy that finds most by analysis; by priority only where requests have one."""
    accesses, own = situation.accesses, situation.settings.engine.evict
    if accesses.num_blocks <= situation.num_blocks:
        return
    names = [name for name in POLICIES if name != "priority" or accesses.priorities.any()]
    found = {name: _hit_tokens(name, situation) for name in names}
    best = max(found, key=lambda name: found[name])
    if found[best] > found.get(own, 0):
        yield Proposal(
            title=f"Evict by {best} instead of {own}",
            why=(
                f"At {situation.num_blocks:,} blocks {own} evicts what is asked for again: "
                f"{situation.evicted_tokens:,} tokens were missed for that."
            ),
            replay=situation.with_engine(evict=best).replay,
            command=f"--evict {best}",
        )


def _hit_tokens(name: str, situation: Situation) -> int:
    hits = policy_hits(situation.accesses, parse_policy(name), [situation.num_blocks])
    return next(hits).prefix_tokens
