"""Saves carried out: written through all tiers, the fastest first, one thread a tier."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial

from kvtool.cache.backing import Run, Save
from kvtool.tiers.memory import BlockMemory, BlockViews
from kvtool.tiers.tier import Stored, Tier
from kvtool.tiers.tier_events import TierEvents
from kvtool.tiers.tier_stats import TierStats
from kvtool.tiers.worker import GRACE_S, Worker, close_all

Futures = tuple[Future[object], ...]
_log = logging.getLogger(__name__)


class Writer:
    """A pipeline: while one run is on its way to the disk, the next is copied to host memory."""

    def __init__(
        self,
        tiers: Sequence[Tier],
        memory: BlockMemory,
        stats: Mapping[str, TierStats],
        events: TierEvents,
    ) -> None:
        self._tiers = tuple(tiers)
        self._memory = memory
        self._stats = stats
        self._events = events
        self._workers = [Worker(f"kvtool write {tier.name}") for tier in tiers]
        self._num_pending = 0
        self._is_closing = False
        self._changed = threading.Condition()
        for position, tier in enumerate(self._tiers[:-1]):
            if hasattr(tier, "spill"):
                tier.spill = partial(self._put, position + 1)

    def start(self, save: Save) -> None:
        if self._is_closing or not self._tiers:
            save.end()
            return
        with self._changed:
            self._num_pending += 1
        self._workers[0].submit(partial(self._begin, save))

    def flush(self, timeout_s: float | None = None) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._num_pending == 0, timeout_s)

    def close(self, *, flush: bool) -> bool:
        """Whether nothing is written any more; flush False: after a moment at most."""
        if flush:
            self.flush()
        self._is_closing = True
        return close_all(self._workers, None if flush else GRACE_S)

    def _begin(self, save: Save) -> None:
        """In the first tier's thread, as all copies: on a device `source` copies to the host."""
        if self._is_closing:
            self._end(save, ())
            return
        try:
            views = self._memory.source(save.block_ids)
        except Exception:
            _log.warning("KV could not be read to be saved", exc_info=True)
            self._end(save, ())
            return
        self._write(save, views, 0, ())

    def _write(self, save: Save, views: BlockViews, position: int, unfinished: Futures) -> None:
        """unfinished: calls that a tier gave up and that may still read the blocks."""
        if not self._is_closing:
            stored = self._put(position, save.run, views)
            if stored.unfinished is not None:
                unfinished = (*unfinished, stored.unfinished)
        if position + 1 < len(self._tiers) and not self._is_closing:
            job = partial(self._write, save, views, position + 1, unfinished)
            self._workers[position + 1].submit(job)
        else:
            self._end(save, unfinished)

    def _put(self, position: int, run: Run, views: BlockViews) -> Stored:
        """Also called by the tier above, with what it is about to drop."""
        tier, start = self._tiers[position], time.perf_counter()
        try:
            stored = tier.put(run, views)
        except Exception as error:
            _log.warning("writing to the %s tier failed", tier.name, exc_info=True)
            stored = Stored(0, 0, f"{type(error).__name__}: {error}")
        with self._changed:
            self._stats[tier.name].stored(run, stored, time.perf_counter() - start)
        if stored.reason is None:
            if stored.num_blocks:
                self._events.stored(tier.name, run)
            upper = self._tiers[position - 1] if position else None
            if upper is not None and hasattr(upper, "kept_below"):
                upper.kept_below(run.keys)
        return stored

    def _end(self, save: Save, unfinished: Futures) -> None:
        """`flush` does not wait for calls that were given up, the blocks do."""
        end_after(unfinished, save)
        with self._changed:
            self._num_pending -= 1
            self._changed.notify_all()


def end_after(futures: Futures, save: Save) -> None:
    if futures:
        futures[0].add_done_callback(lambda _: end_after(futures[1:], save))
    else:
        save.end()
