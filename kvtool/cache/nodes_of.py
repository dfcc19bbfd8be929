"""Which nodes of a `BlockTree` hold exactly these blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from kvtool.cache.tree_node import TreeNode


class Tree(Protocol):
    def by_node(self, blocks: list[int]) -> dict[TreeNode, list[int]]: ...
    def split(self, node: TreeNode, position: int) -> TreeNode: ...


def nodes_of(tree: Tree, blocks: list[int]) -> Iterator[TreeNode]:
    """In whatever order the blocks come, all different; those that are not cached are passed over.
    A node that has others as well is split."""
    for node, positions in tree.by_node(blocks).items():
        if len(positions) == len(node.blocks):
            yield node
        else:
            yield from _parts(tree, node, sorted(positions))


def _parts(tree: Tree, node: TreeNode, positions: list[int]) -> Iterator[TreeNode]:
    """positions: in the node, of some of its blocks but not all."""
    done = 0
    for first, last in stretches(positions):
        if first > done:
            tree.split(node, first - done)
        done = last + 1
        has_more = done - first < len(node.blocks)
        yield tree.split(node, done - first) if has_more else node


def stretches(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """The first and last of every run of neighbours; `numbers` ascend, and there is one."""
    first = last = numbers[0]
    for number in numbers[1:]:
        if number > last + 1:
            yield first, last
            first = number
        last = number
    yield first, last
