"""Loads carried out: one thread a tier, layer by layer where the tier can."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from kvtool.cache.backing import Load, StoredBlock
from kvtool.tiers.loading import Loading
from kvtool.tiers.memory import BlockMemory, BlockViews
from kvtool.tiers.rates import Rates
from kvtool.tiers.tier import Missing, Tier
from kvtool.tiers.tier_stats import TierStats
from kvtool.tiers.worker import GRACE_S, Worker, close_all

_log = logging.getLogger(__name__)


class Reader:
    def __init__(
        self,
        tiers: Sequence[Tier],
        memory: BlockMemory,
        stats: Mapping[str, TierStats],
        rates: Rates,
    ) -> None:
        self._tiers = {tier.name: tier for tier in tiers}
        self._memory = memory
        self._stats = stats
        self._rates = rates
        self._workers = {tier.name: Worker(f"kvtool read {tier.name}") for tier in tiers}
        self._block_bytes = sum(group.block_bytes(memory.block_size) for group in memory.groups)
        self._is_closing = False

    def start(self, load: Load) -> Loading:
        parts: dict[str, list[int]] = {}
        for index, block in enumerate(load.blocks):
            parts.setdefault(block.tier, []).append(index)
        loading = Loading(len(parts), len(self._memory.layers), load.end)
        jobs = [
            (self._workers[name], self._job(loading, load, name, indices))
            for name, indices in parts.items()
        ]
        claimed = load.claim()  # where there was no memory for the views it is still the caller's
        assert claimed, "a load is started once"
        for worker, job in jobs:
            worker.submit(job)
        return loading

    def close(self, *, flush: bool) -> bool:
        """Whether nothing is read any more; flush False: after a moment at most."""
        self._is_closing = not flush
        return close_all(self._workers.values(), None if flush else GRACE_S)

    def _job(
        self, loading: Loading, load: Load, name: str, indices: list[int]
    ) -> Callable[[], None]:
        blocks = [load.blocks[index] for index in indices]
        views = self._memory.target(tuple(ids[indices] for ids in load.block_ids))

        def read() -> None:
            if self._is_closing:
                loading.failed("loading was given up")
                loading.ended()
            else:
                self._read(self._tiers[name], blocks, views, loading)

        return read

    def _read(
        self, tier: Tier, blocks: Sequence[StoredBlock], views: BlockViews, loading: Loading
    ) -> None:
        """A call that the tier itself gave up ends the part when it is really over."""
        unfinished: Future[object] | None = None
        try:
            self._get(tier, blocks, views, loading)
        except Missing as missing:
            self._stats[tier.name].load_failures += 1
            loading.failed(f"{tier.name}: {missing}")
            unfinished = missing.unfinished
        except Exception as error:
            _log.warning("reading from the %s tier failed", tier.name, exc_info=True)
            self._stats[tier.name].load_failures += 1
            self._forget(tier, blocks)  # before the next attempt asks what is there
            loading.failed(f"{tier.name}: {type(error).__name__}: {error}")
        if unfinished is None:
            loading.ended()
        else:
            unfinished.add_done_callback(lambda _: loading.ended())

    def _forget(self, tier: Tier, blocks: Sequence[StoredBlock]) -> None:
        try:
            tier.remove([block.key for block in blocks])
        except Exception:
            _log.warning("forgetting blocks of the %s tier failed", tier.name, exc_info=True)

    def _get(
        self, tier: Tier, blocks: Sequence[StoredBlock], views: BlockViews, loading: Loading
    ) -> None:
        delivered: set[int] = set()

        def arrived(layer: int) -> None:
            if layer not in delivered:
                delivered.add(layer)
                views.arrived(layer)
                loading.arrived(layer)

        start = time.perf_counter()
        tier.get(blocks, views, arrived)
        for layer in range(len(self._memory.layers)):
            arrived(layer)
        seconds = time.perf_counter() - start
        num_bytes = len(blocks) * self._block_bytes
        self._rates.loaded(tier.name, num_bytes, seconds)
        self._stats[tier.name].loaded(blocks, num_bytes, seconds)
