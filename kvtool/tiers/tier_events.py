"""KV events of the tiers: medium host, disk or remote."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial

from kvtool.cache.backing import Run
from kvtool.cache.events import BlockRemoved, BlockStored, Event, EventSink
from kvtool.tiers.tier import Tier


class TierEvents:
    """Collects events of any thread; `publish` hands them to the sink in the caller's.

    A stored block holds all layer groups; its event says group 0. Partial blocks have no events.
    """

    def __init__(self, sink: EventSink | None, block_size: int) -> None:
        self._sink = sink
        self._block_size = block_size
        self._waiting: deque[Event] = deque()

    def listen_to(self, tiers: Iterable[Tier]) -> None:
        for tier in tiers:
            if hasattr(tier, "removed"):
                tier.removed = partial(self.removed, tier.name)

    def stored(self, tier: str, run: Run) -> None:
        num_full = len(run.tokens) // self._block_size
        if self._sink is None or not num_full:
            return
        self._waiting.append(
            BlockStored(
                block_hashes=tuple(key.hex() for key in run.keys[:num_full]),
                parent_block_hash=run.parent.hex() if run.home else None,
                token_ids=tuple(run.tokens[: num_full * self._block_size].tolist()),
                block_size=self._block_size,
                medium=tier,
            )
        )

    def removed(self, tier: str, keys: Sequence[bytes]) -> None:
        if self._sink is not None and keys:
            hashes = tuple(key.hex() for key in keys)
            self._waiting.append(BlockRemoved(block_hashes=hashes, medium=tier))

    def publish(self) -> None:
        while self._waiting:
            event = self._waiting.popleft()
            assert self._sink is not None
            self._sink(event)
