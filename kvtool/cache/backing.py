"""What lies below the pool, as the cache manager sees it: KV kept elsewhere, moved by copies.

The manager never reads a byte of KV. It asks what is stored, reserves blocks for it, and holds
every block that a copy touches until that copy has ended (`Transfer`).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kvtool.cache.block_keys import BlockKeys
from kvtool.cache.block_pool import BlockIds, Tokens
from kvtool.reuse.planner import Rules


class StoredBlock(NamedTuple):
    """A block of KV outside the pool, all layer groups of it.

    num_tokens: leading slots that hold the tokens asked for: block_size, but for the last block
    of a hit perhaps fewer. tier: the name of the tier. place: that tier's own handle.
    """

    key: bytes
    num_tokens: int
    tier: str
    place: object


class Run(NamedTuple):
    """Consecutive blocks of one sequence; only the last may be partly filled.

    keys: one a block. parent: the key in front of the first. tokens: int32 [n], of all blocks.
    home: the position of the first token. exact: computed on exact KV only. before: the home
    tokens in front; None: they are not known any more.
    """

    namespace: bytes
    parent: bytes
    keys: tuple[bytes, ...]
    tokens: Tokens
    home: int
    exact: bool = True
    provenance: str = "prefill"
    before: Tokens | None = None


class StoredDonor(NamedTuple):
    """Stored text that a prompt has elsewhere, behind other tokens.

    Prompt tokens [start, stop) stand in slot `offset` of the first block and those behind it.
    blocks: where the KV lies. tokens: int32, of the sequence they were computed in, from position
    `home` on, as far as the blocks hold them. first_token and context: what stands in front
    there, at position 0 and right before `home`.
    """

    start: int
    stop: int
    offset: int
    blocks: tuple[StoredBlock, ...]
    tokens: Tokens
    home: int
    first_token: int
    context: Tokens

    @property
    def delta(self) -> int:
        """How far the tokens move."""
        return self.start - (self.home + self.offset)


class Transfer:
    """A copy between pool and tier. Its blocks are held, and so never reissued, until it ended.

    block_ids: per layer group, the blocks in order. `end` is called by the thread that copies,
    also after a failure, and only when it will not touch the blocks any more.
    """

    def __init__(self, block_ids: tuple[BlockIds, ...]) -> None:
        self.block_ids = block_ids
        self._ended = threading.Event()

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    @property
    def is_under_way(self) -> bool:
        """It will end without anything the caller still has to do."""
        return True

    def end(self) -> None:
        self._ended.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether it has ended, after at most `timeout_s`."""
        return self._ended.wait(timeout_s)


class Load(Transfer):
    """Stored blocks to read into `block_ids`, carried out by the executor within its step.

    Whoever claims it ends it: the executor that starts it, or the scheduler where the step never
    came to that.
    """

    def __init__(self, blocks: tuple[StoredBlock, ...], block_ids: tuple[BlockIds, ...]) -> None:
        super().__init__(block_ids)
        self.blocks = blocks
        self._is_claimed = False

    @property
    def is_under_way(self) -> bool:
        return self._is_claimed

    def claim(self) -> bool:
        """True once."""
        was_claimed, self._is_claimed = self._is_claimed, True
        return not was_claimed


class Save(Transfer):
    """A run to write below, carried out in the background."""

    def __init__(self, run: Run, block_ids: tuple[BlockIds, ...]) -> None:
        super().__init__(block_ids)
        self.run = run


class Backing(Protocol):
    """The tiers below the pool. None of its methods waits for KV to be copied."""

    def match(
        self, keys: BlockKeys, first_block: int, *, whole_blocks: bool
    ) -> tuple[StoredBlock, ...]:
        """The stored blocks that continue the sequence from block `first_block` on, as many as are
        worth loading, at most one of them (the last) with fewer than block_size tokens.

        whole_blocks: only full ones.
        """
        ...

    def donors(
        self, tokens: Tokens, pieces: Sequence[tuple[int, int]], namespace: bytes, rules: Rules
    ) -> list[StoredDonor]:
        """Stored text within these ranges of a prompt that is worth loading; by start, without
        overlap."""
        ...

    def is_promoted(self, block: StoredBlock) -> bool:
        """Whether a block found there is written once more, into a faster tier that lacks it."""
        ...

    def computed(self, num_tokens: int, seconds: float) -> None:
        """What a step of the model took, to weigh loading against computing."""
        ...

    def save(self, save: Save) -> None:
        """Start writing what no tier has yet; `save.end()` follows, at once where nothing is to do."""
        ...

    def check_integrity(self) -> None: ...
