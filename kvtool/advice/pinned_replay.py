"""A replay in which one prefix stays in the cache once it is there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kvtool.cache.manager import CacheManager
from kvtool.cache.sequence import SequenceKV
from kvtool.engine.admission import num_blocks_for
from kvtool.replay.arrivals import awaited_ids
from kvtool.replay.outcome import RequestOutcome
from kvtool.replay.replay import Replay
from kvtool.replay.replies import Replies
from kvtool.replay.totals import Totals
from kvtool.simulation.settings import SimulationSettings
from kvtool.simulation.workload import Workload
from kvtool.traces.prepared import PreparedRequest, Symbols


class Prefix(NamedTuple):
    symbols: Symbols
    namespace: bytes

    def begins(self, prepared: PreparedRequest) -> bool:
        head = prepared.symbols[: len(self.symbols)]
        return prepared.namespace == self.namespace and np.array_equal(head, self.symbols)


def replay_pinned(
    workload: Workload, settings: SimulationSettings, num_blocks: int, prefix: Prefix
) -> Totals:
    """The first request with the prefix computes it; then it is held to the end. Raises
    `CacheError` where a request has no room beside it."""
    size = workload.unit.block_size
    beside = num_blocks - num_blocks_for(len(prefix.symbols), size)
    room = settings.replay(workload.unit, beside)
    replies = Replies(workload.unit, output_kv=settings.output_kv)
    for prepared in workload:
        room.check_fits(prepared, replies)
    pin = _Pin(prefix)
    replay = Replay(settings.replay(workload.unit, num_blocks), on_outcome=pin.after)
    pin.manager = replay.manager
    awaited = awaited_ids(workload.trace) if settings.mode == "arrival" else frozenset()
    return replay.run(pin.passing(workload), awaited).totals


@dataclass(slots=True)
class _Pin:
    prefix: Prefix
    manager: CacheManager | None = None
    held: SequenceKV | None = None
    running: set[int] = field(default_factory=set)

    def passing(self, requests: Workload) -> Iterator[PreparedRequest]:
        for prepared in requests:
            if self.held is None and self.prefix.begins(prepared):
                self.running.add(prepared.index)
            yield prepared

    def after(self, outcome: RequestOutcome) -> None:
        if self.held is not None or outcome.index not in self.running:
            return
        assert self.manager is not None
        symbols = self.prefix.symbols
        kv = self.manager.begin(symbols, self.prefix.namespace, counted=False)
        if kv.num_cached == len(symbols):
            self.held = kv
        else:  # its end is gone again
            self.manager.free(kv, symbols[:0])
