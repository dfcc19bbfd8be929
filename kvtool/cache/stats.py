"""Counters of one cache, in tokens and blocks. Hit rates count index matches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from kvtool.cache.backing import Load
from kvtool.cache.block_table import BlockTable
from kvtool.cache.block_tree import BlockTree
from kvtool.cache.sequence import Query
from kvtool.cache.shifted import Sources


@dataclass(slots=True)
class CacheStats:
    """Block counts are sums over the layer groups; token counts are counted once.

    hit_tokens are the matched ones; the scheduler recomputes the last token of a prompt that is
    cached completely and counts it in `full_hit_recomputed`. refused_runs: cached text that was
    not moved, by reason (`reuse.refusals`, `shift_planner`).
    """

    requests: int = 0
    queried_tokens: int = 0
    hit_tokens: int = 0
    full_hit_recomputed: int = 0
    stored_blocks: int = 0
    evicted_blocks: int = 0
    duplicate_blocks: int = 0  # computed twice at the same time, one copy dropped
    collisions: int = 0  # right key, other tokens: treated as a miss
    copied_blocks: int = 0  # copy-on-write of a shared partial block
    taken_over_blocks: int = 0  # a partial block continued in place, without a copy
    loaded_blocks: int = 0  # read from the tiers below, all layer groups of a block as one
    loaded_tokens: int = 0
    shifted_tokens: int = 0  # served from text cached at other positions
    recomputed_tokens: int = 0  # of such text, computed again
    approximate_records: int = 0  # in the `ApproximateIndex` now
    approximate_tokens: int = 0  # of these, behind their exact beginnings
    dropped_tokens: int = 0  # of records that were given up for room
    refused_runs: dict[str, int] = field(default_factory=dict)

    @property
    def hit_rate(self) -> float:
        """Of the queried tokens; 0 before the first query."""
        return self.hit_tokens / self.queried_tokens if self.queried_tokens else 0.0

    def count(self, query: Query) -> None:
        self.count_lookup(query.num_tokens, query.num_hit_tokens)
        self.collisions += query.num_collisions
        for reason, count in query.refused.items():
            self.count_refused(reason, count)

    def count_lookup(self, num_tokens: int, num_hit_tokens: int) -> None:
        self.requests += 1
        self.queried_tokens += num_tokens
        self.hit_tokens += num_hit_tokens

    def count_refused(self, reason: str, count: int) -> None:
        self.refused_runs[reason] = self.refused_runs.get(reason, 0) + count

    def count_shifted(self, sources: Sources) -> None:
        self.shifted_tokens += sources.shifted
        self.recomputed_tokens += sources.recomputed

    def count_loaded(self, load: Load) -> None:
        self.loaded_blocks += len(load.blocks)
        self.loaded_tokens += sum(block.num_tokens for block in load.blocks)

    def count_full_hit(self) -> None:
        """A completely cached prompt: one token is computed again for its logits."""
        self.full_hit_recomputed += 1

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "hit_rate": self.hit_rate}


def internal_fragmentation(tree: BlockTree, tables: Iterable[BlockTable]) -> float:
    """Unused slots / slots of the blocks that these tables hold; a shared block counts once."""
    used: dict[int, int] = {}
    for table in tables:
        for block, offset, _, length, _ in table.entries.tolist():
            used[block] = max(used.get(block, 0), offset + length, tree.num_tokens(block))
    slots = len(used) * tree.pool.block_size
    return 1 - sum(used.values()) / slots if slots else 0.0
