"""StoredText: which text lies in the tiers, as a source of donors."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kvtool.cache.backing import Run
from kvtool.cache.block_pool import Tokens
from kvtool.reuse.content_table import MAX_COPIES
from kvtool.reuse.rolling_hash import block_hashes, window_hashes
from kvtool.tiers.text.children import Children
from kvtool.tiers.text.hash_index import HashIndex
from kvtool.tiers.text.listing import Head

_NONE = -1


class StoredText:
    """The stored blocks of one namespace with exact KV, and the links between them.

    A `DonorSource`; the numbers of its blocks are its own. It knows tokens and keys, no KV: that is
    asked for by key, and may be gone by then. A block has a holder for each run of each tier that
    it was read from. One that nobody holds any more is not found; it stays as long as something
    stands behind it, to which it is context.
    At most 250 bytes a block of 16 tokens.
    """

    def __init__(self, namespace: bytes, block_size: int) -> None:
        self.namespace = namespace
        self._size = block_size
        self._hashes = HashIndex()
        self._children = Children()
        self._blocks: dict[bytes, int] = {}  # by key
        self._keys: list[bytes] = []
        self._contexts: dict[int, Tokens] = {}  # of first blocks that do not stand at position 0
        self._free: list[int] = []
        # Of every block, in growing arrays:
        self._tokens = array("i")
        self._num_tokens = array("i")
        self._parent = array("i")
        self._home = array("q")
        self._first_token = array("i")
        self._holders = array("i")
        self._last_use = array("q")
        self._hash = array("Q")

    @property
    def block_size(self) -> int:
        return self._size

    @property
    def num_blocks(self) -> int:
        """Those that are context only included."""
        return len(self._blocks)

    def __contains__(self, block: int) -> bool:
        return block < len(self._keys) and self._blocks.get(self._keys[block]) == block

    def add(self, run: Run, last_use: int, head: Head | None = None) -> list[int] | None:
        """Its blocks, with one holder more each. None, and nothing is changed: the block in front
        of it is not known, and no head is given."""
        parent = _NONE if run.home == 0 else self._blocks.get(run.parent, _NONE)
        if run.home and parent == _NONE and head is None and run.keys[0] not in self._blocks:
            return None
        size, blocks = self._size, []
        num_full = len(run.tokens) // size
        hashes = block_hashes(run.tokens[: num_full * size].reshape(-1, size)).tolist()
        for position, key in enumerate(run.keys):
            block = self._blocks.get(key)
            if block is None:
                start = position * size
                block = self._new(key, run.tokens[start : start + size], parent, run.home + start)
                if parent == _NONE:
                    self._begin_chain(block, head)
            self._holders[block] += 1
            self._last_use[block] = max(self._last_use[block], last_use)
            if self._holders[block] == 1 and position < num_full:
                self._hash[block] = hashes[position]
                self._hashes.add(block, hashes[position])
            blocks.append(block)
            parent = block
        return blocks

    def _new(self, key: bytes, tokens: Tokens, parent: int, home: int) -> int:
        block = self._free.pop() if self._free else self._grow()
        start = block * self._size
        self._tokens[start : start + len(tokens)] = array("i", tokens.tolist())
        self._num_tokens[block] = len(tokens)
        self._home[block] = home
        self._parent[block] = parent
        self._last_use[block] = 0
        self._blocks[key] = block
        self._keys[block] = key
        if parent != _NONE:
            self._first_token[block] = self._first_token[parent]
            self._children.add(parent, block)
        return block

    def _grow(self) -> int:
        self._tokens.extend([0] * self._size)
        for column in (self._num_tokens, self._parent, self._home, self._first_token):
            column.append(0)
        self._holders.append(0)
        self._last_use.append(0)
        self._hash.append(0)
        self._keys.append(b"")
        return len(self._keys) - 1

    def _begin_chain(self, block: int, head: Head | None) -> None:
        if self._home[block] and head is not None:
            self._first_token[block] = head.first_token
            self._contexts[block] = head.context
        else:
            self._first_token[block] = self._tokens[block * self._size]

    def release(self, blocks: Sequence[int]) -> None:
        """One holder less of each of the blocks that `add` returned for one run."""
        for block in reversed(blocks):
            self._holders[block] -= 1
            if self._holders[block] == 0 and self._num_tokens[block] == self._size:
                self._hashes.remove(block)
            self._forget(block)

    def _forget(self, block: int) -> None:
        """Unless it is held or in front of another; and then what was kept for it alone."""
        while block != _NONE and not self._holders[block] and not self._children.of(block):
            parent = self._parent[block]
            if parent != _NONE:
                self._children.remove(parent, block)
            self._contexts.pop(block, None)
            del self._blocks[self._keys[block]]
            self._free.append(block)
            block = parent

    def key(self, block: int) -> bytes:
        return self._keys[block]

    def parent_key(self, block: int) -> bytes | None:
        """None: it is the first of its chain here."""
        parent = self._parent[block]
        return None if parent == _NONE else self._keys[parent]

    def num_tokens(self, block: int) -> int:
        return self._num_tokens[block]

    def newest(self, tokens: Tokens, namespace: bytes) -> npt.NDArray[np.int32]:
        hashes = window_hashes(tokens, self._size)
        if namespace != self.namespace:
            return np.full(len(hashes), _NONE, dtype=np.int32)
        return self._hashes.newest(hashes)

    def copies(self, block: int) -> list[int]:
        return self._hashes.copies(self._hash[block], MAX_COPIES)

    def tokens(self, blocks: list[int]) -> Tokens:
        rows: Tokens = np.frombuffer(self._tokens, dtype=np.int32).reshape(-1, self._size)[blocks]
        return rows

    def home(self, block: int) -> int:
        return self._home[block]

    def ancestors(self, block: int, count: int) -> list[int]:
        found: list[int] = []
        while len(found) < count and (block := self._parent[block]) != _NONE:
            found.append(block)
        return found

    def descendants(self, block: int, count: int) -> list[int]:
        found: list[int] = []
        while len(found) < count and len(behind := self._children.of(block)) == 1:
            block = behind[0]
            if self._num_tokens[block] < self._size:
                break
            found.append(block)
        return found

    def longest_child(self, block: int, tokens: Tokens) -> tuple[int, int]:
        children = self._children.of(block)
        if not children or not len(tokens):
            return _NONE, 0
        different = self.tokens(children)[:, : len(tokens)] != tokens
        lengths = np.where(different.any(axis=1), different.argmax(axis=1), len(tokens))
        lengths = np.minimum(lengths, [self._num_tokens[child] for child in children])
        best = int(lengths.argmax())
        return (children[best], int(lengths[best])) if lengths[best] else (_NONE, 0)

    def first_token(self, block: int) -> int:
        return self._first_token[block]

    def context(self, block: int, offset: int, count: int) -> Tokens:
        before = [block, *self.ancestors(block, -(-count // self._size))][::-1]
        tokens = self.tokens(before).reshape(-1)
        if (head := self._contexts.get(before[0])) is not None:
            tokens = np.concatenate((head, tokens))
        stop = len(tokens) - self._size + offset
        return tokens[max(0, stop - count) : stop]

    def last_use(self, block: int) -> int:
        return self._last_use[block]

    def num_merged(self, blocks: tuple[int, ...]) -> float:
        return 1.0

    def check_integrity(self) -> None:
        """Links agree in both directions; what is found is held, full and under its own hash."""
        free = set(self._free)
        known = set(self._blocks.values())
        assert len(known) == len(self._blocks) and not known & free
        assert known | free == set(range(len(self._keys)))
        for key, block in self._blocks.items():
            assert self._keys[block] == key
            parent = self._parent[block]
            assert self._holders[block] or self._children.of(block), f"{block} is of no use"
            if parent != _NONE:
                assert block in self._children.of(parent)
                assert self._home[block] == self._home[parent] + self._size
                assert self._first_token[block] == self._first_token[parent]
        assert self._children.num_links == sum(self._parent[block] != _NONE for block in known)
        held = [b for b in known if self._holders[b] and self._num_tokens[b] == self._size]
        self._hashes.check_integrity(sorted(held), block_hashes(self.tokens(sorted(held))))
