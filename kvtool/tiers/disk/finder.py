"""Finds stored blocks and promises them: a place holds its file open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kvtool.cache.block_hash import token_bytes
from kvtool.cache.block_pool import Tokens
from kvtool.tiers.disk.header import Damaged
from kvtool.tiers.disk.index import Index
from kvtool.tiers.disk.lookup import BlockRow, children, stored_prefix
from kvtool.tiers.disk.open_runs import OpenRun, OpenRuns
from kvtool.tiers.disk.trouble import is_passing
from kvtool.tiers.tier import Part


@dataclass(frozen=True, eq=False)
class Place:
    """A block in a run file. tokens: those that were asked for, little-endian int32; the file is
    asked for them again when it is read."""

    run: OpenRun
    position: int
    tokens: bytes


class Finder:
    """Answers from the index, as far as the files are there.

    forget: called with a run whose file is not, and why. failed: called where it may be, and
    cannot be opened now. avoid: runs not to be promised.
    """

    def __init__(
        self,
        index: Index,
        forget: Callable[[str, Exception], None],
        failed: Callable[[OSError], object],
        avoid: set[str],
    ) -> None:
        self._index = index
        self._forget = forget
        self._failed = failed
        self._avoid = avoid
        self._open_runs = OpenRuns(index.folder)

    def contains(self, keys: Sequence[bytes], tokens: Tokens) -> list[object]:
        """See `Tier.contains`."""
        wanted = ((key, token_bytes(block)) for key, block in zip(keys, tokens, strict=True))
        places: list[object] = []
        for rows in stored_prefix(self._index.connection(), wanted):
            place = self._first_place((row, len(row.tokens)) for row in rows)
            if place is None:
                break
            places.append(place)
        return places

    def extend(self, parent: bytes, tokens: Tokens) -> Part | None:
        """See `Tier.extend`."""
        rows = children(self._index.connection(), parent)
        ranked = [(row, _common_tokens(row.tokens, tokens)) for row in rows]
        ranked.sort(key=lambda item: -item[1])  # stable: of equals the most recent
        for row, num_tokens in ranked:
            place = self._first_place([(row, 4 * num_tokens)]) if num_tokens else None
            if place is not None:
                return Part(row.key, num_tokens, place)
        return None

    def _first_place(self, candidates: Iterable[tuple[BlockRow, int]]) -> Place | None:
        """Of rows and the bytes of their tokens that are wanted."""
        for row, num_bytes in candidates:
            if row.run in self._avoid:
                continue
            try:
                run = self._open_runs.open(row.run, row.run_bytes)
            except Damaged as damage:
                self._forget(row.run, damage)
            except OSError as error:
                if is_passing(error):
                    self._failed(error)
                else:
                    self._forget(row.run, error)
            else:
                return Place(run, row.position, row.tokens[:num_bytes])
        return None


def _common_tokens(stored: bytes, wanted: Tokens) -> int:
    """Length of the common prefix."""
    own = np.frombuffer(stored[: len(stored) // 4 * 4], dtype="<i4")
    size = min(len(own), len(wanted))
    differs = np.flatnonzero(own[:size] != wanted[:size])
    return int(differs[0]) if len(differs) else size
