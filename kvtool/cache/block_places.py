"""Where in a `BlockTree` every block stands."""

from __future__ import annotations

import numpy as np

from kvtool.cache.block_pool import BlockPool
from kvtool.cache.eviction import UNUSED, BlockUse
from kvtool.cache.tree_node import TreeNode

Place = tuple[TreeNode, int]  # behind so many blocks of the node
NO_BLOCK = -1


class BlockPlaces:
    """Of every cached block its node and its position: how many blocks are in front of it.

    Of other blocks there is what was true once: whether it still is, the node knows.
    """

    def __init__(self, pool: BlockPool) -> None:
        self.pool = pool
        self._ref_count_of = pool.ref_count_of
        self._nodes = [TreeNode(None, 0, [], b"", UNUSED)] * pool.num_blocks
        self._position = np.zeros(pool.num_blocks, dtype=np.int32)
        self._position_of = self._position.data

    def give(self, blocks: list[int], node: TreeNode, position: int) -> None:
        """position: of the first of these blocks."""
        nodes, position_of = self._nodes, self._position_of
        for place, block in enumerate(blocks, position):
            nodes[block] = node
            position_of[block] = place

    def behind(self, block: int) -> Place:
        """The place behind a cached block."""
        node = self._nodes[block]
        position = self._position_of[block] - node.start
        assert position >= 0 and node.blocks[position] == block, f"block {block} is not cached"
        return node, position + 1

    def is_cached(self, block: int) -> bool:
        node = self._nodes[block]
        position = self._position_of[block] - node.start
        return 0 <= position < len(node.blocks) and node.blocks[position] == block

    def use(self, block: int) -> BlockUse:
        return self._nodes[block].use if self.is_cached(block) else UNUSED

    def use_and_position(self, block: int) -> tuple[BlockUse, int]:
        """Of a cached block; see `position`."""
        return self._nodes[block].use, self._position_of[block]

    def evictable_use(self, block: int) -> BlockUse | None:
        """Of a cached block that nobody holds or stands behind; None: it is not one."""
        node = self._nodes[block]
        if node.children is not None or self._ref_count_of[block]:
            return None
        return node.use if node.blocks and node.blocks[-1] == block else None

    def position(self, block: int) -> int:
        """Blocks in front of this one in its sequence."""
        return self._position_of[block]

    def num_tokens(self, block: int) -> int:
        """Leading slots that are valid; 0: the block is not cached."""
        if not self.is_cached(block):
            return 0
        return min(self.pool.block_size, len(self._nodes[block].tokens) // 4)

    def parent(self, block: int) -> int:
        """The block in front, or NO_BLOCK."""
        node, position = self.behind(block)
        if position > 1:
            return node.blocks[position - 2]
        assert node.parent is not None
        return node.parent.blocks[-1] if node.parent.blocks else NO_BLOCK

    def ancestors(self, block: int, count: int) -> list[int]:
        """At most so many blocks in front, nearest first."""
        node, position = self.behind(block)
        found = node.blocks[max(0, position - 1 - count) : position - 1][::-1]
        while len(found) < count and node.parent is not None:
            node = node.parent
            found += node.blocks[: len(found) - count - 1 : -1]
        return found

    def descendants(self, block: int, count: int) -> list[int]:
        """At most so many full blocks behind, as far as there is no fork."""
        node, position = self.behind(block)
        found = node.blocks[position : position + count]
        while len(found) < count and node.children is not None and len(node.children) == 1:
            (node,) = node.children.values()
            if len(node.tokens) < 4 * self.pool.block_size:
                break
            found += node.blocks[: count - len(found)]
        return found

    def chain(self, block: int) -> list[int]:
        """The blocks from the first of its sequence to this one."""
        node, position = self.behind(block)
        runs = [node.blocks[:position]]
        while (above := node.parent) is not None:
            runs.append(above.blocks)
            node = above
        return [block for run in reversed(runs) for block in run]

    def evictable_run(self, leaf: int, limit: int) -> list[int]:
        """An evictable block and at most `limit - 1` of those in front of it, nearest first, that
        were used like it, and that nothing but each other keeps from being evicted; not always all
        such blocks."""
        run = self._nodes[leaf].blocks[: -limit - 1 : -1]
        held = self._ref_count_of
        if not held[run[-1]]:  # whoever holds a block holds all in front of it
            return run
        return [block for block in run if not held[block]]

    def sort_out(self, blocks: list[int]) -> tuple[list[int], list[int]]:
        """Of these blocks: the leaves, and those that are not cached."""
        leaves, others = [], []
        nodes, position_of = self._nodes, self._position_of
        for block in blocks:
            node = nodes[block]
            position = position_of[block] - node.start
            if not (0 <= position < len(node.blocks) and node.blocks[position] == block):
                others.append(block)
            elif position == len(node.blocks) - 1 and node.children is None:
                leaves.append(block)
        return leaves, others

    def by_node(self, blocks: list[int]) -> dict[TreeNode, list[int]]:
        """Where in their nodes those of these blocks stand that are cached."""
        found: dict[TreeNode, list[int]] = {}
        nodes, index = self._nodes, 0
        while index < len(blocks):
            block = blocks[index]
            node = nodes[block]
            size = len(node.blocks)
            if size and block == node.blocks[0] and blocks[index : index + size] == node.blocks:
                found[node] = list(range(size))  # nearly always: a whole node in one go
                index += size
                continue
            if self.is_cached(block):
                found.setdefault(node, []).append(self._position_of[block] - node.start)
            index += 1
        return found
