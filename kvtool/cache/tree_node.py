"""A node of a `BlockTree`."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from kvtool.cache.eviction import BlockUse


class TreeNode:
    """Blocks one behind the other, without a branch in between, that were used alike.

    start: blocks in front of the first one. tokens: of these blocks, 4 bytes each.
    children: nodes behind the last block, by the tokens of their first one; order: the same keys,
    sorted, where asked for. Every token is four bytes, so the order is one of token sequences.
    """

    __slots__ = ("blocks", "children", "order", "parent", "start", "tokens", "use")

    def __init__(
        self, parent: TreeNode | None, start: int, blocks: list[int], tokens: bytes, use: BlockUse
    ) -> None:
        self.parent = parent
        self.start = start
        self.use = use
        self.blocks = blocks
        self.tokens = bytearray(tokens)
        self.children: dict[bytes, TreeNode] | None = None  # as for most nodes
        self.order: list[bytes] | None = None

    def common_blocks(self, position: int, query: bytes, start: int, width: int) -> int:
        """How many blocks from `position` on hold what `query` holds from `start` on; width: bytes
        of a block."""
        mine = self.tokens[position * width :] if position else self.tokens
        if query.startswith(mine, start):
            return len(self.blocks) - position
        return bisect_left(
            range(1, len(self.blocks) - position),
            True,
            key=lambda count: not query.startswith(mine[: count * width], start),
        )

    def add(self, key: bytes, child: TreeNode, is_ordered: bool) -> None:
        if self.children is None:
            self.children = {}
            self.order = [] if is_ordered else None
        self.children[key] = child
        if self.order is not None:
            insort(self.order, key)

    def remove(self, key: bytes) -> None:
        assert self.children is not None
        del self.children[key]
        if self.order is not None:
            del self.order[bisect_left(self.order, key)]
        if not self.children:
            self.children = self.order = None

    def split(self, position: int, width: int, is_ordered: bool) -> TreeNode:
        """A new node for the blocks in front of `position`; this one keeps the rest and is its only
        child."""
        assert self.parent is not None and self.parent.children is not None
        end = position * width
        head = TreeNode(
            self.parent, self.start, self.blocks[:position], bytes(self.tokens[:end]), self.use
        )
        self.parent.children[bytes(self.tokens[:width])] = head
        del self.blocks[:position], self.tokens[:end]
        self.parent, self.start = head, self.start + position
        head.add(bytes(self.tokens[:width]), self, is_ordered)
        return head

    def longest_prefix(self, query: bytes) -> tuple[int, int]:
        """(block, length): the child block that shares most tokens with `query`, which is at most
        one block long. Length 0: none does.

        Of several the first in token order, so that a block that ends with the common prefix wins:
        it can be continued in place where others would be copied.
        """
        if self.children is None:
            return -1, 0
        if self.order is None:  # blocks of one token
            child = self.children.get(query)
            return (-1, 0) if child is None else (child.blocks[0], 1)
        position = bisect_left(self.order, query)
        # No sibling shares a longer prefix than one of these two does.
        neighbours = self.order[max(0, position - 1) : position + 1]
        length = max(common_tokens(key, query) for key in neighbours)
        if not length:
            return -1, 0
        key = self.order[bisect_left(self.order, query[: 4 * length])]
        return self.children[key].blocks[0], length

    def descendants(self) -> Iterator[TreeNode]:
        waiting = list((self.children or {}).values())
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend((node.children or {}).values())

    def check_integrity(self, width: int, is_ordered: bool) -> None:
        children = self.children
        assert self.blocks and len(self.blocks) == -(-len(self.tokens) // width)
        if children is None:
            assert self.order is None
            return
        assert children and len(self.tokens) % width == 0, "a block behind one that is not full"
        assert self.order == (sorted(children) if is_ordered else None), "siblings are not in order"
        for key, child in children.items():
            assert child.parent is self and child.tokens[:width] == key


def common_tokens(a: bytes | bytearray, b: bytes) -> int:
    """Length in tokens of the common prefix of two token byte strings."""
    size = min(len(a), len(b))
    if a[:size] == b[:size]:
        return size // 4
    return next(i for i in range(size) if a[i] != b[i]) // 4
