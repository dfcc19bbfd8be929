"""Which blocks lie in the slots of host memory, by key, by parent and by use."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Collection, Hashable, Sequence, Set
from dataclasses import dataclass

from kvtool.cache.backing import Run
from kvtool.cache.block_hash import token_bytes
from kvtool.cache.block_pool import Tokens
from kvtool.tiers.text.listing import Changes, Listed


@dataclass(eq=False, slots=True)
class HostBlock:
    """run: this one block as a run. token_bytes: as of `block_hash`. readers: copies under way."""

    run: Run
    token_bytes: bytes
    slot: int
    readers: int = 0
    is_kept_below: bool = False

    @property
    def key(self) -> bytes:
        return self.run.keys[0]


class HostIndex:
    """Not for several threads at once: its owner has the lock.

    A block in use makes all blocks in front of it more recent than itself, so the least recently
    used one has nothing behind it.
    """

    def __init__(self) -> None:
        self._blocks: OrderedDict[bytes, HostBlock] = OrderedDict()  # least recently used first
        self._children: dict[bytes, list[tuple[bytes, bytes]]] = {}  # (token bytes, key), sorted
        self._num_changes = 0

    def __len__(self) -> int:
        return len(self._blocks)

    def __contains__(self, key: bytes) -> bool:
        return key in self._blocks

    def keys(self) -> list[bytes]:
        return list(self._blocks)

    def holds(self, block: object) -> bool:
        return isinstance(block, HostBlock) and self._blocks.get(block.key) is block

    def find(self, keys: Sequence[bytes], tokens: Tokens) -> list[HostBlock]:
        """The leading keys that are there; tokens int32 [len(keys), block_size]."""
        found: list[HostBlock] = []
        for key, row in zip(keys, tokens):
            block = self._blocks.get(key)
            if block is None or block.token_bytes != token_bytes(row):
                break
            found.append(block)
        if found:
            self.touch(found[-1].key)
        return found

    def longest(self, parent: bytes, tokens: Tokens) -> tuple[HostBlock | None, int]:
        """The block behind `parent` that shares most leading tokens, one at least, and how many.

        Token order is byte order, so the best one is a neighbour of the place of `tokens`.
        """
        wanted = token_bytes(tokens)
        siblings = self._children.get(parent, [])
        place = bisect_left(siblings, (wanted, b""))
        best: HostBlock | None = None
        most = 0
        for stored, key in siblings[max(0, place - 1) : place + 1]:
            length = common_bytes(stored, wanted) // 4
            if length > most:
                best, most = self._blocks[key], length
        if best is not None:
            self.touch(best.key)
        return best, most

    def text_changes(self, namespace: bytes, known: Set[Hashable], state: object) -> Changes:
        """See `ListsText`; every block is a run with a use of 0."""
        if state == self._num_changes:
            return Changes(state, set(), [])
        new = [block for key, block in self._blocks.items() if key not in known]
        listed = [
            Listed(block.key, block.run, last_use=0)
            for block in new
            if block.run.exact and block.run.namespace == namespace
        ]
        gone = {handle for handle in known if handle not in self._blocks}
        return Changes(self._num_changes, gone, listed)

    def touch(self, key: bytes) -> None:
        while (block := self._blocks.get(key)) is not None:
            self._blocks.move_to_end(key)
            key = block.run.parent

    def add(self, block: HostBlock) -> None:
        self._num_changes += 1
        self._blocks[block.key] = block
        insort(self._children.setdefault(block.run.parent, []), (block.token_bytes, block.key))
        self.touch(block.key)

    def remove(self, key: bytes) -> HostBlock | None:
        block = self._blocks.pop(key, None)
        if block is not None:
            self._num_changes += 1
            siblings = self._children[block.run.parent]
            del siblings[bisect_left(siblings, (block.token_bytes, block.key))]
            if not siblings:
                del self._children[block.run.parent]
        return block

    def remove_oldest(self, spared: Collection[bytes]) -> HostBlock | None:
        """The least recently used block that nobody reads; None where that is a `spared` one."""
        victim = next((block for block in self._blocks.values() if not block.readers), None)
        if victim is None or victim.key in spared:
            return None
        return self.remove(victim.key)

    def mark_kept_below(self, keys: Sequence[bytes]) -> None:
        for key in keys:
            if (block := self._blocks.get(key)) is not None:
                block.is_kept_below = True

    def check_integrity(self) -> set[int]:
        """The slots in use."""
        slots = {block.slot for block in self._blocks.values()}
        assert len(slots) == len(self._blocks), "two blocks share a slot"
        children = {
            (parent, *child) for parent, siblings in self._children.items() for child in siblings
        }
        assert children == {(b.run.parent, b.token_bytes, b.key) for b in self._blocks.values()}
        order = {key: place for place, key in enumerate(self._blocks)}
        for key, block in self._blocks.items():
            assert order.get(block.run.parent, len(order)) > order[key], "older than its child"
        return slots


def common_bytes(a: bytes, b: bytes) -> int:
    """Length of the common prefix."""
    size = min(len(a), len(b))
    if a[:size] == b[:size]:
        return size
    return next(i for i in range(size) if a[i] != b[i])
