"""BlockTree: what the blocks of a pool hold, as a tree of token sequences for every namespace.

After SGLang's RadixAttention: a node is a run of blocks, split where sequences part.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.cache.block_places import BlockPlaces, Place
from kvtool.cache.block_pool import BlockPool
from kvtool.cache.eviction import UNUSED, BlockUse
from kvtool.cache.nodes_of import nodes_of
from kvtool.cache.tree_node import TreeNode, common_tokens


class BlockTree(BlockPlaces):
    """The cached blocks: their tokens, who stands behind whom, and how they were used.

    A block is full, or a leaf. Prefix indexes search it and change it; it may be read by all.
    """

    def __init__(self, pool: BlockPool) -> None:
        super().__init__(pool)
        self.block_bytes = 4 * pool.block_size
        self._tops: dict[bytes, TreeNode] = {}  # by namespace; they have no blocks
        self._namespaces: dict[TreeNode, bytes] = {}
        # A block of one token is never found in part, so its siblings need no order.
        self._is_ordered = pool.block_size > 1

    def top(self, namespace: bytes) -> Place | None:
        """In front of all first blocks; None: there are none."""
        top = self._tops.get(namespace)
        return None if top is None else (top, 0)

    def walk(self, place: Place, tokens: bytes) -> tuple[list[int], Place]:
        """The full blocks behind `place` that hold the first of these tokens, and where they end."""
        node, position = place
        ids: list[int] = []
        width, start = self.block_bytes, 0
        while len(tokens) - start >= width:
            if position == len(node.blocks):
                if node.children is None:
                    break
                child = node.children.get(tokens[start : start + width])
                if child is None:
                    break
                node, position = child, 0
            count = node.common_blocks(position, tokens, start, width)
            ids += node.blocks[position : position + count]
            start += count * width
            position += count
            if position < len(node.blocks):
                break
        return ids, (node, position)

    def longest_prefix(self, place: Place, tokens: bytes) -> tuple[int, int]:
        """(block, length): which block behind `place` begins with the most of `tokens`, at most a
        block of them. Length 0: none does."""
        node, position = place
        if position == len(node.blocks):
            return node.longest_prefix(tokens)
        start = position * self.block_bytes
        mine = node.tokens[start : start + self.block_bytes]
        return node.blocks[position], common_tokens(mine, tokens)

    def append(
        self,
        place: Place | None,
        namespace: bytes,
        blocks: list[int],
        tokens: bytes,
        use: BlockUse,
    ) -> None:
        """Blocks behind `place`, where none holds such tokens: full ones, or one that is not.

        place: None: the first ones of the namespace.
        """
        node, position = place or (self._add_top(namespace), 0)
        start = node.start + position
        if position < len(node.blocks):
            node = self.split(node, position)
        is_full = not len(tokens) % self.block_bytes
        if is_full and node.children is None and node.use == use and node.blocks:
            node.blocks += blocks
            node.tokens += tokens
        else:
            child = TreeNode(node, start, list(blocks), tokens, use)
            node.add(tokens[: self.block_bytes], child, self._is_ordered)
            node = child
        self.give(blocks, node, start)
        if len(self.pool.tokens):
            self.pool.store_tokens(blocks, tokens)

    def split(self, node: TreeNode, position: int) -> TreeNode:
        """A node of its own for the blocks in front of `position`."""
        head = node.split(position, self.block_bytes, self._is_ordered)
        self.give(head.blocks, head, head.start)
        return head

    def hit_chain(self, block: int, priority: int, now: int) -> Place:
        """A request found this block with all in front of it, and its use of them is over. The
        place behind it."""
        node, position = self.behind(block)
        if position < len(node.blocks):
            node = self.split(node, position)
        end = node, len(node.blocks)
        while node.parent is not None:
            _, created, hits, highest = node.use
            node.use = BlockUse(now, created, hits + 1, max(highest, priority))
            node = node.parent
        return end

    def hit(self, blocks: list[int], priority: int) -> None:
        """A request found these blocks."""
        for node in nodes_of(self, blocks):
            last_use, created, hits, highest = node.use
            node.use = BlockUse(last_use, created, hits + 1, max(highest, priority))

    def end_use(self, blocks: list[int], now: int) -> None:
        """They were in use until now; those of them that are not cached are passed over."""
        for node in nodes_of(self, blocks):
            node.use = BlockUse(now, *node.use[1:])

    def _add_top(self, namespace: bytes) -> TreeNode:
        self._tops[namespace] = top = TreeNode(None, 0, [], b"", UNUSED)
        self._namespaces[top] = namespace
        return top

    def remove(self, blocks: list[int]) -> int | None:
        """Take out what `evictable_run` gave, or a single leaf that somebody holds and goes on
        with. The parent of the last one if that may be evicted now."""
        node = self._nodes[blocks[0]]
        left = len(node.blocks) - len(blocks)
        if left:
            del node.blocks[left:], node.tokens[left * self.block_bytes :]
        else:
            node = self._detach(node)
        if not self._ref_count_of[blocks[0]]:
            self.pool.give_back(blocks)
        if node.children is not None or not node.blocks:
            return None
        parent = node.blocks[-1]
        return None if self._ref_count_of[parent] else parent

    def _detach(self, node: TreeNode) -> TreeNode:
        """Without a childless node; its parent."""
        parent = node.parent
        assert parent is not None
        parent.remove(bytes(node.tokens[: self.block_bytes]))
        node.blocks, node.tokens, node.parent = [], bytearray(), None
        if parent.children is None and parent.parent is None:
            del self._tops[self._namespaces.pop(parent)]
        return parent

    def blocks(self) -> Iterator[int]:
        """All that are cached."""
        for top in self._tops.values():
            for node in top.descendants():
                yield from node.blocks

    def tokens(self, leaf: int) -> bytes:
        """Of a leaf's whole sequence."""
        node = self._nodes[leaf]
        runs = [node.tokens]
        while (above := node.parent) is not None:
            runs.append(above.tokens)
            node = above
        return b"".join(reversed(runs))

    def leaves(self) -> Iterator[tuple[bytes, int]]:
        """All of them, each with its namespace."""
        for namespace, top in self._tops.items():
            for node in top.descendants():
                if node.children is None:
                    yield namespace, node.blocks[-1]

    def check_integrity(self) -> None:
        """Nodes form trees; what is kept of every block agrees with them."""
        cached = dict[int, TreeNode]()
        for namespace, top in self._tops.items():
            assert top.parent is None and not top.blocks and self._namespaces[top] == namespace
            assert top.children, "a namespace without blocks"
            for node in top.descendants():
                node.check_integrity(self.block_bytes, self._is_ordered)
                self._check_node(node)
                assert cached.keys().isdisjoint(node.blocks), "a block is in two places"
                cached.update(dict.fromkeys(node.blocks, node))
        assert len(self._tops) == len(self._namespaces)
        for block in range(self.pool.num_blocks):
            assert self.is_cached(block) == (block in cached)
            assert not self.is_cached(block) or self._nodes[block] is cached[block]

    def _check_node(self, node: TreeNode) -> None:
        pool, above = self.pool, node.parent
        assert above is not None
        assert node.start == above.start + len(above.blocks)
        after = node.start + len(node.blocks)
        assert self._position[node.blocks].tolist() == list(range(node.start, after))
        held = (pool.ref_count[[*above.blocks[-1:], *node.blocks]] > 0).tolist()
        assert held == sorted(held, reverse=True), "held behind unheld"
        if len(pool.tokens):
            stored = pool.tokens[node.blocks].tobytes()
            assert stored[: len(node.tokens)] == node.tokens, "kept tokens differ from the tree"
