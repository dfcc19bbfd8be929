"""PromptTree: all prompts so far, each stretch of text once, as a cache without limits holds them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvtool.cache.block_pool import Tokens
from kvtool.reuse.rolling_hash import block_hashes, window_hashes

MAX_COPIES = 8  # of one content, the last stored; the engine looks at no more


class Prefix(NamedTuple):
    """num_full: leading tokens in whole blocks that stand in the tree; num_tokens: leading tokens
    that do; blocks: those of num_full."""

    num_full: int
    num_tokens: int
    blocks: list[int]


class PromptTree:
    """A `DonorSource` that forgets nothing; memory is linear in distinct blocks.

    A node is a block; its children are sorted by the bytes of their tokens, so that none shares a
    longer prefix with a text than one of that text's two neighbours does (every token is four
    bytes). Node -1 - i is the root of namespace i.
    """

    def __init__(self, block_size: int, max_copies: int = MAX_COPIES) -> None:
        self._size = block_size
        self._tokens = np.zeros((1024, block_size), dtype=np.int32)
        self._lengths: list[int] = []
        self._parents: list[int] = []
        self._homes: list[int] = []
        self._roots: dict[bytes, int] = {}
        self._children: defaultdict[int, list[tuple[bytes, int]]] = defaultdict(list)
        self._full: dict[tuple[int, bytes], int] = {}  # (parent, tokens) -> full block
        self._copies: dict[tuple[int, int], list[int]] = {}  # (root, hash) -> full blocks
        self._copies_of: list[list[int]] = []  # by block
        self._max_copies = max_copies

    def __len__(self) -> int:
        return len(self._lengths)

    def __contains__(self, block: int) -> bool:
        return 0 <= block < len(self)

    @property
    def block_size(self) -> int:
        return self._size

    def match(self, tokens: Tokens, namespace: bytes) -> Prefix:
        """The longest prefix that a prompt of the namespace had."""
        node = self._roots.get(namespace)
        blocks: list[int] = []
        if node is None:
            return Prefix(0, 0, blocks)
        text, step = _key(tokens), 4 * self._size
        for start in range(0, len(text), step):
            child = self._full.get((node, text[start : start + step]))
            if child is None:
                break
            blocks.append(child)
            node = child
        num_full = len(blocks) * self._size
        _, length = self.longest_child(node, tokens[num_full : num_full + self._size])
        return Prefix(num_full, num_full + length, blocks)

    def last_block(self, tokens: Tokens, namespace: bytes, prefix: Prefix) -> int:
        """The one inside of which this prefix of the tokens ends."""
        node = prefix.blocks[-1] if prefix.blocks else self._roots[namespace]
        return self.longest_child(node, tokens[prefix.num_full :][: self._size])[0]

    def add(self, tokens: Tokens, namespace: bytes, prefix: Prefix) -> None:
        """prefix: as `match` finds it for these tokens or for more."""
        root = self._roots.setdefault(namespace, -1 - len(self._roots))
        if prefix.num_tokens >= len(tokens):
            return
        parent, size = prefix.blocks[-1] if prefix.blocks else root, self._size
        first, homes = len(self), range(prefix.num_full, len(tokens), size)
        new = tokens[prefix.num_full :]
        self._store(new, root)
        text, step = _key(new), 4 * size
        for block, start in enumerate(range(0, len(text), step), start=first):
            content = text[start : start + step]
            insort(self._children[parent], (content, block))
            if len(content) == step:
                self._full[parent, content] = block
            self._parents.append(parent)
            parent = block
        self._homes += homes
        self._lengths += [min(size, len(tokens) - home) for home in homes]

    def _store(self, tokens: Tokens, root: int) -> None:
        """Of the next blocks: the tokens, and where full ones with their content are found."""
        first, size = len(self), self._size
        num_blocks, num_full = -(-len(tokens) // size), len(tokens) // size
        while first + num_blocks > len(self._tokens):
            self._tokens = np.concatenate([self._tokens, np.zeros_like(self._tokens)])
        self._tokens[first : first + num_blocks].reshape(-1)[: len(tokens)] = tokens
        hashes = block_hashes(self._tokens[first : first + num_full])
        for block, content in enumerate(hashes.tolist(), start=first):
            copies = self._copies.setdefault((root, content), [])
            copies.insert(0, block)
            del copies[self._max_copies :]
            self._copies_of.append(copies)
        self._copies_of += [[]] * (num_blocks - num_full)

    def newest(self, tokens: Tokens, namespace: bytes) -> npt.NDArray[np.int32]:
        root = self._roots.get(namespace, 0)
        keys = window_hashes(tokens, self._size).tolist()
        found = (self._copies.get((root, key)) for key in keys)
        return np.array([copies[0] if copies else -1 for copies in found], dtype=np.int32)

    def copies(self, block: int) -> list[int]:
        return list(self._copies_of[block])

    def tokens(self, blocks: list[int]) -> Tokens:
        return self._tokens[blocks]

    def home(self, block: int) -> int:
        return self._homes[block]

    def ancestors(self, block: int, count: int) -> list[int]:
        found: list[int] = []
        while len(found) < count and (block := self._parents[block]) >= 0:
            found.append(block)
        return found

    def descendants(self, block: int, count: int) -> list[int]:
        found: list[int] = []
        while len(found) < count and len(behind := self._children.get(block, [])) == 1:
            block = behind[0][1]
            if self._lengths[block] < self._size:
                break
            found.append(block)
        return found

    def longest_child(self, block: int, tokens: Tokens) -> tuple[int, int]:
        siblings = self._children.get(block, [])
        key = _key(tokens)
        at = bisect_left(siblings, (key,))
        near = siblings[max(0, at - 1) : at + 1]
        lengths = [(_common(key, other), -child) for other, child in near]
        length, child = max(lengths, default=(0, -block))
        return -child, length

    def first_token(self, block: int) -> int:
        while self._parents[block] >= 0:
            block = self._parents[block]
        return int(self._tokens[block, 0])

    def context(self, block: int, offset: int, count: int) -> Tokens:
        before = self.ancestors(block, -(-count // self._size))
        tokens = self._tokens[[*before[::-1], block]].reshape(-1)
        stop = len(before) * self._size + offset
        return tokens[max(0, stop - count) : stop]

    def last_use(self, block: int) -> int:
        """A later block is a more recent one."""
        return block

    def num_merged(self, blocks: tuple[int, ...]) -> float:
        return 1.0


def _key(tokens: Tokens) -> bytes:
    return np.ascontiguousarray(tokens, dtype=np.int32).tobytes()


def _common(a: bytes, b: bytes) -> int:
    """Leading tokens that agree."""
    if a == b:
        return len(a) // 4
    pairs = zip(memoryview(a).cast("i"), memoryview(b).cast("i"))
    return next((i for i, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)) // 4)
