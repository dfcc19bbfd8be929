"""What happened to cached blocks, for routers and logs: vLLM's KV events (its field names)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

from kvtool.cache.block_hash import hash_block, root_hash, token_bytes
from kvtool.cache.block_pool import Tokens
from kvtool.reuse.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockStored:
    """A run of full blocks entered the cache; block_hashes are hex sha256, see `block_hash`.

    parent_block_hash None: the run starts a sequence. token_ids: of all blocks, in order.
    """

    block_hashes: tuple[str, ...]
    parent_block_hash: str | None
    token_ids: tuple[int, ...]
    block_size: int
    lora_id: int | None = None
    medium: str = "device"
    group_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRemoved:
    block_hashes: tuple[str, ...]
    medium: str = "device"
    group_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AllBlocksCleared:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReused:
    """A request is served cached text at other positions than it was computed at: prompt tokens
    [start, stop), moved by delta. Not one of vLLM's events.

    origin "pool": exact text of another sequence, whose full blocks block_hashes names, from the
    one that holds `start` on. "approximate": what an earlier sequence used or computed behind
    such text; blocks that it computed have no hash.
    """

    start: int
    stop: int
    delta: int
    origin: str
    block_hashes: tuple[str, ...]
    group_id: int = 0


Event = BlockStored | BlockRemoved | AllBlocksCleared | RunReused
EventSink = Callable[[Event], None]


def as_json(event: Event) -> dict[str, object]:
    """JSON-ready, `type` first."""
    return {"type": type(event).__name__, **asdict(event)}


class EventLog:
    """Publishes the events of one layer group; knows the hash of every full cached block.

    It hashes by itself so that both indexes report the same names, and costs nothing when nobody
    listens.
    """

    def __init__(self, sink: EventSink, block_size: int, group_id: int) -> None:
        self._sink = sink
        self._block_size = block_size
        self._group_id = group_id
        self._hashes: dict[int, bytes] = {}

    def stored(
        self, block_ids: list[int], tokens: Tokens, parent: int | None, namespace: bytes
    ) -> None:
        """tokens: int32 [len(block_ids) * block_size]."""
        digest = root_hash(namespace) if parent is None else self._hashes[parent]
        first = None if parent is None else digest.hex()
        raw, width = token_bytes(tokens), 4 * self._block_size
        for position, block in enumerate(block_ids):
            digest = hash_block(digest, raw[position * width : (position + 1) * width])
            self._hashes[block] = digest
        self._sink(
            BlockStored(
                block_hashes=tuple(self._hashes[block].hex() for block in block_ids),
                parent_block_hash=first,
                token_ids=tuple(tokens.tolist()),
                block_size=self._block_size,
                group_id=self._group_id,
            )
        )

    def removed(self, block_id: int) -> None:
        """Partial blocks have no hash and no events."""
        digest = self._hashes.pop(block_id, None)
        if digest is not None:
            self._sink(BlockRemoved(block_hashes=(digest.hex(),), group_id=self._group_id))

    def reused(self, run: Run, origin: str) -> None:
        found = (self._hashes.get(block) for block in run.blocks)
        self._sink(
            RunReused(
                start=run.start,
                stop=run.stop,
                delta=run.delta,
                origin=origin,
                block_hashes=tuple(digest.hex() for digest in found if digest is not None),
                group_id=self._group_id,
            )
        )

    def clear(self) -> None:
        self._hashes.clear()
