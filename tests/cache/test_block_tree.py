"""The tree against a dictionary of sequences, and what its check notices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.cache.block_places import NO_BLOCK
from kvtool.cache.block_pool import BlockPool
from kvtool.cache.block_tree import BlockTree
from kvtool.cache.eviction import UNUSED, BlockUse
from kvtool.cache.nodes_of import nodes_of, stretches

NAMESPACES = (b"", b"other")
Path = tuple[bytes, bytes]  # namespace, all tokens up to the end of a block


class Plain:
    """What a tree should say: every cached block by the tokens up to its end, and its use."""

    def __init__(self, block_size: int) -> None:
        self.width = 4 * block_size
        self.blocks: dict[Path, int] = {}
        self.uses: dict[int, BlockUse] = {}

    def paths(self, namespace: bytes, tokens: bytes) -> list[Path]:
        ends = range(self.width, len(tokens) + 1, self.width)
        return [(namespace, tokens[:end]) for end in ends]

    def found(self, namespace: bytes, tokens: bytes) -> list[int]:
        blocks = [self.blocks.get(path, NO_BLOCK) for path in self.paths(namespace, tokens)]
        return blocks[: [*blocks, NO_BLOCK].index(NO_BLOCK)]

    def descendants(self, path: Path, count: int) -> list[int]:
        """As far as there is no fork."""
        namespace, tokens = path
        behind = [
            (name, other)
            for name, other in self.blocks
            if name == namespace and other[: -self.width] == tokens
        ]
        if len(behind) != 1 or not count:
            return []
        return [self.blocks[behind[0]], *self.descendants(behind[0], count - 1)]


def add(tree: BlockTree, plain: Plain, namespace: bytes, tokens: bytes, tick: int) -> None:
    place = tree.top(namespace)
    found, place = ([], None) if place is None else tree.walk(place, tokens)
    assert found == plain.found(namespace, tokens)
    paths = plain.paths(namespace, tokens)[len(found) :]
    if not paths or len(paths) > tree.pool.num_free:
        return
    new = tree.pool.take(len(paths))
    use = BlockUse(tick // 2, tick // 2, 0, 0)  # two requests in a row are alike
    tree.append(place, namespace, new, tokens[len(found) * plain.width :], use)
    plain.blocks.update(zip(paths, new))
    plain.uses.update(dict.fromkeys(new, use))


def remove(tree: BlockTree, plain: Plain, leaf: int, limit: int) -> None:
    run = tree.evictable_run(leaf, limit)
    assert run[0] == leaf and 0 < len(run) <= limit
    assert run == tree.chain(leaf)[: -len(run) - 1 : -1]
    assert len({plain.uses[block] for block in run}) == 1
    above = tree.parent(run[-1])
    parent = tree.remove(run)
    plain.blocks = {path: block for path, block in plain.blocks.items() if block not in run}
    assert parent == (above if above in [block for _, block in tree.leaves()] else None)


def use(tree: BlockTree, plain: Plain, blocks: list[int], tick: int) -> None:
    tree.hit(blocks, priority=tick % 3)
    tree.end_use([*blocks, *(b for b in range(tree.pool.num_blocks) if b not in plain.uses)], tick)
    for block in blocks:
        old = plain.uses[block]
        plain.uses[block] = BlockUse(tick, old.created, old.hits + 1, max(old.priority, tick % 3))


def check(tree: BlockTree, plain: Plain) -> None:
    tree.check_integrity()
    cached = set(plain.blocks.values())
    tree.pool.check_integrity({}, cached=cached)
    assert set(tree.blocks()) == cached
    for (namespace, tokens), block in plain.blocks.items():
        chain = [plain.blocks[path] for path in plain.paths(namespace, tokens)]
        assert tree.chain(block) == chain
        assert tree.position(block) == len(chain) - 1
        assert tree.parent(block) == (chain[-2] if len(chain) > 1 else NO_BLOCK)
        assert tree.ancestors(block, len(chain) // 2) == chain[-2::-1][: len(chain) // 2]
        assert tree.descendants(block, 3) == plain.descendants((namespace, tokens), 3)
        assert tree.use(block) == plain.uses[block]
        assert tree.num_tokens(block) == tree.pool.block_size
    for block in set(range(tree.pool.num_blocks)) - cached:
        assert not tree.is_cached(block) and tree.num_tokens(block) == 0
        assert tree.use(block) == UNUSED and tree.evictable_use(block) is None


@pytest.mark.parametrize("block_size", [1, 3])
@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1))
def test_equals_a_dictionary_of_sequences(block_size: int, seed: int) -> None:
    """Sequences over two tokens share beginnings; any blocks are used, and leaves go."""
    rng = np.random.default_rng(seed)
    tree, plain = BlockTree(BlockPool(24, block_size)), Plain(block_size)
    for tick in range(40):
        leaves = [leaf for _, leaf in tree.leaves()]
        action = rng.random()
        if action < 0.5 or not leaves:
            tokens = rng.integers(0, 2, block_size * int(rng.integers(1, 9))).astype(np.int32)
            add(tree, plain, NAMESPACES[int(rng.integers(2))], tokens.tobytes(), tick)
        elif action < 0.7:
            cached = sorted(plain.blocks.values())
            some = rng.permutation(cached)[: int(rng.integers(1, 6))].tolist()
            use(tree, plain, some, tick)
        else:
            remove(tree, plain, int(rng.choice(leaves)), int(rng.integers(1, 5)))
        check(tree, plain)


def tree_of(*sequences: list[int]) -> BlockTree:
    """Blocks of one token, numbered in the order given."""
    tree = BlockTree(BlockPool(16, 1))
    tree.pool.keep_tokens()
    for sequence in sequences:
        tokens = np.array(sequence, dtype=np.int32).tobytes()
        place = tree.top(b"")
        found, place = ([], None) if place is None else tree.walk(place, tokens)
        new = tree.pool.take(len(sequence) - len(found))
        tree.append(place, b"", new, tokens[4 * len(found) :], UNUSED)
    return tree


def test_a_chain_that_is_hit_is_used_up_to_its_end_and_no_further() -> None:
    tree = tree_of([1, 2, 3, 4, 5])
    tree.hit_chain(2, priority=7, now=9)
    assert [tree.use(block).hits for block in range(5)] == [1, 1, 1, 0, 0]
    assert tree.use(2) == BlockUse(9, 0, 1, 7)
    assert tree.evictable_run(4, 9) == [4, 3], "used differently from there on"


def test_what_somebody_holds_is_no_part_of_a_run() -> None:
    tree = tree_of([1, 2, 3, 4])
    tree.pool.num_idle -= 2
    tree.pool.ref_count[[0, 1]] = 1
    assert tree.evictable_run(3, 9) == [3, 2]
    assert tree.remove([3, 2]) is None, "the parent is held"


def test_nodes_of_stretches_in_the_middle() -> None:
    tree = tree_of([1, 2, 3, 4, 5, 6], [1, 2, 7])
    nodes = list(nodes_of(tree, [4, 0, 3, 15]))
    assert sorted(node.blocks for node in nodes) == [[0], [3, 4]]
    tree.check_integrity()
    assert list(stretches([1, 2, 4, 7, 8])) == [(1, 2), (4, 4), (7, 8)]


def move(tree: BlockTree) -> None:
    tree._position[1] += 1


def cut(tree: BlockTree) -> None:
    del tree.behind(2)[0].tokens[-1:]


def adopt(tree: BlockTree) -> None:
    tree.behind(5)[0].parent = tree.behind(2)[0]


def hold(tree: BlockTree) -> None:
    tree.pool.ref_count[2] = 1


def overwrite(tree: BlockTree) -> None:
    tree.pool.tokens[1] = 9


@pytest.mark.parametrize("damage", [move, cut, adopt, hold, overwrite])
def test_check_integrity_notices(damage: Callable[[BlockTree], None]) -> None:
    tree = tree_of([1, 2, 3], [1, 2, 4, 5])
    tree.append(tree.behind(4), b"", tree.pool.take(1), b"abcd", UNUSED._replace(hits=1))
    tree.check_integrity()
    damage(tree)
    with pytest.raises(AssertionError):
        tree.check_integrity()
