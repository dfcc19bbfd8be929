"""Why a block that was computed before was not there any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvtool.analysis.accesses import Accesses, Ints
from kvtool.analysis.causes.cause import CAPACITY, IN_FLIGHT, POLICY, TTL
from kvtool.analysis.causes.uses import Uses
from kvtool.analysis.policies.belady import belady
from kvtool.analysis.policies.policy import Mask
from kvtool.analysis.policy_hits import prefix_only
from kvtool.analysis.served import CauseSettings, Served
from kvtool.analysis.stack_distances import stack_distances

UNSEEN = ""


class Eviction(NamedTuple):
    """capacity: blocks with which LRU has it, if requests do not overlap."""

    cause: str
    capacity: int


NEVER_THERE = Eviction(UNSEEN, 0)


@dataclass(frozen=True, eq=False)
class Evictions:
    """Of all requests, in the order in which they started.

    accesses: what they use, see `uses`. ranks [R]: the row of each request in it. computed [A]:
    seconds at which a request has its block. started [R]: by row.
    """

    settings: CauseSettings
    accesses: Accesses
    ranks: Ints
    computed: npt.NDArray[np.float64]
    started: npt.NDArray[np.float64]

    @classmethod
    def of(
        cls, uses: Sequence[Uses], served: Sequence[Served], settings: CauseSettings
    ) -> Evictions:
        """uses, served: of the requests in the order of the trace."""
        times = np.array([(one.start_s, one.first_token_s, one.end_s) for one in served])
        times = times.reshape(-1, 3)
        order = np.argsort(times[:, 0], kind="stable")
        starts = np.cumsum([0, *(len(uses[r].blocks) for r in order)])
        blocks = [block for r in order for block in uses[r].blocks]
        accesses = _accesses(np.array(blocks, dtype=np.int64), starts, settings)
        own = np.array([uses[r].num_blocks for r in order], dtype=np.int64)[accesses.requests]
        of_prompt = (accesses.depths < own) | (not settings.output_kv)
        times = times[order]
        computed = np.where(of_prompt, times[accesses.requests, 1], times[accesses.requests, 2])
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = np.arange(len(order))
        return cls(settings, accesses, ranks, computed, times[:, 0])

    def num_seen(self, position: int, num_blocks: int) -> int:
        """Leading blocks of the prompt that an earlier request had."""
        start = self.accesses.starts[self.ranks[position]]
        unseen = np.flatnonzero(self.accesses.previous[start : start + num_blocks] < 0)
        return int(unseen[0]) if len(unseen) else num_blocks

    def block(self, position: int, index: int) -> Eviction:
        """Of the request's block; not there where no earlier request had it."""
        row = int(self.ranks[position])
        access = int(self.accesses.starts[row]) + index
        before = int(self.accesses.previous[access])
        if before < 0:
            return NEVER_THERE
        cause = self._dropped(before, row)
        if not cause:
            cause = POLICY if self._is_kept[access] else CAPACITY
        return Eviction(cause, int(self._distances[access]) + self._in_use)

    def source(self, position: int, block: int) -> Eviction:
        """Of a block that the request has in part."""
        row = int(self.ranks[position])
        start = int(self.accesses.starts[row])
        before = self._last_access(block, start)
        if before is None:
            return NEVER_THERE
        distance = self._depth(before, start)
        cause = self._dropped(before, row)
        if not cause:
            is_kept = self.settings.evict != "lru" and distance <= self.settings.capacity_blocks
            cause = POLICY if is_kept else CAPACITY
        return Eviction(cause, distance + self._in_use)

    def _dropped(self, before: int, row: int) -> str:
        """Why the block of an access is not there, whoever is evicted."""
        if self.settings.reuse == "none":
            return CAPACITY
        idle_s = self.started[row] - self.computed[before]
        if idle_s < 0:
            return IN_FLIGHT
        return TTL if self.settings.ttl_s is not None and idle_s > self.settings.ttl_s else UNSEEN

    @property
    def _in_use(self) -> int:
        """Beside blocks that stay, text takes one for a while: an end that no chain index finds,
        or a block that is copied."""
        return int(self.settings.unit.block_size > 1)

    def _last_access(self, block: int, start: int) -> int | None:
        """To the block, in front of access `start`."""
        order, blocks = self._by_block
        first, stop = np.searchsorted(blocks, [block, block + 1])
        number = int(np.searchsorted(order[first:stop], start))
        return int(order[first + number - 1]) if number else None

    def _depth(self, access: int, start: int) -> int:
        """Of its block in LRU's stack, in front of access `start`: of one request's blocks those
        behind it lie below."""
        accesses = self.accesses
        row = int(accesses.requests[access])
        following = accesses.following[accesses.starts[row] : start]
        is_last = (following < 0) | (following >= start)
        own, below = access - int(accesses.starts[row]), int(accesses.starts[row + 1])
        num_below = int(is_last[own + 1 : below - int(accesses.starts[row])].sum())
        return int(is_last.sum()) - num_below

    @cached_property
    def _by_block(self) -> tuple[Ints, Ints]:
        """All accesses by block, each block's in order, and their blocks."""
        order = np.argsort(self.accesses.blocks, kind="stable")
        return order, self.accesses.blocks[order]

    @cached_property
    def _distances(self) -> Ints:
        return stack_distances(self.accesses)

    @cached_property
    def _is_kept(self) -> Mask:
        """[A]: by the best choice at this capacity, or by LRU, and all in front of it."""
        capacity = self.settings.capacity_blocks
        kept = prefix_only(next(belady(self.accesses, [capacity])), self.accesses)
        if self.settings.evict != "lru":
            kept |= self._distances <= capacity
        return kept


def _accesses(blocks: Ints, starts: Ints, settings: CauseSettings) -> Accesses:
    """Only the order of blocks counts."""
    nothing = np.zeros(len(starts) - 1, dtype=np.int64)
    return Accesses(
        unit=settings.unit,
        blocks=blocks,
        contents=blocks,
        tokens=np.ones_like(blocks),
        starts=starts,
        rest=nothing,
        outputs=nothing,
        namespaces=nothing,
        arrivals=nothing.astype(np.float64),
        priorities=nothing,
        positions=nothing,
    )
