"""What a tier does: contains, get, put, remove, close."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol

from kvtool.cache.backing import Run, StoredBlock
from kvtool.cache.block_pool import Tokens
from kvtool.tiers.memory import BlockViews


class Missing(Exception):
    """Blocks that were said to be stored cannot be read; the tier has forgotten them.

    The text is the reason, a sentence without a full stop. unfinished: a read that was given up at
    its deadline but may write to the views until this is done; None: nothing touches them.
    """

    def __init__(self, reason: str, unfinished: Future[Any] | None = None) -> None:
        super().__init__(reason)
        self.unfinished = unfinished


class Part(NamedTuple):
    """A stored block that holds the first `num_tokens` of the wanted tokens."""

    key: bytes
    num_tokens: int
    place: object


class Stored(NamedTuple):
    """What `put` did. reason: why not everything was stored, None where it was (or was there).

    unfinished: a write that was given up at its deadline but may read the views until this is done.
    """

    num_blocks: int  # newly stored
    num_bytes: int
    reason: str | None = None
    unfinished: Future[Any] | None = None


class Tier(Protocol):
    """One kind of storage. Every method may be called from several threads.

    A failure of the storage never surfaces: what cannot be read is missing, what cannot be
    written is not stored; the tier says so once through `logging` (a warning names the reason and
    what to do) and counts it.
    """

    name: str  # host | disk | remote

    def describe(self, namespace: bytes, fields: Mapping[str, object]) -> None:
        """What this namespace's digest stands for (`Namespace` fields; of a salt only "set"), so
        that people can be told. Known before anything of it is put."""
        ...

    def contains(self, keys: Sequence[bytes], tokens: Tokens) -> list[object]:
        """Places of the leading `keys` that are stored (stops at the first that is not).

        tokens: int32 [len(keys), block_size]; they are compared, here or when they are read. A
        place stays readable for a while, even if its entry is evicted meanwhile.
        """
        ...

    def extend(self, parent: bytes, tokens: Tokens) -> Part | None:
        """The block behind `parent` that begins with most of `tokens` (fewer than fill a block, or
        other than any full block stored); None: none begins with the first one."""
        ...

    def get(
        self, blocks: Sequence[StoredBlock], views: BlockViews, arrived: Callable[[int], None]
    ) -> None:
        """Fill `views`, block by block or layer by layer, with verified bytes only.

        arrived: called once for each model layer, as early as that layer is complete in all blocks.
        Raises `Missing`; what was written until then is never used.
        """
        ...

    def put(self, run: Run, views: BlockViews) -> Stored:
        """Keep the blocks of `run` that are not there yet. Returns when `views` is not read any
        more, or says so (`Stored.unfinished`); a block is found by others only when complete."""
        ...

    def remove(self, keys: Sequence[bytes]) -> int:
        """Forget these blocks; how many there were."""
        ...

    def check_integrity(self) -> None:
        """Raises `AssertionError`; cheap enough for every step of a test."""
        ...

    def close(self) -> None: ...
